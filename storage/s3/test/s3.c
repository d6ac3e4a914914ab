/* SPDX-License-Identifier: Apache-2.0
 * The `s3:` backend with a correct server: objects, documents, pages of names, large
 * documents in parts, removal; then whole checkpoints, prune and discard over it. */
#include "config.h"

#include <pthread.h>

#include "storage/base/parallel.h"
#include "storage/image/image.h"
#include "storage/retention/retention.h"
#include "storage/s3/request.h"
#include "storage/s3/test/server.h"
#include "storage/store/store.h"

#define HASH "0123456789abcdef0123456789abcde"

static int put(struct gck_store *s, const char *name, const void *data, size_t size,
	       struct gck_error *err)
{
	return s->b->ops->put(s->b, name, "7-ab", data, size, err);
}

static bool has(struct gck_store *s, const char *name, const void *data, size_t size)
{
	char *there = malloc(size + 1);
	uint64_t length = 0;
	bool good = s->b->ops->size(s->b, name, &length, NULL) == 0 && length == size &&
		    s->b->ops->get(s->b, name, 0, there, size, NULL) == 0 &&
		    !memcmp(there, data, size);

	free(there);
	return good;
}

/* ---- objects ------------------------------------------------------------------------------- */

static void test_object(const char *how)
{
	struct gck_store *s = open_job(1);
	const struct gck_backend_ops *o = s->b->ops;
	struct gck_error err = { 0 };
	char data[60000], part[100];
	uint64_t size;

	calm();
	fill(data, sizeof data, 1);
	ok(o->put_object(s->b, "7-ab/" HASH "1", data, sizeof data, false, &err) == 0,
	   "%s: an object is put (%s)", how, err.text);
	ok(has(s, "7-ab/" HASH "1", data, sizeof data), "%s: and exists", how);
	ok(all_of(o->get(s->b, "7-ab/" HASH "1", 59900, part, 100, &err) == 0,
		  !memcmp(part, data + 59900, 100)),
		  "%s: a part of the object (%s)", how, err.text);
	ok(all_of(o->get(s->b, "7-ab/" HASH "1", 59950, part, 100, &err) < 0, err.code == EBADMSG),
	   "%s: more bytes than the object has: %s", how, err.text);
	ok(all_of(o->get(s->b, "7-ab/" HASH "1", 60000, part, 100, &err) < 0, err.code == EBADMSG),
	   "%s: bytes behind its end: %s", how, err.text);
	ok(all_of(o->size(s->b, "7-ab/" HASH "2", &size, &err) < 0, err.code == ENOENT),
	   "%s: an object that does not exist: %s", how, err.text);
	is_int(logged("^PUT .*checksum-crc32c"), 1, "its checksum is signed");
	ok(all_of(o->remove(s->b, "7-ab/" HASH "1", &err) == 0,
		  o->remove(s->b, "7-ab/" HASH "1", &err) == 0), "%s: removed, twice", how);
	ok(all_of(o->size(s->b, "7-ab/" HASH "1", &size, &err) < 0, err.code == ENOENT),
	   "%s: and does not exist any more", how);
	gck_store_close(s);
}

static void test_shared(void)
{
	struct gck_store *s = open_job(1);
	const struct gck_backend_ops *o = s->b->ops;

	calm();
	for (int i = 0; i < 3; i++)
		o->put_object(s->b, "7-ab/" HASH "3", "same", 4, true, NULL);
	is_int(logged("^PUT "), 1, "an object that other ranks have put is not transferred again");
	for (int i = 0; i < 2; i++)
		o->put_object(s->b, "7-ab/" HASH "3", "same", 4, false, NULL);
	is_int(logged("^PUT "), 3, "a rank's own object is put without a check");
	gck_store_close(s);
}

static int put_one(void *arg, size_t i, struct gck_error *err)
{
	struct gck_store *s = arg;
	char name[48];

	snprintf(name, sizeof name, "7-ab/%031zx6", i);
	return s->b->ops->put_object(s->b, name, "x", 1, false, err);
}

static void test_many_at_once(void)
{
	struct gck_store *s = open_job(1);

	calm();
	write_file("options", "checksum=ignored");
	write_file("script", "1 PUT 7-ab status 404 NoSuchBucket");
	ok(put_one(s, 0, NULL) < 0,
	   "a refused object does not decide about checksums");
	calm();
	write_file("options", "checksum=ignored");
	ok(gck_parallel(8, 64, put_one, s, NULL) == 0,
	   "many objects at once, to a server that ignores checksums");
	is_int(logged("^PUT .*crc32c"), 1, "one object asks");
	is_int(logged("^PUT "), 65, "and is sent again");
	gck_store_close(s);
}

