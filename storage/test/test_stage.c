/* SPDX-License-Identifier: Apache-2.0
 * Staging: objects lie on the node's disk only until the manifest is written; reads use intact
 * copies there; a fault of the disk does not fail a write that the store accepts; objects that the
 * newest commit does not need are removed. */
#include "config.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/time.h>

#include "storage/image/image.h"
#include "storage/retention/retention.h"
#include "storage/stage/stage.h"
#include "storage/store/commit.h"
#include "storage/store/store.h"
#include "storage/test/util.h"
#include "test/support/tap.h"
#include "test/support/read_chunk.h"

#define SIZE 100000
#define CHUNKS 4

static char root[ROOT_MAX], url[URL_MAX], disk[ROOT_MAX], own[128], step_dir[256];
static const uint64_t seeds[][CHUNKS] = {{0}, {1, 2, 3, 4}, {1, 2, 13, 14}, {1, 22, 23, 24}};

static struct gck_store *open_stage(void)
{
	struct gck_error err = { 0 };
	struct gck_store *stage = gck_stage_open(disk, "c", 1, 0, true, &err);

	if (!stage)
		printf("# %s\n", err.text);
	return stage;
}

static struct gck_store *open_staged(void)
{
	struct gck_error err = { 0 };
	struct gck_store *s = gck_store_open(url, "c", 1, 0, true, &err);
	struct gck_store *stage = open_stage();

	if (!s || !stage || gck_store_stage(s, stage, &err) < 0) {
		printf("# %s\n", err.text);
		exit(99);
	}
	return s;
}

/* Entries of a directory whose name does not begin with "rank-" (or does). */
static int count(const char *where, const char *dir, bool manifests)
{
	char path[512];
	struct dirent *e;
	int n = 0;
	DIR *d;

	snprintf(path, sizeof path, "%s/%s", where, dir);
	d = opendir(path);
	while (d && (e = readdir(d)))
		n += e->d_name[0] != '.' && !strncmp(e->d_name, "rank-", 5) == manifests;
	if (d)
		closedir(d);
	return n;
}

static int in_store(const char *dir)
{
	char where[256];

	snprintf(where, sizeof where, "%s/c/1/0", root);
	return count(where, dir, false);
}

static int in_stage(const char *dir)
{
	return count(step_dir, dir, false);
}

enum harm { FLIP, CUT, REMOVE };

/* Apply a function to every object of a directory. */
static void harm(const char *where, const char *dir, enum harm how)
{
	char path[600];
	struct dirent *e;
	char byte;
	DIR *d;
	int fd;

	snprintf(path, sizeof path, "%s/%s", where, dir);
	d = opendir(path);
	while (d && (e = readdir(d))) {
		if (e->d_name[0] == '.' || !strncmp(e->d_name, "rank-", 5))
			continue;
		snprintf(path, sizeof path, "%s/%s/%s", where, dir, e->d_name);
		fd = open(path, O_RDWR);
		if (how == FLIP && pread(fd, &byte, 1, 5000) == 1 && (byte ^= 1, 1))
			byte = (char)pwrite(fd, &byte, 1, 5000);
		else if ((how == CUT && ftruncate(fd, 5000) < 0) || (how == REMOVE && unlink(path)))
			perror(path);
		close(fd);
	}
	if (d)
		closedir(d);
}

/* ---- writing -------------------------------------------------------------------------------- */

static int put_all(struct gck_writer *w, uint32_t seq, struct gck_error *err)
{
	static unsigned char data[SIZE];
	struct gck_chunk c;

	for (size_t i = 0; i < CHUNKS; i++) {
		fill(data, SIZE, seeds[seq][i]);
		if (gck_writer_put(w, data, SIZE, &c, err) < 0)
			return -1;
	}
	return gck_writer_finish(w, err);
}

static int commit(struct gck_store *s, struct gck_writer *w, uint32_t seq, struct gck_error *err)
{
	char hashes[1][GCK_HASH_TEXT], hash[GCK_HASH_TEXT];
	json_t *m = json_pack("{s:i}", "rank", 0), *document;
	int rc = gck_writer_manifest(w, 0, m, hashes[0], err);

	json_decref(m);
	if (rc < 0)
		return -1;
	document = commit_of(seq, "a", hashes, 1);
	rc = gck_store_commit(s, seq, document, hash, err);
	json_decref(document);
	return rc;
}

