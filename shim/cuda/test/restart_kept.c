/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/cuda/test/restart_kept.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "test/support/cubin.h"

#define PRIMARY "\x6b\xd5\xfb\x6c\x5b\xf4\xe7\x4a\x89\x87\xd9\x39\x12\xfd\x9d\xf9"
#define CALLBACKS "\xa0\x94\x79\x8c\x2e\x74\x2e\x74\x93\xf2\x08\x00\x20\x0c\x0a\x66"
#define STORAGE "\xc6\x93\x33\x6e\x11\x21\xdf\x11\xa8\xc3\x68\xf3\x55\xd8\x95\x93"
#define CACHE "\xda\x91\x51\xd3\x3a\xe6\xcc\x41\xa5\xc0\x4f\x26\xd5\x33\xe3\x28"

typedef void function(void);
typedef CUresult primary_handle(CUcontext *context, CUdevice device);
typedef void *callbacks(void **at, size_t *size);
typedef CUresult storage_put(CUcontext context, void *key, void *value, function *end);
typedef CUresult storage_get(void **value, CUcontext context, void *key);
typedef CUresult query(CUstream stream);

#define VARIABLE "third" /* of all three */

const void *kept_image(const char *more)
{
	static const char ptx[] = ".version 6.3\n.target sm_70\n"
				  ".global .align 8 .u64 first;\n.const .align 8 .u64 second;\n"
				  ".visible .global .align 8 .u64 " VARIABLE ";\n";
	static struct test_fatbin fatbin;

	test_fatbin(&fatbin, ptx);
	if (strstr(more, "cubin"))
		return &fatbin.cubin;
	return strstr(more, "fatbin") ? (const void *)&fatbin : ptx;
}

static struct {
	function *const *primary, *const *storage;
	query *query;
	CUcontext context;
	CUdeviceptr variable;
	const uint32_t *buffer;
	size_t words;
	uint64_t count;
} kept;

static function *const *table(const char *name)
{
	const void *at = NULL;
	CUuuid id;

	memcpy(&id, name, sizeof id);
	return cuGetExportTable(&at, &id) ? NULL : at;
}

static function *find(const char *name)
{
	void *at = NULL;

	cuGetProcAddress(name, &at, 13000, 0, NULL);
	return (function *)(uintptr_t)at;
}

/* What an older driver lacks: a function that is called, the address of one, that of one that
 * nobody knows, and a private table's. */
static const char *ask_more(const char *more)
{
	if (strstr(more, "newer") &&
	    (cuCtxSynchronize_v2(kept.context) || !find("cuMemDiscardBatchAsync") ||
	     !find("cuFakeFuture")))
		return "no newer functions";
	return strstr(more, "cache") && !table(CACHE) ? "no table of a cache" : NULL;
}

const char *kept_begin(CUmodule module, const char *more)
{
	function *const *tables = table(CALLBACKS);
	size_t size;
	void *at;

	kept.primary = table(PRIMARY);
	kept.storage = table(STORAGE);
	kept.query = (query *)find("cuStreamQuery");
	if (!tables || !kept.primary || !kept.storage || !kept.query)
		return "no private tables or functions";
	((callbacks *)tables[2])(&at, &kept.words);
	kept.buffer = at;
	if (((primary_handle *)kept.primary[2])(&kept.context, 0) ||
	    ((storage_put *)kept.storage[0])(kept.context, &kept, &kept.count, NULL) ||
	    cuModuleGetGlobal(&kept.variable, &size, module, VARIABLE) ||
	    cuMemcpyHtoD(kept.variable, &kept.count, sizeof kept.count))
		return "nothing can be kept";
	return ask_more(more);
}

const char *kept_look(void)
{
	CUcontext context = NULL;
	uint64_t count = 0;
	void *value = NULL;

	if (((primary_handle *)kept.primary[2])(&context, 0) || context != kept.context)
		return "another primary context";
	if (((storage_get *)kept.storage[2])(&value, context, &kept) || value != &kept.count)
		return "what is beside the context is gone";
	if (kept.buffer[kept.words - 1] != 1)
		return "what the runtime reads is gone";
	if (kept.query(CU_STREAM_LEGACY) == CUDA_ERROR_NOT_FOUND)
		return "a function is gone";
	if (cuMemcpyDtoH(&count, kept.variable, sizeof count) || count != kept.count)
		return "a variable has another value";
	kept.count++;
	return cuMemcpyHtoD(kept.variable, &kept.count, sizeof count) ? "no variable" : NULL;
}
