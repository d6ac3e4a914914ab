/* SPDX-License-Identifier: Apache-2.0
 * Numbers, times and sizes as people write them. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/options.h"

/* Digits at *text, which moves behind them. -1: no digit, or too large. */
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

/* sum += a * b, -1 if that does not fit. */
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

/* Milliseconds of the unit at *text, which moves behind it; 0: there is none. */
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
		/* A number without a unit is seconds, if it stands alone. */
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
