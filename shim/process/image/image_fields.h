/* SPDX-License-Identifier: Apache-2.0
 * The members of an image as tables. Writing JSON, reading it and freeing all use these, so they
 * cannot differ. */
#ifndef GCK_IMAGE_FIELDS_H
#define GCK_IMAGE_FIELDS_H

#include "shim/process/image/image.h"

enum gck_field_type {
	GCK_FIELD_INT,     /* JSON integer from min to max; size 4 or 8 */
	GCK_FIELD_HEX,     /* uint64_t or uint32_t as text in hexadecimal, at most max */
	GCK_FIELD_BOOL,
	GCK_FIELD_TEXT,    /* char *; may be NULL if min is 0; at most max bytes */
	GCK_FIELD_BLOB,    /* unsigned char * and its size at `count`, from min to max bytes */
	GCK_FIELD_FIXED,   /* size bytes in place */
	GCK_FIELD_HASH,
	GCK_FIELD_GROUPS,
	GCK_FIELD_MASKS,   /* page groups without chunks */
	GCK_FIELD_LIST,    /* pointer to elements `of`, their number at `count`, from min to max */
	GCK_FIELD_ARRAY,   /* size elements `of` in place */
};

struct gck_shape;

struct gck_field {
	const char *name;
	enum gck_field_type type;
	size_t offset, size, count;
	int64_t min;
	uint64_t max;
	const struct gck_shape *of;
};

struct gck_shape {
	const char *name;              /* of one element, for messages */
	size_t size, nfields;
	const struct gck_field *fields;
	size_t optional;               /* so many at the end are missing (all zero) in images of
				        * older versions */
};

extern const struct gck_shape gck_image_shape;

/* Free what a struct of this shape owns. */
void gck_shape_free(const struct gck_shape *shape, void *base);

#endif
