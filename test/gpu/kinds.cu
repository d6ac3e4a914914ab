/* SPDX-License-Identifier: Apache-2.0 */
#include "kinds.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define SIDE 256

struct kinds kinds;

static struct {
	cudaArray_t array[2];
	cudaTextureObject_t texture[2];
	cudaSurfaceObject_t surface[2];
	cudaStream_t stream;
	cudaEvent_t before, after;
} picture;

__global__ static void count_up(unsigned *p)
{
	p[threadIdx.x]++;
}

/* ---- a picture ------------------------------------------------------------------------------ */

__global__ static void draw(cudaTextureObject_t from, cudaSurfaceObject_t to, unsigned k)
{
	int x = (int)(blockIdx.x * blockDim.x + threadIdx.x), y = (int)blockIdx.y;

	surf2Dwrite(tex2D<unsigned>(from, x, y) * 33 + (unsigned)x + k, to,
		    x * (int)sizeof(unsigned), y);
}

void kinds_make_picture(void)
{
	cudaChannelFormatDesc format = cudaCreateChannelDesc<unsigned>();
	static unsigned pixels[SIDE][SIDE];

	for (int i = 0; i < SIDE * SIDE; i++)
		pixels[i / SIDE][i % SIDE] = (unsigned)i;
	for (int i = 0; i < 2; i++) {
		cudaResourceDesc what = {};
		cudaTextureDesc how = {};

		MUST(cudaMallocArray(&picture.array[i], &format, SIDE, SIDE,
				     cudaArraySurfaceLoadStore));
		MUST(cudaMemcpy2DToArray(picture.array[i], 0, 0, pixels, sizeof pixels[0],
					 sizeof pixels[0], SIDE, cudaMemcpyHostToDevice));
		what.resType = cudaResourceTypeArray;
		what.res.array.array = picture.array[i];
		how.readMode = cudaReadModeElementType;
		MUST(cudaCreateTextureObject(&picture.texture[i], &what, &how, NULL));
		MUST(cudaCreateSurfaceObject(&picture.surface[i], &what));
	}
	MUST(cudaStreamCreateWithFlags(&picture.stream, cudaStreamNonBlocking));
	MUST(cudaEventCreate(&picture.before));
	MUST(cudaEventCreate(&picture.after));
}

void kinds_draw(unsigned i, cudaStream_t stream)
{
	float ms;

	if (i) {
		MUST(cudaEventSynchronize(picture.after));
		MUST(cudaEventElapsedTime(&ms, picture.before, picture.after));
		CHECK(ms >= 0);
	}
	MUST(cudaEventRecord(picture.before, stream));
	MUST(cudaStreamWaitEvent(picture.stream, picture.before, 0));
	draw<<<dim3(SIDE / 64, SIDE), 64, 0, picture.stream>>>(picture.texture[i % 2],
							       picture.surface[1 - i % 2], i);
	MUST(cudaEventRecord(picture.after, picture.stream));
	MUST(cudaStreamWaitEvent(stream, picture.after, 0));
}

unsigned kinds_picture_sum(void)
{
	static unsigned pixels[2][SIDE][SIDE];
	unsigned sum = 0;

	for (int i = 0; i < 2; i++)
		MUST(cudaMemcpy2DFromArray(pixels[i], sizeof pixels[i][0], picture.array[i], 0, 0,
					   sizeof pixels[i][0], SIDE, cudaMemcpyDeviceToHost));
	for (int i = 0; i < 2 * SIDE * SIDE; i++)
		sum = sum * 33 + pixels[i / (SIDE * SIDE)][i / SIDE % SIDE][i % SIDE];
	return sum;
}

/* ---- kinds of memory ------------------------------------------------------------------------ */

