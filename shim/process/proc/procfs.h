/* SPDX-License-Identifier: Apache-2.0
 * Reading files below /proc/PID. `proc` is an open directory fd of it, which stays that process's
 * when its PID is reused. */
#ifndef GCK_PROCFS_H
#define GCK_PROCFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/base/error.h"

/* Open /proc/PID. -1 with ESRCH if the process does not exist. */
int gck_proc_open(pid_t pid, struct gck_error *err) GCK_MUST_CHECK;

/* Raise this process's limit of open files as far as it may: of each process of a rank some are
 * open. */
void gck_proc_open_many(void);

/* The whole file, NUL-terminated; free it. size may be NULL. */
char *gck_proc_read(int proc, const char *name, size_t *size, struct gck_error *err) GCK_MUST_CHECK;

/* The target of a symbolic link; free it. */
char *gck_proc_link(int proc, const char *name, struct gck_error *err) GCK_MUST_CHECK;

/* The numbered entries of a directory ("task", "fd"), ascending; free *v. */
int gck_proc_list(int proc, const char *name, int **v, size_t *n,
		  struct gck_error *err) GCK_MUST_CHECK;

/* The text after "key" at the start of a line, blanks skipped, or NULL. */
const char *gck_proc_field(const char *text, const char *key);
uint64_t gck_proc_number(const char *text, const char *key, int base, uint64_t otherwise);

/* Numbers of /proc/PID/stat: field i of proc(5) (from 4 on) is v[i]. The state is *state. */
#define GCK_STAT_FIELDS 53
int gck_proc_stat(int proc, char *state, uint64_t v[GCK_STAT_FIELDS],
		  struct gck_error *err) GCK_MUST_CHECK;

/* Whether it is a zombie or exiting. Its memory is gone then, and files below /proc/PID belong to
 * root. */
bool gck_proc_ended(int proc);

/* What to do about a process that is stopped by a signal. */
#define GCK_PROC_CONTINUE "resume the job if it is suspended (scontrol resume), or continue the " \
	"process (kill -CONT)"

/* -1, EBUSY: the process, of this pid, is stopped by a signal. */
int gck_proc_runs(int proc, pid_t pid, struct gck_error *err) GCK_MUST_CHECK;

/* Whether other threads run although the main thread has ended by pthread_exit(). /proc/PID then
 * shows a process that has ended. */
bool gck_proc_headless(int proc);

/* Whether it is a thread of io_uring's, which runs nothing of the program. To stop one cuts short
 * what it does for a request. Its flags say so from its first moment on; its name, which is its
 * creator's at first, does not. */
bool gck_proc_is_worker(int proc, int tid);

/* CLOCK_MONOTONIC as the process reads it now, possibly in another time namespace. */
int64_t gck_monotonic_of(int proc);

int64_t gck_realtime(void);

/* gck_program_loader of its program. */
int gck_proc_loader(int proc, char *path, size_t size);

#endif