static void test_checksum_unknown(void)
{
	struct gck_store *s = open_job(1);
	const struct gck_backend_ops *o = s->b->ops;

	calm();
	write_file("options", "checksum=no");
	ok(all_of(o->put_object(s->b, "7-ab/" HASH "4", "x", 1, false, NULL) == 0,
		  o->put_object(s->b, "7-ab/" HASH "5", "x", 1, false, NULL) == 0),
	   "a server that does not know checksums");
	is_int(logged("^PUT .* 501"), 1, "is asked once");
	gck_store_close(s);
	s = open_job(1);
	o = s->b->ops;
	calm();
	write_file("options", "checksum=ignored");
	write_file("script", "2 PUT 5[?] spoil");
	ok(all_of(o->put_object(s->b, "7-ab/" HASH "4", "x", 1, false, NULL) == 0,
		  o->put_object(s->b, "7-ab/" HASH "5", "x", 1, false, NULL) == 0),
	   "a server that ignores checksums");
	is_int(logged("^PUT .*crc32c"), 1, "is asked once");
	ok(all_of(logged("^PUT .*md5.* 400") == 2, has(s, "7-ab/" HASH "5", "x", 1)),
	   "and gets MD5s, which it verifies");
	gck_store_close(s);
}

/* ---- documents ----------------------------------------------------------------------------- */

static void test_commit(void)
{
	struct gck_store *s = open_job(2);
	struct gck_error err = { 0 };

	calm();
	ok(put(s, "commit-7.json", "first", 5, &err) == 0, "a commit is put (%s)", err.text);
	is_int(logged("^PUT .*if-none-match"), 1, "only if it does not exist");
	is_int(logged("^PUT .*content-md5"), 1, "with its MD5");
	ok(all_of(put(s, "commit-7.json", "other", 5, &err) < 0, err.code == EEXIST,
		  strstr(err.text, "commit-7.json")), "another one of that name is refused: %s",
	   err.text);
	ok(has(s, "commit-7.json", "first", 5), "the first one stays");
	ok(put(s, "commit-7.json", "first", 5, &err) == 0, "the same commit again is no failure");
	ok(all_of(put(s, "7-ab/rank-0.json", "a", 1, &err) == 0,
		  put(s, "7-ab/rank-0.json", "b", 1, &err) == 0), "a manifest may be replaced");
	calm();
	write_file("script", "1 PUT commit-8 lost");
	ok(all_of(put(s, "commit-8.json", "mine", 4, &err) == 0, logged("^PUT .* 412") == 1),
	   "a commit whose first answer was lost is recognised (%s)", err.text);
	calm();
	write_file("options", "condition=no");
	ok(all_of(put(s, "commit-9.json", "first", 5, &err) == 0,
		  put(s, "commit-10.json", "x", 1, &err) == 0),
	   "a server without conditions gets it without one (%s)", err.text);
	is_int(logged("^PUT .* 501"), 1, "and is asked once");
	gck_store_close(s);
}

/* ---- parts --------------------------------------------------------------------------------- */

#define LARGE ((size_t)33 << 20)

