/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <dlfcn.h>
#include <string.h>

#include "shim/mpi/namespace/inside.h"

struct link_map *gck_mpi_ns_objects(void)
{
	struct link_map *first;

	if (!gck_mpi_ns.root_handle || dlinfo(gck_mpi_ns.root_handle, RTLD_DI_LINKMAP, &first) < 0)
		return NULL;
	return first;
}

bool gck_mpi_ns_is_loader(const struct link_map *map)
{
	const char *slash = strrchr(map->l_name, '/');

	return !strncmp(slash ? slash + 1 : map->l_name, "ld-linux", 8);
}
