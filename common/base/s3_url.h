/* SPDX-License-Identifier: Apache-2.0
 * URLs of an object store: s3://bucket[/prefix] and https://host[:port]. Plain libc. */
#ifndef GCK_S3_URL_H
#define GCK_S3_URL_H

#include <stdbool.h>

#include "common/base/error.h"

#define GCK_S3_URL_MAX 512 /* with the NUL: what is appended to it must fit into a key of 1024 bytes */

/* Does the URL begin with s3://? */
bool gck_s3_is(const char *url);

/* A bucket of 3 to 63 letters, digits and . _ -, and components of those that are neither "." nor
 * "..": what is appended to a prefix can never lead out of it. */
int gck_s3_url_check(const char *url, struct gck_error *err);

/* Is url site itself, or below it? Both are checked. */
bool gck_s3_is_below(const char *url, const char *site);

/* https://host[:port], or http:// for a server that is tested. */
int gck_s3_endpoint_check(const char *endpoint, struct gck_error *err);

#endif
