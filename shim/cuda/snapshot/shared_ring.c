/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "shim/cuda/snapshot/shared_ring.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "shim/cuda/real.h"

#define PAGE 4096

/* A ring that shrinks would kill the rank by SIGBUS. A child by fork must not share it. */
int gck_cuda_ring_map(struct gck_cuda_ring *r, int fd, struct gck_error *err)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;
	void *at;

	if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &st) || st.st_size <= 0 ||
	    (uint64_t)st.st_size % GCK_CUDA_RING_PART ||
	    (uint64_t)st.st_size / GCK_CUDA_RING_PART > GCK_CUDA_RING_PARTS)
		return gck_fail(err, EPROTO,
				"the agent's memory for device data is no sealed memfd of a "
				"multiple of %llu bytes",
				(unsigned long long)GCK_CUDA_RING_PART);
	at = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		return gck_fail(err, errno, "mapping the memory for device data: %s",
				strerror(errno));
	madvise(at, (size_t)st.st_size, MADV_DONTFORK);
	*r = (struct gck_cuda_ring){.at = at, .size = (uint64_t)st.st_size};
	return 0;
}

bool gck_cuda_ring_has(const struct gck_cuda_ring *r, uint64_t offset, uint64_t size)
{
	return offset % PAGE == 0 && size && size <= r->size && offset <= r->size - size;
}

CUresult gck_cuda_ring_use(struct gck_cuda_ring *r, uint64_t offset, uint64_t *size)
{
	uint64_t part = offset / GCK_CUDA_RING_PART,
		 left = (part + 1) * GCK_CUDA_RING_PART - offset;
	CUresult rc = CUDA_SUCCESS;

	if (!(r->registered >> part & 1))
		rc = gck_cuda_real.cuMemHostRegister_v2(r->at + part * GCK_CUDA_RING_PART,
				GCK_CUDA_RING_PART, CU_MEMHOSTREGISTER_PORTABLE);
	if (rc)
		return rc;
	r->registered |= 1ull << part;
	*size = *size < left ? *size : left;
	return CUDA_SUCCESS;
}

/* Addresses that stay registered are not used again. */
void gck_cuda_ring_end(struct gck_cuda_ring *r)
{
	bool stuck = false;

	for (uint64_t part = 0; part < GCK_CUDA_RING_PARTS; part++) {
		if (r->registered >> part & 1)
			stuck |= gck_cuda_real.cuMemHostUnregister(r->at +
								   part * GCK_CUDA_RING_PART) != 0;
	}
	if (r->at && stuck)
		mmap(r->at, r->size, PROT_NONE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	else if (r->at)
		munmap(r->at, r->size);
	*r = (struct gck_cuda_ring){.at = NULL};
}
