/* SPDX-License-Identifier: Apache-2.0
 * The objects of the namespace. */
#include "config.h"

#include <dlfcn.h>
#include <string.h>
#include <sys/uio.h>

#include "shim/inside/rank.h"
#include "shim/namespace/namespace.h"
#include "shim/preload/helper/raw.h"

struct gck_namespace gck_namespace;

void gck_namespace_forget(void)
{
	gck_namespace = (struct gck_namespace){
		.library = gck_namespace.library, .copy = gck_namespace.copy,
	};
}

bool gck_namespace_is_alive(void)
{
	return gck_namespace.root && (gck_namespace.carried ||
				      gck_namespace.restarts == gck_inside_restarts());
}

struct link_map *gck_namespace_objects(void)
{
	struct link_map *first;

	if (!gck_namespace.root_handle ||
	    dlinfo(gck_namespace.root_handle, RTLD_DI_LINKMAP, &first) < 0)
		return NULL;
	return first;
}

bool gck_namespace_is_loader(const struct link_map *map)
{
	const char *slash = strrchr(map->l_name, '/');

	return !strncmp(slash ? slash + 1 : map->l_name, "ld-linux", 8);
}

bool gck_namespace_try(const void *from, void *to, size_t n)
{
	struct iovec there = { (void *)(uintptr_t)from, n }, here = { to, n };

	return gck_raw(SYS_process_vm_readv, gck_raw(SYS_getpid), &here, 1, &there, 1, 0) ==
	       (long)n;
}
