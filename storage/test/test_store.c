/* SPDX-License-Identifier: Apache-2.0
 * The store: reading what was put; deduplication; compression; access rights; no space. */
#include "config.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/vfs.h>
#include <sys/wait.h>

#include "storage/image/image.h"
#include "storage/retention/retention.h"
#include "storage/store/commit.h"
#include "storage/store/store.h"
#include "storage/test/util.h"
#include "test/support/tap.h"
#include "test/support/read_chunk.h"

static struct gck_store *s;
static char root[ROOT_MAX], url[URL_MAX];

static void test_hash(void)
{
	struct gck_hash h = gck_hash_bytes("abc", 3), back = { 0, 0 };
	char text[GCK_HASH_TEXT];

	gck_hash_text(h, text);
	is_str(text, "06b05ab6733a618578af5f94892f3950", "hash of abc");
	ok(all_of(gck_hash_parse(text, &back, NULL) == 0, back.hi == h.hi, back.lo == h.lo),
	   "the text of a hash is parsed again");
	ok(gck_hash_parse("06b05ab6733a618578af5f94892f395", &back, NULL) < 0, "31 digits refused");
	ok(gck_hash_parse("06b05ab6733a618578af5f94892f39500", &back, NULL) < 0,
	   "33 digits refused");
	ok(gck_hash_parse("06B05ab6733a618578af5f94892f3950", &back, NULL) < 0,
	   "capital letters refused");
}

static void test_url(void)
{
	struct gck_error err = { 0 };

	ok(all_of(!gck_store_open("s3://b/p", "c", 1, 0, true, &err), err.code == ENOTSUP),
	   "s3: without a signer, or in a build without it: %s", err.text);
	ok(!gck_store_open("ftp:/x", "c", 1, 0, true, &err), "unknown URL: %s", err.text);
	ok(!gck_store_open("file:relative", "c", 1, 0, true, &err), "relative path: %s", err.text);
	ok(all_of(!gck_store_open("file:/no/such/place", "c", 1, 0, true, &err),
		  err.code == ENODEV),
	   "missing root: %s", err.text);
	ok(!gck_store_open(url, "../c", 1, 0, true, &err), "cluster with a slash: %s", err.text);
	ok(all_of(!gck_store_open(url, "c", 1, 0, false, &err), err.code == ENOENT),
	   "a step without objects: %s", err.text);
}

static mode_t mode_of(const char *below)
{
	char path[256];
	struct stat st;

	snprintf(path, sizeof path, "%s/%s", root, below);
	return stat(path, &st) < 0 ? 0 : st.st_mode & 07777;
}

static void test_modes(void)
{
	mode_t old = umask(0);

	umask(old);
	is_int(mode_of("c"), 01777, "the cluster's directory is shared");
	is_int(mode_of("c/1"), 0700, "the job's is the user's own");
	is_int(mode_of("c/1/0"), 0700, "so is the step's");
}

/* gck_writer_put sets hash, index and size before the chunk has its place. */
static bool same_chunk(const struct gck_chunk *a, const struct gck_chunk *b)
{
	return a->index == b->index && a->size == b->size && a->hash.hi == b->hash.hi &&
	       a->hash.lo == b->hash.lo;
}

static void test_roundtrip(enum gck_compress method, const char *name)
{
	static unsigned char in[GCK_CHUNK_MAX], out[GCK_CHUNK_MAX];
	const size_t sizes[] = { 1, 2, 4095, 4096, 100000, GCK_CHUNK_MAX };
	struct gck_error err = { 0 };
	struct gck_chunk c[12], *v = NULL;
	struct gck_writer *w = open_writer(s, 1, name, method, NULL, &err);
	char hashes[1][GCK_HASH_TEXT], hash[GCK_HASH_TEXT];
	struct gck_reader *r;
	json_t *m = json_pack("{s:i}", "x", 1), *commit;
	bool same = true, small = true;
	size_t n = 0;
	int rc = 0;

	for (size_t i = 0; i < 12; i++) {
		memset(in, (int)i, sizeof in); /* six compressible, six not */
		if (i % 2)
			fill(in, sizes[i / 2], i);
		rc |= gck_writer_put(w, in, sizes[i / 2], &c[i], &err);
	}
	rc |= gck_writer_manifest(w, 0, m, hashes[0], &err);
	ok(rc == 0, "%s: written", name);
	gck_writer_close(w);
	json_decref(m);
	commit = commit_of(1, name, hashes, 1);
	ok(gck_store_commit(s, 1, commit, hash, &err) == 0, "%s: committed", name);
	m = gck_store_read_manifest(s, commit, 0, &err);
	ok(all_of(m, json_integer_value(json_object_get(m, "x")) == 1), "%s: manifest read", name);
	rc = load_chunks(m, &v, &n, &err);
	for (size_t i = 0; rc == 0 && n == 12 && i < 12; i++) {
		same &= same_chunk(&v[i], &c[i]);
		small &= method == GCK_COMPRESS_NONE || i % 2 || i < 4 || v[i].stored < v[i].size;
	}
	ok(all_of(rc == 0, n == 12, same, small), "%s: its chunks are those that were put", name);
	r = gck_reader_open(s, m, &err);
	for (size_t i = 0; r && i < 12; i++) {
		memset(in, (int)i, sizeof in);
		if (i % 2)
			fill(in, sizes[i / 2], i);
		same &= read_chunk(r, &v[i], out, &err) == 0 && !memcmp(in, out, v[i].size);
	}
	ok(all_of(r, same), "%s: all bytes are read", name);
	gck_reader_close(r);
	free(v);
	json_decref(m);
	json_decref(commit);
}

