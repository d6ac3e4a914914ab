/* SPDX-License-Identifier: Apache-2.0
 * ustar (POSIX.1-1988): a block of text fields before each file's data. */
#include "storage/archive/tar.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ustar {
	char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8], type, link[100];
	char magic[8], user[32], group[32], major[8], minor[8], prefix[155], rest[12];
};

_Static_assert(sizeof(struct ustar) == GCK_TAR_BLOCK, "ustar's header is one block");

#define MAGIC "ustar\0" "00"
#define SIZE_MAX_OCTAL 077777777777ull

/* The sum of all bytes, those of the sum's own field taken for blanks. */
static unsigned sum_of(const struct ustar *u)
{
	const unsigned char *p = (const unsigned char *)u;
	size_t at = offsetof(struct ustar, sum);
	unsigned sum = 0;

	for (size_t i = 0; i < sizeof *u; i++)
		sum += i >= at && i < at + sizeof u->sum ? ' ' : p[i];
	return sum;
}

int gck_tar_header(char block[GCK_TAR_BLOCK], const char *dir, const char *name, uint64_t size,
		   struct gck_error *err)
{
	struct ustar u = { .type = '0' };

	if (strlen(dir) > sizeof u.prefix || strlen(name) > sizeof u.name)
		return gck_fail(err, ENAMETOOLONG, "%.200s/%.100s is too long a name for a file of "
				"tar's", dir, name);
	if (size > SIZE_MAX_OCTAL)
		return gck_fail(err, EFBIG, "%.200s/%.100s is too long for a file of tar's", dir,
				name);
	memcpy(u.prefix, dir, strlen(dir));
	memcpy(u.name, name, strlen(name));
	snprintf(u.mode, sizeof u.mode, "%07o", 0600);
	snprintf(u.uid, sizeof u.uid, "%07o", 0);
	snprintf(u.gid, sizeof u.gid, "%07o", 0);
	snprintf(u.size, sizeof u.size, "%011llo", (unsigned long long)size);
	snprintf(u.mtime, sizeof u.mtime, "%011o", 0);
	memcpy(u.magic, MAGIC, sizeof u.magic);
	snprintf(u.sum, sizeof u.sum, "%06o", sum_of(&u));
	u.sum[7] = ' ';
	memcpy(block, &u, sizeof u);
	return 0;
}

static bool octal(const char *field, size_t n, uint64_t *value)
{
	char text[16] = "", *end;

	memcpy(text, field, n);
	*value = strtoull(text, &end, 8);
	return end > text && text[0] != '-' && (*end == '\0' || *end == ' ');
}

int gck_tar_parse(const char block[GCK_TAR_BLOCK], char name[GCK_TAR_NAME], uint64_t *size,
		  bool *end, struct gck_error *err)
{
	static const char zeros[GCK_TAR_BLOCK];
	struct ustar u;
	uint64_t sum;

	memcpy(&u, block, sizeof u);
	*end = memcmp(block, zeros, sizeof zeros) == 0;
	if (*end)
		return 0;
	if (memcmp(u.magic, MAGIC, 6) || !octal(u.sum, sizeof u.sum, &sum) || sum != sum_of(&u))
		return gck_fail(err, EBADMSG, "a header is not ustar's, or damaged");
	if (u.type != '0' || !octal(u.size, sizeof u.size, size))
		return gck_fail(err, EBADMSG, "a header is not of a regular file");
	snprintf(name, GCK_TAR_NAME, "%.155s%s%.100s", u.prefix, *u.prefix ? "/" : "", u.name);
	return 0;
}
