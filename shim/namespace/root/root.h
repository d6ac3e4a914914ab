/* SPDX-License-Identifier: Apache-2.0
 * The root object's own: what its files offer each other. */
#ifndef GCK_MPI_ROOT_ROOT_H
#define GCK_MPI_ROOT_ROOT_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shim/namespace/root.h"
#include "shim/preload/helper/raw.h"

#define GCK_EXPORT __attribute__((visibility("default")))

/* A system call's result as libc's functions give it. */
static inline long gck_ns_result(long r)
{
	if (r >= 0 || r < -4095)
		return r;
	errno = -r;
	return -1;
}

/* libc's function of that name, behind the one defined here. */
void *gck_ns_next(void **cache, const char *name);

#define GCK_NS_NEXT(name)                                                    \
	({                                                                   \
		static void *found_;                                         \
		(__typeof__(&name))gck_ns_next(&found_, #name);              \
	})

extern struct gck_mpi_root gck_mpi_root;
extern struct gck_mpi_left_out *gck_ns_owned(void);

/* gate.c: between the two a thread changes what the capture reads, or what the whole process
 * shares; it may lie in itself. Not around what may wait for others. */
void gck_ns_enter(void);
void gck_ns_leave(void);
int gck_ns_hold(int ms);
void gck_ns_release(void);

/* threads.c. Note: the calling thread has something that is to be given back at its end. */
void gck_ns_thread_note(void);
void gck_ns_thread_ends(void);
void gck_ns_threads_start(void);
int gck_ns_threads_settle(int ms); /* ended threads are gone, and from the list; -1: not in time */

/* keys.c: the calling thread ends */
void gck_ns_keys_end(void);

/* ranges.c, fds.c: fd < 0 is passed on */
void gck_ns_ranges_start(void);
int gck_ns_range_add(const void *start, size_t length); /* -1: no room */
void gck_ns_range_remove(const void *start, size_t length);
void gck_ns_fds_start(void);
int gck_ns_fd_made(int fd);                             /* listed; -1 (closed again): no room */
void gck_ns_fd_ends(int fd);
void gck_ns_fds_end(unsigned int first, unsigned int last);

/* heap.c */
void gck_ns_heap_start(void);
bool gck_ns_heap_has(const void *p);

#endif
