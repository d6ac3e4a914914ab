/* SPDX-License-Identifier: Apache-2.0
 * The `s3:` backend and a faulty server: each kind of fault in each request, once (the operation
 * must succeed) and always (the message must name the object and the cause); refused signatures;
 * clocks that differ; wrong bytes. */
#include "config.h"

#include <pthread.h>

#include "storage/image/image.h"
#include "storage/s3/request.h"
#include "storage/s3/signer.h"
#include "storage/s3/sigv4.h"
#include "storage/s3/test/server.h"
#include "storage/store/store.h"

#define OBJECT "7-ab/0123456789abcdef0123456789abcdef"

static const char content[] = "what is in it, and a little more than that";
static struct gck_store *s;

/* ---- the requests -------------------------------------------------------------------------- */

static int do_put(struct gck_error *err)
{
	return s->b->ops->put_object(s->b, OBJECT, content, sizeof content, false, err);
}

static int do_commit(struct gck_error *err)
{
	return s->b->ops->put(s->b, "commit-7.json", "7-ab", content, sizeof content, err);
}

static int do_get(struct gck_error *err)
{
	char data[sizeof content];

	if (s->b->ops->get(s->b, OBJECT, 0, data, sizeof data, err) < 0)
		return -1;
	return memcmp(data, content, sizeof data) ? gck_fail(err, EBADMSG, "wrong bytes") : 0;
}

static int do_size(struct gck_error *err)
{
	uint64_t size;

	if (s->b->ops->size(s->b, OBJECT, &size, err) < 0)
		return -1;
	return size == sizeof content ? 0 : gck_fail(err, EBADMSG, "wrong size");
}

static int count(void *arg, const char *name, struct gck_error *err)
{
	(void)name;
	(void)err;
	++*(int *)arg;
	return 0;
}

static int do_list(struct gck_error *err)
{
	int n = 0;

	if (s->b->ops->list(s->b, "7-ab/", count, &n, err) < 0)
		return -1;
	return n == 1 ? 0 : gck_fail(err, EBADMSG, "%d names", n);
}

static int do_remove(struct gck_error *err)
{
	return s->b->ops->remove(s->b, OBJECT, err);
}

static const struct request {
	const char *method, *where; /* a regex */
	int (*make)(struct gck_error *err);
	const char *object;
} requests[] = {
	{ "PUT", "7-ab/0123", do_put, OBJECT ": put: " },
	{ "PUT", "commit-7", do_commit, "commit-7.json: put: " },
	{ "GET", "7-ab/0123", do_get, OBJECT ": get: " },
	{ "HEAD", "7-ab/0123", do_size, OBJECT ": head: " },
	{ "GET", "list-type", do_list, "7-ab/: list: " },
	{ "DELETE", "7-ab/0123", do_remove, OBJECT ": delete: " },
};

#define REQUESTS (sizeof requests / sizeof requests[0])

/* ---- the faults ---------------------------------------------------------------------------- */

static const struct fault {
	const char *action; /* in the script */
	const char *says;   /* in the message, if the fault is permanent; NULL: not tested */
	const char *only;   /* the method that has the fault; NULL: all */
} faults[] = {
	{ "status 500 InternalError", "answers 500" },
	{ "status 502 BadGateway", "answers 502" },
	{ "status 503 SlowDown", "answers 503" },
	{ "status 504 GatewayTimeout", "answers 504" },
	{ "status 429 TooManyRequests", "answers 429" },
	{ "status 408 RequestTimeout", "answers 408" },
	{ "status 409 OperationAborted", "answers 409" },
	{ "status 400 BadDigest", "the bytes change on their way", "PUT" },
	{ "spoil", "the bytes change on their way", "PUT" },
	{ "early 503 SlowDown", NULL },
	{ "garbage", "attempt 10: " },
	{ "drop", "attempt 10: " },
	{ "lost", NULL },
	{ "cut", "attempt 10: ", "GET" },
	{ "error200 InternalError", "answers 200 InternalError", "PUT" },
	{ "range bytes", "from 9 on", "GET" },
	{ "say <html></html>", "the answer " },
	{ "more", "larger than what was asked for", "GET" },
};

#define FAULTS (sizeof faults / sizeof faults[0])

static bool applies(const struct fault *f, const struct request *r)
{
	if (f->only && strcmp(f->only, r->method))
		return false;
	return !f->only || strcmp(f->only, "GET") || r->make == do_get;
}

