/* SPDX-License-Identifier: Apache-2.0
 * A capture: shared by the files that take it and those that write it. */
#ifndef GCK_CAPTURE_H
#define GCK_CAPTURE_H

#include "shim/process/memory/dirty_pages.h"
#include "shim/process/memory/clone_pages.h"
#include "shim/process/memory/frozen_copy.h"
#include "shim/process/memory/rewritten.h"
#include "shim/process/memory/external_files.h"
#include "shim/process/ipc/ipc.h"
#include "shim/process/objects/log_prefix.h"
#include "shim/process/process.h"
#include "shim/process/threads/threads.h"

/* The flags of a process's mappings, which take the longest to read of all. */
struct gck_map_flags {
	struct gck_maps maps;        /* smaps */
	uint64_t locked;             /* KiB locked at that time */
};

/* A descendant that was scanned before the rank was held. */
struct gck_known_process {
	struct gck_target t;
	struct gck_map_flags flags;
};

/* What a scan of a rank finds in all of its processes. */
struct gck_tree_scan {
	struct gck_gpus gpus;        /* of those that use CUDA */
	struct gck_known_process *known; /* descendants */
	size_t nknown;
	struct gck_ipc *ipc;         /* System V objects */
	size_t nipc;
};

/* A System V object; or a message queue's name, if that is not NULL. */
struct gck_leftover {
	int32_t kind, number;
	char *queue;
};

struct gck_capture {
	struct gck_target t;
	struct gck_options o;
	struct gck_map_flags flags;  /* before the rank was held, if the process was there */
	struct gck_prefixes prefixes;
	struct gck_frozen_copies copies;
	struct gck_external_files external;
	struct gck_held held;
	struct gck_image *img;
	char *exe, *cpu_flags;       /* found before the rank was held; then the image's */
	pid_t clone;                 /* 0: none */
	int life;                    /* the clone's life; -1: none */
	int device[GCK_LINK_DATA_FDS]; /* device data channel; -1: none */
	bool device_hashes;          /* the GPU is to hash its data first */
	uint64_t expected, chunks;   /* image size in bytes; its chunks at most */
	bool track_dirty;                 /* the agent keeps the tracker until the next
					   * checkpoint */
	struct gck_dirty_tracker dirty;
	struct gck_rewritten rewritten;   /* the rank's first process's */
	struct gck_page_groups base_pages;    /* pages of the image that `dirty` counts from, if
					       * this one builds on it */
	struct gck_capture *root;    /* the rank's; its own in that */
	struct gck_capture **children; /* of processes that run, once they are held */
	size_t nchildren;
	bool orphan;                 /* a child of the root's that the rank's image has as one */
	/* the root's: */
	struct gck_tree_scan before; /* the last scan before the rank was held */
	int listener;                /* for helpers that are summoned; -1: none */
	char link_name[64];
	uint32_t nshared, nmemory;   /* files and objects that several processes have */
	unsigned char **seen;        /* of such objects: struct gck_hold */
	struct gck_leftover *left;
	size_t nleft;
};

/* capture.c: read the flags again. On failure they may be empty. */
int gck_map_flags_read(struct gck_map_flags *f, const struct gck_target *t,
		       struct gck_error *err) GCK_MUST_CHECK;

/* ---- descendants (processes.c) --------------------------------------------------------------- */

/* Report the obstacles in a process, and in those below it. img: of parent. Adds to `found`. */
int gck_scan_whole(const struct gck_target *t, const struct gck_options *o,
		   struct gck_obstacles *f, struct gck_tree_scan *found,
		   struct gck_error *err) GCK_MUST_CHECK;
int gck_scan_descendants(const struct gck_target *parent, const struct gck_image *img,
			 const struct gck_options *o, struct gck_obstacles *f,
			 struct gck_tree_scan *found, struct gck_error *err) GCK_MUST_CHECK;
void gck_tree_scan_free(struct gck_tree_scan *found);

#define GCK_HOLD_TRIES 10 /* of a process that runs on for a moment in between */
#define GCK_HOLD_PAUSE_US 200