void kinds_make_pinned(void)
{
	int fd = memfd_create("pinned", MFD_CLOEXEC);

	CHECK(!ftruncate(fd, (off_t)kinds.pinned_bytes));
	MUST(cudaHostAlloc((void **)&kinds.pinned[0].words, kinds.pinned_bytes,
			   cudaHostAllocMapped));
	kinds.pinned[1].words = (volatile unsigned *)mmap(NULL, kinds.pinned_bytes,
							  PROT_READ | PROT_WRITE,
							  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	kinds.pinned[2].words = (volatile unsigned *)mmap(NULL, kinds.pinned_bytes,
							  PROT_READ | PROT_WRITE, MAP_SHARED, fd,
							  0);
	for (int i = 0; i < 3; i++) {
		memset((void *)kinds.pinned[i].words, 0, kinds.pinned_bytes);
		if (i)
			MUST(cudaHostRegister((void *)kinds.pinned[i].words, kinds.pinned_bytes,
					      cudaHostRegisterMapped));
		MUST(cudaHostGetDevicePointer((void **)&kinds.pinned[i].device,
					      (void *)kinds.pinned[i].words, 0));
	}
}

void kinds_make_mapped(void)
{
	CUmemAllocationProp prop = {};
	CUmemAccessDesc access = {};
	CUmemGenericAllocationHandle handle;

	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	access.location = prop.location;
	access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	MUST(cuMemAddressReserve((CUdeviceptr *)&kinds.mapped, 4 * KINDS_SIZE, 0, 0, 0));
	for (size_t at = 0; at < 2 * KINDS_SIZE; at += 4 * MIB) {
		MUST(cuMemCreate(&handle, 4 * MIB, &prop, 0));
		MUST(cuMemMap((CUdeviceptr)kinds.mapped + at, 4 * MIB, 0, handle, 0));
		MUST(cuMemRelease(handle));
	}
	MUST(cuMemSetAccess((CUdeviceptr)kinds.mapped, 2 * KINDS_SIZE, &access, 1));
	MUST(cudaMemset(kinds.mapped, 9, 2 * KINDS_SIZE));
}

void kinds_make_pool(void)
{
	MUST(cudaMallocAsync(&kinds.pool, KINDS_SIZE, NULL));
	MUST(cudaMemsetAsync(kinds.pool, 5, KINDS_SIZE, NULL));
}

/* Mixes each kind. Freed stream-ordered memory is allocated again. */
void kinds_use(unsigned i, cudaStream_t stream)
{
	unsigned *more;

	if (kinds.pool) {
		kinds_mix(kinds.pool, KINDS_SIZE, i, stream);
		MUST(cudaMallocAsync(&more, KINDS_SIZE, stream));
		MUST(cudaMemcpyAsync(more, kinds.pool, KINDS_SIZE, cudaMemcpyDeviceToDevice,
				     stream));
		kinds_mix(more, KINDS_SIZE, i, stream);
		MUST(cudaMemcpyAsync(kinds.pool, more, KINDS_SIZE, cudaMemcpyDeviceToDevice,
				     stream));
		MUST(cudaFreeAsync(more, stream));
	}
	if (kinds.mapped)
		kinds_mix(kinds.mapped, 2 * KINDS_SIZE, i, stream);
	for (int k = 0; kinds.pinned_bytes && k < 3; k++)
		count_up<<<1, 512, 0, stream>>>(kinds.pinned[k].device + KINDS_WORDS);
}

unsigned kinds_sum(const unsigned *p, size_t size)
{
	unsigned *copy = (unsigned *)malloc(size), sum = 0;

	MUST(cudaMemcpy(copy, p, size, cudaMemcpyDeviceToHost));
	for (size_t i = 0; i < size / sizeof *copy; i++)
		sum = sum * 33 + copy[i];
	free(copy);
	return sum;
}

bool kinds_counted(unsigned rounds)
{
	for (int k = 0; kinds.pinned_bytes && k < 3; k++)
		for (int i = 0; i < 512; i++)
			if (kinds.pinned[k].words[KINDS_WORDS + i] != rounds)
				return false;
	return true;
}