static void test_parts(void)
{
	struct gck_store *s = open_job(3);
	const struct gck_backend_ops *o = s->b->ops;
	struct gck_error err = { 0 };
	char *data = malloc(LARGE);
	uint64_t size;

	calm();
	fill(data, LARGE, 3);
	ok(put(s, "7-ab/rank-0.json", data, LARGE, &err) == 0, "a large document (%s)", err.text);
	ok(has(s, "7-ab/rank-0.json", data, LARGE), "exists");
	is_int(logged("^PUT .*partNumber=.*content-md5|^PUT .*content-md5.*partNumber="), 3,
	       "in three parts with their MD5");
	calm();
	write_file("script", "1 PUT partNumber=2 status 503 SlowDown\n1 PUT partNumber=3 drop\n"
		   "1 POST uploadId= error200 InternalError\n");
	ok(all_of(put(s, "7-ab/rank-1.json", data, LARGE, &err) == 0,
		  has(s, "7-ab/rank-1.json", data, LARGE)),
	   "with faults in parts and at the end (%s)", err.text);
	is_int(logged("^PUT "), 5, "each part is retried by itself");
	is_int(logged("^POST .*uploadId="), 2, "an error in a 200 is an error");
	calm();
	write_file("script",
		   "1 PUT partNumber=2 say <html></html>\n1 POST uploadId= say <html></html>\n");
	ok(all_of(put(s, "7-ab/rank-1.json", data, LARGE, &err) == 0,
		  has(s, "7-ab/rank-1.json", data, LARGE)),
	   "with a proxy's page for a part, and for the end (%s)", err.text);
	is_int(logged("^PUT ") + logged("^POST .*uploadId="), 4 + 2, "each is requested again");
	calm();
	write_file("script", "1 POST uploadId= lost");
	ok(all_of(put(s, "7-ab/rank-2.json", data, LARGE, &err) == 0, logged("^POST .* 404")),
	   "completed, but the answer was lost (%s)", err.text);
	calm();
	write_file("script", "99 PUT partNumber=2 status 500 InternalError");
	ok(all_of(put(s, "7-ab/rank-3.json", data, LARGE, &err) < 0,
		  strstr(err.text, "part 2 of 3"), strstr(err.text, "7-ab/rank-3.json"),
		  strstr(err.text, "InternalError")), "a part that fails for good: %s", err.text);
	is_int(logged("^DELETE .*uploadId=.* 204"), 1, "ends the upload");
	calm();
	write_file("script", "99 POST uploadId= error200 InternalError");
	ok(all_of(put(s, "7-ab/rank-3.json", data, LARGE, &err) < 0,
		  strstr(err.text, "InternalError")), "an error inside each 200: %s", err.text);
	ok(all_of(o->size(s->b, "7-ab/rank-3.json", &size, &err) < 0, err.code == ENOENT),
	   "the document does not exist");
	free(data);
	gck_store_close(s);
}

/* ---- lists --------------------------------------------------------------------------------- */

struct found {
	char text[4096];
};

static int collect(void *arg, const char *name, struct gck_error *err)
{
	struct found *f = arg;
	size_t n = strlen(f->text);

	(void)err;
	snprintf(f->text + n, sizeof f->text - n, "%s ", name);
	return 0;
}

static void is_list(struct gck_store *s, const char *dir, const char *want, const char *name)
{
	struct found f = { "" };
	struct gck_error err = { 0 };

	ok(s->b->ops->list(s->b, dir, collect, &f, &err) == 0, "%s (%s)", name, err.text);
	is_str(f.text, want, name);
}

static void test_lists(void)
{
	struct gck_store *s = open_job(4), *other = open_job(40);
	struct gck_error err = { 0 };
	char name[GCK_NAME_MAX];

	calm();
	is_list(s, "", "", "an empty step");
	ok(all_of(!gck_store_open("s3://bucket/pre/fix", CLUSTER, 4, 0, false, &err),
		  err.code == ENOENT), "is not opened for reading: %s", err.text);
	for (int i = 1; i <= 5; i++) {
		snprintf(name, sizeof name, "commit-%d.json", i);
		put(s, name, "x", 1, NULL);
		snprintf(name, sizeof name, "%d-ab/rank-0.json", i);
		put(s, name, "x", 1, NULL);
	}
	put(s, "5-ab/rank-1.json", "x", 1, NULL);
	put(s, "5-ab/rank-2.json", "x", 1, NULL);
	put(other, "commit-9.json", "x", 1, NULL);
	calm();
	write_file("options", "page=2");
	is_list(s, "", "1-ab/ 2-ab/ 3-ab/ 4-ab/ 5-ab/ commit-1.json commit-2.json commit-3.json "
		"commit-4.json commit-5.json ", "a step in pages");
	is_int(logged("^GET .*list-type=2"), 5, "of two names");
	is_list(s, "5-ab/", "rank-0.json rank-1.json rank-2.json ", "a directory in pages");
	is_list(s, "6-ab/", "", "a directory that does not exist");
	write_file("script", "1 GET continuation-token say <html></html>");
	is_list(s, "5-ab/", "rank-0.json rank-1.json rank-2.json ",
		"a page that is not a list, once");
	write_file("script", "999 GET continuation-token say <html></html>");
	ok(all_of(s->b->ops->list(s->b, "5-ab/", collect, &(struct found){ "" }, &err) < 0,
		  err.code == EPROTO, strstr(err.text, "/4/0/5-ab/: list: attempt 10: ")),
	   "always: %s", err.text);
	calm();
	write_file("script", "9 GET list-type say <ListBucketResult><IsTruncated>true</IsTruncated>"
		   "</ListBucketResult>");
	ok(all_of(s->b->ops->list(s->b, "", collect, &(struct found){ "" }, &err) < 0,
		  err.code == EPROTO), "more pages without a token: %s", err.text);
	gck_store_close(s);
	gck_store_close(other);
}