static void test_limits(void)
{
	struct gck_error err = { 0 };
	struct gck_writer *w = open_writer(s, 2, "a", GCK_COMPRESS_NONE, NULL, &err);
	struct gck_chunk c;
	static char big[GCK_CHUNK_MAX + 1];

	ok(gck_writer_put(w, big, 0, &c, &err) < 0, "empty chunk: %s", err.text);
	ok(gck_writer_put(w, big, sizeof big, &c, &err) < 0, "big chunk: %s", err.text);
	gck_writer_close(w);
	ok(!open_writer(s, 2, "../x", GCK_COMPRESS_NONE, NULL, &err), "bad nonce: %s", err.text);
	ok(!open_writer(s, 2, "", GCK_COMPRESS_NONE, NULL, &err), "empty nonce refused");
}

static uint64_t stored_by(uint32_t seq, const char *nonce, const json_t *previous,
			  const uint64_t *seeds, size_t n, char hash[GCK_HASH_TEXT])
{
	struct gck_writer *w = open_writer(s, seq, nonce, GCK_COMPRESS_NONE, previous, NULL);
	uint64_t put = 0, stored = UINT64_MAX;

	if (write_rank(w, 0, seeds, n, 65536, hash, NULL) == 0)
		gck_writer_totals(w, &put, &stored);
	gck_writer_close(w);
	return put == n * 65536 ? stored : UINT64_MAX;
}

/* Is the block of this seed found by its hash? put: then put it. */
static int known(struct gck_writer *w, uint64_t seed, bool put)
{
	static unsigned char block[65536];
	struct gck_chunk c;
	int rc;

	fill(block, sizeof block, seed);
	rc = gck_writer_find(w, gck_hash_bytes(block, sizeof block), sizeof block, &c, NULL);
	if (put)
		must(gck_writer_put(w, block, sizeof block, &c, NULL));
	return rc;
}

static void test_known(const json_t *previous)
{
	struct gck_writer *w = open_writer(s, 13, "k", GCK_COMPRESS_NONE, previous, NULL);
	char hash[GCK_HASH_TEXT];
	uint64_t put, stored;

	is_int(known(w, 1, false), 1, "a chunk of the previous commit is found by its hash");
	is_int(known(w, 9, true), 0, "another chunk is not");
	is_int(known(w, 9, false), 1, "until it is put");
	ok(gck_writer_manifest(w, 0, json_object(), hash, NULL) == 0, "its manifest");
	gck_writer_totals(w, &put, &stored);
	is_int((long long)put, 3 * 65536, "chunks that are found count as put");
	is_int((long long)stored, 65536, "and are not stored");
	gck_writer_close(w);
}

/* Reuse by number; another manifest may have another chunk with the number. */
static void test_again(const json_t *previous)
{
	struct gck_writer *w = open_writer(s, 14, "k", GCK_COMPRESS_NONE, previous, NULL);
	static unsigned char block[65536];
	struct gck_chunk c = { .size = 0 };

	fill(block, sizeof block, 2);
	is_int(gck_writer_reuse(w, 1, 4096, &c, NULL), 0,
	       "a chunk of the previous commit with another size is not found");
	is_int(gck_writer_reuse(w, 3, 65536, &c, NULL), 0,
	       "nor is a chunk that it does not have");
	is_int(c.size, 0, "and *out is unchanged");
	is_int(gck_writer_reuse(w, 1, 65536, &c, NULL), 1,
	       "its chunks are found by number");
	ok(all_of(gck_hash_same(c.hash, gck_hash_bytes(block, sizeof block)), c.index == 0),
	   "and have other numbers in this commit");
	gck_writer_close(w);
}

