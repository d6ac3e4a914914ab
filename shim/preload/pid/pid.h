/* SPDX-License-Identifier: Apache-2.0
 * The libc functions that the preload interposes: declarations that their files share. */
#ifndef GCK_PRELOAD_PID_H
#define GCK_PRELOAD_PID_H

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>

#include "shim/preload/helper/state.h"

/* ---- libc's own functions ------------------------------------------------------------------ */

/* libc's versions of interposed functions that do more than one system call. */
struct gck_real {
	int (*pthread_create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
	int (*pthread_kill)(pthread_t, int);
	int (*pthread_sigqueue)(pthread_t, int, const union sigval);
	int (*pthread_cancel)(pthread_t);
	int (*pthread_setaffinity_np)(pthread_t, size_t, const cpu_set_t *);
	int (*pthread_getaffinity_np)(pthread_t, size_t, cpu_set_t *);
	int (*pthread_setschedparam)(pthread_t, int, const struct sched_param *);
	int (*pthread_getschedparam)(pthread_t, int *, struct sched_param *);
	int (*pthread_setschedprio)(pthread_t, int);
	int (*pthread_setname_np)(pthread_t, const char *);
	int (*pthread_getname_np)(pthread_t, char *, size_t);
	int (*pthread_getcpuclockid)(pthread_t, clockid_t *);
	int (*pthread_getattr_np)(pthread_t, pthread_attr_t *);
	int (*clock_getcpuclockid)(pid_t, clockid_t *);
	int (*timer_create)(clockid_t, struct sigevent *, timer_t *);
	int (*fcntl)(int, int, ...);
	int (*waitid)(idtype_t, id_t, siginfo_t *, int);
	int (*pclose)(FILE *);
	pid_t (*fork)(void);
	pid_t (*_Fork)(void);
};

/* Find them. The constructor calls it, so that a signal handler need not. */
void gck_real_resolve(void);

/* For callers that may run before the constructor. */
const struct gck_real *gck_real(void);

/* ---- calls without the helper -------------------------------------------------------------- */

/* Whether the helper must not exist during this system call. */
bool gck_wants_one_thread(long nr, long a, long b, long c);

/* Make such a call while the helper is away. Returns the raw result. */
long gck_call_alone(long nr, long a, long b, long c);

/* Tell the capture where gck_raw_in() compares and calls. */
void gck_guard_begin(void);

/* ---- children ------------------------------------------------------------------------------ */

/* waitid() with the system call's fifth argument. */
int gck_waitid_usage(idtype_t type, id_t id, siginfo_t *info, int options, struct rusage *usage);

/* ---- alternate signal stacks --------------------------------------------------------------- */

/* This process is a rank: record its alternate signal stacks from now on. */
void gck_altstack_begin(void);

/* ---- threads ------------------------------------------------------------------------------- */

#define GCK_SIGCANCEL 32 /* glibc's own; so is the next one */

/* The kernel's TID of a thread whose TID in libc is a virtual one; 0: libc can handle the
 * thread. */
int32_t gck_kernel_tid(pthread_t thread);

/* Send it a signal; with info, whose sender is set, as rt_tgsigqueueinfo does. Returns the raw
 * result. */
long gck_signal_thread(pthread_t thread, int sig, siginfo_t *info);

/* In a new thread: drop a cancellation of an earlier thread with the same pthread_t. */
void gck_cancel_forget(void);

/* Address of glibc's copy of a thread's TID. On x86-64 a pthread_t is the thread's fs_base. */
static inline int32_t *gck_tid_of(pthread_t thread)
{
	return (int32_t *)(thread + gck_state.tid_offset);
}

#endif
