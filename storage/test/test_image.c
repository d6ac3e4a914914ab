/* SPDX-License-Identifier: Apache-2.0
 * A commit in a file: out of one store and into another, byte by byte damaged, cut off, interrupted. */
#include "config.h"

#include <fcntl.h>

#include "common/test/tap.h"
#include "storage/test/util.h"

#define CHUNK 3000

static char root[ROOT_MAX], url[URL_MAX], to_url[URL_MAX + 8];
static struct gck_store *s;
static const uint64_t one[] = { 1, 2, 3 }, two[] = { 2, 3, 4 };

static const char *file(const char *name)
{
	static char path[ROOT_MAX + 16];

	snprintf(path, sizeof path, "%s/%s", root, name);
	return path;
}

static int export_commit(uint32_t seq, const char *name, struct gck_error *err)
{
	int fd = open(file(name), O_WRONLY | O_CREAT | O_TRUNC, 0600);
	int rc = gck_store_export(s, seq, NULL, fd, err);

	close(fd);
	return rc;
}

static bool stop_at_zero(void *arg, uint64_t done, uint64_t all)
{
	int *left = arg;

	return done > all || (*left)-- > 0;
}

static int import_into(struct gck_store *to, struct gck_store *image, uint32_t seq, struct gck_error *err)
{
	int rc = -1;

	if (gck_store_may_import(to, seq, err) == 0 &&
	    gck_store_verify(image, seq, NULL, NULL, err) == 0)
		rc = gck_store_import(to, image, seq, err);
	if (rc < 0)
		gck_store_remove_empty(to);
	return rc;
}

/* left: steps until it is interrupted; -1: it is not. */
static int import(const char *name, int left, struct gck_error *err)
{
	struct gck_image_id id;
	struct gck_store *image = gck_image_open(file(name), &id, err);
	struct gck_store *to = image ? gck_store_open(to_url, id.cluster, id.job, id.step, true, err) : NULL;
	int rc = -1;

	if (to && left >= 0)
		gck_store_tell(to, stop_at_zero, &left);
	if (to)
		rc = import_into(to, image, id.seq, err);
	gck_store_close(to);
	gck_store_close(image);
	return rc;
}

static bool is_whole(uint32_t seq, struct gck_error *err)
{
	struct gck_store *to = gck_store_open(to_url, "c", 1, 0, false, err);
	bool whole = to && gck_store_verify(to, seq, NULL, NULL, err) == 0;

	gck_store_close(to);
	return whole;
}

static int found_;

static int count_one(const char *path, const struct stat *st, int type, struct FTW *f)
{
	(void)path;
	(void)st;
	(void)f;
	(void)type;
	found_++;
	return 0;
}

/* Everything below the other store. */
static int entries(void)
{
	found_ = 0;
	nftw(to_url + 5, count_one, 16, FTW_PHYS);
	return found_;
}

static void test_interrupted(void)
{
	struct gck_error err = { 0 };
	int stopped = 0, before;

	while (import("1", stopped, &err) < 0 && err.code == ECANCELED && stopped < 100)
		stopped += entries() == 2 ? 1 : 1000;
	ok(stopped > 1 && stopped < 100, "interrupted anywhere (%d): nothing is left", stopped);
	ok(is_whole(1, &err), "it goes in when nothing stops it (%s)", err.text);
	before = entries();
	ok(import("1", -1, &err) < 0 && err.code == EEXIST, "not twice: %s", err.text);
	ok(import("2", 1, &err) < 0 && err.code == ECANCELED && entries() == before &&
	   is_whole(1, &err), "what another needs is not taken back (%s)", err.text);
	ok(import("2", -1, &err) == 0 && is_whole(1, &err) && is_whole(2, &err),
	   "both are whole (%s)", err.text);
}

/* Headers, objects, documents and the end. What fills blocks is nobody's. */
static void test_damaged(size_t size, char *data)
{
	struct gck_error err;
	size_t taken = 0, left = 0;
	int fd;

	for (size_t at = 0; at < size; at += at < 2048 ? 41 : 499) {
		fd = open(file("bad"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
		data[at] ^= 1;
		if (write(fd, data, size) != (ssize_t)size)
			left++;
		data[at] ^= 1;
		close(fd);
		if (import("bad", -1, &err) == 0) {
			taken += !is_whole(1, &err);
			remove_tree(to_url + 5);
			mkdir(to_url + 5, 0700);
		}
		left += entries() > 2;
	}
	is_int((long long)taken, 0, "damage is never taken for a commit that is whole");
	is_int((long long)left, 0, "and leaves nothing");
	taken = 0;
	for (size_t at = 0; at < size - 512; at += 509) {
		fd = open(file("bad"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
		left += write(fd, data, at) != (ssize_t)at;
		close(fd);
		taken += import("bad", -1, &err) == 0;
	}
	is_int((long long)(taken + left), 0, "nor is one that is cut off taken");
}

static void test_file(void)
{
	struct stat st;
	char *data;
	int fd = open(file("1"), O_RDONLY);

	if (fd < 0 || fstat(fd, &st) < 0 || !(data = malloc((size_t)st.st_size)) ||
	    read(fd, data, (size_t)st.st_size) != st.st_size)
		exit(99);
	close(fd);
	test_damaged((size_t)st.st_size, data);
	free(data);
}

int main(void)
{
	struct gck_error err = { 0 };

	make_root(root, url);
	snprintf(to_url, sizeof to_url, "%s/to", url);
	mkdir(to_url + 5, 0700);
	s = gck_store_open(url, "c", 1, 0, true, &err);
	ok(checkpoint(s, 1, "a", GCK_COMPRESS_NONE, 0, one, 3, CHUNK, &err) == 0 &&
	   checkpoint(s, 2, "b", GCK_COMPRESS_NONE, 1, two, 3, CHUNK, &err) == 0,
	   "two commits that share chunks (%s)", err.text);
	ok(export_commit(1, "1", &err) == 0 && export_commit(2, "2", &err) == 0,
	   "are exported (%s)", err.text);
	test_file();
	test_interrupted();
	if (geteuid() == 0 && chown(file("1"), 12345, 12345) == 0)
		ok(import("1", -1, &err) < 0 && err.code == EPERM, "another user's: %s", err.text);
	else
		skip("another user's", "needs root");
	gck_store_close(s);
	remove_tree(root);
	return tap_done();
}
