/* SPDX-License-Identifier: Apache-2.0
 * Reading files below /proc/PID. `proc` is an open directory fd of it, which stays that process's
 * when its PID is used again. */
#ifndef GCK_PROCFS_H
#define GCK_PROCFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/base/error.h"

/* Open /proc/PID. -1 with ESRCH when there is no such process. */
int gck_proc_open(pid_t pid, struct gck_error *err);

/* The whole file, NUL-terminated, to be given to free(). size may be NULL. */
char *gck_proc_read(int proc, const char *name, size_t *size, struct gck_error *err);

/* The text of a symbolic link, to be given to free(). */
char *gck_proc_link(int proc, const char *name, struct gck_error *err);

/* The numbered entries of a directory ("task", "fd"), ascending; free *v. */
int gck_proc_list(int proc, const char *name, int **v, size_t *n, struct gck_error *err);

/* What follows "key" at the start of a line, blanks skipped, or NULL. */
const char *gck_proc_field(const char *text, const char *key);
uint64_t gck_proc_number(const char *text, const char *key, int base, uint64_t otherwise);

/* Numbers of /proc/PID/stat: field i of proc(5) (from 4 on) is v[i]. The state is *state. */
#define GCK_STAT_FIELDS 53
int gck_proc_stat(int proc, char *state, uint64_t v[GCK_STAT_FIELDS], struct gck_error *err);

/* Whether it is a zombie or is exiting. Its memory is gone then, and files below /proc/PID belong
 * to root. */
bool gck_proc_ended(int proc);

/* Do other threads run, although its main thread has ended by pthread_exit()? What is told of the
 * process by its number is as if it had ended. */
bool gck_proc_headless(int proc);

/* CLOCK_MONOTONIC as the process reads it now: it may be in another time namespace. */
int64_t gck_monotonic_of(int proc);

int64_t gck_realtime(void);

#endif
