/* SPDX-License-Identifier: Apache-2.0
 * ending drained|restored: a program that returns from main while its second checkpoint is taken,
 * or as soon as it runs in a new process. Alone it returns at once. Before, it has freed its device
 * memory and only computes. (No thread calls CUDA through exit(): then the driver itself ends one
 * run in sixty by SIGSEGV.) */
#include "driver.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <unistd.h>

static __global__ void add(int *n)
{
	++*n;
}

static bool drained(void)
{
	static const std::string said = std::string(getenv("GPUCKPT_SELF")) + "/drained";

	return access(said.c_str(), F_OK) == 0;
}

/* Until gpu_lineage has drained it for the second time. */
static void until_drained(void)
{
	while (!drained())
		;
	while (drained())
		;
	while (!drained())
		;
}

static void until_restored(void)
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
	gpu_say_started();
	if (getenv("GPUCKPT_SELF") && !strcmp(argv[1], "drained"))
		until_drained();
	else if (getenv("GPUCKPT_SELF"))
		until_restored();
	printf("%d\n", host);
	return 0;
}
