// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* Module and device life cycle */

#include <linux/module.h>
#include <linux/random.h>
#include <linux/slab.h>

#include "qp.h"

struct workqueue_struct *odp_wq;
struct kmem_cache *odp_qpc_cache;
struct kmem_cache *odp_mr_cache;
struct kmem_cache *odp_mm_cache;
struct kmem_cache *odp_leaf_cache;

static LIST_HEAD(devices);
static DEFINE_MUTEX(devices_lock);

/*
 * Called when the device has been unregistered: by us, or by rdma_rxe's exit,
 * which unregisters every device that carries its driver id.
 */
void odp_dealloc_driver(struct ib_device *ibdev)
{
	struct odp_dev *dev = to_odp_dev(ibdev);

	mutex_lock(&devices_lock);
	list_del_init(&dev->list);
	mutex_unlock(&devices_lock);
	WARN_ON(!xa_empty(&dev->qps) || !xa_empty(&dev->keys) ||
		!xa_empty(&dev->ahs) || !list_empty(&dev->members));
	xa_destroy(&dev->qps);
	xa_destroy(&dev->keys);
	xa_destroy(&dev->ahs);
}

static int odp_device_add(const char *name)
{
	struct odp_dev *dev = ib_alloc_device(odp_dev, ibdev);
	struct ib_device *ibdev;
	int err;

	if (!dev)
		return -ENOMEM;
	ibdev = &dev->ibdev;
	INIT_LIST_HEAD(&dev->list);
	xa_init_flags(&dev->qps, XA_FLAGS_ALLOC);
	xa_init_flags(&dev->keys, XA_FLAGS_ALLOC);
	xa_init_flags(&dev->ahs, XA_FLAGS_ALLOC1);
	INIT_LIST_HEAD(&dev->members);
	rwlock_init(&dev->members_lock);

	/* locally administered EUI-64; random, so that no two hosts share it */
	dev->guid = (get_random_u64() | (2ULL << 56)) & ~(1ULL << 56);
	ibdev->node_guid = cpu_to_be64(dev->guid);
	ibdev->node_type = RDMA_NODE_IB_CA;
	ibdev->phys_port_cnt = 1;
	ibdev->num_comp_vectors = num_possible_cpus();
	strscpy(ibdev->node_desc, "software HCA with on-demand paging",
		sizeof(ibdev->node_desc));
	ibdev->uverbs_cmd_mask |= BIT_ULL(IB_USER_VERBS_CMD_POST_SEND) |
				  BIT_ULL(IB_USER_VERBS_CMD_REQ_NOTIFY_CQ);
	ib_set_device_ops(ibdev, &odp_dev_ops);

	mutex_lock(&devices_lock);
	list_add_tail(&dev->list, &devices);
	mutex_unlock(&devices_lock);

	err = ib_register_device(ibdev, name, NULL);
	if (err) {
		pr_err("%s: can't register %s: %pe\n", KBUILD_MODNAME, name,
		       ERR_PTR(err));
		ib_dealloc_device(ibdev);
	}
	return err;
}

static void odp_devices_remove(void)
{
	struct odp_dev *dev;

	for (;;) {
		mutex_lock(&devices_lock);
		dev = list_first_entry_or_null(&devices, struct odp_dev, list);
		if (dev)
			get_device(&dev->ibdev.dev);
		mutex_unlock(&devices_lock);
		if (!dev)
			break;
		/* returns when it is gone, also if somebody else began it */
		ib_unregister_device(&dev->ibdev);
		put_device(&dev->ibdev.dev);
	}
}

static void odp_caches_destroy(void)
{
	/* QPs and MRs are freed after a grace period */
	rcu_barrier();
	kmem_cache_destroy(odp_qpc_cache);
	kmem_cache_destroy(odp_mr_cache);
	kmem_cache_destroy(odp_mm_cache);
	kmem_cache_destroy(odp_leaf_cache);
}

static int __init odp_caches_create(void)
{
	const slab_flags_t flags = SLAB_ACCOUNT | SLAB_NO_MERGE;

	odp_qpc_cache = KMEM_CACHE(odp_qpc, flags);
	odp_mr_cache = KMEM_CACHE(odp_mr, flags);
	odp_mm_cache = KMEM_CACHE(odp_mm, flags);
	odp_leaf_cache = KMEM_CACHE(odp_leaf, flags);
	if (odp_qpc_cache && odp_mr_cache && odp_mm_cache && odp_leaf_cache)
		return 0;
	odp_caches_destroy();
	return -ENOMEM;
}

static int __init odp_init(void)
{
	int err;

	err = odp_caches_create();
	if (err)
		return err;
	odp_wq = alloc_workqueue("odp", WQ_UNBOUND, 0);
	if (!odp_wq) {
		err = -ENOMEM;
		goto err_caches;
	}
	err = odp_device_add("odp0");
	if (err)
		goto err_wq;
	return 0;

err_wq:
	destroy_workqueue(odp_wq);
err_caches:
	odp_caches_destroy();
	return err;
}

static void __exit odp_exit(void)
{
	odp_devices_remove();
	odp_mm_module_exit();
	destroy_workqueue(odp_wq);
	odp_caches_destroy();
}

module_init(odp_init);
module_exit(odp_exit);

MODULE_DESCRIPTION("Software HCA with implicit on-demand paging");
MODULE_LICENSE("Dual BSD/GPL");
