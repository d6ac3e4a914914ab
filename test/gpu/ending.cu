/* SPDX-License-Identifier: Apache-2.0
 * ending drained|restored: a program that returns from main while its second checkpoint is taken,
 * or as soon as it runs in a new process. Alone it returns at once. Before, it has freed its device
 * memory and only computes. */
#include "driver.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <unistd.h>

#define STALE 200000000l /* rounds of the main thread without a beat: the gate is closed */

static std::atomic<long> beats;

static __global__ void add(int *n)
{
	++*n;
}

static void beat()
{
	size_t available, total;

	while (!cudaMemGetInfo(&available, &total)) {
		beats++;
		usleep(100);
	}
}

/* Until the CUDA calls of the other thread have been held up for the second time. */
static void until_drained()
{
	for (int times = 0; times < 2; times++) {
		long seen = beats, rounds = 0;

		for (; rounds < STALE; rounds++) {
			if (beats != seen)
				rounds = 0;
			seen = beats;
		}
		while (times == 0 && beats == seen)
			;
	}
}

static void until_restored()
{
	for (int pid = gpu_pid(); gpu_pid() == pid;)
		;
}

int main(int argc, char **argv)
{
	int *n, host = 0;

	if (argc != 2 || cudaMalloc(&n, sizeof *n) || cudaMemset(n, 0, sizeof *n))
		return 2;
	add<<<1, 1>>>(n);
	if (cudaMemcpy(&host, n, sizeof host, cudaMemcpyDeviceToHost) || cudaFree(n))
		return 1;
	std::thread(beat).detach();
	gpu_say_started();
	if (getenv("GPUCKPT_SELF") && !strcmp(argv[1], "drained"))
		until_drained();
	else if (getenv("GPUCKPT_SELF"))
		until_restored();
	printf("%d\n", host);
	return 0;
}
