// SPDX-License-Identifier: Apache-2.0
// The module of checuda.cu.
#define TILE 16

__device__ unsigned calls;

extern "C" __global__ void count()
{
	calls++;
}

extern "C" __global__ void work(unsigned *p, unsigned n)
{
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		p[i] = (p[i] ^ calls) * 0x9e3779b1u + i;
}

// The rows from `first` on of c = a b, all of n x n.
extern "C" __global__ void multiply(const float *a, const float *b, float *c, unsigned n,
				    unsigned first)
{
	size_t row = first + blockIdx.y * TILE + threadIdx.y;
	size_t column = blockIdx.x * TILE + threadIdx.x;
	__shared__ float left[TILE][TILE], top[TILE][TILE];
	float sum = 0;

	for (unsigned k = 0; k < n; k += TILE) {
		left[threadIdx.y][threadIdx.x] = a[row * n + k + threadIdx.x];
		top[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * (size_t)n + column];
		__syncthreads();
		for (unsigned m = 0; m < TILE; m++)
			sum += left[threadIdx.y][m] * top[m][threadIdx.x];
		__syncthreads();
	}
	c[row * n + column] = sum;
}
