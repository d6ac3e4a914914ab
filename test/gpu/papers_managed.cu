/* SPDX-License-Identifier: Apache-2.0
 * Two solvers in managed memory, which CPU and GPU use in turns: conjugate gradients as in HYPRE,
 * multigrid as in HPGMG. papers.cu runs them. */
#include "papers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BLOCKS 512  /* of a sum: its order is the same each time */

static double *partial; /* the blocks' sums, which the CPU adds */

static void *managed(size_t bytes)
{
	void *p;

	MUST(cudaMallocManaged(&p, bytes));
	return p;
}

__device__ static void sum_of_block(double own, double *sums)
{
	__shared__ double part[THREADS];

	part[threadIdx.x] = own;
	for (unsigned n = THREADS / 2; n; n /= 2) {
		__syncthreads();
		if (threadIdx.x < n)
			part[threadIdx.x] += part[threadIdx.x + n];
	}
	if (!threadIdx.x)
		sums[blockIdx.x] = part[0];
}

static double sum_of_all(void)
{
	double sum = 0;

	MUST(cudaDeviceSynchronize());
	for (unsigned i = 0; i < BLOCKS; i++)
		sum += partial[i];
	return sum;
}

/* ---- conjugate gradients --------------------------------------------------------------------- */

#define WIDTH 7           /* entries of a row */
#define SHIFT 0.05        /* a step of time: its part of the diagonal */
#define ITERATIONS 100    /* of a system */
#define ITERATIONS_A_ROUND 5

static struct {
	size_t rows;
	unsigned n, system;
	double *value, *x, *b, *r, *z, *p, *q, rz;
	int *column;
} cg;

#define EACH_ROW(i, n) \
	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; \
	     i += (size_t)gridDim.x * blockDim.x)

/* A row's entries beside each other, the diagonal first. Conductivities are random, those of both
 * directions equal. */
__global__ static void make_rows(double *value, int *column, int n, size_t rows)
{
	EACH_ROW(i, rows) {
		int at[3] = {(int)(i % n), (int)(i / n % n), (int)(i / n / n)}, k = 1;
		double diagonal = SHIFT;

		for (int d = 0, step = 1; d < 3; d++, step *= n) {
			for (int side = -1; side <= 1; side += 2, k++) {
				bool there = at[d] + side >= 0 && at[d] + side < n;
				size_t low = side < 0 ? i - step : i;
				double v = there ? 0.1 + paper_noise(d, (unsigned)low) : 0;

				value[i * WIDTH + k] = -v;
				column[i * WIDTH + k] = (int)(there ? i + side * step : i);
				diagonal += v;
			}
		}
		value[i * WIDTH] = diagonal;
		column[i * WIDTH] = (int)i;
	}
}

/* q = A p, and the partial sums of p * q. */
__global__ static void apply(const double *value, const int *column, const double *p, double *q,
			     double *sums, size_t rows)
{
	double own = 0;

	EACH_ROW(i, rows) {
		double v = 0;

		for (int k = 0; k < WIDTH; k++)
			v += value[i * WIDTH + k] * p[column[i * WIDTH + k]];
		q[i] = v;
		own += p[i] * v;
	}
	sum_of_block(own, sums);
}

/* x += a p, r -= a q, z = r / diagonal, and the partial sums of r * z. */
__global__ static void advance(const double *value, double *x, double *r, double *z,
			       const double *p, const double *q, double a, double *sums,
			       size_t rows)
{
	double own = 0;

	EACH_ROW(i, rows) {
		x[i] += a * p[i];
		r[i] -= a * q[i];
		z[i] = r[i] / value[i * WIDTH];
		own += r[i] * z[i];
	}
	sum_of_block(own, sums);
}

__global__ static void turn(double *p, const double *z, double b, size_t rows)
{
	EACH_ROW(i, rows)
		p[i] = z[i] + b * p[i];
}

