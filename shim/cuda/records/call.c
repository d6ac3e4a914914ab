/* SPDX-License-Identifier: Apache-2.0
 * Calls, kept so that they can be repeated. All parameters are numbers or pointers, which x86-64
 * passes alike. */
#include "shim/cuda/records/records.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

static void *copy(const void *from, size_t size)
{
	void *to = malloc(size);

	if (!to)
		abort();
	return memcpy(to, from, size);
}

/* ---- options of a load ----------------------------------------------------------------------- */

/* The number of parameter i's options or values. Their number is behind both, or before. */
static uint64_t count_of(const struct gck_record_call *c, int i)
{
	const char *letter = c->function->parameters;
	int at = letter[i] == 'v' ? i - 1 : i;

	return c->words[letter[at + 2] == 'c' ? at + 2 : at - 1];
}

/* A number, which may be given again. Results and texts that the compiler writes need not be. */
static bool is_number(CUjit_option option)
{
	switch (option) {
	case CU_JIT_MAX_REGISTERS:
	case CU_JIT_OPTIMIZATION_LEVEL:
	case CU_JIT_TARGET_FROM_CUCONTEXT:
	case CU_JIT_TARGET:
	case CU_JIT_FALLBACK_STRATEGY:
	case CU_JIT_GENERATE_DEBUG_INFO:
	case CU_JIT_GENERATE_LINE_INFO:
	case CU_JIT_CACHE_MODE:
	case CU_JIT_FAST_COMPILE:
	case CU_JIT_MIN_CTA_PER_SM:
	case CU_JIT_MAX_THREADS_PER_BLOCK:
	case CU_JIT_OVERRIDE_DIRECTIVE_VALUES:
	case CU_JIT_SPLIT_COMPILE:
		return true;
	default:
		return false;
	}
}

