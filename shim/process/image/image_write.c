/* SPDX-License-Identifier: Apache-2.0
 * An image as JSON (doc/image-format.md). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/encoding.h"
#include "shim/process/image/image_fields.h"

static json_t *put_shape(const struct gck_shape *shape, const void *base);

static json_t *put_bytes(const unsigned char *bytes, size_t n)
{
	char *text = malloc(2 * n + 1);
	json_t *j;

	if (!text)
		return NULL;
	gck_hex(bytes, n, text);
	j = json_stringn_nocheck(text, 2 * n);
	free(text);
	return j;
}

/* Names are bytes to the kernel. A name that is not UTF-8 becomes {"bytes": "<hex>"}. */
static json_t *put_text(const char *text)
{
	json_t *j = text ? json_string(text) : json_null();

	return j ? j : json_pack("{s:o}", "bytes",
				 put_bytes((const unsigned char *)text, strlen(text)));
}

static uint64_t load(const void *at, size_t size)
{
	uint32_t narrow;
	uint64_t wide;

	if (size == sizeof(narrow)) {
		memcpy(&narrow, at, sizeof(narrow));
		return narrow;
	}
	memcpy(&wide, at, sizeof(wide));
	return wide;
}

static json_t *put_int(const struct gck_field *f, const void *at)
{
	uint64_t value = load(at, f->size);

	if (f->size == 4 && f->max <= INT32_MAX)
		return json_integer((int32_t)value);
	return json_integer((json_int_t)value);
}

static json_t *put_hex(const struct gck_field *f, const void *at)
{
	char text[20];

	snprintf(text, sizeof(text), "%" PRIx64, load(at, f->size));
	return json_string(text);
}

static json_t *put_hash(const struct gck_hash *hash)
{
	char text[GCK_HASH_TEXT];

	gck_hash_text(*hash, text);
	return json_string(text);
}

static json_t *put_list(const struct gck_shape *shape, const void *v, size_t n)
{
	json_t *list = json_array();

	for (size_t i = 0; i < n && list; i++)
		if (json_array_append_new(list, put_shape(shape, (const char *)v +
									 i * shape->size))) {
			json_decref(list);
			return NULL;
		}
	return list;
}

static json_t *put_field(const struct gck_field *f, const char *base)
{
	const void *at = base + f->offset;
	const void *pointer = NULL;
	size_t n = 0;

	if (f->type == GCK_FIELD_TEXT || f->type == GCK_FIELD_BLOB || f->type == GCK_FIELD_LIST)
		memcpy(&pointer, at, sizeof(pointer));
	if (f->type == GCK_FIELD_BLOB || f->type == GCK_FIELD_LIST)
		memcpy(&n, base + f->count, sizeof(n));
	switch (f->type) {
	case GCK_FIELD_INT:
		return put_int(f, at);
	case GCK_FIELD_HEX:
		return put_hex(f, at);
	case GCK_FIELD_BOOL:
		return json_boolean(*(const bool *)at);
	case GCK_FIELD_TEXT:
		return put_text(pointer);
	case GCK_FIELD_BLOB:
		return put_bytes(pointer, n);
	case GCK_FIELD_FIXED:
		return put_bytes(at, f->size);
	case GCK_FIELD_HASH:
		return put_hash(at);
	case GCK_FIELD_GROUPS:
	case GCK_FIELD_MASKS:
		return gck_hex_table_json(&((const struct gck_page_groups *)at)->rows);
	case GCK_FIELD_LIST:
		return put_list(f->of, pointer, n);
	case GCK_FIELD_ARRAY:
		return put_list(f->of, at, f->size);
	}
	return NULL;
}

static json_t *put_shape(const struct gck_shape *shape, const void *base)
{
	json_t *j = json_object();

	for (size_t i = 0; i < shape->nfields && j; i++)
		if (json_object_set_new(j, shape->fields[i].name,
					put_field(&shape->fields[i], base))) {
			json_decref(j);
			return NULL;
		}
	return j;
}

json_t *gck_image_to_json(const struct gck_image *img, struct gck_error *err)
{
	json_t *j = json_pack("{s:i, s:o}", "format", GCK_IMAGE_FORMAT, "image",
			      put_shape(&gck_image_shape, img));

	if (!j)
		gck_fail(err, ENOMEM, "out of memory for the manifest");
	return j;
}
