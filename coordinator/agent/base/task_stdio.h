/* SPDX-License-Identifier: Apache-2.0
 * What Slurm gave a task as descriptors 0 to 2, as the task's shim noted it. The program may have
 * put other files there, and a restart has other pipes or files. */
#ifndef AGENT_TASK_STDIO_H
#define AGENT_TASK_STDIO_H

#include <sys/stat.h>

#include "coordinator/agent/base/tasks.h"

struct task_stdio {
	uint64_t v[3][2]; /* device and inode; 0, 0: it was closed, or is not known */
};

/* Reads them from the task's memory. All are unknown for a task without a link. */
void task_stdio_read(const struct task *t, struct task_stdio *g);

bool task_stdio_has(const struct task_stdio *g, const struct stat *st);

/* Prints "gpuckpt: ..." once, on the standard error of the first rank that takes it, and logs
 * it. Does not write to a file that the program has opened itself. While slurmstepd has not
 * executed the ranks' programs yet, no user may open their descriptors: the line is kept for the
 * first that has a link. */
void say_to_user(struct tasks *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Prints what is kept: a rank has a link now. */
void say_unsaid(struct tasks *t);

/* Prints "gpuckpt: TEXT" on a descriptor of a process that is the task's own output; logs it. */
void say_on(pid_t pid, int fd, const char *text);

#endif