/* The partial sums of (b - q)^2. */
__global__ static void miss(const double *b, const double *q, double *sums, size_t rows)
{
	double own = 0;

	EACH_ROW(i, rows)
		own += (b[i] - q[i]) * (b[i] - q[i]);
	sum_of_block(own, sums);
}

/* The CPU makes the right-hand side; the GPU begins with x = 0. */
static void next_system(void)
{
	for (size_t i = 0; i < cg.rows; i++)
		cg.b[i] = paper_noise(cg.system + 10, (unsigned)i) - 0.5;
	cg.system++;
	MUST(cudaMemset(cg.x, 0, cg.rows * sizeof *cg.x));
	MUST(cudaMemset(cg.p, 0, cg.rows * sizeof *cg.p));
	MUST(cudaMemset(cg.q, 0, cg.rows * sizeof *cg.q));
	MUST(cudaMemcpy(cg.r, cg.b, cg.rows * sizeof *cg.r, cudaMemcpyDefault));
	advance<<<BLOCKS, THREADS>>>(cg.value, cg.x, cg.r, cg.z, cg.p, cg.q, 0, partial, cg.rows);
	cg.rz = sum_of_all();
	turn<<<BLOCKS, THREADS>>>(cg.p, cg.z, 0, cg.rows);
}

static unsigned cg_begin(unsigned size, unsigned times)
{
	double **const vectors[] = {&cg.x, &cg.b, &cg.r, &cg.z, &cg.p, &cg.q};

	cg.n = size;
	cg.rows = (size_t)size * size * size;
	partial = (double *)managed(BLOCKS * sizeof *partial);
	cg.value = (double *)managed(cg.rows * WIDTH * sizeof *cg.value);
	cg.column = (int *)managed(cg.rows * WIDTH * sizeof *cg.column);
	for (double **const *v = vectors; v < vectors + sizeof vectors / sizeof *vectors; v++)
		**v = (double *)managed(cg.rows * sizeof(double));
	make_rows<<<BLOCKS, THREADS>>>(cg.value, cg.column, (int)size, cg.rows);
	return (times + ITERATIONS_A_ROUND - 1) / ITERATIONS_A_ROUND;
}

static void iterate(void)
{
	double before = cg.rz, step;

	apply<<<BLOCKS, THREADS>>>(cg.value, cg.column, cg.p, cg.q, partial, cg.rows);
	step = before / sum_of_all();
	advance<<<BLOCKS, THREADS>>>(cg.value, cg.x, cg.r, cg.z, cg.p, cg.q, step, partial,
				     cg.rows);
	cg.rz = sum_of_all();
	turn<<<BLOCKS, THREADS>>>(cg.p, cg.z, cg.rz / before, cg.rows);
}

static void cg_round(unsigned i)
{
	if (i % (ITERATIONS / ITERATIONS_A_ROUND) == 0)
		next_system();
	for (int k = 0; k < ITERATIONS_A_ROUND; k++)
		iterate();
}

/* The length of b - A x, by that of b. Leaves A x in q. */
static double cg_miss(void)
{
	double square;

	apply<<<BLOCKS, THREADS>>>(cg.value, cg.column, cg.x, cg.q, partial, cg.rows);
	miss<<<BLOCKS, THREADS>>>(cg.b, cg.q, partial, cg.rows);
	square = sum_of_all();
	MUST(cudaMemset(cg.q, 0, cg.rows * sizeof *cg.q));
	miss<<<BLOCKS, THREADS>>>(cg.b, cg.q, partial, cg.rows);
	return sqrt(square / sum_of_all());
}

static bool cg_right(void)
{
	double missed = cg_miss();

	printf("# conjugate gradients: what is left of the last system: %.3g\n", missed);
	paper_digest(cg.x, cg.rows * sizeof *cg.x);
	paper_digest(cg.r, cg.rows * sizeof *cg.r);
	paper_digest(cg.p, cg.rows * sizeof *cg.p);
	return missed < 1e-3;
}

