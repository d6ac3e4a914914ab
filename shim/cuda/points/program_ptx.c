/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "shim/cuda/points/program_ptx.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/cuda/base/reclaim.h"
#include "shim/cuda/dispatch/function.h"
#include "shim/cuda/gate/context.h"
#include "shim/cuda/points/launch.h"
#include "shim/kernels/pass/points.h"

#define KERNELS_VARIABLE "GPUCKPT_KERNELS"
#define NOTED_MOST 64

/* ---- what has no points --------------------------------------------------------------------- */

struct noted {
	char object[256], why[256];
};

static struct {
	pthread_mutex_t lock;
	struct noted noted[NOTED_MOST];
	size_t n;
} list = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* True: it is new. */
static bool add(const struct noted *one)
{
	bool is_new;

	pthread_mutex_lock(&list.lock);
	is_new = list.n < NOTED_MOST;
	for (size_t i = 0; i < list.n && is_new; i++)
		is_new = strcmp(list.noted[i].object, one->object) != 0 ||
			 strcmp(list.noted[i].why, one->why) != 0;
	if (is_new)
		list.noted[list.n++] = *one;
	pthread_mutex_unlock(&list.lock);
	return is_new;
}

/* In the step's output, once. */
static void note(const char *object, size_t n, const char *why)
{
	char line[640];
	struct noted one;

	snprintf(one.object, sizeof one.object, "%.*s", (int)n, object);
	snprintf(one.why, sizeof one.why, "%s", why);
	snprintf(line, sizeof line, "gpuckpt: %s has no points: %s", one.object, one.why);
	if (add(&one))
		fprintf(stderr, "%s\n", line);
}

static void note_module(const char *why)
{
	static const char object[] = "PTX of the program";

	note(object, sizeof object - 1, why);
}

/* The lines of gck_points_write: KERNEL has no points: WHY. */
static void note_kernels(char *lines)
{
	static const char between[] = " has no points: ";

	for (char *save, *line = strtok_r(lines, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save)) {
		char object[256];
		char *at = strstr(line, between);

		if (!at)
			continue;
		snprintf(object, sizeof object, "kernel %.*s", (int)(at - line), line);
		note(object, strlen(object), at + sizeof between - 1);
	}
}

void gck_cuda_program_ptx_tell(gck_cuda_no_points_fn *tell, void *arg)
{
	size_t n;

	pthread_mutex_lock(&list.lock);
	n = list.n;
	pthread_mutex_unlock(&list.lock);
	for (size_t i = 0; i < n; i++) /* they stay */
		tell(arg, list.noted[i].object, list.noted[i].why);
}

/* ---- the pass ------------------------------------------------------------------------------- */

/* Not a cubin or a fatbin, which begin with other bytes. */
static bool is_text(const char *image)
{
	image += strspn(image, " \t\r\n");
	return !strncmp(image, ".version", 8) || !strncmp(image, "//", 2) ||
	       !strncmp(image, "/*", 2);
}

/* Whether one of the names may be in the text. */
static bool mentions(const char *text, size_t size, const char *names)
{
	for (size_t n; *names; names += n + (names[n] == ',')) {
		n = strcspn(names, ",");
		if (memmem(text, size, names, n))
			return true;
	}
	return false;
}

/* NULL: no kernel got points. */
static char *run_pass(const char *text, size_t size, const char *kernels)
{
	bool is_auto = !strcmp(kernels, GCK_POINTS_AUTO);
	struct gck_error err = {0};
	struct gck_ptx *ptx = gck_ptx_read(text, size, &err);
	char *made = NULL, *said = NULL;
	size_t made_size = 0, said_size = 0;
	FILE *out = open_memstream(&made, &made_size);
	FILE *notes = open_memstream(&said, &said_size);
	bool failed = !ptx || !out || !notes ||
		      gck_points_write(ptx, kernels, out, is_auto ? NULL : notes, &err);

	failed = (out && fclose(out)) || failed;
	failed = (notes && fclose(notes)) || failed;
	if (failed)
		note_module(*err.text ? err.text : "no memory");
	else
		note_kernels(said);
	free(said);
	gck_ptx_free(ptx);
	if (failed || (made_size == size && !memcmp(made, text, size))) {
		free(made);
		return NULL;
	}
	return made;
}

/* The image with points, to be freed; NULL: it stays as it is. Size: if it is known. */
static char *with_points(const void *image, size_t size)
{
	const char *kernels = getenv(KERNELS_VARIABLE);

	if (!kernels || !*kernels || !image || !is_text(image))
		return NULL;
	size = strnlen(image, size);
	if (strcmp(kernels, GCK_POINTS_AUTO) != 0 && !mentions(image, size, kernels))
		return NULL;
	return run_pass(image, size, kernels);
}

