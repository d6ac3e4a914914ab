/* SPDX-License-Identifier: Apache-2.0
 * gpuckpt-gpus LIBRARY [FUNCTION...]: writes the devices that the driver shows to a process with
 * this environment to standard output, and which of the functions it lacks, as a struct
 * gck_cuda_here. Exit status 1: the reason, as text. A restart runs it in place of the task to be
 * restored. LIBRARY is the driver's library that the rank had loaded; if that file does not exist,
 * the loader chooses. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include "shim/cuda/base/visible_devices.h"

static int fail(const char *what, const char *why)
{
	printf("%s: %s", what, why);
	return 1;
}

static void *open_library(const char *path)
{
	return dlopen(access(path, R_OK) == 0 ? path : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
}

/* False: a function is missing. */
static bool find(void *library, struct gck_cuda_device_calls *eyes)
{
	*(void **)&eyes->count = dlsym(library, "cuDeviceGetCount");
	*(void **)&eyes->get = dlsym(library, "cuDeviceGet");
	*(void **)&eyes->uuid = dlsym(library, "cuDeviceGetUuid_v2");
	*(void **)&eyes->name = dlsym(library, "cuDeviceGetName");
	*(void **)&eyes->version = dlsym(library, "cuDriverGetVersion");
	*(void **)&eyes->memory = dlsym(library, "cuDeviceTotalMem_v2");
	*(void **)&eyes->attribute = dlsym(library, "cuDeviceGetAttribute");
	return eyes->count && eyes->get && eyes->uuid && eyes->name && eyes->version &&
	       eyes->memory && eyes->attribute;
}

static void ask_for(void *library, char *const *functions, char *lacks, size_t size)
{
	size_t n = 0;

	for (; *functions && n < size; functions++) {
		if (!dlsym(library, *functions))
			n += (size_t)snprintf(lacks + n, size - n, "%s%s", n ? ", " : "",
					      *functions);
	}
}

int main(int argc, char **argv)
{
	void *library = open_library(argc > 1 ? argv[1] : "");
	struct gck_cuda_here here = {.lacks = ""};
	struct gck_cuda_device_calls eyes;
	CUresult (*init)(unsigned int);
	char text[32];
	CUresult rc;

	if (!library)
		return fail("no NVIDIA driver here", dlerror());
	*(void **)&init = dlsym(library, "cuInit");
	if (!init || !find(library, &eyes))
		return fail("the NVIDIA driver here", "it is too old");
	rc = init(0);
	snprintf(text, sizeof text, "CUDA error %d", (int)rc);
	if (rc)
		return fail("cuInit",
			    rc == CUDA_ERROR_NO_DEVICE ? "there is no GPU for this task" : text);
	rc = gck_cuda_visible_devices_read(&eyes, &here.devices);
	snprintf(text, sizeof text, "CUDA error %d", (int)rc);
	if (rc)
		return fail("asking for GPUs", text);
	if (argc > 2)
		ask_for(library, argv + 2, here.lacks, sizeof here.lacks);
	return fwrite(&here, sizeof here, 1, stdout) != 1;
}
