/* SPDX-License-Identifier: Apache-2.0
 * papers NAME [time | SIZE TIMES]: one of the programs with which CRUM (Garg, Mohan, Sullivan,
 * Cooperman, CLUSTER 2018) was measured, for gpu_lineage:
 *
 *   lud SIZE TIMES        TIMES matrices of SIZE x SIZE are decomposed in tiles
 *   hotspot3d SIZE TIMES  TIMES steps of heat in SIZE x SIZE x 8 cells
 *   gaussian SIZE TIMES   TIMES systems of SIZE equations, column by column
 *   lavamd SIZE TIMES     TIMES steps of 100 particles in each of SIZE^3 boxes
 *   hypre SIZE TIMES      TIMES iterations of conjugate gradients, Jacobi as preconditioner, for
 *                         SIZE^3 unknowns in managed memory
 *   hpgmg SIZE TIMES      TIMES V-cycles of multigrid for 8 boxes of (2^SIZE)^3 cells in managed
 *                         memory; the CPU has the coarse levels
 *
 * It runs in rounds, between which it can pause. Its last line has a digest of the result, and says
 * whether that can be right. time: it prints how long the rounds take instead. Without SIZE and
 * TIMES hpgmg has 7 and 8 boxes, as in CRUM's repository (rohgarg/dmtcp-cuda, hpgmg.install:
 * "hpgmg-fv 7 8"), hotspot3d has the size of Rodinia's data, and the others take a few hundred MiB
 * and half a second. */
#include "papers.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static struct {
	unsigned n, times;       /* the arguments */
	float *a, *b, *c;
} run;

/* ---- the result ------------------------------------------------------------------------------ */

static unsigned long long *digest;

__global__ static void add_words(const unsigned *p, size_t n, unsigned long long *sum)
{
	unsigned long long own = 0;

	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
	     i += (size_t)gridDim.x * blockDim.x)
		own += (p[i] ^ 0x9e3779b97f4a7c15ull) * (2 * i + 1);
	atomicAdd(sum, own);
}

void paper_digest(const void *data, size_t bytes)
{
	add_words<<<256, THREADS>>>((const unsigned *)data, bytes / sizeof(unsigned), digest);
}

static float *take(size_t bytes)
{
	void *p;

	MUST(cudaMalloc(&p, bytes));
	return (float *)p;
}

/* Element (i, j) of the matrix with this seed. The diagonal dominates. */
__host__ __device__ static float element(unsigned seed, unsigned n, unsigned i, unsigned j)
{
	return paper_noise(seed, i * n + j) + (i == j ? (float)n : 0.0f);
}

__global__ static void make_matrix(float *a, unsigned n, unsigned seed)
{
	size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;

	if (i < (size_t)n * n)
		a[i] = element(seed, n, (unsigned)(i / n), (unsigned)(i % n));
}

/* ---- LU decomposition in tiles --------------------------------------------------------------- */

#define TILE 32
#define TILES_A_ROUND 16

__global__ static void diagonal_tile(float *a, unsigned n)
{
	__shared__ float t[TILE][TILE + 1];
	unsigned i = threadIdx.y, j = threadIdx.x;

	t[i][j] = a[i * (size_t)n + j];
	for (unsigned k = 0; k < TILE; k++) {
		__syncthreads();
		if (i > k && j == k)
			t[i][k] /= t[k][k];
		__syncthreads();
		if (i > k && j > k)
			t[i][j] -= t[i][k] * t[k][j];
	}
	a[i * (size_t)n + j] = t[i][j];
}

/* A block has one tile right of the diagonal's, or one below it: a thread each of its columns or
 * rows. */
