/* SPDX-License-Identifier: Apache-2.0
 * cuda_program_ptx KERNELS [refused]: PTX of a program, loaded in each way, reaches the driver as
 * the pass makes it for these kernels ("": as it is). refused: it has a kernel that the fake driver
 * does not take with points, so it reaches it as it is. */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim/cuda/test/program_ptx.h"
#include "shim/kernels/pass/points.h"
#include "test/support/tap.h"

static const char *shown; /* what the driver was given, in a file */
static char *wanted;

static void check(CUresult rc, const char *way)
{
	char text[16384] = "";
	FILE *in = fopen(shown, "r");

	if (in) {
		text[fread(text, 1, sizeof text - 1, in)] = '\0';
		fclose(in);
	}
	unlink(shown);
	ok(all_of(rc == CUDA_SUCCESS, !strcmp(text, wanted)), "%s", way);
}

static char *by_pass(const char *text, const char *kernels)
{
	struct gck_ptx *ptx = gck_ptx_read(text, strlen(text), NULL);
	char *made = NULL;
	size_t size;
	FILE *out = open_memstream(&made, &size);

	if (!ptx || !out || gck_points_write(ptx, kernels, out, NULL, NULL) || fclose(out))
		exit(99);
	gck_ptx_free(ptx);
	return made;
}

static void load(const char *text)
{
	CUjit_option option = CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES;
	void *value = (void *)100, *none = NULL;
	CUmodule module;
	CUlibrary library;

	check(cuModuleLoadData(&module, text), "cuModuleLoadData");
	check(cuModuleLoadDataEx(&module, text, 1, &option, &value), "cuModuleLoadDataEx");
	is_int((int)(intptr_t)value, 0, "the value of its option is the driver's");
	check(cuLibraryLoadData(&library, text, NULL, NULL, 0, NULL, NULL, 0) ? 1 :
	      cuLibraryGetModule(&module, library), "cuLibraryLoadData");
	check(cuLinkAddData(NULL, CU_JIT_INPUT_PTX, (void *)(uintptr_t)text, strlen(text) + 1, "x",
			    0, NULL, &none), "cuLinkAddData");
}

int main(int argc, char **argv)
{
	const char *text = argc > 2 ? GCK_TEST_PTX_REFUSED : GCK_TEST_PTX;
	CUcontext context;

	shown = getenv("FAKE_CUDA_PTX");
	if (argc < 2 || !shown || cuInit(0) || cuCtxCreate(&context, NULL, 0, 0))
		return 99;
	wanted = *argv[1] && argc == 2 ? by_pass(text, argv[1]) : strdup(text);
	ok(argc > 2 || !*argv[1] == !strstr(wanted, "$ckpt"), "kernels have points as wanted");
	load(text);
	free(wanted);
	return tap_done();
}
