/* SPDX-License-Identifier: Apache-2.0
 * The keys of --gpu-ckpt together: defaults, and the text "key=value,key=value". */
#include "common/base/options.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>


void gck_options_init(struct gck_options *o)
{
	*o = (struct gck_options){
		.interval_s = 1800,
		.keep = 2,
		.compress = GCK_COMPRESS_NONE,
		.timeout_ms = 60000,
		.hold_ms = GCK_HOLD_AUTO_MS,
		.hold_auto = true,
		.restart_wait_s = 600,
		.mpi = GCK_MPI_AUTO,
		.cuda = GCK_GPU_AUTO,
		.files = UINT64_C(1) << 30,
		.restart = GCK_RESTART_AUTO,
		.skip_done = true,
		.cpus = 1,
	};
}

const char *gck_options_key(size_t i)
{
	return i < gck_option_nkeys ? gck_option_keys[i].name : NULL;
}

static int unknown_key(const char *key, struct gck_error *err)
{
	char names[200] = "";

	for (size_t i = 0, n = 0; i < gck_option_nkeys; i++)
		n += (size_t)snprintf(names + n, sizeof names - n, " %s", gck_option_keys[i].name);
	return gck_fail(err, EINVAL, "unknown key \"%.64s\"; the keys are:%s", key, names);
}

int gck_options_set(struct gck_options *o, const char *key, const char *value,
		    struct gck_error *err)
{
	for (size_t i = 0; i < gck_option_nkeys; i++) {
		if (strcmp(gck_option_keys[i].name, key) != 0)
			continue;
		if (gck_option_keys[i].read(o, value, err))
			return gck_fail_in(err, "%s=%.100s", key, value);
		return 0;
	}
	return unknown_key(key, err);
}

/* Set the key of one "key=value", n bytes long. */
static int set_item(struct gck_options *o, const char *item, size_t n, struct gck_error *err)
{
	char text[PATH_MAX + 64];
	char *equals;

	if (n == 0)
		return gck_fail(err, EINVAL, "an empty key; write key=value,key=value");
	if (n >= sizeof text)
		return gck_fail(err, ENAMETOOLONG, "%.32s...: the value is too long", item);
	memcpy(text, item, n);
	text[n] = '\0';
	equals = strchr(text, '=');
	if (!equals)
		return gck_fail(err, EINVAL, "%.64s: a value is missing; write key=value", text);
	*equals = '\0';
	return gck_options_set(o, text, equals + 1, err);
}

/* The bytes of the first "key=value". The names of kernels= have commas between them as well. */
static size_t item_size(const char *text)
{
	size_t n = strcspn(text, ","), more;

	if (strncmp(text, "kernels=", 8) != 0)
		return n;
	for (; text[n] == ','; n += 1 + more) {
		more = strcspn(text + n + 1, ",=");
		if (!more || text[n + 1 + more] == '=')
			break;
	}
	return n;
}

int gck_options_parse(struct gck_options *o, const char *text, struct gck_error *err)
{
	struct gck_options parsed = *o;

	while (text && *text) {
		size_t n = item_size(text);

		if (set_item(&parsed, text, n, err))
			return -1;
		text += n;
		if (*text == ',' && !*++text)
			return set_item(&parsed, text, 0, err);
	}
	*o = parsed;
	return 0;
}

int gck_options_format(const struct gck_options *o, char *text, size_t size,
		       struct gck_error *err)
{
	size_t used = 0;

	if (size)
		*text = '\0';
	for (size_t i = 0; i < gck_option_nkeys; i++) {
		char value[PATH_MAX];
		int n;

		gck_option_keys[i].write(o, value, sizeof value);
		if (!*value)
			continue;
		n = snprintf(text + used, size - used, "%s%s=%s", used ? "," : "",
			     gck_option_keys[i].name, value);
		if ((size_t)n >= size - used)
			return gck_fail(err, ENOSPC, "the options do not fit into %zu bytes", size);
		used += (size_t)n;
	}
	return 0;
}

/* ---- numbers, times and sizes --------------------------------------------------------------- */

/* Parse the digits at *text and move *text behind them. -1: no digit, or too large. */
static int digits(const char **text, uint64_t *number)
{
	char *end;

	if (!isdigit((unsigned char)**text))
		return -1;
	errno = 0;
	*number = strtoull(*text, &end, 10);
	*text = end;
	return errno ? -1 : 0;
}

/* sum += a * b; -1: overflow. */
static int add_product(uint64_t *sum, uint64_t a, uint64_t b)
{
	uint64_t product = 0;

	if (__builtin_mul_overflow(a, b, &product) || __builtin_add_overflow(*sum, product, sum))
		return -1;
	return 0;
}

int gck_parse_number(const char *text, uint64_t min, uint64_t max, uint64_t *number,
		     struct gck_error *err)
{
	const char *p = text;
	uint64_t n = 0;

	if (digits(&p, &n) || *p || n < min || n > max)
		return gck_fail(err, EINVAL, "must be a number from %llu to %llu",
				(unsigned long long)min, (unsigned long long)max);
	*number = n;
	return 0;
}

/* The milliseconds of the unit at *text, which is moved behind it; 0: no unit. */
static uint64_t time_unit(const char **text)
{
	static const struct {
		const char *name;
		uint64_t ms;
	} units[] = {
		{ "ms", 1 }, { "s", 1000 }, { "m", 60000 }, { "h", 3600000 }, { "d", 86400000 }
	};

	for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
		size_t n = strlen(units[i].name);

		if (strncmp(*text, units[i].name, n) == 0) {
			*text += n;
			return units[i].ms;
		}
	}
	return 0;
}

int gck_parse_time_ms(const char *text, uint64_t *ms, struct gck_error *err)
{
	const char *p = text;
	uint64_t sum = 0, n = 0, unit;

	do {
		if (digits(&p, &n))
			goto bad;
		unit = time_unit(&p);
		/* A single number without a unit is in seconds. */
		if (!unit && sum == 0 && !*p && p == text + strspn(text, "0123456789"))
			unit = 1000;
		if (!unit || add_product(&sum, n, unit))
			goto bad;
	} while (*p);
	*ms = sum;
	return 0;
bad:
	return gck_fail(err, EINVAL, "must be a time such as 90, 500ms, 30m or 1h30m");
}

int gck_parse_size(const char *text, uint64_t *bytes, struct gck_error *err)
{
	static const char units[] = "KMGT";
	const char *p = text;
	uint64_t n = 0, size = 0;
	unsigned shift = 0;
	bool good = digits(&p, &n) == 0;

	if (good && *p) {
		const char *u = strchr(units, toupper((unsigned char)*p));

		good = u && !p[1];
		shift = u ? 10 * (unsigned)(u - units + 1) : 0;
	}
	if (!good || add_product(&size, n, UINT64_C(1) << shift))
		return gck_fail(err, EINVAL, "must be a size such as 4096, 64M or 1G");
	*bytes = size;
	return 0;
}
