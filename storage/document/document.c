/* SPDX-License-Identifier: Apache-2.0
 * Whole documents, and checked members of their JSON. */
#include <stdlib.h>

#include "storage/document/document.h"

#define DOCUMENT_MAX (1u << 30)

int gck_document_load(struct gck_store *s, const char *name, char **data, size_t *size,
		      char hash[GCK_HASH_TEXT], struct gck_error *err)
{
	uint64_t n;
	char *text;

	if (s->b->ops->size(s->b, name, &n, err) < 0)
		return -1;
	if (n > DOCUMENT_MAX)
		return gck_fail(err, EBADMSG, "%s/%s is damaged: %llu bytes are too many",
				s->b->where, name, (unsigned long long)n);
	text = malloc(n + 1);
	if (!text)
		return gck_fail(err, ENOMEM, "no memory for %s/%s", s->b->where, name);
	if (s->b->ops->get(s->b, name, 0, text, n, err) < 0) {
		free(text);
		return -1;
	}
	text[n] = '\0';
	gck_hash_text(gck_hash_bytes(text, n), hash);
	*data = text;
	*size = n;
	return 0;
}

int gck_document_damaged(const struct gck_store *s, const char *name, const char *why,
			 struct gck_error *err)
{
	return gck_fail(err, EBADMSG, "%s/%s is damaged: %s", s->b->where, name, why);
}

int gck_json_u32(const json_t *object, const char *key, uint32_t *value, struct gck_error *err)
{
	const json_t *v = json_object_get(object, key);
	json_int_t n = json_integer_value(v);

	if (!json_is_integer(v) || n < 0 || n > UINT32_MAX)
		return gck_fail(err, EBADMSG, "\"%s\" is missing or not a number below 2^32", key);
	*value = (uint32_t)n;
	return 0;
}
