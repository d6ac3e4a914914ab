/* SPDX-License-Identifier: Apache-2.0
 * burn MIB STEPS MS [DIRTY [PART [BITS [HOLD]]]]: a process with MIB of memory, which it changes
 * depending on all its earlier state. Each step rewrites DIRTY percent of the pages (1), chosen at
 * random from the first PART percent (100), and waits MS milliseconds. BITS of each 64 bits are
 * noise at first (1 to 64; 64). After STEPS it continues while the file HOLD exists. It prints a
 * line every tenth step and a checksum of all memory at the end; both are the same in every run of
 * as many steps, also in an interrupted one. With BURN_UNTIL=FILE in the environment it does not
 * end before FILE exists, and does not wait after that. */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define WORDS 512 /* of 8 bytes in a page */

static uint64_t state = 88172645463325252u;

static uint64_t next(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static void step(uint64_t *memory, size_t pages, size_t dirty)
{
	for (size_t i = 0; i < dirty; i++) {
		uint64_t *page = memory + next() % pages * WORDS;

		for (size_t w = 0; w < WORDS; w += 8)
			page[w] = page[w] * 6364136223846793005u + state;
	}
}

static uint64_t checksum(const uint64_t *memory, size_t pages)
{
	uint64_t sum = state;

	for (size_t i = 0; i < pages * WORDS; i++)
		sum = (sum ^ memory[i]) * 1099511628211u;
	return sum;
}

int main(int argc, char **argv)
{
	if (argc < 4) {
		fprintf(stderr, "usage: burn MIB STEPS MS [DIRTY [PART [BITS [HOLD]]]]\n");
		return 2;
	}
	size_t pages = strtoul(argv[1], NULL, 10) * 256;
	unsigned long steps = strtoul(argv[2], NULL, 10), ms = strtoul(argv[3], NULL, 10);
	double percent = argc > 4 ? atof(argv[4]) : 1, part = argc > 5 ? atof(argv[5]) : 100;
	uint64_t noise = UINT64_MAX >> (64 - (argc > 6 ? atoi(argv[6]) : 64));
	const char *hold = argc > 7 ? argv[7] : "";
	const char *until = getenv("BURN_UNTIL");
	struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
	uint64_t *memory = aligned_alloc(4096, pages * 4096);

	if (!memory || !pages)
		return 1;
	for (size_t i = 0; i < pages * WORDS; i++)
		memory[i] = next() & noise;
	for (unsigned long i = 0; i < steps || access(hold, F_OK) == 0; i++) {
		step(memory, (size_t)(pages * part / 100), (size_t)(pages * percent / 100));
		if (i % 10 == 0) {
			printf("step %lu %016" PRIx64 "\n", i, state);
			fflush(stdout);
		}
		if (!until || access(until, F_OK))
			nanosleep(&pause, NULL);
	}
	while (until && access(until, F_OK))
		nanosleep(&pause, NULL);
	printf("sum %016" PRIx64 "\n", checksum(memory, pages));
	return 0;
}
