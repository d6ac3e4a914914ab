/* SPDX-License-Identifier: Apache-2.0
 * A file that is whole gets its name. */
#ifndef CLI_PUBLISH_H
#define CLI_PUBLISH_H

#include "common/base/error.h"

/* Durably, and without replacing what is there (EEXIST), whatever the file system has for that. The
 * temporary name, in the same directory, may be left. */
int give_name(const char *temporary, const char *path, struct gck_error *err);

#endif
