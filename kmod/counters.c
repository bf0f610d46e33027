// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* What `rdma statistic` and `rdma resource` show */

#include <net/netlink.h>
#include <rdma/rdma_netlink.h>
#include <rdma/restrack.h>

#include "mem.h"

static const struct rdma_stat_desc descs[ODP_NUM_COUNTERS] = {
	[ODP_CNT_SENT_MSGS].name = "sent_msgs",
	[ODP_CNT_SENT_BYTES].name = "sent_bytes",
	[ODP_CNT_SENDS].name = "rdma_sends",
	[ODP_CNT_WRITES].name = "rdma_writes",
	[ODP_CNT_READS].name = "rdma_reads",
	[ODP_CNT_ATOMICS].name = "rdma_atomics",
	[ODP_CNT_RNR].name = "rnr_nak",
	[ODP_CNT_RETRIES].name = "transport_retries",
	[ODP_CNT_RETRY_EXCEEDED].name = "retry_exceeded_err",
	[ODP_CNT_PROT_ERRORS].name = "protection_err",
	[ODP_CNT_UD_DROPPED].name = "ud_dropped",
	[ODP_CNT_UC_DROPPED].name = "uc_dropped",
	[ODP_CNT_FAULTS].name = "page_faults",
	[ODP_CNT_FAULTS_HANDLED].name = "page_faults_handled",
	[ODP_CNT_FAULTS_SLOW].name = "page_faults_worker",
	[ODP_CNT_INVALIDATIONS].name = "page_invalidations",
	[ODP_CNT_PINNED_PAGES].name = "pinned_pages",
};

struct rdma_hw_stats *odp_alloc_hw_stats(struct ib_device *ibdev, u32 port)
{
	return rdma_alloc_hw_stats_struct(descs, ARRAY_SIZE(descs),
					  RDMA_HW_STATS_DEFAULT_LIFESPAN);
}

int odp_get_hw_stats(struct ib_device *ibdev, struct rdma_hw_stats *stats,
		     u32 port, int index)
{
	struct odp_dev *dev = to_odp_dev(ibdev);
	unsigned int i;

	if (!port || !stats)
		return -EINVAL;
	for (i = 0; i < ODP_NUM_COUNTERS; i++)
		stats->value[i] = atomic64_read(&dev->counters[i]);
	return ODP_NUM_COUNTERS;
}

/* The names are mlx5's, so that tools which know those show ours */
int odp_fill_stat_mr_entry(struct sk_buff *msg, struct ib_mr *ibmr)
{
	struct odp_mr *mr = to_odp_mr(ibmr);
	const struct {
		const char *name;
		atomic64_t *value;
	} entries[] = {
		{ "page_faults", &mr->faults },
		{ "page_faults_handled", &mr->faults_handled },
		{ "page_invalidations", &mr->invalidations },
		{ "page_invalidations_handled", &mr->invalidations_handled },
		{ "page_prefetch", &mr->prefetched },
	};
	struct nlattr *table;
	unsigned int i;

	if (!mr->mm)
		return 0;
	table = nla_nest_start(msg, RDMA_NLDEV_ATTR_STAT_HWCOUNTERS);
	if (!table)
		return -EMSGSIZE;
	for (i = 0; i < ARRAY_SIZE(entries); i++) {
		if (rdma_nl_stat_hwcounter_entry(msg, entries[i].name,
						 atomic64_read(entries[i].value))) {
			nla_nest_cancel(msg, table);
			return -EMSGSIZE;
		}
	}
	nla_nest_end(msg, table);
	return 0;
}

int odp_fill_res_mr_entry(struct sk_buff *msg, struct ib_mr *ibmr)
{
	struct odp_mr *mr = to_odp_mr(ibmr);
	struct nlattr *table;

	if (!mr->mm)
		return 0;
	table = nla_nest_start(msg, RDMA_NLDEV_ATTR_DRIVER);
	if (!table)
		return -EMSGSIZE;
	if (rdma_nl_put_driver_string(msg, "odp", mr->implicit ? "implicit" :
								 "explicit")) {
		nla_nest_cancel(msg, table);
		return -EMSGSIZE;
	}
	nla_nest_end(msg, table);
	return 0;
}