/* Hold all processes below c, which is held, and make helpers in them. */
int gck_tree_hold(struct gck_capture *c, int timeout_ms, struct gck_error *err) GCK_MUST_CHECK;

/* sharing.c: once all are described, number the files and the memory that they share, and check
 * that each pipe's ends are in the tree. */
int gck_tree_relate(struct gck_capture *root, struct gck_error *err) GCK_MUST_CHECK;

/* sharing.c: once all are described, before that: list the System V objects that they use, in the
 * rank's image. alone: as of gck_capture_take. */
int gck_tree_join_ipc(struct gck_capture *root, bool alone, struct gck_error *err) GCK_MUST_CHECK;

/* sharing.c: a file without a name becomes the last of the objects. */
int gck_file_to_object(struct gck_image *img, struct gck_file *f,
		       struct gck_error *err) GCK_MUST_CHECK;

/* connections.c: check that the unix sockets that are connected in one direction only, or not
 * accepted yet, have their other side in the tree. */
int gck_tree_connect(const struct gck_capture *root, struct gck_error *err) GCK_MUST_CHECK;

/* leftovers.c: note what the taken rank would leave on this node; remove it, once its processes are
 * killed. */
int gck_leftovers_note(struct gck_capture *root, struct gck_error *err) GCK_MUST_CHECK;
void gck_leftovers_remove(const struct gck_capture *root);
void gck_leftovers_free(struct gck_capture *root);

/* Move the images of c's descendants into its own. */
int gck_tree_join(struct gck_capture *c, struct gck_error *err) GCK_MUST_CHECK;

/* End and reap the clone; its memory is no longer needed. */
void gck_capture_drop_clone(struct gck_capture *c);

/* ---- writing the image --------------------------------------------------------------------- */

#define GCK_BATCH_PAGES 256u /* read together: fits a core's cache */
#define GCK_BATCH_GROUPS 64u

/* Pages that are read together. */
struct gck_page_batch {
	struct gck_ranges pieces;
	struct gck_page_group groups[GCK_BATCH_GROUPS];
	size_t ngroups, pages;
};

struct gck_output {
	struct gck_capture *c;
	struct gck_writer *w;
	struct gck_source source;
	int (*progress)(void *, uint64_t, uint64_t);
	void *arg;
	uint64_t done;
	struct gck_error *err;

	struct gck_clone_pages pages_out;
	struct gck_page_group next;      /* of private memory; more pages may be added */
	size_t base;                 /* the first of c->base_pages at or after `next` */
	struct gck_page_batch batches[2]; /* one for each half of pages_out */
	int filling;                 /* the batch that takes pieces; the clone copies the other */
};

/* Store the pages of mask, whose bytes are at data, as one page group. */
int gck_output_put(struct gck_output *o, struct gck_page_groups *to, uint64_t address,
		   uint64_t mask, const char *data) GCK_MUST_CHECK;

/* Count bytes as done. -1 if the write was cancelled. */
int gck_output_count(struct gck_output *o, uint64_t bytes) GCK_MUST_CHECK;

/* Reuse a page group of the previous commit. 1; 0: its chunk is gone; -1 on failure. */
int gck_output_again(struct gck_output *o, struct gck_page_groups *to,
		     const struct gck_page_group *x) GCK_MUST_CHECK;

/* Finish calls of the vdso in which threads were stopped, by single steps in the clone, which must
 * be ready. Call it before memory is read. Changes registers in the image. */
int gck_output_finish_calls(struct gck_output *o) GCK_MUST_CHECK;

/* Store the copies of memory that is rewritten all the time. */
int gck_output_rewritten(struct gck_output *o) GCK_MUST_CHECK;

/* Store private memory that the clone has. */
int gck_output_memory(struct gck_output *o) GCK_MUST_CHECK;
void gck_output_free(struct gck_output *o);

/* Store the data of the devices, if the capture has their channel. */
int gck_output_device(struct gck_output *o) GCK_MUST_CHECK;

/* Store the contents of files that are mapped privately and are part of the image. */
int gck_output_contents(struct gck_output *o) GCK_MUST_CHECK;

#endif
