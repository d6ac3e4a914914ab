/* SPDX-License-Identifier: Apache-2.0
 * MPI ranks that compute on GPUs: mpi_cuda ROUNDS MIB [PAUSE-US]. Each has a field of MIB MiB on
 * the device of its number on its node, mixes it, and sends a part of it to the next rank; every
 * tenth round all agree on a sum. Each prints a line with its results; rank 0 reports its progress
 * on stderr, and when the driver has another version. Half-way they continue to send, without an
 * effect on the results, while the folder GPUCKPT_SELF has a file "hold". There are two versions of
 * the kernel: for a GPU, and for the fake driver (test/support/driver). */
#include <cuda.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "shim/cuda/test/kernels.h"

#define EDGE 4096 /* words that are sent on */

static int rank, size;

static void must(CUresult rc, const char *call)
{
	if (rc == CUDA_SUCCESS)
		return;
	fprintf(stderr, "rank %d: %s: %d\n", rank, call, rc);
	MPI_Abort(MPI_COMM_WORLD, 3);
}
#define MUST(call) must(call, #call)

/* (address, words, k): one step of xorshift for each word, then k is added. */
static const char mix_ptx[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .entry mix(.param .u64 pp, .param .u64 pn, .param .u64 pk)\n{\n"
	".reg .pred %p;\n.reg .b32 %r<4>;\n.reg .b64 %a, %n, %k, %i, %x, %t;\n"
	"ld.param.u64 %a, [pp];\nld.param.u64 %n, [pn];\nld.param.u64 %k, [pk];\n"
	"cvta.to.global.u64 %a, %a;\n"
	"mov.u32 %r0, %ctaid.x;\nmov.u32 %r1, %ntid.x;\nmov.u32 %r2, %tid.x;\n"
	"mul.wide.u32 %i, %r0, %r1;\ncvt.u64.u32 %t, %r2;\nadd.u64 %i, %i, %t;\n"
	"setp.ge.u64 %p, %i, %n;\n@%p bra done;\n"
	"shl.b64 %t, %i, 3;\nadd.u64 %a, %a, %t;\nld.global.u64 %x, [%a];\n"
	"shl.b64 %t, %x, 13;\nxor.b64 %x, %x, %t;\n"
	"shr.u64 %t, %x, 7;\nxor.b64 %x, %x, %t;\n"
	"shl.b64 %t, %x, 17;\nxor.b64 %x, %x, %t;\n"
	"add.u64 %x, %x, %k;\nst.global.u64 [%a], %x;\n"
	"done:\nret;\n}\n";

KERNEL(mix, 3)
{
	uint64_t *at = (void *)(uintptr_t)*(uint64_t *)params[0];
	uint64_t n = *(uint64_t *)params[1], k = *(uint64_t *)params[2];

	(void)grid;
	for (uint64_t i = 0; i < n; i++) {
		uint64_t x = at[i];

		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		at[i] = x + k;
	}
}

static struct field {
	CUdeviceptr at;
	uint64_t words;
	CUfunction mix;
	CUstream stream;
	uint64_t *edge; /* pinned: words to send, then received words */
} field;

static void make_field(size_t mib)
{
	int devices, local = atoi(getenv("SLURM_LOCALID") ? getenv("SLURM_LOCALID") : "0");
	CUcontext context;
	CUmodule module;
	CUdevice device;

	MUST(cuInit(0));
	MUST(cuDeviceGetCount(&devices));
	MUST(cuDeviceGet(&device, local % devices));
	MUST(cuDevicePrimaryCtxRetain(&context, device));
	MUST(cuCtxSetCurrent(context));
	MUST(cuModuleLoadData(&module, mix_ptx));
	MUST(cuModuleGetFunction(&field.mix, module, "mix"));
	MUST(cuStreamCreate(&field.stream, CU_STREAM_NON_BLOCKING));
	MUST(cuMemAlloc(&field.at, mib << 20));
	MUST(cuMemAllocHost((void **)&field.edge, 2 * EDGE * sizeof(uint64_t)));
	field.words = (mib << 20) / sizeof(uint64_t);
	MUST(cuMemsetD32(field.at, (unsigned)rank + 1, (mib << 20) / 4));
	MUST(cuCtxSynchronize());
}

static void compute(uint64_t k)
{
	void *params[] = {&field.at, &field.words, &k};

	MUST(cuLaunchKernel(field.mix, (unsigned)((field.words + 255) / 256), 1, 1, 256, 1, 1, 0,
			    field.stream, params, NULL));
}

/* Send the end of the field to the next rank. */
static void hand_on(void)
{
	size_t bytes = EDGE * sizeof(uint64_t);
	int next = (rank + 1) % size, previous = (rank + size - 1) % size;

	MUST(cuMemcpyDtoHAsync(field.edge, field.at + field.words * 8 - bytes, bytes,
			       field.stream));
	MUST(cuStreamSynchronize(field.stream));
	MPI_Sendrecv(field.edge, EDGE, MPI_UINT64_T, next, 1, field.edge + EDGE, EDGE, MPI_UINT64_T,
		     previous, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* Put the received words at the beginning of the field. */
static void take_over(void)
{
	MUST(cuMemcpyHtoDAsync(field.at, field.edge + EDGE, EDGE * sizeof(uint64_t), field.stream));
}

static int is_held(void)
{
	char path[300];
	int held;

	snprintf(path, sizeof path, "%s/hold",
		 getenv("GPUCKPT_SELF") ? getenv("GPUCKPT_SELF") : "/nowhere");
	held = rank == 0 && !access(path, F_OK);
	MPI_Bcast(&held, 1, MPI_INT, 0, MPI_COMM_WORLD);
	return held;
}

static void tell_driver(void)
{
	static int told;
	int version = 0;

	MUST(cuDriverGetVersion(&version));
	if (rank == 0 && version != told)
		fprintf(stderr, "driver %d\n", version);
	told = version;
}

static uint64_t sum_of_field(void)
{
	uint64_t *copy = malloc(field.words * 8), sum = 0;

	MUST(cuMemcpyDtoH(copy, field.at, field.words * 8));
	for (uint64_t i = 0; i < field.words; i++)
		sum = sum * 33 + copy[i];
	free(copy);
	return sum;
}

int main(int argc, char **argv)
{
	uint64_t rounds = argc > 2 ? strtoull(argv[1], NULL, 10) : 0, agreed = 0;
	useconds_t pause = argc > 3 ? (useconds_t)atoi(argv[3]) : 0;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	if (!rounds)
		MPI_Abort(MPI_COMM_WORLD, 2);
	make_field(strtoull(argv[2], NULL, 10));
	for (uint64_t i = 0; i < rounds; i++) {
		compute(i + agreed);
		hand_on();
		while (i == rounds / 2 && is_held()) {
			hand_on();
			tell_driver();
			usleep(pause);
		}
		take_over();
		if (i % 10 == 0) {
			agreed += field.edge[0];
			MPI_Allreduce(MPI_IN_PLACE, &agreed, 1, MPI_UINT64_T, MPI_SUM,
				      MPI_COMM_WORLD);
		}
		if (i % 100 == 0 && rank == 0)
			fprintf(stderr, "step %llu\n", (unsigned long long)i);
		usleep(pause);
	}
	MUST(cuStreamSynchronize(field.stream));
	printf("rank %d: field %016llx, agreed %016llx\n", rank, (unsigned long long)sum_of_field(),
	       (unsigned long long)agreed);
	MPI_Finalize();
	return 0;
}
