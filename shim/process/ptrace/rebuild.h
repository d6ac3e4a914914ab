/* SPDX-License-Identifier: Apache-2.0
 * A process that is being rebuilt from an image: state shared by the parts of a restore.
 *
 * The order: open checks the image against this node. build empties the process (memory/vacate.c),
 * maps and fills memory, makes files and passes them to the process (objects/), sets the attributes
 * of the process and makes the threads. Everything that others would see, or that runs down with
 * time, waits for gck_restore_files and gck_restore_run. */
#ifndef GCK_REBUILD_H
#define GCK_REBUILD_H

#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <stdbool.h>

#include "shim/process/proc/maps.h"
#include "shim/process/process.h"
#include "shim/process/ptrace/remote.h"

/* Both ends of a pipe or socketpair while its files are placed; or a single socket or queue. */
struct gck_pair {
	enum gck_fd_kind kind;
	uint64_t id;
	const struct gck_file *of[2]; /* sockets: the file of each end, once it is known */
	int end[2];           /* -1: none */
	bool given[2];        /* a pipe's end, as it was made */
	bool filled;          /* a pipe has what waited in it */
};

/* A pseudo-terminal while its files are placed. */
struct gck_terminal_pair {
	const struct gck_terminal *state;
	uint64_t id;
	int master, peer;     /* peer: -1: not opened */
	pid_t leader;         /* of the session whose terminal it is; 0: none */
};

/* The name of a socket, FIFO or message queue (this without device and inode) that was made, or a
 * directory of it. */
struct gck_made_file {
	char *path;
	dev_t device;
	ino_t inode;
};

/* A file outside the process that gck_restore_files writes or cuts. */
struct gck_rewrite {
	const char *path;     /* the image's */
	uint64_t size;
	uint32_t mode;
	int staged;           /* memfd with the content, or -1: the file is only cut to size */
	struct gck_place_file was;
	int fd;               /* of the file itself, -1 until then */
	bool log;             /* only appended to: not extended if it has at least */
	uint64_t min_size;    /* this size */
	bool there;           /* a log of that size that begins with the staged content */
	bool made;            /* it was missing */
	char *cut;            /* the file where a cut or replaced part was saved, or NULL */
	int cut_fd;           /* of that file, or -1 */
};

static inline bool gck_file_is_log(const struct gck_file *f)
{
	return f->written && f->flags & O_APPEND;
}

/* A file of this node that has the bytes of an image's page groups. */
struct gck_same_file {
	dev_t device;
	ino_t inode;
	const struct gck_page_groups *groups;
};

struct gck_restore {
	struct gck_image *img;
	struct gck_reader *reader;
	char link_name[108];
	struct gck_remote remote;
	int proc;                    /* /proc/PID */
	bool trial;                  /* it is never run: gck_restore_for_trial */
	bool seized, built, filed, ran;
	bool keeps_numbers;          /* the root's: all processes get their old ones */
	bool has_mpi, has_cuda;      /* of the image */
	uint32_t all_asked;          /* of the commit: gck_restore_asked */

	int *contents;               /* per content: the node's own equal file, or -1 */
	int *objects;                /* per object: memfd, or -1 if it waits for files */
	bool *deferred;              /* per file: it waits for files */
	struct gck_rewrite *rewrites;
	size_t nrewrites;
	size_t ntimers;              /* made in the process */
	struct gck_pair *pairs;
	size_t npairs;
	struct gck_terminal_pair *terminals; /* the root's */
	size_t nterminals;
	struct gck_made_file *made;  /* the root's */
	size_t nmade;
	struct gck_same_file *same;  /* the root's: most processes map the same libraries */
	size_t nsame;

	struct gck_restore *root;    /* of the rank; its own in that */
	struct gck_restore **children; /* of the image's processes, in its order */
	size_t nchildren;
	int *shared;                 /* the root's: by a file's number, once it is made; -1 */
	size_t nshared;
	int *memory;                 /* the same of objects that several processes share */
	size_t nmemory;

	int channel;                 /* our end of the socket that passes files, or -1 */
	int64_t input;               /* bytes of standard input that the rank had consumed */
	int high;                    /* first of our descriptors in the target, above the image's:
				      * the new task's 0..2, then the channel's end */
	pid_t helper;
	uint64_t helper_entry, helper_stack;
	cpu_set_t cpus;              /* which the new task may use */
	size_t xstate_size;          /* of a thread on this node */
	uint64_t vdso_now;           /* 0: the vdso is the image's own */

	char **notes;                /* for the user: gck_restore_notes */
	size_t nnotes;

	char *environment;           /* of the new task, as at its exec; NULL: unknown */
	size_t environment_size;

	const struct gck_page_groups *wanted; /* being read ahead, from next_wanted on */
	size_t next_wanted;
	unsigned char *buffer;       /* GCK_CHUNK_MAX bytes */
	int (*progress)(void *, uint64_t, uint64_t);
	void *progress_arg;
	uint64_t done, all;
};

/* The new number of a process below r that had this one when it was captured; of a thread of r or
 * of a process below. 0: there is none. */
pid_t gck_restore_pid(const struct gck_restore *r, int32_t before);
pid_t gck_restore_tid(const struct gck_restore *r, int32_t before);

/* The arguments of clone3(2), to be copied to an address of the process that makes the call. */
struct gck_rebuild_clone {
	struct clone_args args;
	int32_t number;
};

/* For a process or thread that has this number in the image (0: it is none of the image's). Flags
 * are the caller's. */
void gck_rebuild_clone(const struct gck_restore *r, struct gck_rebuild_clone *c, uint64_t address,
		       int32_t number);

/* 0 unless that call has failed. */
int gck_rebuild_cloned(const struct gck_restore *r, int64_t result, int32_t number,
		       struct gck_error *err) GCK_MUST_CHECK;

#define GCK_RESTORE_CHANNEL(r) ((r)->high + 3)
#define GCK_RESTORE_OURS 4

#endif
