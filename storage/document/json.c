/* SPDX-License-Identifier: Apache-2.0
 * JSON with long texts, which jansson would copy several times. Before a document is parsed, each
 * long text is replaced by a placeholder: a NUL and a number. Texts with a NUL are refused, so no
 * text of the document is taken for a placeholder. Long texts of hex digits stay packed
 * (hex_table.h). */
#include "storage/document/json.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/encoding.h"
#include "storage/document/hex_table.h"

#define NUL "\\u0000"

/* ---- parsing -------------------------------------------------------------------------------- */

/* A document whose long texts are being replaced, in place. */
struct shortened {
	json_t *texts; /* the long texts; a placeholder has the index */
	char *text;
	size_t to; /* bytes of text that are done */
};

/* Find the end of a string: its quote, or the end of the text. *plain: all characters are
 * printable ASCII and none is escaped. -1: the string has a NUL. */
static int find_end(const char *text, size_t size, size_t at, size_t *end, bool *plain)
{
	*plain = true;
	for (; at < size && text[at] != '"'; at++) {
		if (text[at] < ' ' || text[at] > '~')
			*plain = false;
		if (text[at] != '\\')
			continue;
		if (size - at > strlen(NUL) && !memcmp(text + at, NUL, strlen(NUL)))
			return -1;
		*plain = false;
		at++;
	}
	*end = at < size ? at : size;
	return 0;
}

/* Is the string that ends at `end` the name of a member? */
static bool is_name(const char *text, size_t size, size_t end)
{
	do
		end++;
	while (end < size && memchr(" \t\n\r", text[end], 4));
	return end < size && text[end] == ':';
}

/* Make a value from a long text. Hex digits are packed in place, from the opening quote on. */
static json_t *long_value(char *text, size_t length)
{
	unsigned char *value = (unsigned char *)text - 1;

	if (strspn(text, GCK_HEX_DIGITS) < length)
		return json_stringn_nocheck(text, length);
	gck_packed_hex_pack(text, length, value);
	return json_stringn_nocheck((char *)value, gck_packed_hex_size(length));
}

static int replace_text(struct shortened *t, size_t start, size_t end)
{
	if (json_array_append_new(t->texts, long_value(t->text + start, end - start)) < 0)
		return -1;
	t->text[t->to - 1] = '"'; /* packing may have overwritten this quote */
	t->to += (size_t)sprintf(t->text + t->to, NUL "%zu", json_array_size(t->texts) - 1);
	return 0;
}

static void copy(struct shortened *t, size_t start, size_t end)
{
	memmove(t->text + t->to, t->text + start, end - start);
	t->to += end - start;
}

static int replace_all(struct shortened *t, size_t size, struct gck_error *err)
{
	const char *quote;
	size_t at = 0, start, end;
	bool plain;

	while ((quote = memchr(t->text + at, '"', size - at))) {
		start = (size_t)(quote - t->text) + 1;
		copy(t, at, start);
		if (find_end(t->text, size, start, &end, &plain) < 0)
			return gck_fail(err, EBADMSG,
					"not JSON that may be here: a string has a NUL");
		if (!plain || end - start < GCK_JSON_LONG || is_name(t->text, size, end))
			copy(t, start, end);
		else if (replace_text(t, start, end) < 0)
			return gck_fail(err, ENOMEM, "no memory for a text of %zu bytes",
					end - start);
		at = end < size ? end + 1 : end;
		copy(t, end, at);
	}
	copy(t, at, size);
	return 0;
}

static void put_back(json_t *value, const json_t *texts);

static json_t *original(json_t *value, const json_t *texts)
{
	if (json_string_length(value) && !*json_string_value(value))
		return json_array_get(texts, strtoul(json_string_value(value) + 1, NULL, 10));
	put_back(value, texts);
	return value;
}

static void put_back(json_t *value, const json_t *texts)
{
	for (void *at = json_object_iter(value); at; at = json_object_iter_next(value, at))
		json_object_iter_set(value, at, original(json_object_iter_value(at), texts));
	for (size_t i = 0; i < json_array_size(value); i++)
		json_array_set(value, i, original(json_array_get(value, i), texts));
}

static json_t *load(const struct shortened *t, struct gck_error *err)
{
	json_error_t why = { .text = "" };
	json_t *value = json_loadb(t->text, t->to, JSON_ALLOW_NUL, &why);

	if (value)
		put_back(value, t->texts);
	else if (*why.text)
		gck_fail(err, EBADMSG, "not JSON: %s", why.text);
	else /* only without memory jansson gives no reason */
		gck_fail(err, ENOMEM, "no memory for %zu bytes of JSON", t->to);
	return value;
}

json_t *gck_json_parse(char *text, size_t size, struct gck_error *err)
{
	struct shortened t = { .texts = json_array(), .text = text };
	json_t *value = NULL;

	if (!t.texts)
		gck_fail(err, ENOMEM, "no memory to parse JSON");
	else if (replace_all(&t, size, err) == 0)
		value = load(&t, err);
	json_decref(t.texts);
	return value;
}

/* ---- writing -------------------------------------------------------------------------------- */

struct output {
	char *text;
	size_t n, capacity;
};

static char *more(struct output *m, size_t size)
{
	if (size >= m->capacity - m->n) {
		size_t capacity = 2 * m->capacity + size;
		char *text = realloc(m->text, capacity);

		if (!text)
			return NULL;
		m->text = text;
		m->capacity = capacity;
	}
	m->n += size;
	return m->text + m->n - size;
}

static int add(const char *text, size_t size, void *output)
{
	char *to = more(output, size);

	if (to)
		memcpy(to, text, size);
	return to ? 0 : -1;
}

static int add_value(struct output *m, const json_t *value);

static int add_digits(struct output *m, const json_t *value)
{
	size_t n = gck_packed_hex_digits(value);
	char *to = more(m, n + 2);

	if (!to)
		return -1;
	gck_packed_hex_text((const unsigned char *)json_string_value(value), n, to + 1);
	to[0] = to[n + 1] = '"';
	return 0;
}

static int add_object(struct output *m, json_t *value)
{
	char before = '{';

	for (void *at = json_object_iter(value); at; at = json_object_iter_next(value, at)) {
		json_t *key = json_string(json_object_iter_key(at));
		int rc = add(&before, 1, m) < 0 || add_value(m, key) < 0 || add(":", 1, m) < 0 ||
			 add_value(m, json_object_iter_value(at)) < 0;

		json_decref(key);
		if (rc)
			return -1;
		before = ',';
	}
	return before == '{' ? add("{}", 2, m) : add("}", 1, m);
}

static int add_array(struct output *m, const json_t *value)
{
	for (size_t i = 0; i < json_array_size(value); i++)
		if (add(i ? "," : "[", 1, m) < 0 || add_value(m, json_array_get(value, i)) < 0)
			return -1;
	return json_array_size(value) ? add("]", 1, m) : add("[]", 2, m);
}

static int add_value(struct output *m, const json_t *value)
{
	if (gck_packed_hex_is(value))
		return add_digits(m, value);
	if (json_is_object(value))
		return add_object(m, (json_t *)value);
	if (json_is_array(value))
		return add_array(m, value);
	return json_dump_callback(value, add, m, JSON_ENCODE_ANY);
}

char *gck_json_text(const json_t *value)
{
	struct output m = { NULL, 0, 0 };

	if (add_value(&m, value) == 0 && add("", 1, &m) == 0)
		return m.text;
	free(m.text);
	return NULL;
}
