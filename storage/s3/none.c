/* SPDX-License-Identifier: Apache-2.0
 * Replaces the `s3:` backend in a build without libcurl, OpenSSL or expat: s3: URLs are refused. */
#include "storage/s3/presign.h"
#include "storage/s3/s3.h"

static int refuse(const char *url, struct gck_error *err)
{
	return gck_fail(err, ENOTSUP, "store %.200s: this gpuckpt was built without s3: (configure "
			"said so); use file:/path", url);
}

struct gck_backend *gck_s3_open(const char *url, const char *cluster, uint32_t job, uint32_t step,
				bool create, struct gck_error *err)
{
	(void)cluster;
	(void)job;
	(void)step;
	(void)create;
	refuse(url, err);
	return NULL;
}

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
	return refuse(of->url, err);
}

int gck_s3_walk(const char *url, const char *cluster, gck_walk_fn *fn, void *arg,
		struct gck_error *err)
{
	(void)cluster;
	(void)fn;
	(void)arg;
	return refuse(url, err);
}

int gck_s3_probe(const char *url, const char *cluster, struct gck_s3_probe *found,
		 struct gck_error *err)
{
	(void)cluster;
	(void)found;
	return refuse(url, err);
}
