/* SPDX-License-Identifier: Apache-2.0
 * Functions of the root object's files for each other. */
#ifndef GCK_NS_ROOT_ROOT_H
#define GCK_NS_ROOT_ROOT_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shim/namespace/root.h"
#include "shim/preload/helper/raw.h"

#define GCK_EXPORT __attribute__((visibility("default")))

/* Converts the result of a raw system call to libc's convention, with errno. */
static inline long gck_ns_result(long r)
{
	if (r >= 0 || r < -4095)
		return r;
	errno = -r;
	return -1;
}

/* libc's function of that name, which the one defined here hides. */
void *gck_ns_next(void **cache, const char *name);

#define GCK_NS_NEXT(name)                                                    \
	({                                                                   \
		static void *found_;                                         \
		(__typeof__(&name))gck_ns_next(&found_, #name);              \
	})

extern struct gck_ns_root gck_ns_root;
extern struct gck_ns_exclusions *gck_ns_owned(void);

/* gate.c. Between enter and leave a thread changes what the capture reads or what the whole process
 * shares. They may be nested. Not used around calls that may wait for others. */
void gck_ns_enter(void);
void gck_ns_leave(void);
int gck_ns_hold(int ms);
void gck_ns_release(void);

/* threads.c. gck_ns_thread_note: the calling thread has memory to free at its end. */
void gck_ns_thread_note(void);
void gck_ns_thread_ends(void);
void gck_ns_threads_start(void);
/* Waits until ended threads are gone and takes them out of the list; -1: not within ms. */
int gck_ns_threads_settle(int ms);

/* keys.c: runs the destructors at the calling thread's end. */
void gck_ns_keys_end(void);

/* ranges.c, fds.c. gck_ns_fd_made lists a new descriptor and returns it (fd < 0 too); -1: the list
 * is full, and fd is closed. */
void gck_ns_ranges_start(void);
int gck_ns_range_add(const void *start, size_t length); /* -1: the list is full */
void gck_ns_range_remove(const void *start, size_t length);
void gck_ns_fds_start(void);
int gck_ns_fd_made(int fd);
void gck_ns_fd_ends(int fd);
void gck_ns_fds_end(unsigned int first, unsigned int last);

/* Around a fork. */
void gck_ns_ranges_lock(void);
void gck_ns_ranges_unlock(void);
void gck_ns_fds_lock(void);
void gck_ns_fds_unlock(void);
void gck_ns_heap_lock(void);
void gck_ns_heap_unlock(void);

#endif
