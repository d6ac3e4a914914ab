/* SPDX-License-Identifier: Apache-2.0
 * Images in files: a commit and everything it refers to in one tar file. */
#ifndef GCK_ARCHIVE_H
#define GCK_ARCHIVE_H

#include <jansson.h>

#include "storage/base/open_store.h"

struct gck_image_id {
	char cluster[256];
	uint32_t job, step, seq;
};

/* Write a commit and everything it refers to to fd (a tar file), durably. The data is not verified:
 * open the file as an image and verify that. On failure the file has no end and no reader takes
 * it. */
GCK_MUST_CHECK int gck_store_export(struct gck_store *s, uint32_t seq, const char *hash, int fd,
				    struct gck_error *err);

/* Open such a file as a store that has one commit, to be read and verified. EBADMSG: it is not
 * whole, or something else; EPERM: it belongs to another user. */
GCK_MUST_CHECK struct gck_store *gck_image_open(const char *path, struct gck_image_id *id,
						struct gck_error *err);

/* The directories of the step ("7-5ab0c1/", an array of texts) in which an image has something.
 * bytes: the size of its objects. NULL without memory. */
json_t *gck_image_directories(const struct gck_store *image, uint64_t *bytes);

/* Check, before all of an image is read, that its commit can be put into the store s of its step,
 * which was opened with create. EEXIST: the commit exists; EBUSY: another import into that step is
 * running. Until s is closed no other import begins. Whether a commit counts in an object store is
 * for gpuckptd to decide. */
GCK_MUST_CHECK int gck_store_may_import(struct gck_store *s, uint32_t seq, struct gck_error *err);

/* Put the commit of a verified image into s. EEXIST, EBUSY as above. After a failure s is as when
 * it was opened; an object store is so once gpuckptd has swept it. */
GCK_MUST_CHECK int gck_store_import(struct gck_store *s, struct gck_store *image, uint32_t seq,
				    struct gck_error *err);

/* ---- within storage/archive ----------------------------------------------------------------- */

struct gck_archive_member {
	char *name; /* below the step */
	uint64_t offset, size;
};

/* The backend that reads such a file. */
struct gck_archive {
	struct gck_backend head;
	int fd;
	char of[GCK_STEP_ID_MAX]; /* "<cluster>/<job>/<step>" */
	uint32_t seq;
	struct gck_archive_member *v; /* by name */
	size_t n, capacity;
};

#endif
