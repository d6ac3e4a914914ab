/* SPDX-License-Identifier: Apache-2.0
 * libc's own functions behind those that are interposed and are more than a system call. */
#ifndef GCK_PRELOAD_LIBC_CALLS_H
#define GCK_PRELOAD_LIBC_CALLS_H

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <time.h>

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
};

/* Find them: the constructor does, so that a signal handler need not. */
void gck_real_resolve(void);

/* For callers that may run before the constructor. */
const struct gck_real *gck_real(void);

#endif
