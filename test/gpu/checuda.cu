/* SPDX-License-Identifier: Apache-2.0
 * checuda MODULE handles N | MODULE matrix SIZE: programs of the driver API for gpu_lineage, like
 * those with which CheCUDA (Takizawa, Sato, Komatsu, Kobayashi, PDCAT 2009) was measured. MODULE is
 * checuda_module.cu, compiled.
 *
 *   handles  N streams, events, modules, arrays and pieces of memory
 *   matrix   products of two matrices, in stripes
 *
 * Its last line has a digest of the result. */
#include "papers.h"

#include <math.h>
#include <string.h>

#define TILE 16
#define WORDS 65536       /* of a piece of memory */
#define SIDE 64           /* of an array */
#define ROUNDS 100        /* of handles */
#define STRIPES 100       /* of a product */
#define PRODUCTS 2

static char *image;
static unsigned n;        /* the argument */
static unsigned long long sum;

static void load(const char *path)
{
	FILE *f = fopen(path, "re");

	image = (char *)calloc(1, 16 * MIB);
	CHECK(f && fread(image, 1, 16 * MIB, f) > 0);
	fclose(f);
}

static void add(const void *data, size_t bytes)
{
	const unsigned *words = (const unsigned *)data;

	for (size_t i = 0; i < bytes / sizeof *words; i++)
		sum += (words[i] ^ 0x9e3779b97f4a7c15ull) * (2 * i + 1);
}

static void all_rounds(void (*round)(unsigned), unsigned rounds)
{
	for (unsigned i = 0; i < rounds; i++) {
		round(i);
		MUST(cuCtxSynchronize());
		if (i == 1)
			gpu_say_started();
		paper_pause(rounds);
	}
}

/* ---- handles --------------------------------------------------------------------------------- */

static struct set {
	CUstream stream;
	CUevent event;
	CUmodule module;
	CUfunction count, work;
	CUarray array;
	CUdeviceptr memory;
} *sets;

static void make_set(struct set *s)
{
	CUDA_ARRAY_DESCRIPTOR shape = {SIDE, SIDE, CU_AD_FORMAT_UNSIGNED_INT32, 1};

	MUST(cuStreamCreate(&s->stream, CU_STREAM_NON_BLOCKING));
	MUST(cuEventCreate(&s->event, CU_EVENT_DISABLE_TIMING));
	MUST(cuModuleLoadData(&s->module, image));
	MUST(cuModuleGetFunction(&s->count, s->module, "count"));
	MUST(cuModuleGetFunction(&s->work, s->module, "work"));
	MUST(cuArrayCreate(&s->array, &shape));
	MUST(cuMemAlloc(&s->memory, WORDS * sizeof(unsigned)));
	MUST(cuMemsetD32(s->memory, (unsigned)(s - sets), WORDS));
}

/* All of an array, from the first words of the memory, or to the host. */
static CUDA_MEMCPY2D copy_of(const struct set *s)
{
	CUDA_MEMCPY2D copy;

	memset(&copy, 0, sizeof copy);
	copy.WidthInBytes = SIDE * sizeof(unsigned);
	copy.Height = SIDE;
	copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
	copy.srcDevice = s->memory;
	copy.srcPitch = copy.WidthInBytes;
	copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
	copy.dstArray = s->array;
	return copy;
}

/* Each stream waits for the event of the one before it. */
static void use_sets(unsigned)
{
	unsigned words = WORDS;

	for (struct set *s = sets; s < sets + n; s++) {
		void *arguments[] = {&s->memory, &words};
		CUDA_MEMCPY2D copy = copy_of(s);

		if (s > sets)
			MUST(cuStreamWaitEvent(s->stream, s[-1].event, 0));
		MUST(cuLaunchKernel(s->count, 1, 1, 1, 1, 1, 1, 0, s->stream, NULL, NULL));
		MUST(cuLaunchKernel(s->work, WORDS / THREADS, 1, 1, THREADS, 1, 1, 0, s->stream,
				    arguments, NULL));
		MUST(cuMemcpy2DAsync(&copy, s->stream));
		MUST(cuEventRecord(s->event, s->stream));
	}
}

