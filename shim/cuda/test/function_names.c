/* SPDX-License-Identifier: Apache-2.0
 * cuda_names FAKE: each way to look up CUDA's functions gives those of the stand-in, and the right
 * ones. Runs under the stand-in, on the fake driver FAKE. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#include "shim/cuda/base/cuda_api.h"
#include "test/support/tap.h"

typedef CUresult get_fn(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);

static void *standin, *driver; /* handles */

static bool is_in(const void *address, const char *file)
{
	Dl_info info;

	return address && dladdr(address, &info) && strstr(info.dli_fname, file);
}

static bool is_ours(const void *address)
{
	return is_in(address, "libgpuckpt-cuda.so");
}

/* The driver's own name for one of our functions: the fake's and ours are named alike. */
static bool is_named(const void *address, const char *name)
{
	Dl_info info;

	return dladdr(address, &info) && info.dli_sname && !strcmp(info.dli_sname, name);
}

static void by_dlsym(void)
{
	ok(is_ours((void *)cuMemAlloc_v2), "a linked call is ours");
	ok(is_ours(dlsym(standin, "cuMemAlloc_v2")), "dlsym in libcuda.so.1 gives ours");
	ok(is_ours(dlsym(RTLD_DEFAULT, "cuMemAlloc_v2")), "dlsym in RTLD_DEFAULT gives ours");
	ok(is_ours(dlsym(RTLD_NEXT, "cuMemAlloc_v2")), "dlsym in RTLD_NEXT gives ours");
	ok(driver != standin, "the driver's file by its path is another library");
	ok(dlsym(driver, "cuMemAlloc_v2") == (void *)cuMemAlloc_v2,
	   "dlsym in that library gives ours too");
	ok(all_of(dlsym(driver, "cuGLInit"), is_ours(dlsym(driver, "cuGLInit"))),
	   "dlsym gives ours for functions with unknown arguments");
	ok(all_of(!dlsym(driver, "cuNoSuchFunction"), dlerror()),
	   "an unknown name is not found in the driver's file");
	ok(all_of(!dlsym(standin, "cuNoSuchFunction"), dlerror()),
	   "an unknown name is not found in libcuda.so.1");
	ok(all_of(dlsym(driver, "fake_only"), !dlsym(standin, "fake_only")),
	   "names that are not CUDA's are found only in the driver's file");
	ok(is_in(dlsym(driver, "cuFakeNumber"), "/libcuda"),
	   "a variable of the driver is the driver's");
	ok(is_in(dlsym(RTLD_DEFAULT, "malloc"), "libc.so"),
	   "functions of other libraries are theirs");
	ok(is_ours(dlsym(RTLD_NEXT, "dlsym")), "dlsym is ours");
}

static void by_version(void)
{
	static const struct {
		const char *symbol;
		int version;
		cuuint64_t flags;
		const char *means;
	} cases[] = {
		{"cuMemAlloc", 13000, 0, "cuMemAlloc_v2"},
		{"cuMemAlloc", 2000, 0, "cuMemAlloc"},
		{"cuCtxCreate", 12000, 0, "cuCtxCreate_v3"},
		{"cuCtxCreate", 13000, 0, "cuCtxCreate_v4"},
		{"cuLaunchKernel", 13000, CU_GET_PROC_ADDRESS_LEGACY_STREAM, "cuLaunchKernel"},
		{"cuLaunchKernel", 13000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM,
		 "cuLaunchKernel_ptsz"},
		{"cuMemcpyHtoD", 13000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM,
		 "cuMemcpyHtoD_v2_ptds"},
		{"cuGetProcAddress", 13000, 0, "cuGetProcAddress_v2"},
		{"cuGetExportTable", 13000, 0, "cuGetExportTable"},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		void *at = NULL;
		CUresult rc = cuGetProcAddress_v2(cases[i].symbol, &at, cases[i].version,
						  cases[i].flags, NULL);

		ok(all_of(rc == CUDA_SUCCESS, is_ours(at), is_named(at, cases[i].means)),
		   "%s of CUDA %d, flags %llu, is our %s", cases[i].symbol, cases[i].version,
		   (unsigned long long)cases[i].flags, cases[i].means);
	}
}

static void by_address(void)
{
	CUdriverProcAddressQueryResult status;
	int (*future)(int *) = NULL;
	void *at = (void *)1, *inner = NULL;
	get_fn *get = NULL;
	int value = 0;

	is_int(cuGetProcAddress_v2("cuMemCreate", &at, 10000, 0, &status), CUDA_SUCCESS,
	       "a function of a later version is asked for");
	ok(all_of(!at, status == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT),
	   "there is none, and the status says why");
	is_int(cuGetProcAddress("cuMemCreate", &at, 10000, 0), CUDA_ERROR_NOT_FOUND,
	       "the older cuGetProcAddress returns an error");
	cuGetProcAddress_v2("cuGetProcAddress", (void **)&get, 12000, 0, NULL);
	get("cuInit", &inner, 13000, 0, NULL);
	ok(inner == (void *)cuInit, "cuGetProcAddress found by itself gives ours");
	cuGetProcAddress("cuInit", &inner, 13000, 0);
	ok(inner == (void *)cuInit, "the older cuGetProcAddress gives ours");
	is_int(cuGetProcAddress_v2("cuFakeFuture", (void **)&future, 13000, 0, NULL), CUDA_SUCCESS,
	       "a function that no table lists is found");
	ok(is_ours((void *)future), "it is a jump of ours");
	ok(all_of(future, future(&value) == 0, value == 42), "the jump leads to the function");
	cuGetProcAddress_v2("cuFakeFuture", &at, 13000, 0, NULL);
	ok(at == (void *)future, "it is the same when it is asked for again");
	ok(dlsym(driver, "cuFakeFuture") == (void *)future,
	   "dlsym in the driver's file gives the same");
	ok(dlsym(standin, "cuFakeFuture") == (void *)future,
	   "dlsym in libcuda.so.1 gives the same");
}

int main(int argc, char *argv[])
{
	standin = dlopen("libcuda.so.1", RTLD_NOW);
	driver = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
	if (!standin || !driver) {
		printf("Bail out! %s\n", dlerror());
		return 1;
	}
	by_dlsym();
	by_version();
	by_address();
	return tap_done();
}
