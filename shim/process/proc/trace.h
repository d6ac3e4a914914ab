/* SPDX-License-Identifier: Apache-2.0
 * Beginning to trace a process. */
#ifndef GCK_TRACE_H
#define GCK_TRACE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* PTRACE_SEIZE of a thread; -1 and errno. */
int gck_trace_seize(pid_t tid, unsigned long options);

#ifdef GCK_FAULTS
/* The fault YAMA (common/base/fault.h): whether the thread may be traced and its memory read, as by
 * Yama's rule; true without the fault. If not, errno is EPERM. */
bool gck_trace_permitted(pid_t tid);

/* What prctl(PR_SET_PTRACER) of that process does: tracer may trace it. */
void gck_trace_allow(pid_t pid, int32_t tracer);
#else
#define gck_trace_permitted(tid) true
#define gck_trace_allow(pid, tracer) ((void)0)
#endif

#endif
