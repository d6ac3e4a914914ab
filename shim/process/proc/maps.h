/* SPDX-License-Identifier: Apache-2.0
 * A process's mappings as /proc/PID/maps and smaps tell them. */
#ifndef GCK_MAPS_H
#define GCK_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"

/* smaps' VmFlags that matter here. */
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
#define GCK_VM_USERFAULT 1024u /* um; uw is marks.h's, or of a descriptor that is refused */
#define GCK_VM_SHADOW 2048u  /* ss */

struct gck_vma {
	uint64_t start, end, offset, device, inode;
	int prot;              /* PROT_* */
	bool shared;
	const char *name;      /* as the kernel shows it, "" if none */
	/* from smaps only */
	bool known;            /* the following are filled */
	uint32_t flags;        /* GCK_VM_* */
	uint32_t key;          /* protection key */
	uint64_t resident, anonymous, swapped; /* bytes */
};

struct gck_maps {
	struct gck_vma *v;
	size_t n, capacity;
	char *text;            /* what the names point into */
};

/* Read /proc/PID/maps or smaps; proc: see procfs.h. */
int gck_maps_read(int proc, struct gck_maps *m, struct gck_error *err);
int gck_smaps_read(int proc, struct gck_maps *m, struct gck_error *err);

void gck_maps_free(struct gck_maps *m);

/* Append a mapping, which must come after those that are there. */
int gck_maps_add(struct gck_maps *m, const struct gck_vma *x, struct gck_error *err);

/* The mapping that holds this address, or NULL. */
const struct gck_vma *gck_maps_find(const struct gck_maps *m, uint64_t address);

/* Whether a path of maps, or of /proc/PID/fd, ends in " (deleted)". */
bool gck_path_deleted(const char *path);

#endif
