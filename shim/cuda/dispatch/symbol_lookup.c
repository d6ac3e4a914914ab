/* SPDX-License-Identifier: Apache-2.0
 * Lookup of CUDA's functions by name: the program gets ours. */
#define _GNU_SOURCE
#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "shim/cuda/base/participant.h"
#include "shim/cuda/dispatch/dispatch.h"
#include "shim/cuda/dispatch/function.h"
#include "shim/cuda/dispatch/function_table.h"
#include "shim/cuda/dispatch/load.h"

/* ---- cuGetProcAddress ----------------------------------------------------------------------- */

static struct {
	pthread_mutex_t lock;
	char names[GCK_CUDA_UNKNOWN][64];
	unsigned n;
	bool full;
} unknown = {.lock = PTHREAD_MUTEX_INITIALIZER};

void *gck_cuda_unknown_real[GCK_CUDA_UNKNOWN];
unsigned char gck_cuda_unknown_used[GCK_CUDA_UNKNOWN];

/* Return a jump for a function that functions.tbl does not list. */
static void *unknown_jump(const char *name, void *real)
{
	void *jump = real;
	unsigned i;

	pthread_mutex_lock(&unknown.lock);
	for (i = 0; i < unknown.n && gck_cuda_unknown_real[i] != real; i++)
		;
	if (i == unknown.n && i < GCK_CUDA_UNKNOWN) {
		snprintf(unknown.names[i], sizeof unknown.names[i], "%s", name);
		gck_cuda_unknown_real[i] = real;
		unknown.n++;
	}
	if (i < GCK_CUDA_UNKNOWN)
		jump = (void *)(uintptr_t)(gck_cuda_unknown_code + GCK_CUDA_UNKNOWN_SIZE * i);
	else
		unknown.full = true;
	pthread_mutex_unlock(&unknown.lock);
	return jump;
}

const char *gck_cuda_unknown_name(unsigned i)
{
	const char *name;

	pthread_mutex_lock(&unknown.lock);
	name = i < unknown.n ? unknown.names[i] : NULL;
	pthread_mutex_unlock(&unknown.lock);
	return name;
}

/* The restart has asked for them before (gck_cuda_needs_note). */
int gck_cuda_unknown_again(struct gck_error *err)
{
	for (unsigned i = 0; i < unknown.n; i++) {
		void *found = gck_cuda_real_dlsym(gck_cuda_handle(), unknown.names[i]);

		if (!found)
			return gck_fail(err, ENOTSUP, "the fresh driver lacks %s",
					unknown.names[i]);
		gck_cuda_unknown_real[i] = found;
	}
	return 0;
}

/* The program gets ours. */
static void *given(const struct gck_cuda_function *f)
{
	gck_cuda_needs(f);
	return f->ours;
}

/* The driver has chosen a function. Its answer is the address of an exported function; if it
 * should not be, take a function that the name means. */
