/* SPDX-License-Identifier: Apache-2.0
 * The devices that a process sees, and those that it could open: on a machine of four GPUs that the
 * test makes. */
#include "shim/cuda/base/visible_devices.h"

#include <errno.h>
#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test/support/tap.h"

#define MACHINE_GPUS 4

/* How the device files of GPUs 0 to 3 are: (c)haracter device, (l)ocked by its mode or by a cgroup,
 * (f)ile of another kind, as one that is bound over it, (-) none. */
static const char *device_files;
static char folder[] = "/tmp/gpuckpt-visible.XXXXXX";

/* ---- the machine ----------------------------------------------------------------------------- */

int __wrap_glob(const char *pattern, int flags, int (*error)(const char *, int), glob_t *found);
int __real_glob(const char *pattern, int flags, int (*error)(const char *, int), glob_t *found);
int __wrap_stat(const char *path, struct stat *st);
int __wrap_eaccess(const char *path, int mode);

int __wrap_glob(const char *pattern, int flags, int (*error)(const char *, int), glob_t *found)
{
	char own[sizeof folder + 2];

	if (strcmp(pattern, "/proc/driver/nvidia/gpus/*/information"))
		return GLOB_NOMATCH;
	snprintf(own, sizeof own, "%s/*", folder);
	return __real_glob(own, flags, error, found);
}

static char device_file(const char *path)
{
	int minor;

	return sscanf(path, "/dev/nvidia%d", &minor) == 1 && minor < MACHINE_GPUS
		       ? device_files[minor]
		       : '-';
}

int __wrap_stat(const char *path, struct stat *st)
{
	const char kind = device_file(path);

	memset(st, 0, sizeof *st);
	st->st_mode = kind == 'f' ? S_IFREG | 0666 : S_IFCHR | 0666;
	errno = ENOENT;
	return kind == '-' ? -1 : 0;
}

int __wrap_eaccess(const char *path, int mode)
{
	errno = EPERM;
	return mode == (R_OK | W_OK) && device_file(path) != 'l' ? 0 : -1;
}

/* As the kernel module writes it. The minor numbers are not in the order of the PCI addresses. */
static void make_machine(void)
{
	static const int minors[MACHINE_GPUS] = {2, 0, 1, 3};
	char path[sizeof folder + 4];
	FILE *f;

	if (!mkdtemp(folder))
		abort();
	for (int i = 0; i < MACHINE_GPUS; i++) {
		snprintf(path, sizeof path, "%s/%d", folder, i);
		f = fopen(path, "we");
		if (!f)
			abort();
		fprintf(f,
			"Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 77\n"
			"GPU UUID: \t GPU-%02x000000-0000-0000-0000-000000000000\n"
			"Bus Type: \t PCIe\nDevice Minor: \t %d\nGPU Excluded:\t No\n",
			(unsigned)minors[i], minors[i]);
		fclose(f);
	}
}

static void remove_machine(void)
{
	char path[sizeof folder + 4];

	for (int i = 0; i < MACHINE_GPUS; i++) {
		snprintf(path, sizeof path, "%s/%d", folder, i);
		unlink(path);
	}
	rmdir(folder);
}

/* ---- the driver: the GPUs whose minor numbers are in the list -------------------------------- */

static const char *driver_sees;

static CUresult count(int *n)
{
	*n = (int)strlen(driver_sees);
	return CUDA_SUCCESS;
}

static CUresult get(CUdevice *device, int ordinal)
{
	*device = driver_sees[ordinal] - '0';
	return CUDA_SUCCESS;
}

static CUresult uuid_of(CUuuid *uuid, CUdevice device)
{
	memset(uuid, 0, sizeof *uuid);
	uuid->bytes[0] = (char)device;
	return CUDA_SUCCESS;
}

static CUresult name_of(char *name, int size, CUdevice device)
{
	(void)device;
	snprintf(name, (size_t)size, "H100");
	return CUDA_SUCCESS;
}

static CUresult version(int *v)
{
	*v = 13000;
	return CUDA_SUCCESS;
}

static CUresult memory(size_t *bytes, CUdevice device)
{
	(void)device;
	*bytes = 80;
	return CUDA_SUCCESS;
}

/* A driver that does not know one of them. */
static CUresult attribute(int *value, CUdevice_attribute which, CUdevice device)
{
	(void)device;
	*value = (int)which;
	return which == CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

static const struct gck_cuda_device_calls calls = {count, get, uuid_of, name_of, version, memory,
						   attribute};

static void test_properties(void)
{
	struct gck_cuda_devices d = {0};

	device_files = "c---";
	driver_sees = "0";
	gck_cuda_visible_devices_read(&calls, &d);
	is_int(d.v[0].memory, 80, "a device's memory is seen");
	ok(d.v[0].properties[GCK_CUDA_WARP_SIZE] == CU_DEVICE_ATTRIBUTE_WARP_SIZE &&
	   d.v[0].properties[GCK_CUDA_COMPUTE_CAPABILITY_MINOR] ==
		   CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
	   "and its properties");
	is_int(d.v[0].properties[GCK_CUDA_L2_CACHE_SIZE], 0, "one that is not known is 0");
}

/* The list as minor numbers; those that the process does not see stand behind a colon. */
static const char *listed(const char *files, const char *sees)
{
	struct gck_cuda_devices d = {0};
	static char text[64];
	size_t at = 0;

	device_files = files;
	driver_sees = sees;
	if (gck_cuda_visible_devices_read(&calls, &d))
		return "an error";
	for (uint32_t i = 0; i < d.all; i++)
		at += (size_t)snprintf(text + at, sizeof text - at, "%s%d", i == d.n ? ":" : "",
				       d.v[i].uuid[0]);
	text[at] = '\0';
	return text;
}

int main(void)
{
	make_machine();
	is_str(listed("cccc", "0123"), "0123", "a process that sees all GPUs");
	is_str(listed("cccc", "31"), "31:20",
	       "GPUs that CUDA_VISIBLE_DEVICES hides are listed, too: the driver has opened them");
	is_str(listed("clcl", "0"), "0:2",
	       "GPUs whose device files a mode or a cgroup closes are not: the driver wants no "
	       "pair for them");
	is_str(listed("-c--", "1"), "1", "nor are those whose device files a container lacks");
	is_str(listed("ffcf", "2"), "2", "nor those over whose device files another file is bound");
	test_properties();
	remove_machine();
	return tap_done();
}
