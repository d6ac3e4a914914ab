/* SPDX-License-Identifier: Apache-2.0
 * What the root object of the namespace and the library outside it know of each other. The root
 * object is the first in the namespace, so its functions stand in for libc's in the real MPI
 * library and in all that this loads. */
#ifndef GCK_MPI_ROOT_H
#define GCK_MPI_ROOT_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "shim/namespace/state.h"

#define GCK_MPI_ROOT_SYMBOL "gck_mpi_root"
#define GCK_MPI_ROOT_VERSION 1

/* Offered by the outside. */
struct gck_mpi_root_host {
	void (*free)(void *memory);             /* for memory that is not of the namespace's heap */
	size_t (*usable_size)(void *memory);
	void (*exit)(int status) __attribute__((noreturn));
	void (*note_thread)(void);              /* the calling thread's end: call `thread_ends` */
	bool (*has_tid)(int32_t tid);           /* does the program know a thread by this number? */
};

enum gck_mpi_root_life { GCK_MPI_ROOT_FREE, GCK_MPI_ROOT_ALIVE, GCK_MPI_ROOT_ENDED };
enum gck_mpi_root_birth {
	GCK_MPI_ROOT_UNBORN,
	GCK_MPI_ROOT_BORN,
	GCK_MPI_ROOT_UNFIT,     /* its TID is also a restored thread's: another is made */
	GCK_MPI_ROOT_DISMISSED,
};

struct gck_mpi_root_thread {
	pthread_t self;
	uint32_t life;     /* enum gck_mpi_root_life; a futex */
	uint32_t detached; /* the library will not join it: reaped when convenient */
	uint32_t joined;   /* somebody waits for it */
	uint32_t birth;    /* enum gck_mpi_root_birth; a futex */
	void *(*function)(void *);
	void *arg;
};

struct gck_mpi_root {
	uint32_t version, size;
	const struct gck_mpi_root_host *host; /* set by the outside before all else is loaded */
	struct gck_mpi_left_out *owned;       /* likewise; what it names is kept up to date */
	struct gck_mpi_root_thread *threads;  /* threads[i] has the TID owned->threads[i] */
	uint32_t nthreads;

	void (*start)(void);                  /* after the two were set */
	int (*hold)(int ms);                  /* -1: somebody did not come out in time */
	void (*release)(void);
	void (*thread_ends)(void);

	void (*free)(void *memory);           /* of the namespace's heap, or the host's */

	/* libc's of the namespace */
	int (*join)(pthread_t thread, void **result);
	int (*clearenv)(void);
	int (*setenv)(const char *name, const char *value, int overwrite);
	const unsigned short **(*ctype_b)(void);
	const int32_t **(*ctype_tolower)(void);
	const int32_t **(*ctype_toupper)(void);
};

#endif
