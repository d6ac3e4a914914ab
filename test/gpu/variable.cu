/* SPDX-License-Identifier: Apache-2.0
 * variable: a program with a `__managed__` variable, which the driver's checkpoint refuses. A
 * kernel and the CPU increment it in turns; "checked BAD" as in hold.cu. It ends when it is
 * killed. */
#include "driver.h"

__managed__ unsigned variable;

__global__ static void add(unsigned n)
{
	variable += n;
}

int main()
{
	gpu_init();
	for (unsigned i = 1;; i++) {
		add<<<1, 1>>>(2);
		MUST(cudaDeviceSynchronize());
		variable++;
		printf("checked %u\n", variable - 3 * i);
		fflush(stdout);
		usleep(50000);
	}
}
