/* SPDX-License-Identifier: Apache-2.0
 * TLS is verified: against the signer's file, for the host in the URL, and by the clock. */
#include "config.h"

#include "storage/s3/test/server.h"
#include "storage/store/store.h"

static time_t ahead; /* this host's clock, also for the library that looks at certificates */

__attribute__((visibility("default"))) time_t time(time_t *out)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	now.tv_sec += ahead;
	if (out)
		*out = now.tv_sec;
	return now.tv_sec;
}

static int try(struct gck_error *err)
{
	struct gck_store *s = open_job(1);
	uint64_t size;
	int rc = s->b->ops->size(s->b, "commit-1.json", &size, err);

	gck_store_close(s);
	return rc;
}

/* Make a self-signed certificate for 127.0.0.1. */
static bool make_certificate(const char *cert, const char *key)
{
	char command[512];

	snprintf(command, sizeof command,
		 "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 "
		 "-subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1 -out %s -keyout %s "
		 "2>/dev/null", cert, key);
	return system(command) == 0;
}

static void test_tls(const char *cert)
{
	struct gck_error err = { 0 };
	char missing[ROOT_MAX + 16];

	snprintf(missing, sizeof missing, "%s/none.pem", dir_);
	sign_.ca = cert;
	ahead = -24 * 3600;
	ok(all_of(try(&err) < 0, err.code == EACCES,
		  strstr(err.text, "not yet valid (is this host's clock behind?")),
	   "a clock that is behind: %s", err.text);
	ahead = 31 * 24 * 3600;
	ok(all_of(try(&err) < 0, err.code == EACCES,
		  strstr(err.text,
			 "expired (renew it on the server; or is this host's clock ahead?")),
	   "an expired certificate: %s", err.text);
	ahead = 0;
	ok(all_of(try(&err) < 0, err.code == ENOENT),
	   "with the right certificate the server answers: %s", err.text);
	calm();
	sign_.ca = NULL;
	ok(all_of(try(&err) < 0, err.code == EACCES, strstr(err.text, "S3CAFile"),
		  strstr(err.text, "commit-1.json")), "without it nothing is asked: %s", err.text);
	is_int(sign_.signed_, 1, "once");
	sign_.ca = missing;
	ok(all_of(try(&err) < 0, err.code == EACCES, strstr(err.text, missing)),
	   "no such file: %s", err.text);
	sign_.ca = cert;
	name_server("localhost", true);
	ok(all_of(try(&err) < 0, err.code == EACCES, strstr(err.text, "S3Endpoint")),
	   "a certificate of another host: %s", err.text);
	is_int(logged("."), 0, "no request has reached it");
}

int main(void)
{
	char cert[ROOT_MAX + 16], key[ROOT_MAX + 16];

	begin();
	snprintf(cert, sizeof cert, "%s/cert.pem", dir_);
	snprintf(key, sizeof key, "%s/key.pem", dir_);
	if (!make_certificate(cert, key)) {
		skip("TLS", "no openssl(1) to make a certificate");
		remove_tree(dir_);
		return tap_done();
	}
	start_server(cert, key);
	test_tls(cert);
	end();
	return tap_done();
}
