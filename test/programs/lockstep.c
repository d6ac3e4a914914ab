/* SPDX-License-Identifier: Apache-2.0
 * lockstep ME ALL AGAIN: ALL processes count in turns. Each shows its count, as the text of the
 * symbolic link turnME (it holds no file that others change), and goes on when all others have
 * counted as far. So at each instant their counts are at most one apart. Once the file AGAIN
 * exists, as in a later start of the job, each prints its count and ends. It looks for AGAIN after
 * it has looked at the others and before it counts on: what it has read since a restart does not
 * count. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static long count;

static long count_of(long other)
{
	char name[40], text[40];
	ssize_t n;

	snprintf(name, sizeof name, "turn%ld", other);
	n = readlink(name, text, sizeof text - 1);
	text[n < 0 ? 0 : n] = '\0';
	return strtol(text, NULL, 10);
}

static int others_are_here(long me, long all)
{
	for (long i = 0; i < all; i++)
		if (i != me && count_of(i) < count)
			return 0;
	return 1;
}

/* Again, if a restart finds the new link gone or made. */
static void show(long me)
{
	char name[40], new[40], text[40];

	snprintf(name, sizeof name, "turn%ld", me);
	snprintf(new, sizeof new, "turn%ld.new", me);
	snprintf(text, sizeof text, "%ld", count);
	while (symlink(text, new) || rename(new, name))
		unlink(new);
}

int main(int argc, char **argv)
{
	const struct timespec moment = {0, 100000};
	long me, all;

	if (argc != 4)
		return 2;
	me = strtol(argv[1], NULL, 10);
	all = strtol(argv[2], NULL, 10);
	for (;;) {
		while (!others_are_here(me, all) && access(argv[3], F_OK))
			nanosleep(&moment, NULL);
		if (!access(argv[3], F_OK))
			break;
		count++;
		show(me);
	}
	printf("%ld\n", count);
	return 0;
}
