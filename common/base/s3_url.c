/* SPDX-License-Identifier: Apache-2.0
 * URLs of an object store. */
#include "common/base/s3_url.h"

#include <stddef.h>
#include <string.h>

#define ALNUM "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define SCHEME "s3://"

bool gck_s3_is(const char *url)
{
	return strncmp(url, SCHEME, strlen(SCHEME)) == 0;
}

/* The length of the component at p; 0: it is invalid. */
static size_t component(const char *p)
{
	size_t n = strspn(p, ALNUM "._-");

	if ((n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
		return 0;
	return !p[n] || p[n] == '/' ? n : 0;
}

int gck_s3_url_check(const char *url, struct gck_error *err)
{
	const char *p = url + strlen(SCHEME);
	size_t n;

	if (!gck_s3_is(url))
		return gck_fail(err, EINVAL, "must be s3://bucket or s3://bucket/prefix");
	if (strlen(url) >= GCK_S3_URL_MAX)
		return gck_fail(err, ENAMETOOLONG, "is longer than %d bytes", GCK_S3_URL_MAX - 1);
	n = component(p);
	if (n < 3 || n > 63)
		return gck_fail(err, EINVAL,
				"a bucket's name has 3 to 63 letters, digits and . _ -");
	for (p += n; *p; p += n) {
		n = component(++p);
		if (!n)
			return gck_fail(err, EINVAL, "the prefix is of letters, digits and . _ - "
					"between single slashes, with none at its end");
	}
	return 0;
}

bool gck_s3_is_below(const char *url, const char *site)
{
	size_t n = strlen(site);

	return strncmp(url, site, n) == 0 && (!url[n] || url[n] == '/');
}

int gck_s3_endpoint_check(const char *endpoint, struct gck_error *err)
{
	const char *host = strstr(endpoint, "://");
	size_t n;

	if (!host || (strncmp(endpoint, "https://", 8) && strncmp(endpoint, "http://", 7)))
		return gck_fail(err, EINVAL, "must be https://host or https://host:port");
	host += 3;
	n = *host == '[' ? 1 + strspn(host + 1, "0123456789abcdefABCDEF:")
			 : strspn(host, ALNUM ".-");
	if (*host == '[')
		n += host[n] == ']';
	if (n > 0 && host[n] == ':')
		n += 1 + strspn(host + n + 1, "0123456789");
	if (!n || host[n])
		return gck_fail(err, EINVAL, "must be https://host or https://host:port, without a "
				"path: the bucket is in S3Store");
	return 0;
}
