/* SPDX-License-Identifier: Apache-2.0
 * System V objects: shared memory, semaphores, message queues. They belong to the node, and no
 * process has a list of those that it uses. The image of the rank has all that its processes use.
 * Functions return -1 on failure with err (of a scan: s->err; of a hold: h->err) filled. */
#ifndef GCK_PROCESS_IPC_H
#define GCK_PROCESS_IPC_H

#include <sys/ipc.h>

#include "shim/process/memory/frozen_copy.h"
#include "shim/process/ptrace/rebuild.h"
#include "shim/process/rank/scan.h"

/* ---- ipc.c --------------------------------------------------------------------------------- */

/* Find the objects that a process uses, after its mappings. */
int gck_scan_ipc(struct gck_scan *s) GCK_MUST_CHECK;

/* Move a process's objects to the list of the rank's, which has each once. */
int gck_ipc_join(struct gck_ipc **v, size_t *n, struct gck_image *from,
		 struct gck_error *err) GCK_MUST_CHECK;

/* Once the list is whole: report objects that processes outside the rank's step use, and what else
 * no restart could make. beside: other ranks of the node run, and may attach memory meanwhile; who
 * holds them all must ask gck_segment_users. */
void gck_ipc_check(const struct gck_ipc *v, size_t n, const struct gck_target *rank, bool beside,
		   struct gck_obstacles *f);

/* Whether a process has this number and is none of the rank's step. */
bool gck_ipc_is_outside(pid_t pid, pid_t rank);

/* With the processes held: give the rank's image an object for each segment. Then, with all that
 * use them held, process by process, the rank first: copy what is in the objects, and read undo
 * values. At last, drop what other ranks' images have. */
int gck_ipc_add_objects(struct gck_scan *s) GCK_MUST_CHECK;
int gck_hold_ipc(struct gck_hold *h) GCK_MUST_CHECK;
void gck_ipc_drop_elsewhere(struct gck_image *rank);

/* These ranks use the object: struct gck_ipc. */
int gck_ipc_share(struct gck_image *rank, int32_t kind, int32_t number, const char *ranks,
		  uint32_t common, bool elsewhere, struct gck_error *err) GCK_MUST_CHECK;

/* The rank's object of this kind with this number of the program's; NULL: there is none. */
struct gck_ipc *gck_ipc_of(const struct gck_image *rank, int32_t kind, int32_t id);

/* Restore: for the root, make all objects that it was not given, and those of a former start on
 * this node go; once all processes that use them do, set what would have hindered; if the rank is
 * not run, remove them. */
int gck_restore_ipc(struct gck_restore *root, struct gck_error *err) GCK_MUST_CHECK;
int gck_restore_ipc_finish(struct gck_restore *root, struct gck_error *err) GCK_MUST_CHECK;
void gck_restore_ipc_drop(struct gck_restore *root);

/* The numbers for the process's preload. False: there are too many. */
bool gck_restore_ipc_table(const struct gck_restore *r, struct gck_shim_state *s);

/* ---- the three kinds ----------------------------------------------------------------------- */

struct gck_ipc_ops {
	const char *file;      /* a list of all, below /proc/sysvipc */
	const char *what;      /* one object, for messages */
	int right;             /* of its owner that a checkpoint needs, in a mode */

	/* Whether a line of that list is of an object that this process, which began at `since`,
	 * has made or used last. *number: the object's. */
	bool (*is_of)(const char *line, pid_t pid, int64_t since, int32_t *number);

	/* Look at x->number. -1 with errno. */
	int (*look)(struct gck_ipc *x, struct ipc_perm *rights);

	/* A process outside the rank's step that uses it; 0: none, -1: one that is not known.
	 * beside: as of gck_ipc_check. */
	pid_t (*outside)(const struct gck_ipc *x, pid_t rank, bool beside);

	/* Copy what is in it; NULL: an object of the image has that. */
	int (*hold)(struct gck_ipc *x, struct gck_error *err);

	/* The system call that makes it, and whether that takes x->size; then fill it, as x->now,
	 * in the rank's process. */
	long get;
	bool sized;
	int (*fill)(struct gck_restore *r, struct gck_ipc *x, struct gck_error *err);

	/* Set owner's rights or remove it. 0, or -1 with errno. */
	int (*control)(int number, int command, mode_t mode);
};

#define GCK_SEGMENT_OUTSIDE "a process that is none of the step's has attached it"

extern const struct gck_ipc_ops gck_ipc_memory, gck_ipc_semaphores, gck_ipc_messages;

/* ---- segments.c: shared memory --------------------------------------------------------------- */

/* Report attachments of which a part is missing. */
void gck_scan_attachments(struct gck_scan *s);

/* Copy a segment, which is object i of the rank's image. */
int gck_hold_segment(struct gck_hold *h, uint32_t i) GCK_MUST_CHECK;

/* Add calls by which a frozen clone detaches its segments, as far as the message takes them: the
 * program may look at how often a segment is attached. */
void gck_segments_detach(const struct gck_image *img, struct gck_link_msg *m);

/* Attach a process's segments where they were. */
int gck_restore_attach(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;

/* Detach a segment from this process, which has filled it. */
void gck_segment_leave(struct gck_ipc *x);

/* ---- semaphores.c ---------------------------------------------------------------------------- */

/* What the end of the process would do to semaphores (SEM_UNDO). It is restored once all sets are
 * filled: that clears it. */
int gck_hold_undo(struct gck_hold *h) GCK_MUST_CHECK;
int gck_restore_undo(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;

#endif