/* Before each test the object exists and the commit does not. */
static void set(void)
{
	struct gck_error err = { 0 };

	calm();
	if (do_put(&err) < 0 || s->b->ops->remove(s->b, "commit-7.json", &err) < 0)
		printf("Bail out! %s\n", err.text);
	calm();
}

static void once(const struct fault *f, const struct request *r)
{
	struct gck_error err = { 0 };

	set();
	/* libcurl itself replaces a kept connection that turns out to be closed, once. */
	write_file("script", "%d %s %s %s", strchr(f->action, ' ') ? 1 : 2, r->method, r->where,
		   f->action);
	ok(r->make(&err) == 0, "%s of %s, once %s (%s)", r->method, r->object, f->action, err.text);
	ok(sign_.signed_ >= 2, "with a new signature");
}

static void always(const struct fault *f, const struct request *r)
{
	struct gck_error err = { 0 };

	set();
	write_file("script", "999 %s %s %s", r->method, r->where, f->action);
	ok(all_of(r->make(&err) < 0, strstr(err.text, r->object),
		  (!f->says || !strcmp(r->method, "HEAD") || strstr(err.text, f->says))),
	   "%s always %s: %s", r->method, f->action, err.text);
	ok(logged("X-Amz-Signature") >= 10 || strstr(f->action, "early"), "after 10 attempts");
}

static void test_faults(void)
{
	for (size_t i = 0; i < REQUESTS; i++) {
		for (size_t k = 0; k < FAULTS; k++) {
			if (!applies(&faults[k], &requests[i]))
				continue;
			once(&faults[k], &requests[i]);
			if (faults[k].says)
				always(&faults[k], &requests[i]);
		}
	}
}

/* A server that does not know ranges; or a page with an ETag. */
static void test_no_range(void)
{
	struct gck_error err = { 0 };

	set();
	write_file("script", "1 GET 7-ab/0123 whole");
	ok(all_of(do_get(&err) == 0, logged("^GET ") == 1),
	   "the whole object, where its first part was asked for (%s)", err.text);
	set();
	write_file("script", "1 GET 7-ab/0123 whole less");
	ok(all_of(do_get(&err) == 0, logged("^GET ") == 2), "less than was asked for, once (%s)",
	   err.text);
	set();
	write_file("script", "999 GET 7-ab/0123 whole less");
	ok(all_of(do_get(&err) < 0, err.code == EPROTO, strstr(err.text, OBJECT)), "always: %s",
	   err.text);
}

/* A page that is not a list must not count as an empty list: the caller would forget objects. */
static void test_lists(void)
{
	static const char *const queries[] = { "list-type", "[?&]uploads" };
	struct gck_error err = { 0 };

	for (size_t i = 0; i < 2; i++) {
		int n = 0;

		set();
		write_file("script", "1 GET %s say <html></html>", queries[i]);
		ok(all_of(s->b->ops->list(s->b, "", count, &n, &err) == 0, n == 1),
		   "%s: a page of a proxy's, once (%s)", queries[i], err.text);
		write_file("script", "999 GET %s say <html></html>", queries[i]);
		ok(all_of(s->b->ops->list(s->b, "", count, &n, &err) < 0, err.code == EPROTO,
			  strstr(err.text, "/1/0/: list"),
			  strstr(err.text, "attempt 10: the answer is <html>")), "always: %s",
		   err.text);
	}
}

/* A refusal that is final is not retried ten times. */
static void test_final(void)
{
	static const struct {
		const char *action, *says;
		int code;
	} v[] = {
		{ "status 400 InvalidRequest", "400 InvalidRequest, as scripted", EIO },
		{ "status 404 NoSuchBucket", "see S3Store", ENODEV },
		{ "status 403 QuotaExceeded", "raise the quota", EDQUOT },
		{ "status 403 AccessDenied", "may S3KeyFile's keys", EACCES },
		{ "status 301 PermanentRedirect", "see S3Endpoint and S3Region", EIO },
		{ "status 507 InsufficientStorage", "is full", ENOSPC },
		{ "status 501 NotImplemented", "501 NotImplemented", ENOTSUP },
	};

	for (size_t i = 0; i < sizeof v / sizeof v[0]; i++) {
		struct gck_error err = { 0 };

		set();
		write_file("script", "999 PUT 7-ab %s", v[i].action);
		ok(all_of(do_put(&err) < 0, err.code == v[i].code, strstr(err.text, v[i].says),
			  strstr(err.text, OBJECT)), "%s: %s", v[i].action, err.text);
		ok(logged("^PUT ") <= 2, "is not retried many times");
		gck_store_close(s); /* so that a new one asks for the server's features */
		s = open_job(1);
	}
}

