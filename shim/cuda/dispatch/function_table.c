/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "shim/cuda/dispatch/function_table.h"
#include "shim/cuda/real.h"

#define MOST 1024 /* functions; the build fails below if the table has more */

static uint16_t by_address[MOST]; /* indices, sorted by the driver's function's address */
static size_t nby_address;
static const struct gck_cuda_real *driver;

static int compare_name(const void *name, const void *f)
{
	return strcmp(name, ((const struct gck_cuda_function *)f)->name);
}

const struct gck_cuda_function *gck_cuda_by_name(const char *name)
{
	return bsearch(name, gck_cuda_functions, gck_cuda_nfunctions, sizeof *gck_cuda_functions,
		       compare_name);
}

static size_t offset_of(const struct gck_cuda_function *f)
{
	return (size_t)((const char *)f->real - (const char *)&gck_cuda_real);
}

void **gck_cuda_member(struct gck_cuda_real *table, const struct gck_cuda_function *f)
{
	return (void **)(void *)((char *)table + offset_of(f));
}

static uintptr_t driver_address(size_t i)
{
	uintptr_t address;

	memcpy(&address, (const char *)driver + offset_of(&gck_cuda_functions[i]), sizeof address);
	return address;
}

static uintptr_t address(size_t i)
{
	return driver_address(by_address[i]);
}

static int compare_address(const void *a, const void *b)
{
	uintptr_t x = driver_address(*(const uint16_t *)a);
	uintptr_t y = driver_address(*(const uint16_t *)b);

	return (x > y) - (x < y);
}

void gck_cuda_table_sort(const struct gck_cuda_real *found)
{
	size_t n = 0;

	driver = found;
	for (size_t i = 0; i < gck_cuda_nfunctions && i < MOST; i++) {
		if (driver_address(i))
			by_address[n++] = (uint16_t)i;
	}
	qsort(by_address, n, sizeof *by_address, compare_address);
	nby_address = n;
}

const struct gck_cuda_function *gck_cuda_by_address(const void *real, const char *like)
{
	const struct gck_cuda_function *any = NULL;
	size_t low = 0, high = nby_address;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (address(middle) < (uintptr_t)real)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < nby_address && address(low) == (uintptr_t)real; low++) {
		any = &gck_cuda_functions[by_address[low]];
		if (!like || !strncmp(any->name, like, strlen(like)))
			return any;
	}
	return any;
}

/* "_v2", "_ptsz", "_v2_ptds", or nothing. */
static bool is_suffix(const char *s, bool *per_thread)
{
	if (s[0] == '_' && s[1] == 'v' && s[2] >= '0' && s[2] <= '9')
		s += 2 + strspn(s + 2, "0123456789");
	*per_thread = !strcmp(s, "_ptsz") || !strcmp(s, "_ptds");
	return *per_thread || !*s;
}

const struct gck_cuda_function *gck_cuda_by_version(const char *name, int version, int per_thread)
{
	const struct gck_cuda_function *best = NULL;
	bool best_per_thread = false;
	size_t n = strlen(name);

	for (size_t i = 0; i < gck_cuda_nfunctions; i++) {
		const struct gck_cuda_function *f = &gck_cuda_functions[i];
		bool pt;

		if (strncmp(f->name, name, n) || !is_suffix(f->name + n, &pt) ||
		    f->since > version || (pt && !per_thread))
			continue;
		if (!best || pt > best_per_thread ||
		    (pt == best_per_thread && f->since >= best->since)) {
			best = f;
			best_per_thread = pt;
		}
	}
	return best;
}
