/* SPDX-License-Identifier: Apache-2.0
 * What the test of shim/cuda/apart has the module do, which stands for the driver's library. */
#ifndef GCK_TEST_APART_MODULE_H
#define GCK_TEST_APART_MODULE_H

#include <stddef.h>
#include <sys/types.h>

struct apart_module {
	void *(*map)(void *at, size_t length, int prot, int flags);
	int (*unmap)(void *at, size_t length);
	void *(*allocate)(size_t length);
	void (*free)(void *p);
	/* Registers a handler that calls `note` with this mark; for fork with 'b', 'p', 'c'. */
	void (*at_exit)(void (*note)(char mark), char mark);
	void (*at_fork)(void (*note)(char mark));
	int (*in_thread)(int (*callback)(void)); /* a thread of the library's */
	void (*stay)(int (*callback)(void));     /* another, which does not end */
	int (*is_space)(int c);
	pid_t (*pid)(void);
	pid_t (*pid_by_number)(void);            /* syscall() */
	int (*kill)(pid_t pid);                  /* signal 0; returns errno */
	int (*open)(const char *path);           /* 0, or errno */
	int (*fopen)(const char *path);
	int (*opendir)(const char *path);
};

#define APART_MODULE "apart_module"

#endif
