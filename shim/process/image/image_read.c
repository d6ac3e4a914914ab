/* SPDX-License-Identifier: Apache-2.0
 * An image from JSON. Every value is checked: against the tables of image_fields.c here, and
 * against other values in image_check.c. After a failure the tables free what was allocated. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/encoding.h"
#include "shim/process/image/image_fields.h"

struct source {
	const struct gck_chunks *chunks;
	struct gck_error *err;
};

static int get_shape(struct source *s, const struct gck_shape *shape, const json_t *j, void *base);

static void set_number(const struct gck_field *f, uint64_t value, void *at)
{
	uint32_t narrow = (uint32_t)value;

	if (f->size == sizeof(narrow))
		memcpy(at, &narrow, sizeof(narrow));
	else
		memcpy(at, &value, sizeof(value));
}

static int get_int(struct source *s, const struct gck_field *f, const json_t *j, void *at)
{
	json_int_t value = json_integer_value(j);

	if (!json_is_integer(j) || value < f->min ||
	    (value > 0 && (uint64_t)value > f->max))
		return gck_fail(s->err, EINVAL, "not a whole number from %" PRId64 " to %" PRIu64,
				f->min, f->max);
	set_number(f, (uint64_t)value, at);
	return 0;
}

static int get_hex(struct source *s, const struct gck_field *f, const json_t *j, void *at)
{
	size_t n = json_string_length(j);
	uint64_t value;

	if (!n || n > 16 || !gck_unhex_number(json_string_value(j), (unsigned)n, &value) ||
	    value > f->max)
		return gck_fail(s->err, EINVAL, "not a hexadecimal number up to %" PRIx64, f->max);
	set_number(f, value, at);
	return 0;
}

static int get_text(struct source *s, const struct gck_field *f, const json_t *j, char **at)
{
	const json_t *bytes = json_object_get(j, "bytes");
	size_t n = bytes ? json_string_length(bytes) / 2 : json_string_length(j);
	char *text;

	if (json_is_null(j) && f->min == 0)
		return 0;
	if ((!json_is_string(j) && !json_is_string(bytes)) || n > f->max)
		return gck_fail(s->err, EINVAL, "not a text of up to %" PRIu64 " bytes", f->max);
	text = calloc(1, n + 1);
	if (!text)
		return gck_fail(s->err, ENOMEM, "out of memory");
	if (!bytes)
		memcpy(text, json_string_value(j), n);
	if ((bytes && !gck_unhex(json_string_value(bytes), n, (unsigned char *)text)) ||
	    strlen(text) != n) {
		free(text);
		return gck_fail(s->err, EINVAL, "not a text");
	}
	*at = text;
	return 0;
}

static int get_blob(struct source *s, const struct gck_field *f, const json_t *j,
		    unsigned char **at, size_t *size)
{
	size_t n = json_string_length(j) / 2;
	unsigned char *bytes;

	if (!json_is_string(j) || json_string_length(j) % 2 || n < (uint64_t)f->min || n > f->max)
		return gck_fail(s->err, EINVAL, "not %" PRId64 " to %" PRIu64
				" bytes in hexadecimal", f->min, f->max);
	bytes = malloc(n + 1);
	if (!bytes)
		return gck_fail(s->err, ENOMEM, "out of memory");
	if (!gck_unhex(json_string_value(j), n, bytes)) {
		free(bytes);
		return gck_fail(s->err, EINVAL, "not hexadecimal");
	}
	*at = bytes;
	*size = n;
	return 0;
}

static int get_fixed(struct source *s, const struct gck_field *f, const json_t *j, void *at)
{
	if (json_string_length(j) != 2 * f->size ||
	    !gck_unhex(json_string_value(j), f->size, at))
		return gck_fail(s->err, EINVAL, "not %zu bytes in hexadecimal", f->size);
	return 0;
}

static int get_elements(struct source *s, const struct gck_shape *shape, const json_t *j, char *v)
{
	for (size_t i = 0; i < json_array_size(j); i++)
		if (get_shape(s, shape, json_array_get(j, i), v + i * shape->size))
			return gck_fail_in(s->err, "%s %zu", shape->name, i);
	return 0;
}

static int get_list(struct source *s, const struct gck_field *f, const json_t *j, void **at,
		    size_t *count)
{
	size_t n = json_array_size(j);

	if (!json_is_array(j) || n < (uint64_t)f->min || n > f->max)
		return gck_fail(s->err, EINVAL, "not a list of %" PRId64 " to %" PRIu64 " elements",
				f->min, f->max);
	*at = calloc(n + 1, f->of->size);
	if (!*at)
		return gck_fail(s->err, ENOMEM, "out of memory");
	*count = n;
	return get_elements(s, f->of, j, *at);
}

static int get_array(struct source *s, const struct gck_field *f, const json_t *j, void *at)
{
	if (!json_is_array(j) || json_array_size(j) != f->size)
		return gck_fail(s->err, EINVAL, "not a list of %zu elements", f->size);
	return get_elements(s, f->of, j, at);
}

static int get_bool(struct source *s, const json_t *j, bool *at)
{
	if (!json_is_boolean(j))
		return gck_fail(s->err, EINVAL, "neither true nor false");
	*at = json_is_true(j);
	return 0;
}

static int get_hash(struct source *s, const json_t *j, struct gck_hash *at)
{
	if (!json_is_string(j))
		return gck_fail(s->err, EINVAL, "not a hash");
	return gck_hash_parse(json_string_value(j), at, s->err);
}

static int get_field(struct source *s, const struct gck_field *f, const json_t *j, char *base)
{
	void *at = base + f->offset, *count = base + f->count;

	switch (f->type) {
	case GCK_FIELD_INT:
		return get_int(s, f, j, at);
	case GCK_FIELD_HEX:
		return get_hex(s, f, j, at);
	case GCK_FIELD_BOOL:
		return get_bool(s, j, at);
	case GCK_FIELD_TEXT:
		return get_text(s, f, j, at);
	case GCK_FIELD_BLOB:
		return get_blob(s, f, j, at, count);
	case GCK_FIELD_FIXED:
		return get_fixed(s, f, j, at);
	case GCK_FIELD_HASH:
		return get_hash(s, j, at);
	case GCK_FIELD_GROUPS:
		return gck_page_groups_load(at, j, s->chunks, s->err);
	case GCK_FIELD_MASKS:
		return gck_page_groups_load(at, j, NULL, s->err);
	case GCK_FIELD_LIST:
		return get_list(s, f, j, at, count);
	case GCK_FIELD_ARRAY:
		return get_array(s, f, j, at);
	}
	return -1;
}

static int get_shape(struct source *s, const struct gck_shape *shape, const json_t *j, void *base)
{
	for (size_t i = 0; i < shape->nfields; i++) {
		const struct gck_field *f = &shape->fields[i];
		const json_t *value = json_object_get(j, f->name);

		if (!value && i >= shape->nfields - shape->optional)
			continue;
		if (!value)
			return gck_fail(s->err, EINVAL, "%s is missing", f->name);
		if (get_field(s, f, value, base))
			return gck_fail_in(s->err, "%s", f->name);
	}
	return 0;
}

int gck_image_pages(const json_t *manifest, struct gck_page_groups *pages, struct gck_error *err)
{
	const json_t *image = json_object_get(manifest, "image");
	struct gck_chunks chunks;
	int result;

	if (gck_chunks_load(manifest, &chunks, err))
		return -1;
	result = gck_page_groups_load(pages, json_object_get(image, "pages"), &chunks, err);
	gck_chunks_clear(&chunks);
	if (result)
		return gck_fail_in(err, "pages");
	pages->chunks = NULL;
	return 0;
}

static int get_image(struct gck_image *img, const json_t *manifest, struct gck_error *err)
{
	struct source s = {.chunks = &img->chunks, .err = err};

	if (gck_chunks_load(manifest, &img->chunks, err))
		return -1;
	if (get_shape(&s, &gck_image_shape, json_object_get(manifest, "image"), img) ||
	    gck_image_check(img, err))
		return err && err->code == ENOMEM ? -1
						  : gck_fail_in(err, "the manifest is damaged");
	return 0;
}

struct gck_image *gck_image_from_json(const json_t *manifest, struct gck_error *err)
{
	json_t *format = json_object_get(manifest, "format");
	struct gck_image *img;

	if (!json_is_integer(format) || json_integer_value(format) != GCK_IMAGE_FORMAT) {
		gck_fail(err, EINVAL, "the manifest's format is not %d: it is of another version "
			 "of gpuckpt", GCK_IMAGE_FORMAT);
		return NULL;
	}
	img = calloc(1, sizeof(*img));
	if (!img)
		gck_fail(err, ENOMEM, "out of memory for the image");
	if (img && !get_image(img, manifest, err))
		return img;
	gck_image_free(img);
	return NULL;
}

static bool keeps_numbers(const json_t *image)
{
	bool keeps = json_is_true(json_object_get(image, "keeps_numbers"));
	const json_t *one;
	size_t i;

	json_array_foreach(json_object_get(image, "processes"), i, one)
		keeps |= keeps_numbers(one);
	return keeps;
}

static int32_t last_in(const json_t *list, const char *key, int32_t last)
{
	const json_t *one;
	size_t i;

	json_array_foreach(list, i, one) {
		json_int_t number = json_integer_value(json_object_get(one, key));

		if (number > last && number <= INT32_MAX)
			last = (int32_t)number;
	}
	return last;
}

static int32_t last_number(const json_t *image)
{
	int32_t last = last_in(json_object_get(image, "threads"), "vtid", 0), below;
	const json_t *one;
	size_t i;

	last = last_in(json_object_get(image, "children"), "vpid", last);
	json_array_foreach(json_object_get(image, "processes"), i, one) {
		below = last_number(one);
		last = below > last ? below : last;
	}
	return last;
}

int32_t gck_image_last_number(const json_t *manifest)
{
	return last_number(json_object_get(manifest, "image"));
}

int32_t gck_image_number(const json_t *manifest)
{
	const json_t *image = json_object_get(manifest, "image");

	return keeps_numbers(image) ? (int32_t)json_integer_value(json_object_get(image, "vpid"))
				    : 0;
}
