/* SPDX-License-Identifier: Apache-2.0
 * A process's mappings in /proc/PID/maps and smaps. */
#ifndef GCK_MAPS_H
#define GCK_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"

/* smaps' VmFlags that are used here. */
#define GCK_VM_DONTFORK 1u   /* dc */
#define GCK_VM_WIPEONFORK 2u /* wf */
#define GCK_VM_HUGETLB 4u    /* ht */
#define GCK_VM_DEVICE 8u     /* io, pf */
#define GCK_VM_GROWSDOWN 16u /* gd */
#define GCK_VM_HUGE 32u      /* hg */
#define GCK_VM_NOHUGE 64u    /* nh */
#define GCK_VM_LOCKED 128u   /* lo */
#define GCK_VM_DONTDUMP 256u /* dd */
#define GCK_VM_MAYWRITE 512u /* mw */
#define GCK_VM_USERFAULT 1024u /* um; uw is dirty_pages.h's, or of a descriptor that is refused */
#define GCK_VM_SHADOW 2048u  /* ss */
#define GCK_VM_ONFAULT 4096u /* lf */
#define GCK_VM_SEQUENTIAL 8192u /* sr */
#define GCK_VM_RANDOM 16384u /* rr */
#define GCK_VM_MERGEABLE 32768u /* mg */
#define GCK_VM_DROPPABLE 65536u /* dp */
#define GCK_VM_NORESERVE 131072u /* nr */
#define GCK_VM_SEALED 262144u /* sl */
#define GCK_VM_GUARDS 524288u /* gu: it may have guard pages */

struct gck_vma {
	uint64_t start, end, offset, device, inode;
	int prot;              /* PROT_* */
	bool shared;
	const char *name;      /* the kernel's text, "" if none */
	/* from smaps only */
	bool known;            /* the following fields are filled */
	uint32_t flags;        /* GCK_VM_* */
	uint32_t key;          /* protection key */
	uint64_t resident, anonymous, swapped; /* bytes */
};

struct gck_maps {
	struct gck_vma *v;
	size_t n, capacity;
	char *text;            /* the names point into it */
};

/* Read /proc/PID/maps or smaps; proc: see procfs.h. */
int gck_maps_read(int proc, struct gck_maps *m, struct gck_error *err) GCK_MUST_CHECK;
int gck_smaps_read(int proc, struct gck_maps *m, struct gck_error *err) GCK_MUST_CHECK;

void gck_maps_free(struct gck_maps *m);

/* Append a mapping, which must lie after the others. */
int gck_maps_add(struct gck_maps *m, const struct gck_vma *x, struct gck_error *err) GCK_MUST_CHECK;

/* The mapping that holds this address, or NULL. */
const struct gck_vma *gck_maps_find(const struct gck_maps *m, uint64_t address);

/* The first mapping of the file whose mapping is the last one up to this address, or NULL. */
const struct gck_vma *gck_maps_file(const struct gck_maps *m, uint64_t address);

/* The first mapping of the file that x maps, or NULL. */
const struct gck_vma *gck_maps_same_file(const struct gck_maps *m, const struct gck_vma *x);

/* The lowest address from start on where so many bytes are free, and so many around them. */
uint64_t gck_maps_clear(const struct gck_maps *m, uint64_t start, uint64_t size, uint64_t around);

/* Whether a path of maps, or of /proc/PID/fd, ends in " (deleted)". */
bool gck_path_deleted(const char *path);

#endif