static void test_dedup(void)
{
	const uint64_t first[] = { 1, 2, 3, 1, 2 }, second[] = { 3, 2, 9, 1, 9 };
	char hashes[1][GCK_HASH_TEXT];
	json_t *commit, *m;
	struct gck_store *other;

	is_int((long long)stored_by(10, "a", NULL, first, 5, hashes[0]), 3 * 65536,
	       "equal chunks of a writer are stored once");
	commit = commit_of(10, "a", hashes, 1);
	m = gck_store_read_manifest(s, commit, 0, NULL);
	is_int((long long)stored_by(11, "b", m, second, 5, hashes[0]), 65536,
	       "chunks of the previous commit are not stored again");
	test_known(m);
	test_again(m);
	json_object_set_new(json_object_get(m, "store"), "of", json_string("c/2/0"));
	is_int((long long)stored_by(12, "b", m, second, 5, hashes[0]), 4 * 65536,
	       "chunks of a manifest of another store are stored again");
	json_decref(m);
	json_decref(commit);
	other = gck_store_open(url, "c", 2, 0, true, NULL);
	ok(other, "a second job's store");
	gck_store_close(other);
}

/* A missing or truncated object of the previous commit is not reused. */
static void test_dedup_lost(void)
{
	const uint64_t seeds[] = { 1, 2 };
	char hashes[1][GCK_HASH_TEXT], path[512];
	json_t *commit, *m;
	struct gck_writer *w;
	const char *object;

	stored_by(10, "a", NULL, seeds, 2, hashes[0]);
	commit = commit_of(10, "a", hashes, 1);
	m = gck_store_read_manifest(s, commit, 0, NULL);
	object = json_string_value(
		json_array_get(json_object_get(json_object_get(m, "store"), "objects"), 0));
	snprintf(path, sizeof path, "%s/%s", s->b->where, object);
	ok(truncate(path, 100000) == 0, "an object is truncated");
	is_int((long long)stored_by(11, "b", m, seeds, 2, hashes[0]), 2 * 65536,
	       "its chunks are stored again");
	unlink(path);
	is_int((long long)stored_by(12, "b", m, seeds, 2, hashes[0]), 2 * 65536,
	       "also if it is removed");
	w = open_writer(s, 13, "k", GCK_COMPRESS_NONE, m, NULL);
	is_int(known(w, 1, false), 0, "and are not found by hash");
	gck_writer_close(w);
	json_decref(m);
	json_decref(commit);
}

static size_t count_entries(const char *dir, const char *prefix)
{
	char path[512];
	struct dirent *e;
	size_t n = 0;
	DIR *d;

	snprintf(path, sizeof path, "%s/%s", s->b->where, dir);
	d = opendir(path);
	while (d && (e = readdir(d)))
		n += e->d_name[0] != '.' && !strncmp(e->d_name, prefix, strlen(prefix));
	if (d)
		closedir(d);
	return n;
}

/* The only file of this size. */
static ino_t inode_of_size(const char *dir, size_t size)
{
	char path[512], file[900];
	struct dirent *e;
	struct stat st;
	ino_t found = 0;
	DIR *d;

	snprintf(path, sizeof path, "%s/%s", s->b->where, dir);
	d = opendir(path);
	while (d && (e = readdir(d))) {
		snprintf(file, sizeof file, "%s/%s", path, e->d_name);
		if (stat(file, &st) == 0 && (size_t)st.st_size == size)
			found = st.st_ino;
	}
	if (d)
		closedir(d);
	return found;
}