/* ---- waiting ------------------------------------------------------------------------------- */

#define WAITS 9 /* between 10 attempts */

static struct {
	bool on; /* record waits in milliseconds instead of waiting */
	long ms[WAITS];
	unsigned n;
} waits;

int nanosleep(const struct timespec *t, struct timespec *left)
{
	if (!waits.on)
		return clock_nanosleep(CLOCK_MONOTONIC, 0, t, left) ? -1 : 0;
	if (waits.n < WAITS)
		waits.ms[waits.n] = t->tv_sec * 1000 + t->tv_nsec / 1000000;
	waits.n++;
	return 0;
}

static void record_waits(const char *script)
{
	set();
	waits.on = true;
	waits.n = 0;
	write_file("script", "%s", script);
	ok(do_put(NULL) < 0, "%s", script);
	waits.on = false;
	is_int(waits.n, WAITS, "a wait before each attempt but the first");
}

static void test_back_off(void)
{
	static const long most[WAITS] = { 200, 400, 800, 1600, 3200, 6400, 10000, 10000, 10000 };
	unsigned pause = gck_s3_pause;
	long first[WAITS];

	gck_s3_pause = 200;
	record_waits("999 PUT 7-ab status 503 SlowDown");
	for (int i = 0; i < WAITS; i++)
		ok(all_of(waits.ms[i] >= most[i] / 2, waits.ms[i] <= most[i]),
		   "wait %d is half of %ld ms and some: %ld ms", i + 1, most[i], waits.ms[i]);
	memcpy(first, waits.ms, sizeof first);
	record_waits("999 PUT 7-ab status 503 SlowDown");
	ok(memcmp(first, waits.ms, sizeof first) != 0, "the waits of another request differ");
	record_waits("999 PUT 7-ab status 503 SlowDown 20");
	is_int(waits.ms[0], 20000, "the wait of Retry-After");
	record_waits("999 PUT 7-ab status 503 SlowDown 9999");
	is_int(waits.ms[0], 30000, "but no more than half a minute");
	gck_s3_pause = pause;
}

/* ---- silence ------------------------------------------------------------------------------- */

#define SILENT "7-ab/fedcba9876543210fedcba9876543210"

static void hear(void *arg, const struct gck_error *why)
{
	if (strstr(why->text, OBJECT))
		*(struct gck_error *)arg = *why;
}

static void *get_silent(void *err)
{
	char data[sizeof content];

	return s->b->ops->get(s->b, SILENT, 0, data, sizeof data, err) < 0 ? err : NULL;
}

/* Requests whose first answer does not come, while another thread waits for SILENT. */
static void test_short_silence(void)
{
	struct gck_error err = { 0 }, heard = { 0 };
	int before;

	for (size_t i = 0; i < REQUESTS; i++) {
		write_file("script", "1 %s %s silence", requests[i].method, requests[i].where);
		ok(requests[i].make(&err) == 0, "%s of %s: a silence (%s)", requests[i].method,
		   requests[i].object, err.text);
	}
	ok(do_put(&err) == 0, "the object is put again (%s)", err.text);
	before = logged("^GET .*7-ab/0123");
	write_file("script", "2 GET 7-ab/0123 drip");
	ok(do_get(&err) == 0, "an answer that drips (%s)", err.text);
	ok(logged("^GET .*7-ab/0123") >= before + 3, "counts as silence");
	write_file("script", "1 GET 7-ab/0123 silence");
	gck_store_on_retry(hear, &heard);
	ok(all_of(do_get(&err) == 0, strstr(heard.text, OBJECT), strstr(heard.text, "no progress")),
	   "the reason of a retry is reported: %s", heard.text);
	gck_store_on_retry(NULL, NULL);
}

static void test_silence(void)
{
	struct gck_error err = { 0 };
	pthread_t thread;
	void *failed = NULL;

	gck_store_request_timeout(1);
	set();
	write_file("options", "silent=" SILENT);
	must(-pthread_create(&thread, NULL, get_silent, &err));
	test_short_silence();
	pthread_join(thread, &failed);
	ok(all_of(failed, err.code == ETIMEDOUT, strstr(err.text, SILENT),
		  strstr(err.text, "no progress")), "silence for good: %s", err.text);
	gck_store_request_timeout(30);
}

