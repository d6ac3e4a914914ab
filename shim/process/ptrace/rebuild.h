/* SPDX-License-Identifier: Apache-2.0
 * What the parts of a restore share (private to restore*.c; the interface is in process.h).
 *
 * The order: open checks the image against this node. build empties the process (vacate), maps and
 * fills memory (maps, fill), makes files and hands them over (channel, make, place), sets what
 * belongs to the process (signals, process) and makes the threads. All that would be seen outside
 * the process, or runs down with time, waits for files and run. */
#ifndef GCK_REBUILD_H
#define GCK_REBUILD_H

#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>

#include "shim/process/proc/maps.h"
#include "shim/process/process.h"
#include "shim/process/ptrace/remote.h"

/* Both ends of a pipe or socketpair while its files are placed. */
struct gck_pair {
	enum gck_fd_kind kind;
	uint64_t id;
	int end[2];
};

/* A file outside that gets its content back when the word is "run". */
struct gck_rewrite {
	const char *path;     /* the image's */
	uint64_t size;
	uint32_t mode;
	int staged;           /* memfd with the content, or -1: the file is only cut to size */
	int fd;               /* of the file itself, -1 until then */
	bool log;             /* only appended to: not made longer if it has */
	uint64_t least;       /* so much */
	bool there;           /* a log that has that, and begins with what is staged as far as it goes */
	bool made;            /* it was missing */
	char *cut;            /* where what is cut or replaced was kept, or NULL */
};

static inline bool gck_file_is_log(const struct gck_file *f)
{
	return f->written && f->flags & O_APPEND;
}

struct gck_restore {
	struct gck_image *img;
	struct gck_reader *reader;
	char link_name[108];
	struct gck_remote remote;
	int proc;                    /* /proc/PID */
	bool seized, built, filed, ran;
	bool has_mpi, has_cuda;      /* of the image */
	uint32_t all_asked;          /* of the commit: gck_restore_asked */

	int *contents;               /* per content: the node's own, equal file, or -1 */
	int *objects;                /* per object: memfd, or -1 where it waits for files */
	bool *deferred;              /* per file: it waits for files */
	struct gck_rewrite *rewrites;
	size_t nrewrites;
	size_t ntimers;              /* made in the process */
	struct gck_pair *pairs;
	size_t npairs;

	int channel;                 /* our end of the socket that hands files over, or -1 */
	int32_t input;               /* the image's file that was read as standard input and has
				      * a place to go on from, or -1 */
	int high;                    /* first descriptor of ours in the target, where the image has
				      * none: the new task's 0..2, then the channel's end */
	pid_t helper;
	uint64_t helper_entry, helper_stack;
	cpu_set_t cpus;              /* that the new task may use */
	size_t xstate_size;          /* of a thread here */
	uint64_t vdso_now;           /* 0: the vdso is the image's own */

	char *environment;           /* of the new task, as at its exec; NULL: not known */
	size_t environment_size;

	const struct gck_windows *wanted; /* what the reader reads ahead, and up to where */
	size_t next_wanted;
	unsigned char *buffer;       /* GCK_CHUNK_MAX bytes */
	int (*progress)(void *, uint64_t, uint64_t);
	void *progress_arg;
	uint64_t done, all;
};

#define GCK_RESTORE_CHANNEL(r) ((r)->high + 3)
#define GCK_RESTORE_OURS 4

/* restore_check.c, restore_contents.c: nothing is changed; what is found is kept in r. */
int gck_restore_check_node(struct gck_restore *r, struct gck_error *err);
int gck_restore_check_contents(struct gck_restore *r, struct gck_error *err);
int gck_restore_check_files(struct gck_restore *r, struct gck_error *err);

/* restore_vacate.c: only the vdso, at its old place, and the plant are left. */
int gck_restore_vacate(struct gck_restore *r, struct gck_error *err);
int gck_restore_free_range(struct gck_restore *r, uint64_t size, uint64_t *address,
			   struct gck_error *err);

/* restore_vdso.c: put the kernel's vdso where the image had it; after vacate, before maps. */
int gck_restore_same_vdso(struct gck_restore *r, bool *same, struct gck_error *err);
int gck_restore_vdso(struct gck_restore *r, struct gck_error *err);
int gck_restore_vdso_patch(struct gck_restore *r, struct gck_error *err);

/* restore_maps.c: map everything, writable where it is to be filled; then set what is final. */
int gck_restore_maps(struct gck_restore *r, struct gck_error *err);
int gck_restore_map_object(struct gck_restore *r, size_t object, int fd, struct gck_error *err);
int gck_restore_protect(struct gck_restore *r, struct gck_error *err);
bool gck_restore_has_pages(const struct gck_windows *w, uint64_t start, uint64_t end);

/* restore_fill.c: fetch chunks; into the process, into a mapping without its file, into a file. */
int gck_restore_fill(struct gck_restore *r, struct gck_error *err);
int gck_restore_fill_file(struct gck_restore *r, const struct gck_windows *w, uint64_t size,
			  int fd, const char *what, struct gck_error *err);
uint64_t gck_restore_total(const struct gck_restore *r);
size_t gck_restore_run_length(uint64_t mask, unsigned from, unsigned *start);

/* restore_channel.c: the target's descriptors. */
int gck_restore_channel(struct gck_restore *r, struct gck_error *err);
int gck_restore_give(struct gck_restore *r, int fd, struct gck_error *err);
int gck_restore_place(struct gck_restore *r, size_t file, int fd, struct gck_error *err);

/* restore_make.c: a new open file as the image's file i was, in this process. */
int gck_restore_make(struct gck_restore *r, size_t i, struct gck_error *err);

/* restore_fds.c: all of the image's descriptors; those left for files. */
int gck_restore_fds(struct gck_restore *r, struct gck_error *err);
int gck_restore_deferred(struct gck_restore *r, struct gck_error *err);

/* restore_stage.c: contents of files outside, fetched in build, written in files. */
int gck_restore_stage(struct gck_restore *r, struct gck_error *err);

/* restore_threads.c: make the threads, set them up, start them. */
int gck_restore_threads(struct gck_restore *r, struct gck_error *err);
int gck_restore_state(struct gck_restore *r, struct gck_error *err);

/* Give the program the new task's values of what the launcher sets; fills in what s says of it. */
int gck_restore_environ(struct gck_restore *r, struct gck_shim_state *s, struct gck_error *err);
int gck_restore_start(struct gck_restore *r, struct gck_error *err);

/* restore_signals.c: actions and timers made; armed and signals queued when the rank runs. */
int gck_restore_actions(struct gck_restore *r, struct gck_error *err);
int gck_restore_timers(struct gck_restore *r, struct gck_error *err);
int gck_restore_no_timers(struct gck_restore *r, struct gck_error *err);
int gck_restore_arm(struct gck_restore *r, struct gck_error *err);
int gck_restore_queue(struct gck_restore *r, struct gck_error *err);

/* restore_environment.c: noted before the process is emptied; written when memory is filled. */
void gck_restore_note_environment(struct gck_restore *r);
int gck_restore_environment(struct gck_restore *r, struct gck_error *err);

/* restore_process.c: what belongs to the process as a whole. */
int gck_restore_prepare_process(struct gck_restore *r, struct gck_error *err);
int gck_restore_process(struct gck_restore *r, struct gck_error *err);
int gck_restore_process_last(struct gck_restore *r, struct gck_error *err);

#endif