/* Two ranks with the same text write one object for it, and one each for the rest. */
static void test_shared(void)
{
	static unsigned char data[GCK_CHUNK_MAX];
	uint64_t put, stored, all[2] = { 0 };
	json_t *m = json_object(), *common[2] = { json_object(), json_object() };
	char hash[GCK_HASH_TEXT];
	ino_t inodes[2];

	for (uint32_t rank = 0; rank < 2; rank++) {
		struct gck_writer *w = open_writer(s, 20, "a", GCK_COMPRESS_NONE, NULL, NULL);
		struct gck_chunk c;

		fill(data, sizeof data, 100 + rank);
		must(gck_writer_put(w, data, sizeof data, &c, NULL));
		must(gck_writer_shared(w, true, NULL));
		for (uint64_t i = 0; i < 3; i++) {
			fill(data, sizeof data, i);
			must(gck_writer_put(w, data, sizeof data, &c, NULL));
		}
		must(gck_writer_shared(w, false, NULL));
		fill(data, sizeof data, 200 + rank);
		must(gck_writer_put(w, data, sizeof data, &c, NULL));
		must(gck_writer_manifest(w, rank, m, hash, NULL));
		gck_writer_totals(w, &put, &stored);
		for (size_t most = 0; most < 2; most++)
			all[most] += gck_shared_objects_count(common[most], most,
							      gck_writer_shared_objects(w), stored);
		gck_writer_close(w);
		inodes[rank] = inode_of_size("20-a", 3 * sizeof data);
	}
	ok(all_of(inodes[0], inodes[0] == inodes[1]), "an object that exists is not written again");
	is_int((long long)count_entries("20-a", ""), 5,
	       "two manifests, an object for each, a shared one");
	is_int((long long)all[1], 7 * sizeof data, "the shared object counts once");
	is_int((long long)all[0], 10 * sizeof data, "or for each rank if its name is not kept");
	for (size_t most = 0; most < 2; most++)
		json_decref(common[most]);
	json_decref(m);
}

/* More chunks than an object holds: they continue in the next object; no chunk is split. */
/* Was an object of 16 MiB written without the page cache? Checked before it is read. */
static void test_direct(const json_t *manifest, uint32_t object)
{
	const json_t *names = json_object_get(json_object_get(manifest, "store"), "objects");
	static unsigned char in_memory[GCK_OBJECT_MAX / 4096];
	char path[512];
	struct statfs fs;
	size_t n = 0;
	void *at;
	int fd;

	snprintf(path, sizeof path, "%s/%s", s->b->where,
		 json_string_value(json_array_get(names, object)));
	fd = open(path, O_RDONLY);
	if (fstatfs(fd,
		    &fs) < 0 || (fs.f_type != EXT4_SUPER_MAGIC && fs.f_type != XFS_SUPER_MAGIC)) {
		skip("direct I/O of an object", "not on ext4 or XFS");
		close(fd);
		return;
	}
	at = mmap(NULL, GCK_OBJECT_MAX, PROT_READ, MAP_SHARED, fd, 0);
	mincore(at, GCK_OBJECT_MAX, in_memory);
	for (size_t i = 0; i < sizeof in_memory; i++)
		n += in_memory[i] & 1;
	is_int((long long)n, 0, "an object is not in the page cache");
	munmap(at, GCK_OBJECT_MAX);
	close(fd);
}

static void test_big(void)
{
	static unsigned char data[GCK_CHUNK_MAX];
	struct gck_writer *w = open_writer(s, 22, "a", GCK_COMPRESS_NONE, NULL, NULL);
	char hashes[1][GCK_HASH_TEXT];
	struct gck_chunk c, *v = NULL;
	json_t *m = json_object(), *commit;
	uint64_t put, stored;
	size_t n = 0;

	for (uint64_t i = 0; i < 64; i++) {
		fill(data, sizeof data, i);
		must(gck_writer_put(w, data, sizeof data, &c, NULL));
	}
	must(gck_writer_put(w, "x", 1, &c, NULL));
	ok(all_of(gck_writer_manifest(w, 0, m, hashes[0], NULL) == 0,
		  count_entries("22-a", "") == 3), "written");
	gck_writer_totals(w, &put, &stored);
	ok(all_of(put == GCK_OBJECT_MAX + 1, stored == put), "its size is right");
	gck_writer_close(w);
	json_decref(m);
	commit = commit_of(22, "a", hashes, 1);
	m = gck_store_read_manifest(s, commit, 0, NULL);
	load_chunks(m, &v, &n, NULL);
	test_direct(m, n ? v[0].object : 0);
	ok(all_of(n == 65, v[63].object == v[0].object,
		  v[63].offset + v[63].stored == GCK_OBJECT_MAX), "64 chunks fill an object");
	ok(all_of(n == 65, v[64].object != v[0].object, v[64].offset == 0),
	   "the next chunk is in another object");
	free(v);
	json_decref(m);
	json_decref(commit);
}