static bool set_right(const struct set *s)
{
	static unsigned words[WORDS], pixels[SIDE * SIDE];
	CUDA_MEMCPY2D copy = copy_of(s);
	CUdeviceptr calls;
	unsigned called;

	MUST(cuModuleGetGlobal(&calls, NULL, s->module, "calls"));
	MUST(cuMemcpyDtoH(&called, calls, sizeof called));
	MUST(cuMemcpyDtoH(words, s->memory, sizeof words));
	copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
	copy.srcArray = s->array;
	copy.dstMemoryType = CU_MEMORYTYPE_HOST;
	copy.dstHost = pixels;
	copy.dstPitch = copy.srcPitch;
	MUST(cuMemcpy2D(&copy));
	add(words, sizeof words);
	return called == ROUNDS && !memcmp(words, pixels, sizeof pixels);
}

static bool handles(void)
{
	bool right = true;

	sets = (struct set *)calloc(n, sizeof *sets);
	for (struct set *s = sets; s < sets + n; s++)
		make_set(s);
	all_rounds(use_sets, ROUNDS);
	for (struct set *s = sets; s < sets + n; s++)
		right = set_right(s) && right;
	return right;
}

/* ---- products -------------------------------------------------------------------------------- */

static CUdeviceptr a, product[2];
static CUfunction multiply;

/* Rows with a sum of about 1. */
static float *matrix(unsigned seed)
{
	float *m = (float *)malloc((size_t)n * n * sizeof *m);

	for (size_t i = 0; i < (size_t)n * n; i++)
		m[i] = paper_noise(seed, (unsigned)i) * 2 / n;
	return m;
}

static CUdeviceptr on_device(float *m)
{
	CUdeviceptr p;

	MUST(cuMemAlloc(&p, (size_t)n * n * sizeof *m));
	MUST(cuMemcpyHtoD(p, m, (size_t)n * n * sizeof *m));
	free(m);
	return p;
}

static float *on_host(CUdeviceptr p)
{
	float *m = (float *)malloc((size_t)n * n * sizeof *m);

	MUST(cuMemcpyDtoH(m, p, (size_t)n * n * sizeof *m));
	return m;
}

static void multiply_stripe(unsigned i)
{
	unsigned tiles = n / TILE, stripe = (tiles + STRIPES - 1) / STRIPES;
	unsigned first = i % STRIPES * stripe, row = first * TILE;
	unsigned left = first < tiles ? tiles - first : 0;
	CUdeviceptr *from = &product[i / STRIPES % 2], *to = &product[1 - i / STRIPES % 2];
	void *arguments[] = {&a, from, to, &n, &row};

	if (left)
		MUST(cuLaunchKernel(multiply, tiles, left < stripe ? left : stripe, 1, TILE, TILE,
				    1, 0, NULL, arguments, NULL));
}

static bool product_right(const float *left, const float *from, const float *to)
{
	bool right = true;

	for (unsigned k = 0; k < 32; k++) {
		size_t i = paper_mix(k) % n, j = paper_mix(k + 100) % n;
		double want = 0;

		for (size_t m = 0; m < n; m++)
			want += (double)left[i * n + m] * from[m * n + j];
		right = right && fabs(want - to[i * n + j]) <= 1e-4 * want;
	}
	return right;
}

static bool products(void)
{
	float *left, *from, *to;
	CUmodule module;
	bool right;

	n = n / TILE * TILE;
	MUST(cuModuleLoadData(&module, image));
	MUST(cuModuleGetFunction(&multiply, module, "multiply"));
	a = on_device(matrix(0));
	product[0] = on_device(matrix(1));
	product[1] = on_device(matrix(2));
	all_rounds(multiply_stripe, PRODUCTS * STRIPES);
	left = on_host(a);
	from = on_host(product[(PRODUCTS - 1) % 2]);
	to = on_host(product[PRODUCTS % 2]);
	right = product_right(left, from, to);
	add(to, (size_t)n * n * sizeof *to);
	free(left);
	free(from);
	free(to);
	return right;
}

int main(int argc, char **argv)
{
	bool right;

	n = argc == 4 ? (unsigned)atoi(argv[3]) : 0;
	if (!n)
		return 2;
	load(argv[1]);
	gpu_init();
	right = !strcmp(argv[2], "matrix") ? products() : handles();
	printf("%s %u: %s, digest %016llx\n", argv[2], n, right ? "right" : "WRONG", sum);
	return !right;
}