static struct gck_writer *begin(struct gck_store *s, uint32_t seq, struct gck_error *err)
{
	json_t *old = seq > 1 ? gck_store_read_commit(s, seq - 1, NULL, NULL, err) : NULL;
	json_t *manifest = old ? gck_store_read_manifest(s, old, 0, err) : NULL;
	struct gck_writer *w = open_writer(s, seq, "a", GCK_COMPRESS_NONE, manifest, err);

	json_decref(manifest);
	json_decref(old);
	return w;
}

/* A whole checkpoint. waiting (may be NULL): bytes that only the stage had before the manifest. */
static int take(struct gck_store *s, uint32_t seq, uint64_t *waiting, struct gck_error *why,
		struct gck_error *err)
{
	struct gck_writer *w = begin(s, seq, err);
	int rc = w ? put_all(w, seq, err) : -1;
	uint64_t n = gck_store_staged_bytes(s, why);

	if (waiting)
		*waiting = n;
	if (rc == 0)
		rc = commit(s, w, seq, err);
	gck_writer_close(w);
	return rc;
}

static int verify(uint32_t seq, struct gck_error *err)
{
	struct gck_store *s = gck_store_open(url, "c", 1, 0, false, err);
	int rc = gck_store_verify(s, seq, NULL, NULL, err);

	gck_store_close(s);
	return rc;
}

static bool tell(void *arg, uint64_t done, uint64_t all)
{
	uint64_t *told = arg;

	told[0]++;
	told[1] = done;
	return all != done || !told[2];
}

static void test_write(void)
{
	struct gck_error err = { 0 }, why;
	struct gck_store *s = open_staged();
	struct gck_writer *w = begin(s, 1, &err);
	uint64_t told[3] = { 0 }, waiting = 0;

	gck_store_on_progress(s, tell, told);
	ok(put_all(w, 1, &err) == 0, "an image is staged: %s", err.text);
	is_int((long long)gck_store_staged_bytes(s, &why), CHUNKS * SIZE, "all its bytes wait");
	is_int(in_stage("1-a"), 1, "its object is in the stage");
	is_int(in_store("1-a"), 0, "and not yet in the store");
	ok(gck_writer_put(w, "x", 1, &(struct gck_chunk){ 0 }, NULL) < 0,
	   "nothing more can be put");
	ok(commit(s, w, 1, &err) == 0, "the manifest uploads it: %s", err.text);
	is_int((long long)gck_store_staged_bytes(s, &why), 0, "no bytes wait");
	is_int(in_store("1-a"), 1, "its object is in the store");
	ok(all_of(told[0] == 1, told[1] == CHUNKS * SIZE), "the progress was reported");
	gck_writer_close(w);
	ok(verify(1, &err) == 0, "the store alone has the image: %s", err.text);
	ok(take(s, 2, &waiting, &why, &err) == 0, "a second one: %s", err.text);
	is_int((long long)waiting, 2 * SIZE, "chunks of the previous commit are not staged");
	ok(verify(2, &err) == 0, "the second is intact: %s", err.text);
	gck_store_close(s);
}

static void test_no_upload(void)
{
	static const char *const names[] = { "changed", "cut", "removed" };
	struct gck_error err = { 0 };
	char dir[] = "3-a";

	for (enum harm how = FLIP; how <= REMOVE; how++) {
		struct gck_store *s = open_staged();
		struct gck_writer *w = begin(s, 3, &err);

		put_all(w, 3, &err);
		harm(step_dir, dir, how);
		ok(all_of(commit(s, w, 3, &err) < 0, strstr(err.text, "stage")),
		   "%s before the upload: %s", names[how], err.text);
		is_int(in_store(dir), 0, "no object reaches the store");
		gck_writer_close(w);
		gck_store_close(s);
		s = open_stage();
		ok(all_of(gck_store_discard(s, 3, "a", &err) == 0, in_stage(dir) == 0),
		   "an aborted checkpoint is removed from the stage");
		gck_store_close(s);
	}
}

static void test_stopped(void)
{
	struct gck_error err = { 0 };
	struct gck_store *s = open_staged();
	struct gck_writer *w = begin(s, 3, &err);
	uint64_t told[3] = { 0, 0, 1 };

	gck_store_on_progress(s, tell, told);
	put_all(w, 3, &err);
	ok(all_of(commit(s, w, 3, &err) < 0, err.code == ECANCELED), "an upload is stopped: %s",
	   err.text);
	gck_writer_close(w);
	gck_store_close(s);
	s = open_stage();
	must(gck_store_discard(s, 3, "a", NULL));
	gck_store_close(s);
	s = gck_store_open(url, "c", 1, 0, false, &err);
	must(gck_store_discard(s, 3, "a", NULL));
	gck_store_close(s);
}

