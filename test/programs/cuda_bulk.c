/* SPDX-License-Identifier: Apache-2.0
 * cuda_bulk MIB ROUNDS DIR: MIB of device memory in blocks, on all devices in turn. A part of it
 * changes in each round. Prints the sum of all memory after the last round. Half-way it continues
 * while DIR/hold exists, and obeys files, which it removes: DIR/dirty: change every page group
 * of 256 KiB, in words that the sum leaves out; DIR/some: change a twentieth of them, next to each
 * other; DIR/grow: allocate all memory that one device has free, free it, and write its size to
 * DIR/grown; DIR/queue: give a device 3 s of work, and make DIR/queued. */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCKS 4
#define PAGE_GROUP (256u << 10)
#define STEP ((size_t)32 << 20)
#define STEPS_MAX 4096
#define QUEUED 30
#define WORK_US 100000

static const char *dir;
static CUdeviceptr blocks[BLOCKS];
static size_t size; /* of a block */
static unsigned long long part[STEP / sizeof(unsigned long long)]; /* of one, in host memory */
static CUcontext contexts[BLOCKS]; /* of devices */
static int devices;

#define CHECK(call) check(call, #call)

static void check(CUresult rc, const char *call)
{
	if (rc == CUDA_SUCCESS)
		return;
	printf("%s: %d\n", call, rc);
	fflush(stdout);
	_exit(3);
}

static const char *path(const char *name)
{
	static char text[4096];

	snprintf(text, sizeof text, "%s/%s", dir, name);
	return text;
}

static void say(const char *name, unsigned long long n)
{
	FILE *f = fopen(path(name), "w");

	if (f) {
		fprintf(f, "%llu\n", n);
		fclose(f);
	}
}

/* The sum leaves out the first word of each page group. */
static void make_dirty(size_t bytes)
{
	static unsigned long long times;

	times++;
	for (unsigned b = 0; b < BLOCKS; b++)
		for (size_t at = 0; at < bytes; at += PAGE_GROUP)
			CHECK(cuMemcpyHtoD(blocks[b] + at, &times, sizeof times));
	say("dirtied", times);
}

static void grow(void)
{
	static CUdeviceptr more[STEPS_MAX];
	size_t n = 0;

	while (n < STEPS_MAX && cuMemAlloc(&more[n], STEP) == CUDA_SUCCESS)
		n++;
	say("grown", n);
	while (n > 0)
		CHECK(cuMemFree(more[--n]));
}

static void work(void *unused)
{
	(void)unused;
	usleep(WORK_US);
}

static void queue(void)
{
	for (int i = 0; i < QUEUED; i++)
		CHECK(cuLaunchHostFunc(NULL, work, NULL));
	say("queued", QUEUED);
}

static void obey(void)
{
	if (unlink(path("dirty")) == 0)
		make_dirty(size);
	if (unlink(path("some")) == 0)
		make_dirty(size / 20);
	if (unlink(path("grow")) == 0)
		grow();
	if (unlink(path("queue")) == 0)
		queue();
}

static size_t part_of(size_t at)
{
	return size - at < sizeof part ? size - at : sizeof part;
}

static void fill(unsigned b)
{
	unsigned long long x = b + 1;

	CHECK(cuCtxSetCurrent(contexts[b % (unsigned)devices]));
	CHECK(cuMemAlloc(&blocks[b], size));
	for (size_t at = 0; at < size; at += sizeof part) {
		for (size_t i = 0; i < part_of(at) / sizeof x; i++) {
			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			part[i] = x;
		}
		CHECK(cuMemcpyHtoD(blocks[b] + at, part, part_of(at)));
	}
}

static unsigned long long sum_of(unsigned b)
{
	unsigned long long all = 0;

	for (size_t at = 0; at < size; at += sizeof part) {
		size_t first = at / sizeof *part;

		CHECK(cuMemcpyDtoH(part, blocks[b] + at, part_of(at)));
		for (size_t i = 0; i < part_of(at) / sizeof *part; i++)
			all += i * sizeof *part % PAGE_GROUP ? part[i] * (first + i + b) : 0;
	}
	return all;
}

/* A word of the first block. */
static void change(unsigned long long round)
{
	CUdeviceptr at = blocks[0] + 8 + round % 1000 * 8;
	unsigned long long x;

	CHECK(cuMemcpyDtoH(&x, at, sizeof x));
	x = x * 3 + round;
	CHECK(cuMemcpyHtoD(at, &x, sizeof x));
}

int main(int argc, char *argv[])
{
	unsigned long long rounds = argc == 4 ? strtoull(argv[2], NULL, 10) : 0, sum = 0;

	if (!rounds)
		return 2;
	dir = argv[3];
	size = (strtoull(argv[1], NULL, 10) << 20) / BLOCKS;
	CHECK(cuInit(0));
	CHECK(cuDeviceGetCount(&devices));
	devices = devices < BLOCKS ? devices : BLOCKS;
	for (int i = 0; i < devices; i++)
		CHECK(cuDevicePrimaryCtxRetain(&contexts[i], i));
	for (unsigned b = 0; b < BLOCKS; b++)
		fill(b);
	say("started", 1);
	for (unsigned long long i = 0; i < rounds; i++) {
		change(i);
		while (i == rounds / 2 && access(path("hold"), F_OK) == 0) {
			obey();
			usleep(5000);
		}
		usleep(1000);
	}
	for (unsigned b = 0; b < BLOCKS; b++)
		sum += sum_of(b);
	printf("sum %llu\n", sum);
	return 0;
}
