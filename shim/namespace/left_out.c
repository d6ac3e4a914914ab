/* SPDX-License-Identifier: Apache-2.0
 * What of the copy's libraries an image need not hold. A dead copy runs no code but pthread_join of
 * its libc, and the loader reads of it, when it unmaps it, the dynamic sections. So of all but libc,
 * the loader and the root object text and tables are left out (hwloc alone brings 30 MiB of them,
 * by way of its XML library). */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "shim/namespace/namespace.h"

#define PAGE 4096ul
#define MAX_HEADERS 32

static bool is_called(const struct link_map *map)
{
	const char *slash = strrchr(map->l_name, '/'), *file = slash ? slash + 1 : map->l_name;

	return gck_mpi_ns_is_loader(map) || !strncmp(file, "libc.", 5) ||
	       !strcmp(file, GCK_MPI_ROOT_FILE);
}

/* The object's program headers: at its load bias, if it was linked to address 0, as they all are. What
 * lies there otherwise may be nothing, or another's: so it is not read before it is tried, and must
 * name the dynamic section that the loader knows. (dladdr would tell, but waits for the loader's lock,
 * and who has that may wait for the gate.) 0: not found. */
static size_t read_headers(const struct link_map *map, ElfW(Phdr) p[MAX_HEADERS])
{
	ElfW(Ehdr) head;

	if (!gck_mpi_ns_try((const void *)map->l_addr, &head, sizeof head) ||
	    memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_phnum > MAX_HEADERS ||
	    !gck_mpi_ns_try((const char *)map->l_addr + head.e_phoff, p, head.e_phnum * sizeof *p))
		return 0;
	for (size_t i = 0; i < head.e_phnum; i++) {
		if (p[i].p_type == PT_DYNAMIC && map->l_addr + p[i].p_vaddr == (uintptr_t)map->l_ld)
			return head.e_phnum;
	}
	return 0;
}

/* The segments that are not written to. A writable one holds the dynamic section, which the loader
 * reads. */
static size_t add_segments(const struct link_map *map, struct gck_mpi_range *to)
{
	ElfW(Phdr) p[MAX_HEADERS];
	size_t n = 0, headers = read_headers(map, p);

	for (size_t i = 0; i < headers; i++) {
		uint64_t start = map->l_addr + p[i].p_vaddr, end = start + p[i].p_memsz;

		if (p[i].p_type != PT_LOAD || p[i].p_flags & PF_W)
			continue;
		start &= ~(PAGE - 1);
		end = (end + PAGE - 1) & ~(PAGE - 1);
		if (to)
			to[n] = (struct gck_mpi_range){start, end - start};
		n++;
	}
	return n;
}

static size_t add_all(struct gck_mpi_range *to)
{
	size_t n = 0;

	for (struct link_map *m = gck_mpi_ns_objects(); m; m = m->l_next) {
		if (!is_called(m))
			n += add_segments(m, to ? to + n : NULL);
	}
	return n;
}

/* Without memory for the list the image is larger. */
void gck_mpi_ns_list_hollow(void)
{
	static struct gck_mpi_range *ranges;

	free(ranges);
	ranges = calloc(add_all(NULL) + 1, sizeof *ranges);
	gck_mpi_ns.owned->hollow = (uintptr_t)ranges;
	gck_mpi_ns.owned->nhollow = ranges ? add_all(ranges) : 0;
}