static void test_close_unfinished(void)
{
	struct gck_writer *w = open_writer(s, 21, "a", GCK_COMPRESS_NONE, NULL, NULL);
	static unsigned char data[GCK_CHUNK_MAX];
	struct gck_chunk c;

	for (uint64_t i = 0; i < 100; i++) {
		fill(data, sizeof data, i);
		must(gck_writer_put(w, data, sizeof data, &c, NULL));
	}
	gck_writer_close(w);
	is_int((long long)count_entries("21-a", "tmp-"), 0,
	       "an unfinished writer leaves no temporary file");
	ok(all_of(gck_store_discard(s, 21, "a", NULL) == 0, count_entries("", "21-") == 0),
	   "discarded");
	ok(gck_store_discard(s, 21, "a", NULL) == 0, "discarding nothing succeeds");
}

static void test_commit(void)
{
	const uint64_t seeds[] = { 1 };
	struct gck_error err = { 0 };
	char hash[1][GCK_HASH_TEXT] = { "0123456789abcdef0123456789abcdef" };
	json_t *commit = commit_of(30, "a", hash, 1);
	uint32_t *seqs = NULL;
	size_t n = 0;

	ok(gck_store_commit(s, 30, commit, hash[0], &err) < 0, "no manifest, no commit: %s",
	   err.text);
	ok(gck_store_commit(s, 31, commit, hash[0], &err) < 0,
	   "another sequence number: %s", err.text);
	json_decref(commit);
	ok(checkpoint(s, 100, "a", GCK_COMPRESS_NONE, 0, seeds, 1, 10, &err) == 0, "commit 100");
	ok(checkpoint(s, 9, "a", GCK_COMPRESS_NONE, 0, seeds, 1, 10, &err) == 0, "commit 9");
	ok(all_of(gck_store_list(s, &seqs, &n, &err) == 0, n >= 2, seqs[n - 1] == 100,
		  seqs[n - 2] == 9), "commits are listed in the order of their numbers");
	free(seqs);
	ok(all_of(!gck_store_read_commit(s, 55, NULL, NULL, &err), err.code == ENOENT),
	   "a missing commit: %s",
	   err.text);
	ok(all_of(!gck_store_read_commit(s, 9, hash[0], NULL, &err), err.code == EBADMSG),
	   "another hash: %s", err.text);
	ok(gck_store_discard(s, 9, "a", &err) < 0, "a commit is not discarded: %s", err.text);
	commit = json_pack("{s:i,s:i,s:s,s:[{s:i,s:i}]}", "format", 1, "seq", 40, "nonce", "a",
			   "ranks", "rank", 0, "exit", 0);
	ok(gck_store_commit(s, 40, commit, hash[0], &err) == 0, "all ranks had finished");
	ok(all_of(!gck_store_read_manifest(s, commit, 0, &err), err.code == ENODATA), "%s",
	   err.text);
	ok(all_of(!gck_store_read_manifest(s, commit, 1, &err), err.code == ENOENT), "%s",
	   err.text);
	json_decref(commit);
}

/* What a list tells of the commit of another cluster. */
static void test_entry(void)
{
	json_t *commit = json_pack("{s:{}, s:i, s:i, s:i, s:s}", "fingerprint", "restarts", 2,
				   "time", 50, "from", 8, "cluster", "far"), *entry;

	entry = gck_commit_entry(commit, 9, "aa", "far");
	ok(all_of(json_integer_value(json_object_get(entry, "seq")) == 9,
		  json_integer_value(json_object_get(entry, "restarts")) == 2,
		  json_integer_value(json_object_get(entry, "from")) == 8,
		  !json_object_get(entry, "info")),
	   "a commit is listed with the start that made it, and what that came from");
	json_decref(entry);
	entry = gck_commit_entry(commit, 9, "aa", "here");
	ok(json_is_true(json_object_get(json_object_get(entry, "info"), "imported")),
	   "another cluster's was imported");
	json_decref(entry);
	json_decref(commit);
}

