/* SPDX-License-Identifier: Apache-2.0
 * Logs: files that a rank only appends to. The image has no content of a log, only the hash of its
 * bytes. The hash is computed before the rank is held, and extended by what was appended while it
 * is held. It is checked again afterwards, since a file that is changed in place cannot be restored
 * in this way. */
#ifndef GCK_LOG_PREFIX_H
#define GCK_LOG_PREFIX_H

#include "shim/process/objects/objects.h"

struct gck_prefix;

struct gck_prefixes {
	struct gck_prefix *v;
	size_t n;
};

/* Start hashes of the files of img that are only appended to. */
int gck_prefixes_start(struct gck_prefixes *p, const struct gck_target *t,
		       const struct gck_image *img, struct gck_error *err) GCK_MUST_CHECK;

/* With the rank held: update sizes and hashes in img->files. May be called again: another rank may
 * have appended meanwhile. */
int gck_prefixes_finish(struct gck_prefixes *p, const struct gck_target *t, struct gck_image *img,
			struct gck_error *err) GCK_MUST_CHECK;

/* Read the files again and compare them with the hashes in img. */
int gck_prefixes_verify(const struct gck_prefixes *p, const struct gck_image *img,
			struct gck_error *err) GCK_MUST_CHECK;

/* Flush the files to stable storage before the commit depends on them. */
int gck_prefixes_sync(const struct gck_prefixes *p, const struct gck_image *img,
		      struct gck_error *err) GCK_MUST_CHECK;
void gck_prefixes_free(struct gck_prefixes *p);

#endif