/* ---- checkpoints --------------------------------------------------------------------------- */

static void begin_upload(struct gck_store *s, const char *name)
{
	struct gck_s3_call c = { .sign = { GCK_SIGN_CREATE_MULTIPART, name } };

	if (gck_s3_call((struct gck_s3_store *)s->b, &c, NULL) == 0)
		gck_s3_end(&c);
}

static void test_checkpoints(void)
{
	static const uint64_t one[] = { 1, 2, 3, 4 }, two[] = { 3, 4, 5 };
	const uint32_t keep[] = { 2 };
	struct gck_store *s = open_job(5);
	struct gck_error err = { 0 };
	char hashes[1][GCK_HASH_TEXT];
	struct gck_writer *w;
	uint64_t bytes;

	calm();
	write_file("options", "page=2");
	ok(checkpoint(s, 1, "aa", GCK_COMPRESS_LZ4, 0, one, 4, 200000, &err) == 0,
	   "a checkpoint (%s)", err.text);
	ok(checkpoint(s, 2, "bb", GCK_COMPRESS_LZ4, 1, two, 3, 200000, &err) == 0,
	   "another that shares chunks with it (%s)", err.text);
	ok(all_of(gck_store_verify(s, 1, NULL, &bytes, &err) == 0,
		  gck_store_verify(s, 2, NULL, &bytes, &err) == 0), "both are intact (%s)",
	   err.text);
	calm();
	ok(all_of(gck_store_check(s, 2, NULL, &bytes, &err) == 0, bytes == 2,
		  logged("^GET .*/[0-9a-f]{32}") == 0),
	   "which is checked without reading an object (%s)", err.text);
	w = open_writer(s, 3, "cc", GCK_COMPRESS_NONE, NULL, &err);
	write_rank(w, 0, one, 4, 1000, hashes[0], &err);
	gck_writer_close(w);
	begin_upload(s, "3-cc/rank-0.json");
	ok(gck_store_discard(s, 3, "cc", &err) == 0, "an aborted one is discarded (%s)", err.text);
	is_list(s, "", "1-aa/ 2-bb/ commit-1.json commit-2.json ", "none of its objects is left");
	begin_upload(s, "1-aa/rank-7.json");
	begin_upload(s, "4-dd/rank-0.json");
	begin_upload(s, "9-ee/rank-0.json");
	is_list(s, "", "1-aa/ 2-bb/ commit-1.json commit-2.json 4-dd/ 9-ee/ ",
		"unfinished uploads are listed");
	calm();
	ok(gck_store_prune(s, keep, 1, 9, &err) == 0, "prune (%s)", err.text);
	is_int(logged("^DELETE .*uploadId=.* 204"), 2, "aborts unfinished uploads");
	is_list(s, "3-cc/", "", "which leaves an empty directory");
	ok(gck_store_verify(s, 2, NULL, &bytes, &err) == 0,
	   "the kept commit is intact (%s)", err.text);
	is_list(s, "", "1-aa/ 2-bb/ commit-2.json 9-ee/ ", "and the busy one stays");
	calm();
	write_file("options", "multiparts=no");
	ok(gck_store_prune(s, keep, 1, 9, &err) == 0, "a server without lists of uploads (%s)",
	   err.text);
	gck_store_close(s);
}

/* ---- a server that fails in the middle of a prune ------------------------------------------- */

static bool lists(struct gck_store *s, char text[sizeof(struct found)])
{
	static const char *const dirs[] = { "", "1-aa/", "2-bb/", "3-cc/" };
	struct found f = { "" };

	for (size_t i = 0; i < sizeof dirs / sizeof dirs[0]; i++)
		if (s->b->ops->list(s->b, dirs[i], collect, &f, NULL) < 0)
			return false;
	strcpy(text, f.text);
	return true;
}

/* A commit to remove, one to keep that needs objects of it, and what a killed checkpoint left. */
static struct gck_store *open_to_prune(uint32_t job)
{
	static const uint64_t one[] = { 1, 2, 3, 4 }, two[] = { 3, 4, 5 }, other[] = { 6 };
	struct gck_store *s = open_job(job);
	char hash[1][GCK_HASH_TEXT];
	struct gck_writer *w;