/* An object store's signer permits no removal there. */
static void test_prune_kept(void)
{
	const uint64_t seeds[] = { 1 };
	const uint32_t keep[] = { 60, 61 };
	struct gck_error err = { 0 };
	char stray[ROOT_MAX + 64];

	checkpoint(s, 60, "a", GCK_COMPRESS_NONE, 0, seeds, 1, 10, &err);
	checkpoint(s, 61, "a", GCK_COMPRESS_NONE, 0, seeds, 1, 10, &err);
	snprintf(stray, sizeof stray, "%s/c/1/0/60-a/0123456789abcdef0123456789abcdef", root);
	close(open(stray, O_CREAT | O_WRONLY, 0600));
	ok(all_of(gck_store_prune(s, keep, 2, 62, &err) == 0,
		  count_entries("60-a", "01234567") == 1),
	   "nothing is removed from the directory of a kept commit %s", err.text);
	ok(all_of(gck_store_prune(s, keep + 1, 1, 62, &err) == 0, count_entries("", "60-") == 0),
	   "it is removed with the commit %s", err.text);
}

#define HALF "0123456789abcdef"
#define NAME HALF HALF

static const char *in_store(const char *name)
{
	static char path[512];

	snprintf(path, sizeof path, "%s/%s", s->b->where, name);
	return path;
}

static void make_file(const char *name)
{
	close(open(in_store(name), O_CREAT | O_WRONLY, 0600));
}

/* Other files beside a checkpoint's files are not removed. */
static void test_strays(void)
{
	static const char *const ours[] = {("62-a/" NAME), "62-a/rank-0.json", ("62-a/tmp-" HALF)};
	static const char *const others[] = {"62-a/notes", "62-a/rank-0.json.old",
					     ("62-a/tmp-" NAME)};
	struct gck_error err = { 0 };

	mkdir(in_store("62-a"), 0700);
	for (int i = 0; i < 3; i++) {
		make_file(ours[i]);
		make_file(others[i]);
	}
	ok(gck_store_discard(s, 62, "a", &err) == 0,
	   "a directory with other files is discarded (%s)",
	   err.text);
	for (int i = 0; i < 3; i++) {
		ok(access(in_store(ours[i]), F_OK) < 0, "%s is removed", ours[i]);
		ok(access(in_store(others[i]), F_OK) == 0, "%s stays", others[i]);
	}
}

static int any(void *arg, const char *name, struct gck_error *err)
{
	(void)arg;
	(void)name;
	(void)err;
	return 0;
}

/* The owner replaces a directory by a link after root has seen the directory; each operation must
 * refuse the link. */
static void test_linked_directory(void)
{
	struct gck_error err = { 0 };
	const struct gck_backend_ops *ops = s->b->ops;
	char hash[GCK_HASH_TEXT];
	json_t *m = json_object();
	struct gck_writer *w;
	struct gck_chunk c;
	uint64_t size;

	mkdir(in_store("else"), 0700);
	ok(symlink("else", in_store("63-a")) == 0, "a link to another directory");
	make_file("else/" NAME);
	make_file("else/rank-0.json");
	ok(ops->list(s->b, "63-a/", any, NULL, &err) < 0, "it is not listed: %s", err.text);
	ok(ops->remove(s->b, "63-a/rank-0.json", &err) < 0,
	   "nothing in it is removed: %s", err.text);
	ok(ops->size(s->b, "63-a/" NAME, &size, &err) < 0, "nothing is read: %s", err.text);
	w = open_writer(s, 63, "a", GCK_COMPRESS_NONE, NULL, &err);
	ok(gck_writer_put(w, "x", 1, &c, &err) < 0 || gck_writer_manifest(w, 0, m, hash, &err) < 0,
	   "nothing is written: %s", err.text);
	gck_writer_close(w);
	json_decref(m);
	ok(all_of(access(in_store("else/" NAME), F_OK) == 0,
		  access(in_store("else/rank-0.json"), F_OK) == 0, count_entries("else", "") == 2),
	   "the other directory is unchanged");
	unlink(in_store("63-a"));
}

/* A full file system, in a mount namespace; run in a child. */
static int full_child(void)
{
	struct gck_error err = { 0 };
	static unsigned char data[GCK_CHUNK_MAX];
	struct gck_writer *w;
	struct gck_chunk c;
	char path[ROOT_MAX + 8], full[URL_MAX + 8];
	int rc = 0;

	snprintf(path, sizeof path, "%s/full", root);
	snprintf(full, sizeof full, "file:%s", path);
	if (mkdir(path, 0700) < 0 || unshare(CLONE_NEWNS) < 0 ||
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("none", path, "tmpfs", 0, "size=4m") < 0)
		return 77;
	s = gck_store_open(full, "c", 1, 0, true, &err);
	w = open_writer(s, 1, "a", GCK_COMPRESS_NONE, NULL, &err);
	for (uint64_t i = 0; rc == 0 && i < 1000; i++) {
		fill(data, sizeof data, i);
		rc = gck_writer_put(w, data, sizeof data, &c, &err);
	}
	printf("# %s\n", err.text);
	if (rc == 0 || err.code != ENOSPC || !strstr(err.text, "1-a/tmp-"))
		return 1;
	if (gck_writer_put(w, data, 1, &c, &err) == 0)
		return 2;
	gck_writer_close(w);
	return count_entries("1-a", "") == 0 ? 0 : 3;
}

