/* SPDX-License-Identifier: Apache-2.0
 * Files outside the rank that an image depends on. Those whose content was copied are watched until
 * every rank of the step is held: another rank may have written to them meanwhile. Those that the
 * image only refers to have to be on stable storage before the commit can depend on them. */
#ifndef GCK_EXTERNAL_FILES_H
#define GCK_EXTERNAL_FILES_H

#include <sys/stat.h>

#include "shim/process/memory/frozen_copy.h"

struct gck_outside {
	enum gck_kept_of of;   /* GCK_KEPT_FILE or _OBJECT */
	uint32_t index;
	int fd;
	uint64_t size;
	int64_t mtime_ns;
};

struct gck_outsides {
	struct gck_outside *v;
	size_t n;
};

/* Watch a file from here on. A descriptor of its own is kept. */
int gck_outside_add(struct gck_outsides *o, enum gck_kept_of of, uint32_t index, int fd,
		    uint64_t size, int64_t mtime_ns, struct gck_error *err);

/* Does it look now as it did then? *now is filled. -1: it cannot be told. */
int gck_outside_same(const struct gck_outside *x, struct stat *now, bool *same,
		     struct gck_error *err);
void gck_outside_free(struct gck_outsides *o);

int64_t gck_mtime_ns(const struct stat *st);

/* Have the file system keep what this file holds by now. */
int gck_outside_sync(int fd, const char *path, struct gck_error *err);

/* The same for files that img refers to by name: opened for reading, or mapped and not carried. */
int gck_outside_sync_named(const struct gck_image *img, struct gck_error *err);

#endif
