/* SPDX-License-Identifier: Apache-2.0
 * Progress where there is no terminal: one line about what takes long. */
#include "config.h"

#include "coordinator/cli/progress.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "test/support/tap.h"

static time_t seconds; /* the test's clock */

int clock_gettime(clockid_t clock, struct timespec *now)
{
	(void)clock;
	*now = (struct timespec){.tv_sec = seconds};
	return 0;
}

static FILE *said; /* standard error */

/* What was said since the last call. */
static const char *heard(void)
{
	static char text[400];
	size_t n;

	fflush(stderr);
	n = fread(text, 1, sizeof text - 1, said);
	text[n] = '\0';
	clearerr(said);
	return text;
}

static void reads(struct progress *p, time_t at, uint64_t done)
{
	seconds = at;
	progress_tell(p, done, 200 << 20);
}

int main(void)
{
	struct progress first = {.what = "reading", .job = 7, .seq = 3, .kind = KIND_BYTES};
	struct progress second = first;
	char name[] = "/tmp/gck-progress-XXXXXX";
	int fd = mkstemp(name);

	said = fd < 0 ? NULL : fopen(name, "r");
	if (!said || dup2(fd, STDERR_FILENO) < 0)
		return !ok(false, "a file for standard error");
	unlink(name);
	reads(&first, 100, 0);
	reads(&first, 109, 90 << 20);
	is_str(heard(), "", "nothing is said for ten seconds");
	reads(&first, 110, 100 << 20);
	is_str(heard(), "gpuckpt: 7.0 checkpoint 3: reading 50% of 200M, 10.0M/s, 10s left\n",
	       "then one line has percent, size, rate and the time left");
	reads(&first, 119, 190 << 20);
	is_str(heard(), "", "and no other comes");
	second.seq = 2;
	reads(&second, 130, 0);
	reads(&second, 141, 100 << 20);
	ok(strstr(heard(), "checkpoint 2: reading") != NULL, "but one about the next work");
	progress_end();
	is_str(heard(), "", "there is no line to remove");
	return tap_done();
}