static int become_nobody(void)
{
	return setgid(65534) < 0 || setuid(65534) < 0 ? -1 : 0;
}

/* As another user: other users' directories are passed over. */
static int stranger_child(void)
{
	struct gck_error err = { 0 };
	char path[ROOT_MAX + 16];

	if (become_nobody() < 0)
		return 77;
	if (gck_store_open(url, "c", 1, 0, false, &err) || err.code != ENOENT)
		return 1;
	s = gck_store_open(url, "c", 1, 0, true, &err);
	if (!s || !strstr(s->b->where, "/c/1-65534/0"))
		return 2;
	s = gck_store_open(url, "c", 7, 0, true, &err);
	if (!s || gck_store_squatter(s))
		return 3;
	snprintf(path, sizeof path, "%s/c/1/link", root);
	if (symlink("/tmp", path) == 0 || errno != EACCES)
		return 4;
	return 0;
}

static int refused(const char *cluster, bool create, int code, const char *word)
{
	struct gck_error err = { 0 };

	if (gck_store_open(url, cluster, 1, 0, create, &err))
		return -1;
	printf("# %s\n", err.text);
	return err.code == code && strstr(err.text, word) ? 0 : -1;
}

/* As nobody, in a store of root's that is writable for all. */
static int shared_store_child(void)
{
	char path[ROOT_MAX + 16];

	snprintf(path, sizeof path, "%s/open", root);
	if (geteuid() != 0 || chmod(root, 01777) < 0 || mkdir(path, 0) < 0 ||
	    chmod(path, 0777) < 0)
		return 77;
	snprintf(path, sizeof path, "%s/foreign", root);
	if (mkdir(path, 0) < 0 || chmod(path, 01777) < 0 || chown(path, 12345, 12345) < 0 ||
	    become_nobody() < 0)
		return 77;
	if (refused("missing", true, ENODEV, "install -d -o root -m 1777 ") < 0 ||
	    refused("missing", false, ENODEV, "install -d -o root -m 1777 ") < 0)
		return 1;
	if (refused("foreign", true, EPERM, "belongs to user 12345") < 0 ||
	    refused("foreign", false, EPERM, "belongs to user 12345") < 0)
		return 2;
	return refused("open", true, EPERM, "its mode is 777") < 0 ? 3 : 0;
}

/* As nobody, in nobody's own store. */
static int own_store_child(void)
{
	char path[ROOT_MAX + 16], full[URL_MAX + 16];

	snprintf(path, sizeof path, "%s/own", root);
	snprintf(full, sizeof full, "file:%s", path);
	if (mkdir(path, 0755) < 0 || chown(path, 65534, 65534) < 0 || become_nobody() < 0)
		return 77;
	s = gck_store_open(full, "c", 1, 0, true, NULL);
	return s ? 0 : 1;
}

static void in_child(int (*fn)(void), const char *name)
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0)
		_exit((fn() | fflush(stdout)) & 127);
	waitpid(pid, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		skip(name, "needs root");
	else
		is_int(status, 0, name);
}

static void test_foreign_links(void)
{
	struct gck_error err = { 0 };
	char path[ROOT_MAX + 16];

	snprintf(path, sizeof path, "%s/c/8", root);
	ok(symlink("/tmp", path) == 0, "a link in place of the job's directory");
	ok(!gck_store_open(url, "c", 8, 0, true, &err), "refused: %s", err.text);
}

/* Make NAME in the cluster's directory, in one of several kinds, and give it to nobody. */
static void squat(const char *name, int kind)
{
	char path[ROOT_MAX + 32];

	snprintf(path, sizeof path, "%s/c/%s", root, name);
	if (kind == 0)
		must(mkdir(path, 0777));
	else if (kind == 1)
		must(symlink("/tmp", path));
	else
		must(mknod(path, S_IFREG | 0666, 0));
	must(lchown(path, 65534, 65534));
}

