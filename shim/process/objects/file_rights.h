/* SPDX-License-Identifier: Apache-2.0
 * What a restart needs of files outside the rank, as the job's user: to open each again, and a
 * directory for what it cuts from a log. A scan finds what is missing before anything is stopped,
 * by the rules that the restart uses. */
#ifndef GCK_FILE_RIGHTS_H
#define GCK_FILE_RIGHTS_H

#include <limits.h>

#include "common/place/place.h"
#include "shim/process/rank/scan.h"

/* Open a file again, found as gck_place_open does. If this user owns it and its mode forbids this,
 * the mode is changed for that moment. -1 with errno. */
int gck_rights_open(const char *path, int flags, const struct gck_place_file *was,
		    bool *another) GCK_MUST_CHECK;

/* Likewise the file of a descriptor, which may have been opened with O_PATH. */
int gck_rights_reopen(int at, int flags) GCK_MUST_CHECK;

/* Whether gck_rights_open would succeed; false with errno. Opens nothing: somebody may watch the
 * file (inotify) and take it for finished when a writer closes it. */
bool gck_rights_allow(const char *path, int flags) GCK_MUST_CHECK;

/* Whether a file's attributes forbid to set it back, whoever asks: append-only, immutable. */
bool gck_rights_fixed(const char *path) GCK_MUST_CHECK;

/* The directories in which a restart may keep what it cuts from the file at path, best first: the
 * file's, the program's (cwd), the user's (home; may be NULL). false: there is no n-th one. */
bool gck_rights_directory(unsigned n, const char *path, const char *cwd, const char *home,
			  char directory[PATH_MAX]) GCK_MUST_CHECK;

/* The first of them that can be written; *n: which. false with errno: none. */
bool gck_rights_place(const char *path, const char *cwd, const char *home, unsigned *n,
		      char directory[PATH_MAX]) GCK_MUST_CHECK;

/* The user's directory in an environment: "NAME=value" texts; NULL: it has none. */
const char *gck_rights_home(const char *environment, size_t size);

/* Check all files of s->img. After the mappings and descriptors. */
int gck_scan_file_rights(struct gck_scan *s) GCK_MUST_CHECK;

#endif
