/* SPDX-License-Identifier: Apache-2.0
 * Where a path leads at a restart. The kernel named the file when the checkpoint was made, so the
 * path had no symbolic links. Since then another user may have put a link or another file into it,
 * if a directory of it may be written by others: the path is walked component by component. A link
 * is followed only where no other user can have placed it, in directories that root or this user
 * own and nobody else may write. Functions return -1 with errno: ELOOP, such a link was found;
 * ENOTUNIQ, another user's file. */
#ifndef GCK_PLACE_H
#define GCK_PLACE_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "common/base/error.h"

struct gck_place {
	int dir;                 /* O_PATH: the directory of the last component */
	char name[NAME_MAX + 1]; /* "." for the root directory */
	bool missing;
	struct stat st;          /* unless it is missing */
	bool others;             /* another user may have put it there */
};

/* A file as it was at the checkpoint. */
struct gck_place_file {
	uint64_t inode;
	uint32_t owner;          /* 0: root, or unknown */
};

/* Find the place of an absolute path. The last component may be missing, no other one. */
int gck_place_find(const char *path, struct gck_place *p) GCK_MUST_CHECK;
void gck_place_leave(struct gck_place *p);

/* As open(2) with O_PATH and stat(2). was (or NULL): how the file was. Another user's is an error,
 * unless nobody else can have put it there. *another (or NULL): whether it is another file than it
 * was, of an owner who may be trusted: this user, root, or the owner that it had. */
int gck_place_open(const char *path, const struct gck_place_file *was,
		   bool *another) GCK_MUST_CHECK;
int gck_place_stat(const char *path, const struct gck_place_file *was,
		   struct stat *st) GCK_MUST_CHECK;

/* As open(2) with O_CREAT and O_EXCL. */
int gck_place_make(const char *path, int flags, mode_t mode) GCK_MUST_CHECK;

/* Remove the file of fd, which was made at this path, if it still is there. */
void gck_place_remove(const char *path, int fd);

/* Why: the text of an errno of these functions, with a remedy. */
const char *gck_place_reason(int code);

#endif