/* A file in place of the stage's directory simulates a disk that accepts no files. */
static void test_directly(void)
{
	struct gck_error err = { 0 }, why = { 0 };
	struct gck_store *s = open_staged();
	uint64_t waiting = 1;
	char path[300];

	snprintf(path, sizeof path, "%s/3-a", step_dir);
	close(open(path, O_CREAT | O_WRONLY, 0600));
	ok(take(s, 3, &waiting, &why, &err) == 0,
	   "a stage that cannot be written to is no failure: %s", err.text);
	ok(all_of(!waiting, why.code, strstr(why.text, disk)),
	   "the reason is reported: %s", why.text);
	ok(all_of(in_store("3-a") == 1, verify(3, &err) == 0), "the store has the image");
	unlink(path);
	gck_store_close(s);
}

/* ---- reading -------------------------------------------------------------------------------- */

struct plan {
	const struct gck_chunk *v;
	size_t n, at;
};

static bool next(void *arg, struct gck_chunk *c)
{
	struct plan *p = arg;

	if (p->at == p->n)
		return false;
	*c = p->v[p->at++];
	return true;
}

/* Read the chunks of commit 2, ahead or one by one. */
static int read_all(struct gck_store *s, bool ahead, struct gck_error *err)
{
	json_t *c = gck_store_read_commit(s, 2, NULL, NULL, err);
	json_t *m = c ? gck_store_read_manifest(s, c, 0, err) : NULL;
	struct gck_reader *r = m ? gck_reader_open(s, m, err) : NULL;
	static unsigned char want[SIZE], got[SIZE];
	struct gck_chunk *v = NULL;
	struct plan p = { 0 };
	int rc = r ? load_chunks(m, &v, &p.n, err) : -1;

	p.v = v;
	if (rc == 0 && ahead)
		rc = gck_reader_plan(r, next, &p, err);
	for (size_t i = 0; rc == 0 && i < p.n; i++) {
		fill(want, SIZE, seeds[2][i]);
		rc = read_chunk(r, &v[i], got, err);
		if (rc == 0 && memcmp(got, want, SIZE))
			rc = gck_fail(err, EILSEQ, "chunk %zu is another one", i);
	}
	gck_reader_close(r);
	free(v);
	json_decref(m);
	json_decref(c);
	return rc;
}

static void test_read(const char *what, bool good)
{
	struct gck_error err = { 0 };

	for (int ahead = 0; ahead < 2; ahead++) {
		struct gck_store *s = open_staged();

		ok((read_all(s, ahead, &err) == 0) == good, "%s, read %s: %s", what,
		   ahead ? "ahead" : "alone", err.text);
		gck_store_close(s);
	}
}

static void test_reading(void)
{
	char store[256];

	snprintf(store, sizeof store, "%s/c/1/0", root);
	test_read("intact in both", true);
	harm(store, "2-a", FLIP);
	test_read("damaged in the store", true);
	harm(step_dir, "2-a", FLIP);
	test_read("damaged in both in the same way", false);
	harm(store, "2-a", FLIP);
	test_read("damaged in the stage", true);
	harm(step_dir, "2-a", CUT);
	test_read("cut in the stage", true);
	harm(step_dir, "2-a", REMOVE);
	test_read("missing in the stage", true);
}

/* ---- what stays ----------------------------------------------------------------------------- */

static void *no_memory(size_t size)
{
	(void)size;
	return NULL;
}

