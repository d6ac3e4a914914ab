/* SPDX-License-Identifier: Apache-2.0
 * A queue of work, by blocks that stay until it is empty. Each item is done once. */
#ifndef GCK_TEST_GPU_WORK_QUEUE_H
#define GCK_TEST_GPU_WORK_QUEUE_H

static __global__ void queue(unsigned *next, float *data, int items)
{
	__shared__ unsigned item;

	for (;;) {
#pragma gpuckpt point
		if (threadIdx.x == 0)
			item = atomicAdd(next, 1);
		__syncthreads();
		unsigned mine = item;
		__syncthreads();
		if (mine >= (unsigned)items)
			return;
		float v = data[mine * 256 + threadIdx.x];
		for (int k = 0; k < 500; k++)
			v = v * 1.0001f + 0.5f;
		data[mine * 256 + threadIdx.x] = v;
	}
}

#endif