static bool is_for_caller(CUjit_option option)
{
	return option == CU_JIT_WALL_TIME || option == CU_JIT_LOG_VERBOSE ||
	       (option >= CU_JIT_INFO_LOG_BUFFER && option <= CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
}

/* Keeps the numbers among the options, with their values. The values are behind the options. */
static bool keep_jit(struct gck_record_call *c, int i)
{
	const CUjit_option *from = (const void *)(uintptr_t)c->words[i];
	void *const *value = (void *const *)(uintptr_t)c->words[i + 1];
	uint64_t n = count_of(c, i), kept = 0;
	CUjit_option *options = calloc(n + 1, sizeof *options);
	void **values = calloc(n + 1, sizeof *values);

	if (!options || !values)
		abort();
	c->copies[i] = options;
	c->copies[i + 1] = values;
	for (uint64_t k = 0; k < n; k++) {
		if (is_for_caller(from[k]))
			continue;
		if (!is_number(from[k]))
			return false;
		options[kept] = from[k];
		values[kept++] = value[k];
	}
	c->words[c->function->parameters[i + 2] == 'c' ? i + 2 : i - 1] = kept;
	return true;
}

/* That the image is preserved is the only one; it has no value, and the copy is preserved, too. */
static bool keep_library_options(struct gck_record_call *c, int i)
{
	const CUlibraryOption *from = (const void *)(uintptr_t)c->words[i];
	void *const *values = (void *const *)(uintptr_t)c->words[i + 1];
	uint64_t n = count_of(c, i);

	for (uint64_t k = 0; k < n; k++) {
		if (from[k] != CU_LIBRARY_BINARY_IS_PRESERVED)
			return false;
	}
	if (n)
		c->copies[i] = copy(from, n * sizeof *from);
	if (n && values)
		c->copies[i + 1] = copy(values, n * sizeof *values);
	return true;
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* False: it cannot be repeated. */
static bool keep(struct gck_record_call *c, int i)
{
	const void *p = (const void *)(uintptr_t)c->words[i];
	size_t size = 0;

	switch (c->function->parameters[i]) {
	case 's':
		size = p ? strlen(p) + 1 : 0;
		break;
	case 'i':
		if (p && !(p = gck_record_image(p, &size)))
			return false;
		break;
	case 'p':
	case 'd':
		size = c->function->sizes[i];
		break;
	case 'a':
		size = c->function->sizes[i] * c->words[i + 1];
		break;
	case 'j':
		return keep_jit(c, i);
	case 'l':
		return keep_library_options(c, i);
	case 'n':
		return !p;
	case 'x':
		return false;
	default:
		return true;
	}
	if (p)
		c->copies[i] = copy(p, size);
	return true;
}

const char *gck_record_keep_call(struct gck_record_call *c, const struct gck_record_function *f,
				 const uint64_t *words)
{
	c->function = f;
	memcpy(c->words, words, strlen(f->parameters) * sizeof *words);
	if (!f->again)
		return f->name;
	for (int i = 0; f->parameters[i]; i++) {
		if (!keep(c, i))
			return f->name;
	}
	return NULL;
}

void gck_record_forget_call(struct gck_record_call *c)
{
	for (int i = 0; i < GCK_RECORD_PARAMETERS; i++) {
		free(c->copies[i]);
		c->copies[i] = NULL;
	}
}

CUresult gck_record_repeat(const struct gck_record_call *c, const struct gck_record *r,
			   uint64_t *result)
{
	CUresult (*call)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
			 uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);
	uint64_t w[GCK_RECORD_PARAMETERS] = {0}, ignored[8];
	CUDA_RESOURCE_DESC resource;
	const char *letter = c->function->parameters;

	for (int i = 0; letter[i]; i++) {
		enum gck_record_kind kind = (enum gck_record_kind)c->function->kinds[i];
		const struct gck_record *named =
			letter[i] != 'h' ? NULL
			: kind == GCK_RECORD_PHYSICAL && r ? r->physical
						      : gck_record_find(kind, c->words[i]);

		w[i] = c->copies[i] ? (uintptr_t)c->copies[i] : c->words[i];
		if (named)
			w[i] = named->now;
		else if (letter[i] == 'r')
			w[i] = (uintptr_t)result;
		else if (letter[i] == 'o' && w[i])
			w[i] = (uintptr_t)ignored;
		else if (letter[i] == 'd') {
			resource = *(const CUDA_RESOURCE_DESC *)c->copies[i];
			gck_record_resource(&resource);
			w[i] = (uintptr_t)&resource;
		}
	}
	if (r && r->kind == GCK_RECORD_RESERVATION)
		w[3] = r->handle; /* where it was */
	memcpy(&call, (const char *)&gck_cuda_driver + c->function->at, sizeof call);
	return call(w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9], w[10], w[11]);
}

/* Whom the elements of cuMemSetAccess are about, or else that there is such an array. */
static bool same_array(const struct gck_record_call *a, const struct gck_record_call *b, int i)
{
	const CUmemAccessDesc *x = a->copies[i], *y = b->copies[i];

	for (uint64_t n = 0; n < a->words[i + 1]; n++) {
		if (memcmp(&x[n].location, &y[n].location, sizeof x->location))
			return false;
	}
	return true;
}

bool gck_record_same_state(const struct gck_record_call *a, const struct gck_record_call *b)
{
	const char *letter = a->function->parameters;

	if (a->function != b->function)
		return false;
	for (int i = 0; letter[i]; i++) {
		if ((letter[i] == 'w' || letter[i] == 'h') && a->words[i] != b->words[i])
			return false;
		if (letter[i] == 'a' && !same_array(a, b, i))
			return false;
	}
	return true;
}

bool gck_record_attributes_refused(const CUlaunchAttribute *attributes, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		if (attributes[i].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT ||
		    attributes[i].id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT)
			return atomic_load(&gck_records_age) != 0;
	}
	return false;
}

/* ---- texts ----------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
	return strcmp(a, b);
}

const char *gck_record_text(const char *text)
{
	static void *all;
	char *const *at;

	gck_records_lock();
	at = tfind(text, &all, compare);
	if (!at) {
		char *copy = strdup(text);

		at = copy ? tsearch(copy, &all, compare) : NULL;
	}
	gck_records_unlock();
	if (!at)
		abort();
	return *at;
}