static void test_no_server(void)
{
	struct gck_error err = { 0 };
	int port = port_;

	set();
	port_ = 1;
	name_server("127.0.0.1", false);
	ok(all_of(do_get(&err) < 0, err.code == EPIPE, strstr(err.text, OBJECT),
		  strstr(err.text, "port 1")), "no server: %s", err.text);
	port_ = port;
	name_server("127.0.0.1", false);
	ok(do_get(&err) == 0, "and with a server again");
}

/* ---- signatures ---------------------------------------------------------------------------- */

static void refused(const char *says, const char *name)
{
	struct gck_error err = { 0 };

	ok(all_of(do_get(&err) < 0, err.code == EACCES, strstr(err.text, says),
		  strstr(err.text, OBJECT)), "%s: %s", name, err.text);
	is_int(sign_.signed_, 2, "two signatures are requested");
	calm();
}

static void test_signatures(void)
{
	struct gck_error err = { 0 };

	set();
	sign_.stale = 1;
	ok(do_get(&err) == 0, "an expired signature is renewed (%s)", err.text);
	is_int(logged("^GET .* 403"), 1, "after it was refused");
	set();
	sign_.keys.secret = "other";
	refused("secret in S3KeyFile", "a wrong secret");
	sign_.keys = (struct gck_sigv4_keys){ "nobody", "se/cr+et", NULL };
	refused("InvalidAccessKeyId: see S3KeyFile", "a wrong key");
	sign_.keys.access = "lab:AK";
	sign_.server.region = "us-west-1";
	ok(all_of(do_get(&err) < 0, strstr(err.text, "expecting 'eu-1': see S3Region")),
	   "a wrong region: %s", err.text);
	sign_.server.region = "eu-1";
	set();
	sign_.refuse = EPERM;
	ok(all_of(do_put(&err) < 0, err.code == EPERM, strstr(err.text, OBJECT),
		  strstr(err.text, "somebody else's")), "the signer refuses: %s", err.text);
	is_int(sign_.calls, 1, "one signature is requested");
	sign_.refuse = 0;
}

static void test_clocks(void)
{
	set();
	write_file("options", "skew=-2000");
	refused("RequestTimeTooSkewed, The difference is too large.: the clock of gpuckptd's host "
		"is ",
		"the server's clock is behind");
	write_file("options", "skew=-2000");
	refused(" s ahead of the object store's: set both by NTP", "the server's clock is behind");
	write_file("options", "skew=2000");
	refused(" s behind the object store's: set both by NTP", "the server's clock is ahead");
}

/* ---- bytes --------------------------------------------------------------------------------- */

static void test_bytes(void)
{
	static const uint64_t seeds[] = { 1, 2, 3 };
	struct gck_error err = { 0 };
	uint64_t bytes;

	set();
	write_file("script", "999 GET 7-ab/0123 less");
	ok(all_of(do_get(&err) < 0, err.code == EBADMSG, strstr(err.text, OBJECT)),
	   "an object that became shorter: %s", err.text);
	gck_store_close(s);
	s = open_job(2);
	calm();
	err.text[0] = '\0';
	ok(checkpoint(s, 1, "aa", GCK_COMPRESS_NONE, 0, seeds, 3, 5000, &err) == 0,
	   "a checkpoint (%s)", err.text);
	ok(gck_store_verify(s, 1, NULL, &bytes, &err) == 0, "is whole (%s)", err.text);
	write_file("script", "999 GET 1-aa/[0-9a-f]{32}[?] flip");
	ok(all_of(gck_store_verify(s, 1, NULL, &bytes, &err) < 0, err.code == EBADMSG,
		  strstr(err.text, "/1-aa/"), strstr(err.text, "damaged")),
	   "wrong bytes of an object: %s", err.text);
	write_file("script", "999 GET 1-aa/rank-0 flip");
	ok(all_of(gck_store_verify(s, 1, NULL, &bytes, &err) < 0, err.code == EBADMSG,
		  strstr(err.text, "rank-0.json")), "wrong bytes of a manifest: %s", err.text);
	write_file("script", "999 GET commit-1 flip");
	ok(all_of(gck_store_verify(s, 1, NULL, &bytes, &err) < 0, err.code == EBADMSG,
		  strstr(err.text, "commit-1.json")), "wrong bytes of a commit: %s", err.text);
}

int main(void)
{
	begin();
	start_server(NULL, NULL);
	s = open_job(1);
	test_faults();
	test_no_range();
	test_lists();
	test_final();
	test_back_off();
	test_silence();
	test_no_server();
	test_signatures();
	test_clocks();
	test_bytes();
	gck_store_close(s);
	end();
	return tap_done();
}
