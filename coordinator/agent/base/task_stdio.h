/* SPDX-License-Identifier: Apache-2.0
 * What Slurm gave a task as descriptors 0 to 2, as its shim noted it: the program may have put something else there,
 * and after a restart it is another pipe or file than before. */
#ifndef AGENT_TASK_STDIO_H
#define AGENT_TASK_STDIO_H

#include <sys/stat.h>

#include "coordinator/agent/base/tasks.h"

struct given {
	uint64_t v[3][2]; /* device and inode; 0, 0: it was closed, or is not known */
};

/* Nothing is known of a task without a link. */
void given_read(const struct task *t, struct given *g);

bool given_has(const struct given *g, const struct stat *st);

/* Print "gpuckpt: ..." once, on the standard error of the first rank that takes it, and log it. A file that a program
 * has opened there itself is not written to. */
void say_to_user(const struct tasks *t, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

#endif