/* ---- multigrid ------------------------------------------------------------------------------- */

#define LEVELS 16
#define COARSE 16      /* cells on a side: from here on the CPU has the level */
#define SWEEPS 2
#define CYCLES 10      /* for a right-hand side */

static struct level {
	int n;               /* cells on a side */
	double *u, *f, *r;   /* solution, right-hand side, what is left */
} levels[LEVELS];
static int nlevels, vcycles;
static double first_left, left;

__host__ __device__ static size_t cells(const struct level *l)
{
	return (size_t)l->n * l->n * l->n;
}

/* The sum of the cells around one. On the border the solution is 0: a cell beyond it has the
 * negative value. */
__host__ __device__ static double around(const struct level *l, size_t i)
{
	size_t n = l->n, x = i % n, y = i / n % n, z = i / n / n;
	double own = -l->u[i];

	return (x ? l->u[i - 1] : own) + (x < n - 1 ? l->u[i + 1] : own) +
	       (y ? l->u[i - n] : own) + (y < n - 1 ? l->u[i + n] : own) +
	       (z ? l->u[i - n * n] : own) + (z < n - 1 ? l->u[i + n * n] : own);
}

/* How many sides of the cell are the border. */
__host__ __device__ static int walls(const struct level *l, size_t i)
{
	size_t n = l->n, x = i % n, y = i / n % n, z = i / n / n;

	return !x + (x == n - 1) + !y + (y == n - 1) + !z + (z == n - 1);
}

/* One cell of a red-black sweep; h is 1 / n. */
__host__ __device__ static void relax(const struct level *l, size_t i, int colour)
{
	size_t n = l->n;
	int border = walls(l, i);

	if ((int)((i % n + i / n % n + i / n / n) % 2) == colour)
		l->u[i] = (l->f[i] / ((double)n * n) + around(l, i) + border * l->u[i]) /
			  (6 + border);
}

__host__ __device__ static void leave(const struct level *l, size_t i)
{
	l->r[i] = l->f[i] - (6 * l->u[i] - around(l, i)) * ((double)l->n * l->n);
}

/* A coarse cell's right-hand side is what is left in its eight cells, on average. */
__host__ __device__ static void coarsen(const struct level *fine, const struct level *coarse,
					size_t i)
{
	size_t n = coarse->n, x = i % n, y = i / n % n, z = i / n / n, m = fine->n;
	double sum = 0;

	for (int k = 0; k < 8; k++)
		sum += fine->r[((2 * z + k / 4) * m + 2 * y + k / 2 % 2) * m + 2 * x + k % 2];
	coarse->f[i] = sum / 8;
	coarse->u[i] = 0;
}

__host__ __device__ static void refine(const struct level *fine, const struct level *coarse,
				       size_t i)
{
	size_t m = fine->n, n = coarse->n;

	fine->u[i] += coarse->u[(i / m / m / 2 * n + i / m % m / 2) * n + i % m / 2];
}

#define CELL (blockIdx.x * (size_t)blockDim.x + threadIdx.x)

__global__ static void gpu_relax(struct level l, int colour)
{
	if (CELL < cells(&l))
		relax(&l, CELL, colour);
}

__global__ static void gpu_leave(struct level l)
{
	if (CELL < cells(&l))
		leave(&l, CELL);
}

__global__ static void gpu_coarsen(struct level fine, struct level coarse)
{
	if (CELL < cells(&coarse))
		coarsen(&fine, &coarse, CELL);
}

__global__ static void gpu_refine(struct level fine, struct level coarse)
{
	if (CELL < cells(&fine))
		refine(&fine, &coarse, CELL);
}

__global__ static void gpu_begin(struct level l, unsigned seed)
{
	if (CELL >= cells(&l))
		return;
	l.f[CELL] = paper_noise(seed, (unsigned)CELL) - 0.5;
	l.u[CELL] = 0;
}

