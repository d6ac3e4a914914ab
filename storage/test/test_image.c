/* SPDX-License-Identifier: Apache-2.0
 * A commit in a file: exported from a store and imported into another; damaged at each byte,
 * truncated, interrupted. */
#include "config.h"

#include <fcntl.h>

#include "storage/archive/archive.h"
#include "storage/image/image.h"
#include "storage/store/store.h"
#include "storage/test/util.h"
#include "test/support/tap.h"

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

static int import_into(struct gck_store *to, struct gck_store *image, uint32_t seq,
		       struct gck_error *err)
{
	if (gck_store_may_import(to, seq, err) < 0)
		return -1;
	if (gck_store_verify(image, seq, NULL, NULL, err) == 0 && gck_store_import(to, image, seq,
										   err) == 0)
		return 0;
	gck_store_remove_empty(to);
	return -1;
}

/* left: steps until the interruption; -1: none. */
static int import(const char *name, int left, struct gck_error *err)
{
	struct gck_image_id id;
	struct gck_store *image = gck_image_open(file(name), &id, err);
	struct gck_store *to = image ? gck_store_open(to_url, id.cluster, id.job, id.step, true,
						      err) : NULL;
	int rc = -1;

	if (to && left >= 0)
		gck_store_on_progress(to, stop_at_zero, &left);
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

/* The number of entries in the other store. */
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
	ok(all_of(stopped > 1, stopped < 100),
	   "an import interrupted at any point (%d) leaves nothing",
	   stopped);
	ok(is_whole(1, &err), "an import that is not interrupted succeeds (%s)", err.text);
	before = entries();
	ok(all_of(import("1", -1, &err) < 0, err.code == EEXIST),
	   "a second import of the commit: %s", err.text);
	ok(all_of(import("2", 1, &err) < 0, err.code == ECANCELED, entries() == before,
		  is_whole(1, &err)), "objects of another commit are not removed (%s)", err.text);
	ok(all_of(import("2", -1, &err) == 0, is_whole(1, &err), is_whole(2, &err)),
	   "both are intact (%s)", err.text);
}

/* Act in another process's place when an import has put `left` members, then interrupt the
 * import. */
struct beside {
	int left;
	void (*act)(struct beside *b);
	int rc;
	struct gck_error err;
};

static bool stop_beside(void *arg, uint64_t done, uint64_t all)
{
	struct beside *b = arg;

	if (done > all || b->left-- != 0)
		return b->left >= 0;
	b->act(b);
	return false;
}

static void import_beside(struct beside *b)
{
	b->rc = import("1", -1, &b->err);
}

static void commit_beside(struct beside *b)
{
	char path[2 * ROOT_MAX];
	int fd;

	snprintf(path, sizeof path, "%s/c/1/0/commit-1.json", to_url + 5);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
	b->rc = fd < 0 ? -1 : close(fd);
}

static int import_while(struct beside *b, struct gck_error *err)
{
	struct gck_image_id id;
	struct gck_store *image = gck_image_open(file("1"), &id, err);
	struct gck_store *to = gck_store_open(to_url, "c", 1, 0, true, err);
	int rc;

	gck_store_on_progress(to, stop_beside, b);
	rc = gck_store_import(to, image, 1, err);
	gck_store_close(to);
	gck_store_close(image);
	return rc;
}

static void test_beside(void)
{
	struct beside b = { .left = 1, .act = import_beside };
	struct gck_error err = { 0 };
	char path[2 * ROOT_MAX];

	ok(all_of(import_while(&b, &err) < 0, err.code == ECANCELED),
	   "an import is interrupted (%s)", err.text);
	ok(all_of(b.rc < 0, b.err.code == EBUSY),
	   "another import of the file was refused meanwhile: %s", b.err.text);
	is_int(entries(), 4, "neither leaves a file");
	b = (struct beside){ .left = 1, .act = commit_beside };
	ok(all_of(import_while(&b, &err) < 0, b.rc == 0),
	   "a commit with this number appears meanwhile");
	snprintf(path, sizeof path, "%s/c/1/0/commit-1.json", to_url + 5);
	ok(access(path, F_OK) == 0, "the import does not remove it");
	remove_tree(to_url + 5);
	mkdir(to_url + 5, 0700);
}

/* A file that cannot be checked, as on a server that fails sometimes, may be needed by another
 * commit. */
static void test_unseen(void)
{
	struct gck_error err = { 0 };
	char path[2 * ROOT_MAX];
	struct stat st;

	gck_store_close(gck_store_open(to_url, "c", 1, 0, true, &err));
	snprintf(path, sizeof path, "%s/c/1/0/1-a", to_url + 5);
	mkdir(path, 0700);
	snprintf(path, sizeof path, "%s/c/1/0/1-a/rank-0.json", to_url + 5);
	ok(symlink("elsewhere", path) == 0, "another file is in place of a manifest");
	ok(all_of(import("1", -1, &err) < 0, strstr(err.text, "rank-0.json")), "refused: %s",
	   err.text);
	ok(all_of(lstat(path, &st) == 0, S_ISLNK(st.st_mode)),
	   "the file is neither replaced nor removed");
	remove_tree(to_url + 5);
	mkdir(to_url + 5, 0700);
}

/* Damage headers, objects, documents and the end; the padding of blocks is not checked. */
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
	is_int((long long)taken, 0, "a damaged file never imports as an intact commit");
	is_int((long long)left, 0, "and leaves no file");
	taken = 0;
	for (size_t at = 0; at < size - 512; at += 509) {
		fd = open(file("bad"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
		left += write(fd, data, at) != (ssize_t)at;
		close(fd);
		taken += import("bad", -1, &err) == 0;
	}
	is_int((long long)(taken + left), 0, "a truncated file is never imported");
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
	ok(all_of(checkpoint(s, 1, "a", GCK_COMPRESS_NONE, 0, one, 3, CHUNK, &err) == 0,
		  checkpoint(s, 2, "b", GCK_COMPRESS_NONE, 1, two, 3, CHUNK, &err) == 0),
	   "two commits that share chunks (%s)", err.text);
	ok(all_of(export_commit(1, "1", &err) == 0, export_commit(2, "2", &err) == 0),
	   "are exported (%s)", err.text);
	test_file();
	test_beside();
	test_unseen();
	test_interrupted();
	if (geteuid() == 0 && chown(file("1"), 12345, 12345) == 0)
		ok(all_of(import("1", -1, &err) < 0, err.code == EPERM),
		   "an image of another user: %s",
		   err.text);
	else
		skip("another user's", "needs root");
	gck_store_close(s);
	remove_tree(root);
	return tap_done();
}
