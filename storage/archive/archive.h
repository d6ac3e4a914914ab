/* SPDX-License-Identifier: Apache-2.0
 * A commit with all that it needs in one file: what a file is checked for before it is believed. */
#ifndef GCK_ARCHIVE_H
#define GCK_ARCHIVE_H

#include "storage/store/internal.h"

struct gck_archive_member {
	char *name; /* below the step */
	uint64_t offset, size;
};

/* The backend that reads such a file. */
struct gck_archive {
	struct gck_backend head;
	int fd;
	char of[GCK_OF_MAX]; /* "<cluster>/<job>/<step>" */
	uint32_t seq;
	struct gck_archive_member *v; /* by name */
	size_t n, room;
};

#endif
