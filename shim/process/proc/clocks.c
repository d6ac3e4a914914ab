/* SPDX-License-Identifier: Apache-2.0
 * Clocks of another process. */
#include "config.h"

#include "shim/process/proc/clocks.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "shim/process/proc/procfs.h"

#define NS 1000000000ll

static int64_t read_clock(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * NS + t.tv_nsec;
}

int64_t gck_realtime(void)
{
	return read_clock(CLOCK_REALTIME);
}

/* What its namespace adds to the node's clock; a kernel without time namespaces adds nothing. */
static int64_t offset_of(int proc)
{
	char *text = gck_proc_read(proc, "timens_offsets", NULL, NULL);
	const char *at = text ? gck_proc_field(text, "monotonic") : NULL;
	long long s = 0, ns = 0;

	if (at && sscanf(at, "%lld %lld", &s, &ns) != 2)
		s = ns = 0;
	free(text);
	return s * NS + ns;
}

int64_t gck_monotonic_of(int proc)
{
	int self = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int64_t now = read_clock(CLOCK_MONOTONIC) + offset_of(proc);

	if (self >= 0) {
		now -= offset_of(self);
		close(self);
	}
	return now;
}
