/* SPDX-License-Identifier: Apache-2.0
 * cuda_program_ptx KERNELS [refused]: PTX of a program, loaded in each way, reaches the driver as
 * the pass makes it for these kernels ("": as it is). refused: it has a kernel that the fake driver
 * does not take with points, so it reaches it as it is. */
#include <cuda.h>
#include <stdint.h>
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

/* ---- fatbins -------------------------------------------------------------------------------- */

/* One with a text (shim/kernels/ptx/fatbin.c). */
struct fatbin {
	uint32_t magic;
	uint16_t version, head_size;
	uint64_t entries_size;
	uint16_t kind, unknown;
	uint32_t entry_size;
	uint64_t content_size;
	uint32_t unused[3], capability, unused2[8];
	char text[4096];
};

struct wrapper {
	uint32_t magic, version;
	const void *fatbin, *unused;
};

static struct fatbin fatbin_of(const char *text)
{
	struct fatbin f = {.magic = 0xba55ed50, .version = 1, .head_size = 16,
			   .entries_size = sizeof f - 16, .kind = 1, .entry_size = 64,
			   .content_size = sizeof f.text, .capability = 80};

	snprintf(f.text, sizeof f.text, "%s", text);
	return f;
}

static const char *file_of(const struct fatbin *fatbin)
{
	static char path[4096];
	FILE *out;

	snprintf(path, sizeof path, "%s.fatbin", shown);
	out = fopen(path, "w");
	if (!out || fwrite(fatbin, sizeof *fatbin, 1, out) != 1 || fclose(out))
		exit(99);
	return path;
}

/* ---- each way of loading -------------------------------------------------------------------- */

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

/* A library whose image stays in memory: what is made of it does not. */
static void load_preserved(const char *text)
{
	CUlibraryOption option = CU_LIBRARY_BINARY_IS_PRESERVED;
	void *value = (void *)1;
	CUmodule module;
	CUlibrary library;

	check(cuLibraryLoadData(&library, text, NULL, NULL, 0, &option, &value, 1) ? 1 :
	      cuLibraryGetModule(&module, library), "cuLibraryLoadData of an image that stays");
}

/* The fake driver reads neither files nor fatbins. */
static void load_others(const char *text)
{
	struct fatbin fatbin = fatbin_of(text);
	const char *path = file_of(&fatbin);
	void *none = NULL;
	CUmodule module;
	CUlibrary library;

	check(cuModuleLoadData(&module, &fatbin), "cuModuleLoadData of a fatbin");
	check(cuModuleLoadFatBinary(&module, &fatbin), "cuModuleLoadFatBinary");
	check(cuModuleLoadData(&module, &(struct wrapper){0x466243b1, 1, &fatbin, NULL}),
	      "cuModuleLoadData of a compiled program's structure");
	check(cuModuleLoad(&module, path), "cuModuleLoad");
	check(cuLibraryLoadFromFile(&library, path, NULL, NULL, 0, NULL, NULL, 0) ? 1 :
	      cuLibraryGetModule(&module, library), "cuLibraryLoadFromFile");
	check(cuLinkAddData(NULL, CU_JIT_INPUT_FATBINARY, &fatbin, sizeof fatbin, "x", 0, NULL,
			    &none), "cuLinkAddData of a fatbin");
	check(cuLinkAddFile(NULL, CU_JIT_INPUT_FATBINARY, path, 0, NULL, &none),
	      "cuLinkAddFile");
	unlink(path);
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
	load_preserved(text);
	if (argc == 2 && *argv[1])
		load_others(text);
	free(wanted);
	return tap_done();
}