__global__ static void gpu_square(struct level l, double *sums)
{
	double own = 0;

	EACH_ROW(i, cells(&l))
		own += l.r[i] * l.r[i];
	sum_of_block(own, sums);
}

static bool of_cpu(const struct level *l)
{
	return l->n <= COARSE;
}

static void smooth(const struct level *l, int sweeps)
{
	for (int k = 0; k < 2 * sweeps; k++) {
		if (!of_cpu(l))
			gpu_relax<<<paper_blocks(cells(l)), THREADS>>>(*l, k % 2);
		for (size_t i = 0; of_cpu(l) && i < cells(l); i++)
			relax(l, i, k % 2);
	}
}

static void leave_all(const struct level *l)
{
	if (!of_cpu(l))
		gpu_leave<<<paper_blocks(cells(l)), THREADS>>>(*l);
	for (size_t i = 0; of_cpu(l) && i < cells(l); i++)
		leave(l, i);
}

/* Between a level of the GPU and one of the CPU the GPU does it. */
static void down(const struct level *fine, const struct level *coarse)
{
	if (!of_cpu(fine)) {
		gpu_coarsen<<<paper_blocks(cells(coarse)), THREADS>>>(*fine, *coarse);
		if (of_cpu(coarse))
			MUST(cudaDeviceSynchronize());
	}
	for (size_t i = 0; of_cpu(fine) && i < cells(coarse); i++)
		coarsen(fine, coarse, i);
}

static void up(const struct level *fine, const struct level *coarse)
{
	if (!of_cpu(fine))
		gpu_refine<<<paper_blocks(cells(fine)), THREADS>>>(*fine, *coarse);
	for (size_t i = 0; of_cpu(fine) && i < cells(fine); i++)
		refine(fine, coarse, i);
}

static void vcycle(void)
{
	const struct level *last = &levels[nlevels - 1], *l;

	for (l = levels; l < last; l++) {
		smooth(l, SWEEPS);
		leave_all(l);
		down(l, l + 1);
	}
	smooth(last, 10 * SWEEPS);
	while (l-- > levels) {
		up(l, l + 1);
		smooth(l, SWEEPS);
	}
}

static unsigned hpgmg_begin(unsigned size, unsigned times)
{
	partial = (double *)managed(BLOCKS * sizeof *partial);
	for (int n = 2 << size; n > 1 && nlevels < LEVELS; n /= 2) {
		struct level *l = &levels[nlevels++];

		l->n = n;
		l->u = (double *)managed(cells(l) * sizeof(double));
		l->f = (double *)managed(cells(l) * sizeof(double));
		l->r = (double *)managed(cells(l) * sizeof(double));
	}
	return times;
}

static double what_is_left(void)
{
	leave_all(levels);
	gpu_square<<<BLOCKS, THREADS>>>(levels[0], partial);
	return sqrt(sum_of_all());
}

static void hpgmg_round(unsigned i)
{
	if (i % CYCLES == 0) {
		gpu_begin<<<paper_blocks(cells(levels)), THREADS>>>(levels[0], i / CYCLES);
		first_left = what_is_left();
		vcycles = 0;
	}
	vcycle();
	vcycles++;
	left = what_is_left();
}

/* Each cycle leaves less than 0.4 of what was there. */
static bool hpgmg_right(void)
{
	printf("# multigrid: after %d cycles %.3g is left of %.3g\n", vcycles, left, first_left);
	paper_digest(levels[0].u, cells(levels) * sizeof(double));
	paper_digest(levels[0].r, cells(levels) * sizeof(double));
	return left < first_left * pow(0.4, vcycles);
}

const struct paper paper_hypre = {"hypre", 192, 1000, cg_begin, cg_round, cg_right};
const struct paper paper_hpgmg = {"hpgmg", 7, 200, hpgmg_begin, hpgmg_round, hpgmg_right};
