/* SPDX-License-Identifier: Apache-2.0
 * Reading whole documents, checked members of their JSON, and encrypting a part of them. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "storage/crypto/keyring.h"
#include "storage/document/document.h"
#include "storage/document/json.h"

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

/* ---- encryption ----------------------------------------------------------------------------- */

bool gck_document_is_encrypted(const json_t *document)
{
	return json_object_get(document, "sealed");
}

static const char *wrapped_of(const json_t *document)
{
	return json_string_value(json_object_get(json_object_get(document, "sealed"), "key"));
}

/* The associated data of the encrypted part: the document's name and its plain part. free() it. */
static char *about(const struct gck_store *s, const char *name, const json_t *plain,
		   struct gck_error *err)
{
	char *dump = json_dumps(plain, JSON_COMPACT | JSON_SORT_KEYS), *text = NULL;

	if (!dump || asprintf(&text, "%s/%s\n%s", s->of, name, dump) < 0) {
		text = NULL;
		gck_fail(err, ENOMEM, "no memory for %s", name);
	}
	free(dump);
	return text;
}

static json_t *no_memory(const char *name, struct gck_error *err)
{
	gck_fail(err, ENOMEM, "no memory for %s", name);
	return NULL;
}

static json_t *copy_with(const json_t *plain, json_t *sealed)
{
	json_t *all = json_copy((json_t *)plain);

	if (all && sealed && json_object_set(all, "sealed", sealed) == 0)
		return all;
	json_decref(all);
	return NULL;
}

json_t *gck_document_encrypt(struct gck_store *s, const char *name, const json_t *plain,
			const json_t *inside, struct gck_error *err)
{
	json_t *sealed = json_pack("{s:s}", "key", s->wrapped), *all = copy_with(plain, sealed);
	char *bound = all ? about(s, name, all, err) : NULL;
	char *text = bound ? gck_json_text(inside) : NULL;
	char *box = text ? gck_text_encrypt(s->key, bound, text, err) : NULL;

	if (!all || (bound && !text))
		no_memory(name, err);
	if (box && json_object_set_new(sealed, "box", json_string(box)) < 0) {
		no_memory(name, err);
		box[0] = '\0';
	}
	if (!box || !*box) {
		json_decref(all);
		all = NULL;
	}
	free(box);
	free(bound);
	json_decref(sealed);
	return all;
}

int gck_document_key(struct gck_store *s, const json_t *document, const struct gck_job_key **seal,
		   struct gck_error *err)
{
	const char *wrapped = wrapped_of(document);

	*seal = NULL;
	if (!gck_document_is_encrypted(document))
		return 0;
	if (!wrapped)
		return gck_fail(err, EBADMSG, "its \"sealed\" has no \"key\"");
	*seal = gck_keyring_get(s, wrapped, err);
	return *seal ? 0 : -1;
}

/* The document without its encrypted part, to which that part is bound. */
static json_t *without_box(const json_t *document)
{
	json_t *sealed = json_pack("{s:s}", "key", wrapped_of(document));
	json_t *rest = copy_with(document, sealed);

	json_decref(sealed);
	return rest;
}

static char *open_box(struct gck_store *s, const char *name, const json_t *document,
		      const json_t *rest, struct gck_error *err)
{
	const json_t *box = json_object_get(json_object_get(document, "sealed"), "box");
	const struct gck_job_key *seal;
	char *bound, *text;

	if (gck_document_key(s, document, &seal, err) < 0)
		return NULL;
	if (!json_is_string(box)) {
		gck_fail(err, EBADMSG, "its \"sealed\" has no \"box\"");
		return NULL;
	}
	bound = about(s, name, rest, err);
	text = bound ? gck_text_decrypt(seal, bound, json_string_value(box), err) : NULL;
	free(bound);
	return text;
}

json_t *gck_document_decrypt(struct gck_store *s, const char *name, const json_t *document,
			struct gck_error *err)
{
	json_t *rest, *inside = NULL;
	char *text;

	if (!gck_document_is_encrypted(document))
		return json_incref((json_t *)document);
	rest = wrapped_of(document) ? without_box(document) : json_object();
	text = rest ? open_box(s, name, document, rest, err) : NULL;
	if (!rest)
		no_memory(name, err);
	if (text && !(inside = gck_json_parse(text, strlen(text), err)))
		gck_fail_in(err, "what is sealed in it");
	if (inside && json_object_update(rest, inside) < 0) {
		if (json_is_object(inside))
			no_memory(name, err);
		else
			gck_fail(err, EBADMSG, "what is sealed in it is not an object");
		json_decref(inside);
		inside = NULL;
	}
	free(text);
	if (!inside) {
		json_decref(rest);
		gck_fail_in(err, "%s/%s", s->b->where, name);
		return NULL;
	}
	json_decref(inside);
	return rest;
}
