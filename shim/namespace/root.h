/* SPDX-License-Identifier: Apache-2.0
 * The interface between the root object of the namespace and the library outside it. The root
 * object is the first in the namespace, so its functions replace libc's in the real library and in
 * all objects that this loads. */
#ifndef GCK_NS_ROOT_H
#define GCK_NS_ROOT_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "shim/namespace/state.h"

#define GCK_NS_ROOT_SYMBOL "gck_ns_root"
#define GCK_NS_ROOT_VERSION 3

/* Functions of the outside. */
struct gck_ns_root_host {
	void (*free)(void *memory);             /* for memory that is not of the namespace's heap */
	size_t (*usable_size)(void *memory);
	void (*exit)(int status) __attribute__((noreturn));
	void (*note_thread)(void);              /* have `thread_ends` called at the thread's end */
	void (*thread_begins)(void);            /* called in each thread of the copy */
	void (*thread_gone)(pthread_t thread);  /* it ends, inside enter and leave */
	bool (*has_tid)(int32_t tid);           /* true: the program's TID of another thread */
};

enum gck_ns_root_life { GCK_NS_ROOT_FREE, GCK_NS_ROOT_ALIVE, GCK_NS_ROOT_ENDED };
enum gck_ns_root_birth {
	GCK_NS_ROOT_UNBORN,
	GCK_NS_ROOT_BORN,
	GCK_NS_ROOT_UNFIT,     /* its TID is also a restored thread's: another replaces it */
	GCK_NS_ROOT_DISMISSED,
};

struct gck_ns_root_thread {
	pthread_t self;
	uint32_t life;     /* enum gck_ns_root_life; a futex */
	uint32_t detached; /* the library will not join it: reaped at the next creation */
	uint32_t joined;   /* a thread joins it */
	uint32_t birth;    /* enum gck_ns_root_birth; a futex */
	void *(*function)(void *);
	void *arg;
};

struct gck_ns_root {
	uint32_t version, size;
	/* set by the outside before anything else is loaded */
	const struct gck_ns_root_host *host;
	struct gck_ns_exclusions *owned;       /* always up to date */
	struct gck_ns_root_thread *threads;  /* threads[i] has the TID owned->threads[i] */
	uint32_t nthreads;
	struct gck_ns_range heap;            /* all that the heap has used so far */

	void (*start)(void);                  /* called after host and owned are set */
	int (*hold)(int ms);                  /* -1: a thread did not leave in time */
	void (*release)(void);
	void (*thread_ends)(void);
	/* around a change of what the process shares: a held copy makes none. They nest, and
	 * nothing between them may wait for others */
	void (*enter)(void), (*leave)(void);
	/* before a fork of the program, and after it in both processes: the child can use what
	 * another thread was changing */
	void (*before_fork)(void), (*after_fork)(void);

	void (*free)(void *memory);           /* from the namespace's heap, or the host's */
	void (*give_fd)(int fd);              /* the copy's caller has it from now on */

	/* functions of the namespace's libc */
	int (*join)(pthread_t thread, void **result);
	int (*clearenv)(void);
	int (*setenv)(const char *name, const char *value, int overwrite);
	const unsigned short **(*ctype_b)(void);
	const int32_t **(*ctype_tolower)(void);
	const int32_t **(*ctype_toupper)(void);
};

#endif
