/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "shim/cuda/points/rewrite.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shim/cuda/dispatch/function.h"
#include "shim/cuda/gate/context.h"
#include "shim/kernels/pass/points.h"
#include "shim/kernels/ptx/fatbin.h"

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

void gck_cuda_without_points_tell(gck_cuda_no_points_fn *tell, void *arg)
{
	size_t n;

	pthread_mutex_lock(&list.lock);
	n = list.n;
	pthread_mutex_unlock(&list.lock);
	for (size_t i = 0; i < n; i++) /* they stay */
		tell(arg, list.noted[i].object, list.noted[i].why);
}

/* ---- the pass ------------------------------------------------------------------------------- */

static bool starts(const char *image, size_t size, size_t at, const char *with)
{
	return size - at >= strlen(with) && !strncmp(image + at, with, strlen(with));
}

/* Not a cubin, which begins with other bytes. */
static bool is_text(const char *image, size_t size)
{
	size_t at = 0;

	while (at < size && image[at] && strchr(" \t\r\n", image[at]))
		at++;
	return starts(image, size, at, ".version") || starts(image, size, at, "//") ||
	       starts(image, size, at, "/*");
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

static char *text_with_points(const char *text, size_t size, const char *kernels)
{
	size = strnlen(text, size);
	if (strcmp(kernels, GCK_POINTS_AUTO) != 0 && !mentions(text, size, kernels))
		return NULL;
	return run_pass(text, size, kernels);
}

/* ---- what the program gives ----------------------------------------------------------------- */

/* Of the current context's device, or the first one: 90 for 9.0. 0: unknown. */
static unsigned capability(void)
{
	int major = 0, minor = 0;
	CUdevice device;

	GCK_CUDA_ENTER(0);
	if (gck_cuda_real.cuCtxGetDevice(&device))
		device = 0;
	if (gck_cuda_real.cuDeviceGetAttribute(
		    &major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device) ||
	    gck_cuda_real.cuDeviceGetAttribute(
		    &minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device))
		major = minor = 0;
	GCK_CUDA_LEAVE();
	return (unsigned)(10 * major + minor);
}

static char *fatbin_with_points(const void *image, size_t size, const char *kernels)
{
	struct gck_error err = {0};
	char *text = gck_fatbin_ptx(image, size, capability(), &err);
	char *made = text ? text_with_points(text, SIZE_MAX, kernels) : NULL;

	if (!text && *err.text)
		note_module(err.text);
	free(text);
	return made;
}

/* The kernels that are to have points; NULL: none. */
static const char *wanted(void)
{
	const char *kernels = getenv(KERNELS_VARIABLE);

	return kernels && *kernels ? kernels : NULL;
}

char *gck_cuda_with_points(const void *image, size_t size)
{
	const char *kernels = wanted();

	if (!kernels || !image)
		return NULL;
	if (gck_fatbin_is(image, size))
		return fatbin_with_points(image, size, kernels);
	return is_text(image, size) ? text_with_points(image, size, kernels) : NULL;
}

/* The file's bytes, with a zero behind them; NULL: it cannot be read, of which the driver says
 * more. */
static char *read_file(const char *path, size_t *size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	char *bytes = NULL;
	ssize_t n;

	*size = 0;
	if (fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode))
		bytes = calloc(1, (size_t)st.st_size + 1);
	while (bytes && (n = read(fd, bytes + *size, (size_t)st.st_size - *size)) > 0)
		*size += (size_t)n;
	if (fd >= 0)
		close(fd);
	return bytes;
}

char *gck_cuda_file_with_points(const char *path)
{
	char *bytes, *made;
	size_t size;

	if (!wanted() || !path)
		return NULL;
	bytes = read_file(path, &size);
	made = gck_cuda_with_points(bytes, size);
	free(bytes);
	return made;
}

void gck_cuda_points_not_taken(CUresult rc)
{
	char why[96];

	snprintf(why, sizeof why, "the driver does not take it with them (%s)",
		 gck_cuda_error_name(rc));
	note_module(why);
}