static void test_keep(void)
{
	struct gck_error err = { 0 }, why;
	struct gck_store *stage = open_stage(), *s;

	ok(all_of(gck_stage_clear(stage, &err) == 0, access(step_dir, F_OK) < 0),
	   "the stage can be cleared");
	gck_store_close(stage);
	remove_tree(root);
	mkdir(root, 0700);
	s = open_staged();
	take(s, 1, NULL, &why, &err);
	take(s, 2, NULL, &why, &err);
	stage = open_stage();
	json_set_alloc_funcs(no_memory, free);
	ok(all_of(gck_stage_prune(stage, 2, &why) < 0, why.code == ENOMEM, in_stage("1-a") == 1),
	   "without memory to read the manifest nothing is removed: %s", why.text);
	json_set_alloc_funcs(malloc, free);
	ok(all_of(gck_stage_prune(stage, 2, &err) == 0, in_stage("1-a") == 1, in_stage("2-a") == 1),
	   "objects of older commits that the newest needs stay");
	take(s, 3, NULL, &why, &err);
	ok(all_of(gck_stage_prune(stage, 3, &err) == 0, in_stage("2-a") == 0, in_stage("1-a") == 1,
		  in_stage("3-a") == 1), "other objects are removed");
	ok(all_of(gck_stage_prune(stage, 2, &err) == 0, in_stage("3-a") == 1),
	   "newer objects are not touched");
	ok(all_of(gck_stage_prune(stage, 9, &err) == 0, in_stage("1-a") + in_stage("3-a") == 0),
	   "a commit that was not staged here needs no object");
	gck_store_close(stage);
	gck_store_close(s);
	ok(verify(3, &err) == 0, "the store is unchanged: %s", err.text);
}

static void test_sweep(void)
{
	const struct timeval old[2] = { { .tv_sec = 1000 }, { .tv_sec = 1000 } };
	struct gck_error err = { 0 }, why;
	struct gck_store *s = open_staged();
	char job[200];

	snprintf(job, sizeof job, "%s/c/1", own);
	take(s, 1, NULL, &why, &err);
	gck_store_close(s);
	gck_stage_sweep(disk, "c", 2, 0, 3600);
	ok(access(step_dir, F_OK) == 0, "recent files of another step stay");
	utimes(step_dir, old);
	gck_stage_sweep(disk, "c", 1, 0, 3600);
	ok(access(step_dir, F_OK) == 0, "the step's own files stay");
	gck_stage_sweep(disk, "other", 2, 0, 3600);
	ok(access(step_dir, F_OK) == 0, "files of another cluster stay");
	gck_stage_sweep(disk, "c", 2, 0, 3600);
	ok(access(job, F_OK) < 0, "old files of another step are removed with its directories");
}

/* ---- rights --------------------------------------------------------------------------------- */

static bool refused(int code, const char *what)
{
	struct gck_error err = { 0 };
	struct gck_store *s = gck_stage_open(disk, "c", 1, 0, true, &err);

	gck_store_close(s);
	return ok(all_of(!s, err.code == code), "%s: %s", what, err.text);
}

static void test_rights(void)
{
	struct gck_error err = { 0 };
	char aside[160], there[ROOT_MAX];
	struct stat st;

	ok(all_of(stat(own, &st) == 0, (st.st_mode & 07777) == 0700),
	   "the user's directory has mode 0700");
	chmod(own, 0755);
	gck_store_close(open_stage());
	ok(all_of(stat(own, &st) == 0, (st.st_mode & 07777) == 0700), "and gets it again");
	snprintf(aside, sizeof aside, "%s/aside", disk);
	ok(all_of(rename(own, aside) == 0, symlink(aside, own) == 0), "a link in place of it");
	refused(ENOTDIR, "refused");
	unlink(own);
	rename(aside, own);
	chmod(disk, 0777);
	refused(EPERM, "a disk where others may replace the directory");
	chmod(disk, 01777);
	gck_store_close(open_stage());
	if (geteuid() == 0) {
		ok(chown(own, 4711, 4711) == 0, "a directory of another user in place of it");
		refused(EPERM, "refused");
		ok(all_of(chown(own, 0, 0) == 0, chown(disk, 4711, 4711) == 0),
		   "another user's disk");
		refused(EPERM, "refused");
		ok(chown(disk, 0, 0) == 0, "back");
	} else {
		skip("another user's directories", "not root");
	}
	snprintf(there, sizeof there, "%s", disk);
	disk[strlen(disk) - 1] = '!';
	refused(ENOENT, "no such disk");
	memcpy(disk, there, sizeof disk);
	ok(all_of(!gck_stage_open(disk, "c", 77, 0, false, &err), err.code == ENOENT),
	   "a step without a stage: %s", err.text);
}

int main(void)
{
	char none[URL_MAX];

	make_root(root, url);
	make_root(disk, none);
	snprintf(own, sizeof own, "%s/gpuckpt-%u", disk, (unsigned)geteuid());
	snprintf(step_dir, sizeof step_dir, "%s/c/1/0", own);
	test_write();
	test_no_upload();
	test_stopped();
	test_directly();
	test_reading();
	test_keep();
	test_sweep();
	test_rights();
	remove_tree(root);
	remove_tree(disk);
	return tap_done();
}