	checkpoint(s, 1, "aa", GCK_COMPRESS_NONE, 0, one, 4, 200000, NULL);
	checkpoint(s, 2, "bb", GCK_COMPRESS_NONE, 1, two, 3, 200000, NULL);
	w = open_writer(s, 3, "cc", GCK_COMPRESS_NONE, NULL, NULL);
	write_rank(w, 0, other, 1, 1000, hash[0], NULL);
	gck_writer_close(w);
	begin_upload(s, "1-aa/rank-7.json");
	return s;
}

/* A prune whose requests of this method fail from the nth on does no harm, and the next prune
 * completes it. *ended: the prune made fewer than n requests. */
static bool survives_failures(const char *method, unsigned n, bool *ended)
{
	static const uint32_t keep[] = { 2 };
	static uint32_t job = 100;
	struct gck_store *s = open_to_prune(job++);
	char left[sizeof(struct found)] = "";
	struct gck_error err = { 0 };
	bool good;

	calm();
	write_file("options", "page=1");
	write_file("script", "%u %s . as-ever\n9999 %s . status 500 InternalError", n, method,
		   method);
	*ended = gck_store_prune(s, keep, 1, 4, &err) == 0;
	calm();
	good = (*ended || strstr(err.text, "attempt 10: the server answers 500")) &&
	       gck_store_verify(s, 2, NULL, NULL, &err) == 0 &&
	       gck_store_prune(s, keep, 1, 4, &err) == 0 && lists(s, left) &&
	       strstr(left, "1-aa/ 2-bb/ commit-2.json ") == left && !strstr(left, "3-cc") &&
	       gck_store_verify(s, 2, NULL, NULL, &err) == 0;
	if (!good)
		printf("# request %u: %s; left: %s\n", n + 1, err.text, left);
	gck_store_close(s);
	return good;
}

static void test_struck_prune(void)
{
	static const char *const methods[] = { "GET", "HEAD", "DELETE" };

	for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
		bool good = true, ended = false;
		unsigned n;

		for (n = 0; !ended && n < 200; n++)
			good &= survives_failures(methods[i], n, &ended);
		ok(all_of(good, ended, n > 2), "a prune of which each %s fails in turn: %u",
		   methods[i], n - 1);
	}
}

/* ---- many at once -------------------------------------------------------------------------- */

#define THREADS 8
#define EACH 2

struct many {
	struct gck_store *s;
	const char *data;
	unsigned failed;
};

static void *put_many(void *arg)
{
	struct many *m = arg;
	char name[GCK_NAME_MAX];

	for (unsigned i = 0; i < EACH; i++) {
		snprintf(name, sizeof name, "7-ab/" HASH "%x", i);
		if (m->s->b->ops->put_object(m->s->b, name, m->data, GCK_OBJECT_MAX, false, NULL) <
		    0)
			__atomic_add_fetch(&m->failed, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

static long peak_kib(void)
{
	char line[128];
	FILE *f = fopen("/proc/self/status", "r");
	long kib = 0;

	while (f && fgets(line, sizeof line, f))
		if (sscanf(line, "VmHWM: %ld", &kib) == 1)
			break;
	fclose(f);
	return kib;
}

static void test_many(void)
{
	struct many m = { .s = open_job(6), .data = malloc(GCK_OBJECT_MAX) };
	pthread_t threads[THREADS];
	long before, after;

	calm();
	fill((char *)m.data, GCK_OBJECT_MAX, 6);
	before = peak_kib();
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, put_many, &m);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	after = peak_kib();
	is_int(m.failed, 0, "8 threads put 2 objects of 16 MiB each");
	ok(has(m.s, "7-ab/" HASH "1", m.data, GCK_OBJECT_MAX), "and the objects exist");
	ok(after - before < 64 << 10, "in less memory than 4 objects (%ld KiB)", after - before);
	is_int(sign_.signed_, THREADS * EACH + 2, "each with its own signature");
	gck_store_close(m.s);
	free((char *)m.data);
}

int main(void)
{
	begin();
	start_server(NULL, NULL);
	test_object("path addressing");
	test_shared();
	test_checksum_unknown();
	test_many_at_once();
	test_commit();
	test_lists();
	test_checkpoints();
	test_many(); /* before large documents have made the peak higher */
	test_parts();
	test_struck_prune();
	name_server("localhost", false);
	sign_.server.virtual_host = true;
	test_object("virtual host");
	end();
	return tap_done();
}
