/* SPDX-License-Identifier: Apache-2.0
 * URLs of an object store: s3://bucket[/prefix] and https://host[:port]. Plain libc. */
#ifndef GCK_S3_URL_H
#define GCK_S3_URL_H

#include <stdbool.h>

#include "common/base/error.h"

#define GCK_S3_URL_MAX 512 /* with the NUL; a key, which has more appended, is 1024 bytes at most */

/* Does the URL begin with s3://? */
bool gck_s3_is(const char *url);

/* Check a URL: a bucket of 3 to 63 letters, digits and . _ -, and components of these characters
 * other than "." and "..". So no name that is appended to a prefix leads out of it. */
GCK_MUST_CHECK int gck_s3_url_check(const char *url, struct gck_error *err);

/* Is url equal to site or below it? Both must have been checked. */
bool gck_s3_is_below(const char *url, const char *site);

/* Check https://host[:port]; http:// is for test servers. */
GCK_MUST_CHECK int gck_s3_endpoint_check(const char *endpoint, struct gck_error *err);

#endif
