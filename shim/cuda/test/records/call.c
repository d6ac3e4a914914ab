/* SPDX-License-Identifier: Apache-2.0
 * Calls, kept so that they can be repeated. All parameters are numbers or pointers, which x86-64
 * passes alike. */
#include "shim/cuda/test/records/record.h"

#include <stdlib.h>
#include <string.h>

static void *copy(const void *from, size_t size)
{
	void *to = malloc(size);

	if (!to)
		abort();
	return memcpy(to, from, size);
}

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

/* The last number is the value. */
bool gck_record_same_state(const struct gck_record_call *a, const struct gck_record_call *b)
{
	const char *letter = a->function->parameters;
	size_t n = strlen(letter);
	bool array = memchr(letter, 'a', n);

	if (a->function != b->function)
		return false;
	for (size_t i = 0; i < n; i++) {
		if ((letter[i] == 'w' || letter[i] == 'h') && (array || i + 1 < n) &&
		    a->words[i] != b->words[i])
			return false;
	}
	for (size_t i = 0; i < n; i++) {
		if (letter[i] == 'a' && !same_array(a, b, (int)i))
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
