/* SPDX-License-Identifier: Apache-2.0
 * The parts of the copy's libraries that an image need not contain. Of a dead copy only libc's
 * pthread_join runs, and the loader reads only the dynamic sections to unmap it. So text and tables
 * of all objects but libc, the loader and the root object are left out (hwloc alone has 30 MiB of
 * them, through its XML library). */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "shim/namespace/namespace.h"

#define PAGE 4096ul
#define MAX_HEADERS 32

static bool is_called(const struct link_map *map)
{
	const char *slash = strrchr(map->l_name, '/'), *file = slash ? slash + 1 : map->l_name;

	return gck_namespace_is_loader(map) || !strncmp(file, "libc.", 5) ||
	       !strcmp(file, GCK_NS_ROOT_FILE);
}

/* Reads the object's program headers; returns their number, 0: not found. They are at the load bias
 * if the object was linked to address 0, as nearly all are. For another object that address may be
 * unmapped or another object's, so the headers are read with care and must point at the dynamic
 * section that the loader knows. (dladdr would find them but waits for the loader's lock, whose
 * holder may wait for the gate.) */
static size_t read_headers(const struct link_map *map, ElfW(Phdr) p[MAX_HEADERS])
{
	ElfW(Ehdr) head;

	if (!gck_namespace_try((const void *)map->l_addr, &head, sizeof head) ||
	    memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_phnum > MAX_HEADERS ||
	    !gck_namespace_try((const char *)map->l_addr + head.e_phoff, p,
			       head.e_phnum * sizeof *p))
		return 0;
	for (size_t i = 0; i < head.e_phnum; i++) {
		if (p[i].p_type == PT_DYNAMIC && map->l_addr + p[i].p_vaddr == (uintptr_t)map->l_ld)
			return head.e_phnum;
	}
	return 0;
}

/* Adds the segments that are not writable; returns how many. A writable one contains the dynamic
 * section, which the loader reads. */
static size_t add_segments(const struct link_map *map, struct gck_ns_range *to)
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
			to[n] = (struct gck_ns_range){start, end - start};
		n++;
	}
	return n;
}

static size_t add_all(struct gck_ns_range *to)
{
	size_t n = 0;

	for (struct link_map *m = gck_namespace_objects(); m; m = m->l_next) {
		if (!is_called(m))
			n += add_segments(m, to ? to + n : NULL);
	}
	return n;
}

/* Without memory for the list the image is only larger. */
void gck_namespace_list_changes_only(void)
{
	static struct gck_ns_range *ranges;

	free(ranges);
	ranges = calloc(add_all(NULL) + 1, sizeof *ranges);
	gck_namespace.owned->changes_only = (uintptr_t)ranges;
	gck_namespace.owned->nchanges_only = ranges ? add_all(ranges) : 0;
}
