/* SPDX-License-Identifier: Apache-2.0
 * cuda_asker DIR: a rank with device memory that asks for a checkpoint as asker.f90 does. Its
 * memory must be unchanged when the call returns. */
#include <cuda.h>
#include <gpuckpt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SIZE ((size_t)8 << 20)

static unsigned char host[SIZE];

static const char *path(const char *dir, const char *name)
{
	static char text[4096];

	snprintf(text, sizeof text, "%s/%s", dir, name);
	return text;
}

static int has(CUdeviceptr at, unsigned char byte)
{
	if (cuMemcpyDtoH(host, at, SIZE))
		return 0;
	for (size_t i = 0; i < SIZE; i++) {
		if (host[i] != byte)
			return 0;
	}
	return 1;
}

int main(int argc, char **argv)
{
	CUcontext context;
	CUdeviceptr at;
	int result;
	FILE *f;

	if (argc != 2 || cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) ||
	    cuCtxSetCurrent(context) || cuMemAlloc(&at, SIZE) || cuMemsetD8(at, 0x5a, SIZE) ||
	    cuCtxSynchronize())
		return 2;
	result = gck_checkpoint();
	f = fopen(path(argv[1], "results"), "a");
	if (!f)
		return 3;
	fprintf(f, "%d %s\n", result, has(at, 0x5a) ? gck_checkpoint_error() : "its data are lost");
	fclose(f);
	while (access(path(argv[1], "end"), F_OK))
		usleep(100000);
	return 0;
}
