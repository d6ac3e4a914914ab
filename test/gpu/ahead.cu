/* SPDX-License-Identifier: Apache-2.0
 * ahead sync|flow N MS ROUNDS: queues N kernels of MS milliseconds, then waits for them; flow: it
 * queues more at twice the rate at which they are done, and waits only at the end. Its last line is
 * the number of kernels that ran. */
#include "driver.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

static __global__ void spin(long long ns, int *count)
{
	long long now, end;

	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
	for (end = now + ns; now < end;)
		asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
	++*count;
}

int main(int argc, char **argv)
{
	bool sync = argc == 5 && !strcmp(argv[1], "sync");
	int *count, ran = -1;

	if (argc != 5 || cudaMalloc(&count, sizeof *count) || cudaMemset(count, 0, sizeof *count))
		return 2;
	gpu_say_started();
	for (int r = 0; r < atoi(argv[4]); r++) {
		for (int n = 0; n < atoi(argv[2]); n++) {
			spin<<<1, 1>>>(atoi(argv[3]) * 1000000ll, count);
			usleep(sync || r == 0 ? 0 : atoi(argv[3]) * 500);
		}
		if (sync && cudaDeviceSynchronize())
			return 1;
	}
	if (cudaMemcpy(&ran, count, sizeof ran, cudaMemcpyDeviceToHost))
		return 1;
	printf("%d kernels ran\n", ran);
	return 0;
}
