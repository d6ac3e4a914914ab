/* SPDX-License-Identifier: Apache-2.0
 * The fake driver: cuInit, names, addresses of functions, devices. */
#include "test/support/driver/bodies.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int number(const char *variable, int otherwise)
{
	const char *text = getenv(variable);

	return text && *text ? atoi(text) : otherwise;
}

static void in_child(void)
{
	fake.forked = true;
}

static void shut_down(void)
{
	fake.over = true;
}

CUresult fake_cuInit(unsigned int flags)
{
	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	fake_lock();
	if (!fake.inited) {
		fake_node_see(&fake.seen);
		fake.first = fake.seen;
		fake.granularity = (size_t)number("FAKE_CUDA_GRANULE", 2048) << 10;
		pthread_atfork(NULL, NULL, in_child);
		atexit(shut_down);
		fake.inited = true;
	}
	fake_unlock();
	return fake.seen.n ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

CUresult fake_cuDriverGetVersion(int *version)
{
	*version = fake_version.cuda;
	return CUDA_SUCCESS;
}

/* ---- names ---------------------------------------------------------------------------------- */

static const struct {
	CUresult code;
	const char *name;
} errors[] = {
#define ERROR(name) {name, #name}
	ERROR(CUDA_SUCCESS), ERROR(CUDA_ERROR_INVALID_VALUE), ERROR(CUDA_ERROR_OUT_OF_MEMORY),
	ERROR(CUDA_ERROR_NOT_INITIALIZED), ERROR(CUDA_ERROR_NO_DEVICE),
	ERROR(CUDA_ERROR_INVALID_DEVICE), ERROR(CUDA_ERROR_INVALID_CONTEXT),
	ERROR(CUDA_ERROR_INVALID_HANDLE), ERROR(CUDA_ERROR_ILLEGAL_STATE),
	ERROR(CUDA_ERROR_INVALID_PTX), ERROR(CUDA_ERROR_NO_BINARY_FOR_GPU),
	ERROR(CUDA_ERROR_NOT_FOUND), ERROR(CUDA_ERROR_NOT_READY), ERROR(CUDA_ERROR_LAUNCH_FAILED),
	ERROR(CUDA_ERROR_ILLEGAL_ADDRESS), ERROR(CUDA_ERROR_NOT_SUPPORTED),
	ERROR(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED), ERROR(CUDA_ERROR_UNKNOWN),
};

CUresult fake_cuGetErrorName(CUresult code, const char **name)
{
	for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
		if (errors[i].code == code) {
			*name = errors[i].name;
			return CUDA_SUCCESS;
		}
	}
	*name = NULL;
	return CUDA_ERROR_INVALID_VALUE;
}

CUresult fake_cuGetErrorString(CUresult code, const char **text)
{
	return fake_cuGetErrorName(code, text);
}

/* ---- addresses ------------------------------------------------------------------------------ */

/* A function of a later driver. */
FAKE_SHOWN CUresult cuFakeFuture(int *value)
{
	*value = 42;
	return CUDA_SUCCESS;
}

/* Looks for NAME, NAME_v2 and NAME_v2_ptsz. */
static bool means(const char *function, const char *symbol, bool *per_thread)
{
	size_t n = strlen(symbol);
	const char *rest = function + n;

	if (strncmp(function, symbol, n))
		return false;
	if (!strncmp(rest, "_v", 2))
		rest += 2 + strspn(rest + 2, "0123456789");
	*per_thread = !strcmp(rest, "_ptsz") || !strcmp(rest, "_ptds");
	return !*rest || *per_thread;
}

CUresult fake_cuGetProcAddress_v2(const char *symbol, void **pfn, int version, cuuint64_t flags,
				  CUdriverProcAddressQueryResult *status)
{
	bool want = flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, best_pt = false, pt;
	const struct fake_function *best = NULL;
	bool later = false;

	if (!symbol || !pfn)
		return CUDA_ERROR_INVALID_VALUE;
	*pfn = NULL;
	for (const struct fake_function *f = fake_functions; f->name; f++) {
		if (!f->since || f->since > fake_version.cuda || !means(f->name, symbol, &pt) ||
		    (pt && !want))
			continue;
		later = later || f->since > version;
		if (f->since <= version && (!best || pt > best_pt ||
					    (pt == best_pt && f->since > best->since))) {
			best = f;
			best_pt = pt;
		}
	}
	if (best)
		*pfn = best->at;
	else if (!strcmp(symbol, "cuFakeFuture") && !fake_version.is_older)
		*pfn = (void *)cuFakeFuture;
	if (status)
		*status = *pfn ? CU_GET_PROC_ADDRESS_SUCCESS : later
			       ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
			       : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	return CUDA_SUCCESS;
}

CUresult fake_cuGetProcAddress(const char *symbol, void **pfn, int version, cuuint64_t flags)
{
	CUresult rc = fake_cuGetProcAddress_v2(symbol, pfn, version, flags, NULL);

	return rc || *pfn ? rc : CUDA_ERROR_NOT_FOUND;
}

/* ---- devices -------------------------------------------------------------------------------- */

CUresult fake_device(CUdevice device)
{
	if (!fake.inited)
		return CUDA_ERROR_NOT_INITIALIZED;
	return device >= 0 && device < fake.seen.n ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult fake_cuDeviceGetCount(int *count)
{
	*count = fake.seen.n;
	return fake.inited ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult fake_cuDeviceGet(CUdevice *device, int ordinal)
{
	*device = ordinal;
	return fake_device(ordinal);
}

CUresult fake_cuDeviceGetName(char *name, int size, CUdevice device)
{
	CUresult rc = fake_device(device);

	if (!rc)
		snprintf(name, (size_t)size, "%s", fake.seen.v[device].name);
	return rc;
}

CUresult fake_cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
	CUresult rc = fake_device(device);

	if (!rc)
		*uuid = fake.seen.v[device].uuid;
	return rc;
}

CUresult fake_cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
	return fake_cuDeviceGetUuid_v2(uuid, device);
}

CUresult fake_cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
	CUresult rc = fake_device(device);

	if (!rc)
		*bytes = fake.seen.v[device].memory;
	return rc;
}

static int own_attribute(CUdevice_attribute attribute, const struct fake_device *d)
{
	switch (attribute) {
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
		return d->arch / 10;
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
		return d->arch % 10;
	case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
		return d->multiprocessors;
	case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
		return d->shared;
	case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
		return d->l2;
	default:
		return 0;
	}
}

CUresult fake_cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
	CUresult rc = fake_device(device);

	if (rc)
		return rc;
	switch (attribute) {
	case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
	case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
	case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
		*value = 1;
		break;
	case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
		*value = !getenv("FAKE_CUDA_CONCURRENT");
		break;
	default:
		*value = own_attribute(attribute, &fake.seen.v[device]);
	}
	return CUDA_SUCCESS;
}

CUresult fake_cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
	*can = device != peer;
	return fake_device(device) ? fake_device(device) : fake_device(peer);
}
