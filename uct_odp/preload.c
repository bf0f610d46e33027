// SPDX-License-Identifier: BSD-3-Clause
//
// librcodp.so, for LD_PRELOAD: UCX before 1.21 loads only the transports whose names it was built
// with. This stands before uct_query_components(), the one way in, and loads the plugin beside
// itself first. A process that doesn't use UCX never comes here: nothing but libc is linked.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#define PLUGIN "libuct_odp.so"

typedef int (*query_components_fn)(void *components, unsigned int *count);

__attribute__((visibility("default")))
int uct_query_components(void *components, unsigned int *count);

static void load_plugin(void)
{
	static int tried;
	char path[PATH_MAX];
	const char *slash;
	Dl_info self;

	if (__atomic_exchange_n(&tried, 1, __ATOMIC_ACQ_REL))
		return;
	if (!dladdr((void *)uct_query_components, &self) || !self.dli_fname)
		return;
	slash = strrchr(self.dli_fname, '/');
	if (snprintf(path, sizeof(path), "%.*s%s",
		     slash ? (int)(slash + 1 - self.dli_fname) : 0,
		     self.dli_fname, PLUGIN) >= (int)sizeof(path))
		return;
	if (!dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE))
		fprintf(stderr, "librcodp: the transport rc_odp is left out: %s\n",
			dlerror());
}

int uct_query_components(void *components, unsigned int *count)
{
	static query_components_fn real;
	void *library;

	if (!real) {
		/* libuct may be loaded without its symbols being global */
		real = (query_components_fn)dlsym(RTLD_NEXT, "uct_query_components");
		if (!real) {
			library = dlopen("libuct.so.0", RTLD_LAZY | RTLD_NOLOAD);
			if (library)
				real = (query_components_fn)
					dlsym(library, "uct_query_components");
		}
		if (!real)
			return -22; /* UCS_ERR_UNSUPPORTED */
	}
	load_plugin();
	return real(components, count);
}