/* ---- loading -------------------------------------------------------------------------------- */

/* The values of a call's options for the JIT compiler, some of which it changes. */
#define VALUES_MOST 64

struct values {
	void **at, *kept[VALUES_MOST];
	unsigned n;
};

static bool keep(struct values *v, void **at, unsigned n)
{
	if (n > VALUES_MOST || (n && !at))
		return false;
	v->at = at;
	v->n = n;
	for (unsigned i = 0; i < n; i++)
		v->kept[i] = at[i];
	return true;
}

static void put_back(const struct values *v)
{
	for (unsigned i = 0; i < v->n; i++)
		v->at[i] = v->kept[i];
}

static void note_refused(CUresult rc)
{
	char why[96];

	snprintf(why, sizeof why, "the driver does not take it with them (%s)",
		 gck_cuda_error_name(rc));
	note_module(why);
}

/* What the driver does not take with points it gets as the program gave it. The call names the
 * image `image`. */
#define LOAD(rc, image, made, values, call) \
	do { \
		__typeof__(image) given = image; \
		if (made) \
			image = (__typeof__(image))(made); \
		GCK_CUDA_TRY(rc, call); \
		if ((rc) && (made)) { \
			CUresult refused = (rc); \
			image = given; \
			put_back(values); \
			GCK_CUDA_TRY(rc, call); \
			if (!(rc)) \
				note_refused(refused); \
		} \
		free(made); \
	} while (0)

GCK_CUDA_FUNCTION(cuModuleLoadData, (CUmodule *module, const void *image))
{
	struct values v = {.n = 0};
	char *made = with_points(image, SIZE_MAX);
	CUresult rc;

	GCK_CUDA_ENTER(0);
	LOAD(rc, image, made, &v, gck_cuda_real.cuModuleLoadData(module, image));
	if (rc == CUDA_SUCCESS)
		gck_cuda_points_module(*module);
	GCK_CUDA_LEAVE();
	return rc;
}

GCK_CUDA_FUNCTION(cuModuleLoadDataEx, (CUmodule *module, const void *image, unsigned int n,
				       CUjit_option *options, void **values))
{
	struct values v = {.n = 0};
	char *made = keep(&v, values, n) ? with_points(image, SIZE_MAX) : NULL;
	CUresult rc;

	GCK_CUDA_ENTER(0);
	LOAD(rc, image, made, &v,
	     gck_cuda_real.cuModuleLoadDataEx(module, image, n, options, values));
	if (rc == CUDA_SUCCESS)
		gck_cuda_points_module(*module);
	GCK_CUDA_LEAVE();
	return rc;
}

GCK_CUDA_FUNCTION(cuLibraryLoadData,
		  (CUlibrary *library, const void *code, CUjit_option *options, void **values,
		   unsigned int n, CUlibraryOption *of_library, void **of_library_values,
		   unsigned int n_of_library))
{
	struct values v = {.n = 0};
	char *made = keep(&v, values, n) ? with_points(code, SIZE_MAX) : NULL;
	CUresult rc;

	GCK_CUDA_ENTER(0);
	LOAD(rc, code, made, &v,
	     gck_cuda_real.cuLibraryLoadData(library, code, options, values, n, of_library,
					     of_library_values, n_of_library));
	if (rc == CUDA_SUCCESS)
		gck_cuda_points_library(*library);
	GCK_CUDA_LEAVE();
	return rc;
}

/* The module that the linker makes is loaded as another one is. */
#define ADDS(function) \
	GCK_CUDA_FUNCTION(function, (CUlinkState state, CUjitInputType type, void *data, \
				     size_t size, const char *name, unsigned int n, \
				     CUjit_option *options, void **values)) \
	{ \
		struct values v = {.n = 0}; \
		char *made = type == CU_JIT_INPUT_PTX && keep(&v, values, n) \
			     ? with_points(data, size) : NULL; \
		const size_t given_size = size; \
		CUresult rc; \
		GCK_CUDA_ENTER(0); \
		LOAD(rc, data, made, &v, \
		     gck_cuda_real.function(state, type, data, \
					    data == made ? strlen(made) + 1 : given_size, name, n, \
					    options, values)); \
		GCK_CUDA_LEAVE(); \
		return rc; \
	}
ADDS(cuLinkAddData)
ADDS(cuLinkAddData_v2)
