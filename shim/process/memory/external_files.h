/* SPDX-License-Identifier: Apache-2.0
 * Files outside the rank that an image depends on. A file whose content was copied is watched until
 * every rank of the step is held, since another rank may write to it meanwhile. A file that the
 * image only names must be on stable storage before the commit. */
#ifndef GCK_EXTERNAL_FILES_H
#define GCK_EXTERNAL_FILES_H

#include <sys/stat.h>

#include "shim/process/memory/frozen_copy.h"

struct gck_external_file {
	enum gck_frozen_of of;   /* GCK_FROZEN_FILE or _OBJECT */
	uint32_t index;
	int fd;
	uint64_t size;
	int64_t mtime_ns;
};

struct gck_external_files {
	struct gck_external_file *v;
	size_t n;
};

/* Watch a file from now on, with a duplicate of fd. */
int gck_external_add(struct gck_external_files *o, enum gck_frozen_of of, uint32_t index, int fd,
		    uint64_t size, int64_t mtime_ns, struct gck_error *err) GCK_MUST_CHECK;

/* Compare size and time of a watched file with those at the copy. Fills *now. -1: unreadable. */
int gck_external_same(const struct gck_external_file *x, struct stat *now, bool *same,
		     struct gck_error *err) GCK_MUST_CHECK;
void gck_external_free(struct gck_external_files *o);

int64_t gck_mtime_ns(const struct stat *st);

/* Set a file's time of modification. */
int gck_set_mtime(int fd, int64_t mtime_ns) GCK_MUST_CHECK;

/* Flush a file to stable storage. */
int gck_external_sync(int fd, const char *path, struct gck_error *err) GCK_MUST_CHECK;

/* Flush the files that img only names: opened for reading, mapped without their content, or the
 * output of the task. */
int gck_external_sync_named(const struct gck_image *img, struct gck_error *err) GCK_MUST_CHECK;

#endif
