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

#endif
