/* SPDX-License-Identifier: Apache-2.0
 * The output of programs that compare the driver with a model. */
#ifndef GCK_CUDA_TEST_AGAINST_H
#define GCK_CUDA_TEST_AGAINST_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline const char *none(const char *wrong)
{
	return wrong ? wrong : "every answer is right";
}

/* Create the file that gpu_lineage waits for. */
static inline void say_started(void)
{
	const char *where = getenv("GPUCKPT_SELF");
	char path[300];

	if (!where)
		return;
	snprintf(path, sizeof path, "%s/started", where);
	close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
}

#endif
