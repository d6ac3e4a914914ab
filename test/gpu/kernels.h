/* SPDX-License-Identifier: Apache-2.0
 * Kernels with a point in their outer loop, for bench_points and named. The tests' programs run
 * each of them by its name. */
#ifndef GCK_TEST_GPU_KERNELS_H
#define GCK_TEST_GPU_KERNELS_H

#include <cooperative_groups.h>
#include <string.h>

#include "must_run.h"
#include "work_queue.h"

#define TILE 16

static __global__ void matrix(const float *a, const float *b, float *c, int n)
{
	__shared__ float x[TILE][TILE], y[TILE][TILE];
	int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
	float sum = 0;

	for (int t = 0; t < n; t += TILE) {
#pragma gpuckpt point
		x[threadIdx.y][threadIdx.x] = a[row * n + t + threadIdx.x];
		y[threadIdx.y][threadIdx.x] = b[(t + threadIdx.y) * n + column];
		__syncthreads();
		for (int k = 0; k < TILE; k++)
			sum += x[threadIdx.y][k] * y[k][threadIdx.x];
		__syncthreads();
	}
	c[row * n + column] = sum;
}

static __global__ void bodies(const float4 *p, float4 *a, int n)
{
	__shared__ float4 s[256];
	float4 me = p[blockIdx.x * blockDim.x + threadIdx.x], f = make_float4(0, 0, 0, 0);

	for (int t = 0; t < n; t += blockDim.x) {
#pragma gpuckpt point
		s[threadIdx.x] = p[t + threadIdx.x];
		__syncthreads();
		for (unsigned k = 0; k < blockDim.x; k++) {
			float x = s[k].x - me.x, y = s[k].y - me.y, z = s[k].z - me.z;
			float r = rsqrtf(x * x + y * y + z * z + 0.01f), w = s[k].w * r * r * r;

			f.x += x * w;
			f.y += y * w;
			f.z += z * w;
		}
		__syncthreads();
	}
	a[blockIdx.x * blockDim.x + threadIdx.x] = f;
}

static __global__ void monte(unsigned long long *hits, int rounds)
{
	unsigned r = blockIdx.x * blockDim.x + threadIdx.x + 1, n = 0;

	for (int i = 0; i < rounds; i++) {
#pragma gpuckpt point
		for (int k = 0; k < 64; k++) {
			float x, y;

			r = r * 1664525 + 1013904223;
			x = (r >> 8) * (1.0f / (1 << 24));
			r = r * 1664525 + 1013904223;
			y = (r >> 8) * (1.0f / (1 << 24));
			n += x * x + y * y < 1;
		}
	}
	atomicAdd(hits, n);
}

#define ORDER 64

/* Each block takes a matrix apart into a lower and an upper triangle. */
static __global__ void triangles(float *matrices, int rounds)
{
	__shared__ float m[ORDER][ORDER + 1];
	float *mine = matrices + (size_t)blockIdx.x * ORDER * ORDER;

	for (int r = 0; r < rounds; r++) {
		for (int i = threadIdx.x; i < ORDER * ORDER; i += blockDim.x)
			m[i / ORDER][i % ORDER] = mine[i] + (i / ORDER == i % ORDER ? 100 : 1);
		__syncthreads();
		for (int k = 0; k < ORDER - 1; k++) {
#pragma gpuckpt point
			for (int i = k + 1 + threadIdx.x; i < ORDER; i += blockDim.x)
				m[i][k] /= m[k][k];
			__syncthreads();
			for (int i = k + 1 + threadIdx.x / 16; i < ORDER; i += blockDim.x / 16)
				for (int j = k + 1 + threadIdx.x % 16; j < ORDER; j += 16)
					m[i][j] -= m[i][k] * m[k][j];
			__syncthreads();
		}
		for (int i = threadIdx.x; i < ORDER * ORDER; i += blockDim.x)
			mine[i] = m[i / ORDER][i % ORDER] * 1e-3f;
		__syncthreads();
	}
}