__global__ static void border_tiles(float *a, unsigned n, unsigned rest)
{
	bool right = blockIdx.x < rest;
	size_t at = (right ? blockIdx.x + 1 : (blockIdx.x - rest + 1) * (size_t)n) * TILE;
	size_t next = right ? n : 1, own = right ? threadIdx.x : threadIdx.x * (size_t)n;
	float *x = a + at + own;
	__shared__ float t[TILE][TILE];

	for (unsigned i = 0; i < TILE; i++)
		t[i][threadIdx.x] = a[i * (size_t)n + threadIdx.x];
	__syncthreads();
	for (unsigned i = 0; i < TILE; i++) {
		float v = x[i * next];

		for (unsigned m = 0; m < i; m++)
			v -= x[m * next] * (right ? t[i][m] : t[m][i]);
		x[i * next] = right ? v : v / t[i][i];
	}
}

__global__ static void inner_tiles(float *a, unsigned n)
{
	size_t row = (blockIdx.y + 1) * TILE + threadIdx.y;
	size_t column = (blockIdx.x + 1) * TILE + threadIdx.x;
	__shared__ float left[TILE][TILE], top[TILE][TILE];
	float sum = 0;

	left[threadIdx.y][threadIdx.x] = a[row * n + threadIdx.x];
	top[threadIdx.y][threadIdx.x] = a[threadIdx.y * (size_t)n + column];
	__syncthreads();
	for (unsigned m = 0; m < TILE; m++)
		sum += left[threadIdx.y][m] * top[m][threadIdx.x];
	a[row * n + column] -= sum;
}

static unsigned lud_rounds_each(void)
{
	return (run.n / TILE + TILES_A_ROUND - 1) / TILES_A_ROUND;
}

static unsigned lud_begin(unsigned size, unsigned times)
{
	run.n = size / TILE * TILE;
	run.times = times;
	run.a = take((size_t)run.n * run.n * sizeof *run.a);
	return lud_rounds_each() * times;
}

static void lud_round(unsigned i)
{
	unsigned tiles = run.n / TILE, first = i % lud_rounds_each() * TILES_A_ROUND;
	dim3 tile(TILE, TILE);

	if (!first)
		make_matrix<<<paper_blocks((size_t)run.n * run.n), THREADS>>>(
			run.a, run.n, i / lud_rounds_each());
	for (unsigned k = first; k < first + TILES_A_ROUND && k < tiles; k++) {
		float *at = run.a + (size_t)k * TILE * (run.n + 1);
		unsigned rest = tiles - k - 1;

		diagonal_tile<<<1, tile>>>(at, run.n);
		if (rest) {
			border_tiles<<<2 * rest, TILE>>>(at, run.n, rest);
			inner_tiles<<<dim3(rest, rest), tile>>>(at, run.n);
		}
	}
}

/* Some elements of L times U are those of the matrix. */
static bool lud_right(void)
{
	size_t n = run.n, row_bytes = n * sizeof(float);
	float *row = (float *)malloc(row_bytes), *column = (float *)malloc(row_bytes);
	bool right = true;

	for (unsigned k = 0; k < 32; k++) {
		unsigned i = paper_mix(k) % n, j = paper_mix(k + 100) % n;
		double sum = 0, want = element(run.times - 1, n, i, j);

		MUST(cudaMemcpy(row, run.a + i * n, row_bytes, cudaMemcpyDefault));
		MUST(cudaMemcpy2D(column, sizeof(float), run.a + j, row_bytes, sizeof(float), n,
				  cudaMemcpyDefault));
		for (unsigned m = 0; m < i && m <= j; m++)
			sum += (double)row[m] * column[m];
		sum += i <= j ? column[i] : 0;
		right = right && fabs(sum - want) <= 1e-6 * (double)n;
	}
	free(row);
	free(column);
	paper_digest(run.a, n * row_bytes);
	return right;
}

/* ---- heat in three dimensions ---------------------------------------------------------------- */

#define LAYERS 8
#define AMBIENT 80.0f

__global__ static void heat_begin(float *heat, float *power, size_t n)
{
	size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;

	if (i >= n)
		return;
	heat[i] = 320 + 10 * paper_noise(1, (unsigned)i);
	power[i] = paper_noise(2, (unsigned)i) * 0.001f;
}

