/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "shim/process/gpu/gpu_type.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum rule { EQUAL, LEAST, MOST, TOLD };

static const struct {
	enum rule rule;
	const char *text;
} properties[] = {
#define PROPERTY(attribute, rule, text) {rule, text},
	GCK_CUDA_PROPERTIES(PROPERTY)
#undef PROPERTY
};

#define MIB(bytes) ((bytes) >> 20)

static int other(const struct gck_cuda_device *was, const struct gck_cuda_device *is, uint32_t i,
		 const char *why, struct gck_error *err)
{
	return gck_fail(err, ENOTSUP,
			"GPU %u of the image is a %s, the one for it here a %s%s: restart it on "
			"nodes with GPUs of that type",
			i, was->name, is->name, why);
}

/* ---- properties ------------------------------------------------------------------------------ */

static bool holds(enum rule rule, int32_t was, int32_t is)
{
	switch (rule) {
	case EQUAL:
		return is == was;
	case LEAST:
		return is >= was;
	case MOST:
		return is <= was;
	default:
		return true;
	}
}

static int properties_suit(const struct gck_cuda_device *was, const struct gck_cuda_device *is,
			   uint32_t i, struct gck_error *err)
{
	char why[160];

	for (int p = 0; p < GCK_CUDA_NPROPERTIES; p++) {
		int32_t before = was->properties[p], now = is->properties[p];

		if (holds(properties[p].rule, before, now))
			continue;
		snprintf(why, sizeof why, " with other limits (%s: %" PRId32 ", not %" PRId32
			 "), which the program may rely on", properties[p].text, now, before);
		return other(was, is, i, why, err);
	}
	return 0;
}

/* ---- code ------------------------------------------------------------------------------------ */

static unsigned capability(const struct gck_cuda_device *d)
{
	return (unsigned)(10 * d->properties[GCK_CUDA_COMPUTE_CAPABILITY_MAJOR] +
			  d->properties[GCK_CUDA_COMPUTE_CAPABILITY_MINOR]);
}

/* Whether "sm_90a" or "compute_80" has code for a GPU. */
static bool is_for(const char *word, unsigned of)
{
	bool is_ptx = *word == 'c';
	unsigned n = 0;
	char suffix = '\0';

	if (sscanf(word, is_ptx ? "compute_%u%c" : "sm_%u%c", &n, &suffix) < 1)
		return false;
	if (suffix == 'a')
		return n == of;
	return n <= of && ((is_ptx && suffix != 'f') || n / 10 == of / 10);
}

/* One word of a module's is enough. */
static bool has_code(const char *words, unsigned of)
{
	while (words && !is_for(words, of)) {
		words = strchr(words, ' ');
		words += words ? 1 : 0;
	}
	return words;
}

static int code_suits(const struct gck_cuda_state *s, const char *code, uint32_t i,
		      const struct gck_cuda_device *is, struct gck_error *err)
{
	char why[160];

	for (size_t at = 0; at < s->code_size; at += strlen(code + at) + 1) {
		if (has_code(code + at, capability(is)))
			continue;
		snprintf(why, sizeof why, " of compute capability %u.%u, for which the program "
			 "has no code (%.64s)", capability(is) / 10, capability(is) % 10,
			 code + at);
		return other(&s->devices.v[i], is, i, why, err);
	}
	return 0;
}

/* ---------------------------------------------------------------------------------------------- */

static int memory_suits(const struct gck_cuda_state *s, uint32_t i,
			const struct gck_cuda_device *is, struct gck_error *err)
{
	char why[160];

	if (s->memory[i].bytes <= is->memory)
		return 0;
	snprintf(why, sizeof why, " of %" PRIu64 " MiB, which have no room for the program's %"
		 PRIu64 " MiB", MIB(is->memory), MIB(s->memory[i].bytes));
	return other(&s->devices.v[i], is, i, why, err);
}

int gck_gpu_type_suits(const struct gck_cuda_state *s, const char *code, uint32_t i,
		       const struct gck_cuda_device *is, struct gck_error *err)
{
	const struct gck_cuda_device *was = &s->devices.v[i];

	if (!memcmp(was->uuid, is->uuid, sizeof was->uuid))
		return 0;
	if (!s->replays)
		return strcmp(was->name, is->name) ? other(was, is, i, "", err) : 0;
	return properties_suit(was, is, i, err) || code_suits(s, code, i, is, err) ||
	       memory_suits(s, i, is, err) ? -1 : 0;
}

bool gck_gpu_type_differs(const struct gck_cuda_device *was, const struct gck_cuda_device *is,
			  char text[GCK_GPU_TYPE_TEXT])
{
	bool differs;
	size_t n;

	n = (size_t)snprintf(text, GCK_GPU_TYPE_TEXT, "a %s here, and was a %s; MiB of memory: %"
			     PRIu64 " (%" PRIu64 ")", is->name, was->name, MIB(is->memory),
			     MIB(was->memory));
	differs = strcmp(was->name, is->name) || is->memory != was->memory;
	for (int p = 0; p < GCK_CUDA_NPROPERTIES; p++) {
		if (was->properties[p] == is->properties[p] || n >= GCK_GPU_TYPE_TEXT)
			continue;
		n += (size_t)snprintf(text + n, GCK_GPU_TYPE_TEXT - n, "; %s: %" PRId32 " (%" PRId32
				      ")", properties[p].text, is->properties[p],
				      was->properties[p]);
		differs = true;
	}
	return differs;
}
