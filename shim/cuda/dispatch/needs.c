/* SPDX-License-Identifier: Apache-2.0
 * Which functions of the driver the program needs: a driver that is loaded in a restored process
 * may be of another version. The CUDA runtime asks for the addresses of all functions of its own
 * version as it begins, and does not ask again. */
#include <stdint.h>
#include <string.h>

#include "shim/cuda/base/state.h"
#include "shim/cuda/dispatch/dispatch.h"
#include "shim/cuda/dispatch/function_table.h"
#include "shim/cuda/dispatch/load.h"
#include "shim/cuda/real.h"

static unsigned char needed[sizeof(struct gck_cuda_real) / sizeof(void *)];
static char names[GCK_CUDA_FUNCTIONS_SIZE];

void gck_cuda_needs(const struct gck_cuda_function *f)
{
	__atomic_store_n(&needed[f - gck_cuda_functions], 1, __ATOMIC_RELAXED);
}

void gck_cuda_needs_name(const char *name)
{
	gck_cuda_needs(gck_cuda_by_name(name));
}

static size_t add(size_t at, const char *name)
{
	size_t n = strlen(name) + 1;

	if (n > sizeof names - at)
		return at;
	memcpy(names + at, name, n);
	return at + n;
}

void gck_cuda_needs_note(void)
{
	const char *name;
	size_t n = 0;

	for (size_t i = 0; i < gck_cuda_nfunctions; i++) {
		if (needed[i] && gck_cuda_has(*gck_cuda_functions[i].real))
			n = add(n, gck_cuda_functions[i].name);
	}
	for (unsigned i = 0; (name = gck_cuda_unknown_name(i)); i++)
		n = add(n, name);
	gck_cuda_state.functions = (uintptr_t)names;
	gck_cuda_state.functions_size = n;
}
