/* SPDX-License-Identifier: Apache-2.0
 * Built without libcurl, OpenSSL or expat: s3: is refused by name. */
#include "storage/s3/presign.h"

int gck_s3_presign(const struct gck_s3_server *server, const struct gck_sigv4_keys *keys,
		   const struct gck_sign_scope *of, const struct gck_sign_request *r, time_t now,
		   unsigned seconds, char **url, struct gck_error *err)
{
	(void)server;
	(void)keys;
	(void)r;
	(void)now;
	(void)seconds;
	(void)url;
	return gck_fail(err, ENOTSUP, "store %.200s: this gpuckpt was built without s3: (configure "
			"said so); use file:/path", of->url);
}
