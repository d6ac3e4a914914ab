/* SPDX-License-Identifier: Apache-2.0
 * Names in the store: making and recognising them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "storage/base/hash.h"
#include "storage/base/names.h"

static const char alnum[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
static const char hex[] = "0123456789abcdef";

static bool is_nonce(const char *nonce)
{
	size_t n = strspn(nonce, alnum);

	return n > 0 && n <= GCK_NONCE_MAX && !nonce[n];
}

int gck_nonce_check(const char *nonce, struct gck_error *err)
{
	if (is_nonce(nonce))
		return 0;
	return gck_fail(err, EINVAL, "\"%.80s\" is not a nonce: 1 to %d letters and digits", nonce,
			GCK_NONCE_MAX);
}

void gck_name_commit(char name[GCK_NAME_MAX], uint32_t seq)
{
	snprintf(name, GCK_NAME_MAX, "commit-%u.json", seq);
}

void gck_name_dir(char name[GCK_NAME_MAX], uint32_t seq, const char *nonce)
{
	snprintf(name, GCK_NAME_MAX, "%u-%.*s", seq, GCK_NONCE_MAX, nonce);
}

void gck_name_manifest(char name[GCK_NAME_MAX], uint32_t seq, const char *nonce, uint32_t rank)
{
	snprintf(name, GCK_NAME_MAX, "%u-%.*s/rank-%u.json", seq, GCK_NONCE_MAX, nonce, rank);
}

/* As snprintf writes it. */
const char *gck_name_number(const char *text, uint32_t *value)
{
	size_t n = strspn(text, "0123456789");
	unsigned long long v;

	if (n == 0 || n > 10 || (text[0] == '0' && n > 1))
		return NULL;
	v = strtoull(text, NULL, 10);
	if (v > UINT32_MAX)
		return NULL;
	*value = (uint32_t)v;
	return text + n;
}

bool gck_name_is_commit(const char *name, uint32_t *seq)
{
	const char *rest;

	if (strncmp(name, "commit-", 7))
		return false;
	rest = gck_name_number(name + 7, seq);
	return rest && !strcmp(rest, ".json");
}

/* "<seq>-<nonce>/"; returns what follows, or NULL. */
static const char *dir_part(const char *name, uint32_t *seq)
{
	const char *rest = gck_name_number(name, seq);
	size_t n;

	if (!rest || *rest != '-')
		return NULL;
	n = strspn(++rest, alnum);
	return n > 0 && n <= GCK_NONCE_MAX && rest[n] == '/' ? rest + n + 1 : NULL;
}

bool gck_name_is_dir(const char *name, uint32_t *seq)
{
	const char *rest = dir_part(name, seq);

	return rest && !*rest;
}

static bool is_hash(const char *text)
{
	return strspn(text, hex) == GCK_HASH_TEXT - 1 && !text[GCK_HASH_TEXT - 1];
}

bool gck_name_is_object(const char *name)
{
	uint32_t seq;
	const char *rest = dir_part(name, &seq);

	return rest && is_hash(rest);
}

bool gck_name_is_temporary(const char *name)
{
	uint32_t seq;
	const char *rest = dir_part(name, &seq);

	return rest && !strncmp(rest, "tmp-", 4) && strspn(rest + 4, hex) == 16 && !rest[4 + 16];
}

bool gck_name_is_content(const char *name, uint32_t *seq)
{
	const char *rest = dir_part(name, seq);
	uint32_t rank;

	if (!rest || is_hash(rest))
		return rest;
	rest = strncmp(rest, "rank-", 5) ? NULL : gck_name_number(rest + 5, &rank);
	return rest && !strcmp(rest, ".json");
}
