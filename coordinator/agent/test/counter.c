/* SPDX-License-Identifier: Apache-2.0
 * A rank for the tests. Two threads count, and one writes a line "rank count other" now and then.
 * It counts on after a restart if memory, registers, threads and the file's offset are restored.
 * counter FILE RANK [LIMIT]: at the limit it exits with status 3. COUNTER_KEEPS=PATH: it keeps
 * that file open for writing; +PATH: for appending; 2PATH: as its standard error. */
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static volatile unsigned long other;

static void *count(void *arg)
{
	(void)arg;
	for (;;) {
		other++;
		usleep(1000);
	}
	return NULL;
}

static void keep_open(const char *keeps)
{
	int how = keeps && *keeps == '+' ? O_APPEND : 0;
	bool in_place = keeps && *keeps == '2';

	if (in_place)
		close(2);
	if (keeps && open(keeps + (how || in_place), O_RDWR | O_CREAT | how, 0644) < 0)
		exit(2);
}

int main(int argc, char **argv)
{
	unsigned long n = 0, limit = argc > 3 ? strtoul(argv[3], NULL, 10) : 0;
	unsigned char *memory = malloc(8 << 20);
	pthread_t thread;
	int fd;

	if (argc < 3 || !memory)
		return 2;
	fd = open(argv[1], O_WRONLY | O_CREAT | O_APPEND, 0644);
	if (fd < 0 || pthread_create(&thread, NULL, count, NULL))
		return 2;
	keep_open(getenv("COUNTER_KEEPS"));
	while (!limit || n < limit) {
		n++;
		memory[n * 4096 % (1 << 17)] = (unsigned char)n;
		if (n % 5 == 0)
			dprintf(fd, "%s %lu %lu\n", argv[2], n, other);
		usleep(2000);
	}
	return 3;
}