/* Through a border no heat flows, but the last layer has a sink. */
__global__ static void heat_step(const float *from, float *to, const float *power, int n)
{
	size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x, plane = (size_t)n * n;
	int x = (int)(i % n), y = (int)(i / n % n), z = (int)(i / plane);
	float own, sum = 0;

	if (i >= plane * LAYERS)
		return;
	own = from[i];
	sum += from[x ? i - 1 : i] + from[x < n - 1 ? i + 1 : i] - 2 * own;
	sum += from[y ? i - n : i] + from[y < n - 1 ? i + n : i] - 2 * own;
	sum += from[z ? i - plane : i] + from[z < LAYERS - 1 ? i + plane : i] - 2 * own;
	own += 0.12f * sum + power[i];
	to[i] = z == LAYERS - 1 ? own + 0.0001f * (AMBIENT - own) : own;
}

static unsigned steps_a_round;

static unsigned hotspot_begin(unsigned size, unsigned times)
{
	size_t n = (size_t)size * size * LAYERS;

	run.n = size;
	run.a = take(n * sizeof(float));
	run.b = take(n * sizeof(float));
	run.c = take(n * sizeof(float));
	steps_a_round = times < 200 ? 1 : times / 200;
	heat_begin<<<paper_blocks(n), THREADS>>>(run.a, run.b, n);
	return times / steps_a_round;
}

static void hotspot_round(unsigned)
{
	for (unsigned k = 0; k < steps_a_round; k++) {
		float *from = run.a;

		heat_step<<<paper_blocks((size_t)run.n * run.n * LAYERS), THREADS>>>(
			from, run.c, run.b, (int)run.n);
		run.a = run.c;
		run.c = from;
	}
}

static bool hotspot_right(void)
{
	size_t n = (size_t)run.n * run.n * LAYERS;
	float *all = (float *)malloc(n * sizeof *all);
	bool right = true;

	MUST(cudaMemcpy(all, run.a, n * sizeof *all, cudaMemcpyDefault));
	for (size_t i = 0; i < n; i++)
		right = right && all[i] >= AMBIENT && all[i] < 400;
	free(all);
	paper_digest(run.a, n * sizeof(float));
	return right;
}

/* ---- Gaussian elimination -------------------------------------------------------------------- */

#define COLUMNS_A_ROUND 64

__global__ static void factors_of(const float *a, float *factor, unsigned n, unsigned k)
{
	unsigned i = k + 1 + blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		factor[i] = a[i * (size_t)n + k] / a[k * (size_t)n + k];
}

__global__ static void eliminate(float *a, float *b, const float *factor, unsigned n, unsigned k)
{
	unsigned i = k + 1 + blockIdx.y, j = k + blockIdx.x * blockDim.x + threadIdx.x;

	if (j < n)
		a[i * (size_t)n + j] -= factor[i] * a[k * (size_t)n + j];
	if (j == k)
		b[i] -= factor[i] * b[k];
}

__global__ static void right_hand_side(float *b, unsigned n, unsigned seed)
{
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		b[i] = paper_noise(~seed, i);
}

static unsigned gaussian_rounds_each(void)
{
	return (run.n + COLUMNS_A_ROUND - 1) / COLUMNS_A_ROUND;
}

static unsigned gaussian_begin(unsigned size, unsigned times)
{
	run.n = size;
	run.times = times;
	run.a = take((size_t)size * size * sizeof(float));
	run.b = take(size * sizeof(float));
	run.c = take(size * sizeof(float));
	return gaussian_rounds_each() * times;
}

static void gaussian_round(unsigned i)
{
	unsigned n = run.n, k = i % gaussian_rounds_each() * COLUMNS_A_ROUND;
	unsigned seed = i / gaussian_rounds_each();

	if (!k) {
		make_matrix<<<paper_blocks((size_t)n * n), THREADS>>>(run.a, n, seed);
		right_hand_side<<<paper_blocks(n), THREADS>>>(run.b, n, seed);
	}
	for (unsigned end = k + COLUMNS_A_ROUND; k < end && k + 1 < n; k++) {
		factors_of<<<paper_blocks(n - k - 1), THREADS>>>(run.a, run.c, n, k);
		eliminate<<<dim3(paper_blocks(n - k), n - k - 1), THREADS>>>(run.a, run.b, run.c, n,
									     k);
	}
}