/* The directory of a job that is opened, or the reason that none is. */
static const char *directory_of(uint32_t job, bool create)
{
	static char text[500];
	struct gck_error err = { 0 };
	struct gck_store *x = create ? gck_store_open(url, "c", job, 0, true, &err)
				     : gck_store_open_of(url, "c", geteuid(), job, 0, &err);

	if (!x) {
		snprintf(text, sizeof text, "%s", err.code == ENOENT ? "none" : err.text);
		return text;
	}
	printf("# %s\n", gck_store_squatter(x) ? gck_store_squatter(x) : "nobody");
	snprintf(text, sizeof text, "%s", x->b->where + strlen(root) + strlen("/c/"));
	gck_store_close(x);
	return text;
}

static void unsquat(const char *name)
{
	char path[ROOT_MAX + 32];

	snprintf(path, sizeof path, "%s/c/%s", root, name);
	must(remove(path));
}

/* Another user makes the names of jobs beforehand. */
static void test_squatters(void)
{
	static const char *const names[] = { "another user's directory is not the step's",
					     "another user's link is not the step's",
					     "another user's file is not the step's" };
	char name[16];

	if (geteuid() != 0) {
		skip("another user's directories", "needs root");
		return;
	}
	for (int i = 0; i < 3; i++) {
		snprintf(name, sizeof name, "%d", 20 + i);
		squat(name, i);
		is_str(directory_of((uint32_t)(20 + i), false), "none", names[i]);
		snprintf(name, sizeof name, "%d-0/0", 20 + i);
		is_str(directory_of((uint32_t)(20 + i), true), name,
		       "the job gets another one");
		is_str(directory_of((uint32_t)(20 + i), false), name, "it is found again");
	}
	squat("30", 0);
	squat("30-0", 1);
	squat("30-0.2", 2);
	is_str(directory_of(30, true), "30-0.3/0", "more names are taken");
	unsquat("30");
	unsquat("30-0");
	unsquat("30-0.2");
	is_str(directory_of(30, true), "30-0.3/0", "they are removed: it is still found");
	squat("50", 0);
	squat("50-0", 0);
	for (int i = 2; i < 10000; i++) {
		snprintf(name, sizeof name, "50-0.%d", i);
		squat(name, 2);
	}
	ok(strstr(directory_of(50, true), "all names of the job's directory are taken"),
	   "all of a job's names are taken: %s", directory_of(50, true));
	unsquat("50-0.9999");
	is_str(directory_of(50, true), "50-0.9999/0", "but one: the job has that");
}

/* Root reads what is the job's owner's, whoever has taken its name. */
static void test_owner(void)
{
	struct gck_error err = { 0 };
	struct gck_store *x;

	if (geteuid() != 0) {
		skip("the store of a job's owner", "needs root");
		return;
	}
	squat("40", 0);
	squat("40/0", 0);
	x = gck_store_open_of(url, "c", 1, 40, 0, &err);
	ok(all_of(!x, err.code == ENOENT), "nothing is there of the job's owner");
	x = gck_store_open_of(url, "c", 65534, 40, 0, &err);
	ok(x, "the owner's is opened");
	gck_store_close(x);
}

static void reopen(void)
{
	gck_store_close(s);
	remove_tree(root);
	make_root(root, url);
	chmod(root, 0755);
	s = gck_store_open(url, "c", 1, 0, true, NULL);
}

int main(void)
{
	uint64_t space = 0;

	make_root(root, url);
	test_hash();
	test_url();
	reopen();
	test_modes();
	ok(all_of(gck_store_space(s, &space, NULL) == 0, space > 0), "space");
	test_roundtrip(GCK_COMPRESS_NONE, "none");
	test_roundtrip(GCK_COMPRESS_LZ4, "lz4");
	test_roundtrip(GCK_COMPRESS_ZSTD, "zstd");
	test_limits();
	test_dedup();
	reopen();
	test_dedup_lost();
	test_shared();
	test_big();
	test_close_unfinished();
	test_commit();
	test_entry();
	test_prune_kept();
	test_strays();
	test_linked_directory();
	test_foreign_links();
	test_squatters();
	test_owner();
	in_child(stranger_child, "another user's directory is passed over");
	in_child(shared_store_child, "a cluster's directory of a wrong owner is refused");
	in_child(own_store_child, "a user's own store needs no administrator");
	in_child(full_child, "no space: an error, and no file is left");
	gck_store_close(s);
	remove_tree(root);
	return tap_done();
}
