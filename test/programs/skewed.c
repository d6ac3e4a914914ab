/* SPDX-License-Identifier: Apache-2.0
 * A preloaded library: it adds the seconds in the file $SKEWED to each result of time(), with which
 * gpuckptd signs. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

time_t time(time_t *out)
{
	struct timespec now;
	long off = 0;
	FILE *f = fopen(getenv("SKEWED"), "re");

	if (f) {
		if (fscanf(f, "%ld", &off) != 1)
			off = 0;
		fclose(f);
	}
	clock_gettime(CLOCK_REALTIME, &now);
	now.tv_sec += off;
	if (out)
		*out = now.tv_sec;
	return now.tv_sec;
}
