/* SPDX-License-Identifier: Apache-2.0
 * Memory of a rank: the scan of its mappings, and their restore. frozen_copy.h, clone_pages.h and
 * dirty_pages.h have the rest. */
#ifndef GCK_PROCESS_MEMORY_H
#define GCK_PROCESS_MEMORY_H

#include "shim/process/proc/pages.h"
#include "shim/process/ptrace/rebuild.h"
#include "shim/process/rank/scan.h"

/* ---- scan ---------------------------------------------------------------------------------- */

/* Scan the mappings with their files and shared objects, and refuse an unsupported MPI library. */
int gck_scan_maps(struct gck_scan *s) GCK_MUST_CHECK;

/* Index of the image's object with this inode; adds it if it is missing. -1 without memory. */
int gck_scan_object(struct gck_scan *s, uint64_t device, uint64_t inode,
		    const char *name) GCK_MUST_CHECK;

/* Make a GCK_MAP_FILE mapping that is GCK_MAP_READ_SHARED one of an object. */
int gck_map_share(struct gck_image *img, struct gck_map *m, struct gck_error *err) GCK_MUST_CHECK;

/* Convert GCK_VM_* to GCK_MAP_*. */
uint32_t gck_map_flags(uint32_t vm);

/* guard_pages.c: add guard pages to the image; its list is then not sorted. */
int gck_guards_add(struct gck_image *img, const struct gck_ranges *guards,
		   struct gck_error *err) GCK_MUST_CHECK;

/* memory_locks.c: report locked memory; with the rank held and its brk known, find out whether
 * memory to come is locked. status: of /proc/PID. */
void gck_note_locks(struct gck_scan *s, const char *status);
int gck_scan_lock_future(struct gck_scan *s, int timeout_ms) GCK_MUST_CHECK;

/* ---- restore ------------------------------------------------------------------------------- */

/* memory_locks.c: whether the new task's limit is high enough; lock memory, before the limits are
 * set. */
int gck_restore_check_locks(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;
int gck_restore_locks(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;

/* Check that this node's kernel has what the image's mappings need: guard pages, mseal. */
int gck_restore_check_guards(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;
int gck_restore_check_seals(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;

/* Empty the process, and have it execute the image's program first if it has executed another one,
 * so that /proc/PID/exe is right. Only the vdso and the plant are left. */
int gck_restore_vacate(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;

/* Find an address range that is free in the process and in the image. */
int gck_restore_free_range(struct gck_restore *r, uint64_t size, uint64_t *address,
			   struct gck_error *err) GCK_MUST_CHECK;

/* Whether the kernel's vdso equals the image's, byte by byte. */
int gck_restore_same_vdso(struct gck_restore *r, bool *same, struct gck_error *err) GCK_MUST_CHECK;

/* Put the vdso where the image had it. Call between vacate and maps. */
int gck_restore_vdso(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;

/* Under another kernel, make the old vdso's functions jump to this kernel's. Call after fill. */
int gck_restore_vdso_patch(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;

/* Make all mappings, writable where they must be filled. Objects with a path are mapped later. */
int gck_restore_maps(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;
int gck_restore_map_object(struct gck_restore *r, size_t object, int fd,
			   struct gck_error *err) GCK_MUST_CHECK;

/* Set the final protection, and guard pages. Call after fill. */
int gck_restore_protect(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;
int gck_restore_guards(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;

/* Add the calls that advise the kernel as the mapping's flags say. */
void gck_map_advise(struct gck_batch *b, const struct gck_map *m);

/* Seal mappings (mseal). No mapping can be changed after that. */
int gck_restore_seal_maps(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;

/* Whether a stored page lies in [start, end). The list is sorted by address. */
bool gck_restore_has_pages(const struct gck_page_groups *w, uint64_t start, uint64_t end);

/* Fetch the pages of all private mappings, also of those whose file is missing here. */
int gck_restore_fill(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;

/* Fetch a content into fd, a file that becomes size bytes long. what: its name for messages. */
int gck_restore_fill_file(struct gck_restore *r, const struct gck_page_groups *w, uint64_t size,
			  int fd, const char *what, struct gck_error *err) GCK_MUST_CHECK;

/* The same into memory of ours, of size bytes, which are zero. */
int gck_restore_fill_memory(struct gck_restore *r, const struct gck_page_groups *w, uint64_t size,
			    void *memory, const char *what, struct gck_error *err) GCK_MUST_CHECK;

/* Bytes that a build fetches. A content that several mappings need counts once. */
uint64_t gck_restore_total(const struct gck_restore *r);

/* Length and start of the next run of set bits at or after from; length 0: none. */
size_t gck_restore_run_length(uint64_t mask, unsigned from, unsigned *start);

#endif