/* Some equations hold for the solution. */
static bool gaussian_right(void)
{
	size_t n = run.n;
	float *a = (float *)malloc(n * n * sizeof *a), *x = (float *)malloc(n * sizeof *x);
	bool right = true;

	MUST(cudaMemcpy(a, run.a, n * n * sizeof *a, cudaMemcpyDefault));
	MUST(cudaMemcpy(x, run.b, n * sizeof *x, cudaMemcpyDefault));
	for (size_t i = n; i-- > 0;) {
		double sum = x[i];

		for (size_t j = i + 1; j < n; j++)
			sum -= (double)a[i * n + j] * x[j];
		x[i] = (float)(sum / a[i * n + i]);
	}
	for (unsigned k = 0; k < 32; k++) {
		unsigned i = paper_mix(k) % n;
		double sum = -paper_noise(~(run.times - 1), i);

		for (unsigned j = 0; j < n; j++)
			sum += (double)element(run.times - 1, run.n, i, j) * x[j];
		right = right && fabs(sum) <= 1e-4;
	}
	free(a);
	free(x);
	paper_digest(run.a, n * n * sizeof *a);
	paper_digest(run.b, n * sizeof *x);
	return right;
}

/* ---- particles in boxes ---------------------------------------------------------------------- */

#define PARTICLES 100 /* of a box */
#define BOX_THREADS 128

struct particle {
	double x, y, z, charge;
};

static struct particle *particles, *forces;
static unsigned slices; /* of a step: a round is one */

__global__ static void place(struct particle *p, unsigned n)
{
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x, box = i / PARTICLES;

	if (i >= n * n * n * PARTICLES)
		return;
	p[i].x = box % n + paper_noise(1, i);
	p[i].y = box / n % n + paper_noise(2, i);
	p[i].z = box / (n * n) + paper_noise(3, i);
	p[i].charge = 0.1 + paper_noise(4, i);
}

__device__ static void pull(const struct particle *on, const struct particle *by,
			    struct particle *force)
{
	double x = on->x - by->x, y = on->y - by->y, z = on->z - by->z;
	double v = by->charge * exp(-0.5 * (x * x + y * y + z * z));

	force->charge += v;
	force->x += v * x;
	force->y += v * y;
	force->z += v * z;
}

/* A block has a box, and looks at those around it one after the other. */
__global__ static void interact(const struct particle *p, struct particle *force, int n, int z)
{
	int x = (int)blockIdx.x, y = (int)blockIdx.y, i = (int)threadIdx.x;
	size_t own = (size_t)((z * n + y) * n + x) * PARTICLES + i;
	struct particle sum = {0, 0, 0, 0}, at = {0, 0, 0, 0};
	__shared__ struct particle other[PARTICLES];

	if (i < PARTICLES)
		at = p[own];
	for (int k = 0; k < 27; k++) {
		int ox = x + k % 3 - 1, oy = y + k / 3 % 3 - 1, oz = z + k / 9 - 1;

		if (ox < 0 || oy < 0 || oz < 0 || ox >= n || oy >= n || oz >= n)
			continue;
		__syncthreads();
		if (i < PARTICLES)
			other[i] = p[(size_t)((oz * n + oy) * n + ox) * PARTICLES + i];
		__syncthreads();
		for (int m = 0; i < PARTICLES && m < PARTICLES; m++)
			pull(&at, &other[m], &sum);
	}
	if (i < PARTICLES)
		force[own] = sum;
}

__global__ static void move(struct particle *p, const struct particle *force, unsigned n)
{
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i >= n)
		return;
	p[i].x += 1e-6 * force[i].x;
	p[i].y += 1e-6 * force[i].y;
	p[i].z += 1e-6 * force[i].z;
}