static void *ours(const char *symbol, void *real, int version, cuuint64_t flags)
{
	const struct gck_cuda_function *f = gck_cuda_by_address(real, symbol);

	if (!f)
		f = gck_cuda_by_version(symbol, version,
					flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
	return f ? given(f) : unknown_jump(symbol, real);
}

GCK_CUDA_FUNCTION(cuGetProcAddress_v2, (const char *symbol, void **pfn, int version,
					cuuint64_t flags, CUdriverProcAddressQueryResult *status))
{
	CUresult rc;

	GCK_CUDA_ENTER(0);
	rc = gck_cuda_real.cuGetProcAddress_v2(symbol, pfn, version, flags, status);
	if (rc == CUDA_SUCCESS && pfn && *pfn)
		*pfn = ours(symbol, *pfn, version, flags);
	GCK_CUDA_LEAVE();
	return rc;
}

GCK_CUDA_FUNCTION(cuGetProcAddress, (const char *symbol, void **pfn, int version, cuuint64_t flags))
{
	CUresult rc;

	GCK_CUDA_ENTER(0);
	rc = gck_cuda_real.cuGetProcAddress(symbol, pfn, version, flags);
	if (rc == CUDA_SUCCESS && pfn && *pfn)
		*pfn = ours(symbol, *pfn, version, flags);
	GCK_CUDA_LEAVE();
	return rc;
}

/* ---- able ----------------------------------------------------------------------------------- */

static void able(gck_cuda_obstacle_fn *tell, void *arg)
{
	static const char reason[] = "this version of gpuckpt does not know that function of the "
				     "driver";
	static const char remedy[] = "use a gpuckpt made for this driver, or an older CUDA toolkit";
	bool full;
	unsigned n;

	pthread_mutex_lock(&unknown.lock);
	n = unknown.n;
	full = unknown.full;
	pthread_mutex_unlock(&unknown.lock);
	for (unsigned i = 0; i < n; i++) {
		if (gck_cuda_unknown_used[i])
			tell(arg, unknown.names[i], reason, remedy);
	}
	if (full)
		tell(arg, "more than 256 functions of the driver", reason, remedy);
}

const struct gck_cuda_participant gck_cuda_unknown_participant = {.name = "unknown", .able = able};

/* ---- dlsym, dlopen --------------------------------------------------------------------------- */

gck_cuda_dlsym_fn *gck_cuda_real_dlsym;
gck_cuda_dlopen_fn *gck_cuda_real_dlopen;

/* A program that opened libcuda.so.1 has this library. A program that opened the driver's file
 * by its path or another name has this library, too, or the driver's, and gets our functions all
 * the same. */

/* dlvsym is libc's: no library replaces it. */
static void *of_libc(const char *name)
{
	static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.2.5"};
	void *found = NULL;

	for (size_t i = 0; !found && i < sizeof versions / sizeof *versions; i++)
		found = dlvsym(RTLD_NEXT, name, versions[i]);
	if (!found) {
		fprintf(stderr, "gpuckpt: this is not glibc on x86-64: no %s\n", name);
		_exit(1);
	}
	return found;
}

gck_cuda_dlsym_fn *gck_cuda_find_dlsym(void)
{
	if (!gck_cuda_real_dlsym)
		*(void **)&gck_cuda_real_dlsym = of_libc("dlsym");
	return gck_cuda_real_dlsym;
}

static bool is_driver_file(const char *file)
{
	const char *slash = strrchr(file, '/'), *name = slash ? slash + 1 : file;

	return !strncmp(name, "libcuda", 7) && !isalnum(name[7]) && gck_cuda_is_apart(file);
}

const char *gck_cuda_opened(const char *file)
{
	if (!gck_cuda_real_dlopen)
		*(void **)&gck_cuda_real_dlopen = of_libc("dlopen");
	return file && is_driver_file(file) ? "libcuda.so.1" : file;
}

static bool is_own_handle(const void *handle)
{
	static const void *own;
	Dl_info info;
	struct link_map *map;

	if (!own &&
	    dladdr1((void *)(uintptr_t)gck_cuda_dlsym, &info, (void **)&map, RTLD_DL_LINKMAP))
		own = map;
	return own && handle == own; /* a handle of glibc's is the object's link_map */
}

/* Ask only for libraries named libcuda*: the question loads the driver. */
static bool is_driver_function(const void *found)
{
	const ElfW(Sym) *symbol = NULL;
	struct link_map *map = NULL;
	Dl_info info;

	if (!dladdr1(found, &info, (void **)&symbol, RTLD_DL_SYMENT) || !symbol ||
	    ELF64_ST_TYPE(symbol->st_info) != STT_FUNC || !strstr(info.dli_fname, "libcuda"))
		return false;
	gck_cuda_load();
	return dladdr1(found, &info, (void **)&map, RTLD_DL_LINKMAP) && map == gck_cuda_handle();
}

/* The table does not list the name. Variables, and functions of other libraries, are returned as
 * they are. */
static void *through_jump(void *found, const char *name)
{
	return found && is_driver_function(found) ? unknown_jump(name, found) : found;
}

/* This library was opened and has the function: the program's driver may lack it. Or this
 * library lacks it: the driver may have it. */
static void *in_driver(const struct gck_cuda_function *f, void *found, const char *name)
{
	gck_cuda_load();
	if (f && gck_cuda_has(*f->real))
		return given(f);
	if (!gck_cuda_handle())
		return found;
	return gck_cuda_find_dlsym()(gck_cuda_handle(), name);
}

void *gck_cuda_dlsym(void *handle, const char *name)
{
	void *found = gck_cuda_find_dlsym()(handle, name);
	const struct gck_cuda_function *f;

	if (!name || name[0] != 'c' || name[1] != 'u')
		return found;
	f = gck_cuda_by_name(name);
	if (is_own_handle(handle))
		return f ? in_driver(f, found, name)
			 : through_jump(found ?: in_driver(f, found, name), name);
	if (!f)
		return through_jump(found, name);
	if (!found || found == f->ours)
		return found;
	gck_cuda_load();
	return found == *f->real ? given(f) : found;
}