/* Seven points, along the third dimension. */
static __global__ void stencil(const float *from, float *to, int n)
{
	int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
	size_t plane = (size_t)n * n, at = (size_t)y * n + x;
	float below, here, above;

	if (x < 1 || y < 1 || x > n - 2 || y > n - 2)
		return;
	below = from[at];
	here = from[at + plane];
	for (int z = 1; z < n - 1; z++) {
#pragma gpuckpt point
		size_t i = at + z * plane;

		above = from[i + plane];
		to[i] = 0.4f * here + 0.1f * (below + above + from[i - 1] + from[i + 1] +
					      from[i - n] + from[i + n]);
		below = here;
		here = above;
	}
}

/* Five points; all blocks of the grid wait for each other in each round. */
static __global__ void jacobi(float *from, float *to, int n, int rounds)
{
	cooperative_groups::grid_group grid = cooperative_groups::this_grid();
	int step = gridDim.x * blockDim.x;

	for (int r = 0; r < rounds; r++) {
#pragma gpuckpt point
		for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n * n; i += step)
			if (i % n > 0 && i % n < n - 1 && i >= n && i < n * n - n)
				to[i] = 0.25f * (from[i - 1] + from[i + 1] + from[i - n] +
						 from[i + n]);
		grid.sync();
		float *t = from;
		from = to;
		to = t;
	}
}

#define ORDERS 1024 /* matrices */
#define SIDE 256
#define SQUARE 2048
#define PLATE 1024
#define PLATE_BLOCKS 132
#define STARS (1 << 15)
#define ITEMS (1 << 15)
#define KERNELS_BYTES ((size_t)256 << 20)

struct kernel {
	const char *name;
	const void *function;
	size_t blocks, threads; /* of the grid, of a block */
	/* With KERNELS_BYTES of the device, in the default stream. times: so often, or a launch of
	 * so many times the work, if the kernel has a loop for it. */
	void (*run)(char *memory, unsigned times);
};

static float *floats(char *memory)
{
	return (float *)(memory + 4096);
}

static void run_matrix(char *m, unsigned times)
{
	float *f = floats(m);

	for (; times; times--)
		matrix<<<dim3(SQUARE / TILE, SQUARE / TILE), dim3(TILE, TILE)>>>(
			f, f + SQUARE * SQUARE, f + 2 * SQUARE * SQUARE, SQUARE);
}

static void run_bodies(char *m, unsigned times)
{
	float4 *f = (float4 *)floats(m);

	for (; times; times--)
		bodies<<<STARS / 256, 256>>>(f, f + STARS, STARS);
}

static void run_monte(char *m, unsigned times)
{
	monte<<<1024, 256>>>((unsigned long long *)m, 500 * times);
}

static void run_queue(char *m, unsigned times)
{
	for (; times; times--) {
		MUST_RUN(cudaMemsetAsync(m + 8, 0, 4));
		queue<<<264, 256>>>((unsigned *)(m + 8), floats(m), ITEMS);
	}
}

static void run_triangles(char *m, unsigned times)
{
	triangles<<<ORDERS, 256>>>(floats(m), 8 * times);
}

static void run_stencil(char *m, unsigned times)
{
	float *f = floats(m), *g = f + SIDE * SIDE * SIDE;

	for (unsigned i = 0; i < times; i++)
		stencil<<<dim3(SIDE / 32, SIDE / 8), dim3(32, 8)>>>(i % 2 ? g : f, i % 2 ? f : g,
								    SIDE);
}

static void run_jacobi(char *m, unsigned times)
{
	float *f = floats(m), *g = f + PLATE * PLATE;
	int n = PLATE, rounds = 100 * times;
	void *arguments[] = { &f, &g, &n, &rounds };

	MUST_RUN(cudaLaunchCooperativeKernel((void *)jacobi, PLATE_BLOCKS, 256, arguments, 0, 0));
}

static const struct kernel all_kernels[] = {
	{ "matrix", (void *)matrix, SQUARE / TILE * (SQUARE / TILE), TILE * TILE, run_matrix },
	{ "bodies", (void *)bodies, STARS / 256, 256, run_bodies },
	{ "monte", (void *)monte, 1024, 256, run_monte },
	{ "queue", (void *)queue, 264, 256, run_queue },
	{ "triangles", (void *)triangles, ORDERS, 256, run_triangles },
	{ "stencil", (void *)stencil, SIDE / 32 * SIDE / 8, 256, run_stencil },
	{ "jacobi", (void *)jacobi, PLATE_BLOCKS, 256, run_jacobi },
};

#endif