static unsigned lavamd_begin(unsigned size, unsigned times)
{
	size_t n = (size_t)size * size * size * PARTICLES;

	run.n = slices = size;
	particles = (struct particle *)take(n * sizeof *particles);
	forces = (struct particle *)take(n * sizeof *forces);
	place<<<paper_blocks(n), THREADS>>>(particles, size);
	return slices * times;
}

static void lavamd_round(unsigned i)
{
	unsigned n = run.n * run.n * run.n * PARTICLES;

	interact<<<dim3(run.n, run.n), BOX_THREADS>>>(particles, forces, (int)run.n,
						      (int)(i % slices));
	if (i % slices == slices - 1)
		move<<<paper_blocks(n), THREADS>>>(particles, forces, n);
}

/* Each particle is about where it was, and what pulls at it is of the order that it must be. */
static bool lavamd_right(void)
{
	size_t n = (size_t)run.n * run.n * run.n * PARTICLES;
	struct particle *p = (struct particle *)malloc(n * sizeof *p);
	struct particle *f = (struct particle *)malloc(n * sizeof *f);
	bool right = true;

	MUST(cudaMemcpy(p, particles, n * sizeof *p, cudaMemcpyDefault));
	MUST(cudaMemcpy(f, forces, n * sizeof *f, cudaMemcpyDefault));
	for (size_t i = 0; i < n; i++) {
		double x = (double)(i / PARTICLES % run.n) + paper_noise(1, (unsigned)i);

		right = right && fabs(p[i].x - x) < 0.1 && f[i].charge > 10 && f[i].charge < 2000;
	}
	free(p);
	free(f);
	paper_digest(particles, n * sizeof *p);
	paper_digest(forces, n * sizeof *f);
	return right;
}

/* ---- all ------------------------------------------------------------------------------------- */

static const struct paper papers[] = {
	{"lud", 8192, 6, lud_begin, lud_round, lud_right},
	{"hotspot3d", 512, 50000, hotspot_begin, hotspot_round, hotspot_right},
	{"gaussian", 8192, 1, gaussian_begin, gaussian_round, gaussian_right},
	{"lavamd", 40, 6, lavamd_begin, lavamd_round, lavamd_right},
};

static const struct paper *find(const char *name)
{
	for (size_t i = 0; i < sizeof papers / sizeof papers[0]; i++)
		if (!strcmp(papers[i].name, name))
			return &papers[i];
	if (!strcmp(name, paper_hypre.name))
		return &paper_hypre;
	return !strcmp(name, paper_hpgmg.name) ? &paper_hpgmg : NULL;
}

static void run_all(const struct paper *p, unsigned rounds)
{
	for (unsigned i = 0; i < rounds; i++) {
		p->round(i);
		MUST(cudaGetLastError());
		MUST(cudaDeviceSynchronize());
		if (i == rounds / 50)
			gpu_say_started();
		paper_pause(rounds);
	}
}

/* The last line; false: the result cannot be right. */
static bool say_result(const struct paper *p, unsigned size, unsigned times)
{
	bool right = p->right();
	unsigned long long sum;

	MUST(cudaMemcpy(&sum, digest, sizeof sum, cudaMemcpyDefault));
	printf("%s %u %u: %s, digest %016llx\n", p->name, size, times, right ? "right" : "WRONG",
	       sum);
	return right;
}

int main(int argc, char **argv)
{
	const struct paper *p = argc > 1 ? find(argv[1]) : NULL;
	bool timed = argc == 3 && !strcmp(argv[2], "time");
	unsigned size, times;
	char name[64];
	double start;

	if (!p)
		return 2;
	size = argc == 4 ? (unsigned)atoi(argv[2]) : p->size;
	times = argc == 4 ? (unsigned)atoi(argv[3]) : p->times;
	gpu_init();
	MUST(cudaMalloc((void **)&digest, sizeof *digest));
	MUST(cudaMemset(digest, 0, sizeof *digest));
	start = gpu_ms();
	run_all(p, p->begin(size, times));
	snprintf(name, sizeof name, "%s_run", p->name);
	if (timed)
		gpu_figure(name, gpu_ms() - start, "ms");
	return timed || say_result(p, size, times) ? 0 : 1;
}
