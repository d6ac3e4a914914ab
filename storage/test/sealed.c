/* SPDX-License-Identifier: Apache-2.0
 * Encrypted images: the store has no plain text of them, only their key decrypts them, changed and
 * exchanged parts are found, common content is stored once, and removal needs no key. */
#include "config.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/prctl.h>

#include "storage/crypto/keyring.h"
#include "storage/image/image.h"
#include "storage/retention/retention.h"
#include "storage/store/commit.h"
#include "storage/store/store.h"
#include "storage/test/util.h"
#include "test/support/tap.h"

#define SECRET "a line that nobody else may read"
#define SIZE 60000

static char root[ROOT_MAX], url[URL_MAX];
static unsigned asked;
static bool readable; /* other processes could read this one's memory when a key came */

/* "k<n>": a key with the first byte n. "gone": its wrapping key does not exist. */
static int unwrap(void *arg, const char *wrapped, unsigned char key[GCK_CRYPTO_KEY],
		  struct gck_error *err)
{
	(void)arg;
	asked++;
	readable |= prctl(PR_GET_DUMPABLE) != 0;
	if (*wrapped != 'k')
		return gck_fail(err, ENOKEY, "the key that it is wrapped by is not there");
	memset(key, atoi(wrapped + 1), GCK_CRYPTO_KEY);
	return 0;
}

/* ---- a checkpoint of two ranks -------------------------------------------------------------- */

static void content(char *data, unsigned seed, bool text)
{
	if (!text)
		fill(data, SIZE, seed);
	for (size_t i = 0; text && i < SIZE; i += sizeof SECRET)
		memcpy(data + i, SECRET, sizeof SECRET < SIZE - i ? sizeof SECRET : SIZE - i);
	memcpy(data, &seed, sizeof seed);
}

struct plan {
	uint32_t seq, base;
	const char *nonce, *key; /* key "": not encrypted */
	enum gck_compress method;
	unsigned changed;        /* chunks of rank 0 that are not as in the base */
};

static json_t *previous_of(struct gck_store *s, const struct plan *p, uint32_t rank)
{
	json_t *commit = p->base ? gck_store_read_commit(s, p->base, NULL, NULL, NULL) : NULL;
	json_t *manifest = commit ? gck_store_read_manifest(s, commit, rank, NULL) : NULL;

	json_decref(commit);
	return manifest;
}

/* A chunk that both ranks have, and four of the rank's own, some of them text. */
static int write_one(struct gck_store *s, const struct plan *p, uint32_t rank,
		     char hash[GCK_HASH_TEXT], uint64_t *stored, struct gck_error *err)
{
	json_t *previous = previous_of(s, p, rank), *m = json_pack("{s:s}", "secret", SECRET);
	struct gck_writer *w = open_writer(s, p->seq, p->nonce, p->method, previous, err);
	static char data[SIZE];
	struct gck_chunk c;
	uint64_t put, more = 0;
	int rc = w ? 0 : -1;

	if (rc == 0 && (rc = gck_writer_shared(w, true, err)) == 0) {
		content(data, 1, true);
		rc = gck_writer_put(w, data, SIZE, &c, err);
	}
	if (rc == 0)
		rc = gck_writer_shared(w, false, err);
	for (unsigned i = 0; rc == 0 && i < 4; i++) {
		content(data, 100 * (rank + 1) + i + (rank == 0 && i < p->changed ? 50 : 0), i % 2);
		rc = gck_writer_put(w, data, SIZE, &c, err);
	}
	if (rc == 0)
		rc = gck_writer_manifest(w, rank, m, hash, err);
	if (w)
		gck_writer_totals(w, &put, &more);
	*stored += more;
	gck_writer_close(w);
	json_decref(previous);
	json_decref(m);
	return rc;
}

static int take(const struct plan *p, uint64_t *stored, struct gck_error *err)
{
	struct gck_store *s = gck_store_open(url, "c", 1, 0, true, err);
	char hashes[2][GCK_HASH_TEXT], hash[GCK_HASH_TEXT];
	json_t *commit = NULL;
	int rc = gck_store_encrypt(s, p->key, err);

	*stored = 0;
	for (uint32_t rank = 0; rank < 2 && rc == 0; rank++)
		rc = write_one(s, p, rank, hashes[rank], stored, err);
	if (rc == 0) {
		commit = commit_of(p->seq, p->nonce, hashes, 2);
		if (*p->key)
			json_object_set_new(commit, "key", json_string(p->key));
		json_object_set_new(commit, "fingerprint", json_string(SECRET));
		rc = gck_store_commit(s, p->seq, commit, hash, err);
	}
	json_decref(commit);
	gck_store_close(s);
	return rc;
}

/* ---- looking at the files ------------------------------------------------------------------- */

struct search {
	const char *what;
	size_t size;
	unsigned found, files, commits, objects;
};

static struct search looking;

static int look_into(const char *path, const struct stat *st, int type, struct FTW *f)
{
	static char data[1 << 20];
	const char *name = path + f->base;
	int fd = type == FTW_F ? open(path, O_RDONLY) : -1;
	ssize_t n = fd >= 0 ? read(fd, data, sizeof data) : 0;

	(void)st;
	looking.files += fd >= 0;
	looking.commits += !strncmp(name, "commit-", 7);
	looking.objects += strlen(name) == 32;
	looking.found += n > 0 && memmem(data, (size_t)n, looking.what, looking.size);
	if (fd >= 0)
		close(fd);
	return 0;
}

static struct search look_for(const void *what, size_t size)
{
	looking = (struct search){ .what = what, .size = size };
	nftw(root, look_into, 16, FTW_PHYS);
	return looking;
}

static int verify(uint32_t seq, struct gck_error *err)
{
	struct gck_store *s = gck_store_open(url, "c", 1, 0, false, err);
	uint64_t bytes = 0;
	int rc = gck_store_verify(s, seq, NULL, &bytes, err);

	gck_store_close(s);
	return rc;
}

/* ---- the tests ------------------------------------------------------------------------------ */

static void test_secret(void)
{
	struct gck_error err = { 0 };
	struct search found;
	uint64_t stored;
	char hash[GCK_HASH_TEXT];
	static char data[SIZE];

	ok(all_of(take(&(struct plan){ 1, 0, "a", "", GCK_COMPRESS_NONE, 0 }, &stored, &err) == 0,
		  look_for(SECRET, 20).found >= 3),
		  "without a key the store has the plain text: %s",
	   err.text);
	remove_tree(root);
	mkdir(root, 0700);
	ok(take(&(struct plan){ 1, 0, "a", "k1", GCK_COMPRESS_NONE, 0 }, &stored, &err) == 0,
	   "a checkpoint is encrypted: %s", err.text);
	found = look_for(SECRET, 20);
	ok(all_of(found.found == 0, found.files == 6), "no plain text is in %u files",
	   found.files);
	content(data, 1, true);
	gck_hash_text(gck_hash_bytes(data, SIZE), hash);
	ok(look_for(hash, 32).found == 0, "nor the hash of the content");
	ok(found.objects == 3,
	   "the common object of two ranks exists once: %u objects", found.objects);
	ok(verify(1, &err) == 0, "it is read intact: %s", err.text);
	ok(stored == 10 * (SIZE + GCK_ENCRYPT_EXTRA), "each chunk is %d bytes longer: %llu",
	   GCK_ENCRYPT_EXTRA, (unsigned long long)stored);
}

static void test_methods(void)
{
	static const enum gck_compress methods[] = { GCK_COMPRESS_LZ4, GCK_COMPRESS_ZSTD };
	struct gck_error err = { 0 };
	uint64_t stored;

	for (uint32_t i = 0; i < 2; i++) {
		char nonce[] = { (char)('b' + i), '\0' };

		ok(all_of(take(&(struct plan){2 + i, 0, nonce, "k1", methods[i], 0}, &stored,
			       &err) == 0,
			  verify(2 + i, &err) == 0),
		   "chunks are compressed first: %s", err.text);
		ok(stored < 6 * SIZE, "to %llu bytes", (unsigned long long)stored);
	}
}

static void test_deduplication(void)
{
	struct gck_error err = { 0 };
	uint64_t stored;

	ok(all_of(take(&(struct plan){ 4, 1, "d", "k1", GCK_COMPRESS_NONE, 1 }, &stored, &err) == 0,
		  stored == SIZE + GCK_ENCRYPT_EXTRA, verify(4, &err) == 0),
	   "of the next one only changed chunks are stored: %s", err.text);
	ok(all_of(take(&(struct plan){ 5, 4, "e", "k2", GCK_COMPRESS_NONE, 0 }, &stored, &err) == 0,
		  stored > 9 * SIZE, verify(5, &err) == 0),
	   "with another key no chunk is reused: %s", err.text);
	ok(all_of(take(&(struct plan){ 6, 5, "f", "", GCK_COMPRESS_NONE, 0 }, &stored, &err) == 0,
		  stored == 10 * SIZE), "nor without a key");
	ok(all_of(take(&(struct plan){ 7, 6, "g", "k2", GCK_COMPRESS_NONE, 0 }, &stored, &err) == 0,
		  stored > 10 * SIZE), "an encrypted commit reuses no plain chunk");
}

static char names[2][8][33];
static unsigned nnames[2];

static int note_name(const char *path, const struct stat *st, int type, struct FTW *f)
{
	unsigned i = strstr(path, "/31-") != NULL;

	(void)st;
	if (type == FTW_F && strlen(path + f->base) == 32 && (i || strstr(path, "/30-")) &&
	    nnames[i] < 8)
		snprintf(names[i][nnames[i]++], 33, "%s", path + f->base);
	return 0;
}

static void test_names(void)
{
	struct gck_error err = { 0 };
	bool common = false;
	uint64_t stored;

	ok(all_of(take(&(struct plan){30, 0, "q", "k5", GCK_COMPRESS_NONE, 0}, &stored, &err) == 0,
		  take(&(struct plan){31, 0, "r", "k6", GCK_COMPRESS_NONE, 0}, &stored, &err) == 0,
		  nftw(root, note_name, 16, FTW_PHYS) == 0),
	   "the same content with two keys: %s", err.text);
	for (unsigned i = 0; i < nnames[0]; i++)
		for (unsigned k = 0; k < nnames[1]; k++)
			common |= !strcmp(names[0][i], names[1][k]);
	ok(all_of(nnames[0] == 3, nnames[1] == 3, !common), "no object has the same name");
}

static void test_keys(void)
{
	struct gck_error err = { 0 };
	struct gck_store *s;
	uint64_t stored;

	ok(all_of(take(&(struct plan){8, 0, "h", "gone", GCK_COMPRESS_NONE, 0}, &stored, &err) < 0,
		  err.code == ENOKEY),
	   "without the wrapping key nothing is written: %s", err.text);
	asked = 0;
	ok(all_of(verify(1, &err) == 0, asked == 1), "the key is asked for once: %s", err.text);
	gck_store_unwrapper(NULL, NULL);
	ok(all_of(verify(1, &err) < 0, err.code == ENOKEY),
	   "a key that does not exist: %s", err.text);
	s = gck_store_open(url, "c", 1, 0, false, &err);
	ok(gck_store_prune(s, (uint32_t[]){ 4, 7 }, 2, 9, &err) == 0,
	   "commits are removed without a key: %s", err.text);
	gck_store_close(s);
	ok(look_for("", 0).commits == 2, "two commits are left");
	gck_store_unwrapper(unwrap, NULL);
	ok(all_of(verify(4, &err) == 0, verify(7, &err) == 0), "and intact: %s", err.text);
}

/* Another key under the same name, as if a line of the key file was replaced. */
static int unwrap_wrongly(void *arg, const char *wrapped, unsigned char key[GCK_CRYPTO_KEY],
			  struct gck_error *err)
{
	(void)unwrap(arg, wrapped, key, err);
	key[0] ^= 1;
	return 0;
}

static void test_wrong_key(void)
{
	struct gck_error err = { 0 };

	gck_store_unwrapper(unwrap_wrongly, NULL);
	ok(all_of(verify(4, &err) < 0, err.code == EBADMSG, strstr(err.text, "another key")),
	   "a wrong key: %s", err.text);
	gck_store_unwrapper(unwrap, NULL);
}

/* ---- damage --------------------------------------------------------------------------------- */

static char object[2][300];
static unsigned nobjects;

static int note_object(const char *path, const struct stat *st, int type, struct FTW *f)
{
	if (type == FTW_F && strlen(path + f->base) == 32 && strstr(path, "/20-") &&
	    st->st_size > 2 * SIZE && nobjects < 2)
		snprintf(object[nobjects++], sizeof *object, "%s", path);
	return 0;
}

static bool overwrite(const char *path, off_t at, const void *data, size_t size)
{
	int fd = open(path, O_WRONLY);
	bool done = fd >= 0 && pwrite(fd, data, size, at) == (ssize_t)size;

	if (fd >= 0)
		close(fd);
	return done;
}

static bool fetch(const char *path, off_t at, void *data, size_t size)
{
	int fd = open(path, O_RDONLY);
	bool done = fd >= 0 && pread(fd, data, size, at) == (ssize_t)size;

	if (fd >= 0)
		close(fd);
	return done;
}

static void test_damage(void)
{
	static char a[SIZE + GCK_ENCRYPT_EXTRA], b[sizeof a];
	struct gck_error err = { 0 };
	uint64_t stored;
	char bit;

	ok(all_of(take(&(struct plan){20, 0, "m", "k3", GCK_COMPRESS_NONE, 0}, &stored, &err) == 0,
		  nftw(root, note_object, 16, FTW_PHYS) == 0, nobjects == 2),
	   "two ranks' objects");
	for (off_t at = 0; at < (off_t)sizeof a; at += sizeof a - 1) {
		fetch(object[0], at, &bit, 1);
		overwrite(object[0], at, &(char){ bit ^ 1 }, 1);
		ok(all_of(verify(20, &err) < 0, err.code == EBADMSG, strstr(err.text, " at 0")),
		   "a bit at %ld: %s", (long)at, err.text);
		overwrite(object[0], at, &bit, 1);
	}
	ok(all_of(fetch(object[0], 0, a, sizeof a), fetch(object[0], sizeof a, b, sizeof b),
		  overwrite(object[0], 0, b, sizeof b), overwrite(object[0], sizeof a, a, sizeof a),
		  verify(20, &err) < 0, err.code == EBADMSG),
		  "two chunks are exchanged: %s", err.text);
	overwrite(object[0], 0, a, sizeof a);
	overwrite(object[0], sizeof a, b, sizeof b);
	ok(verify(20, &err) == 0, "unchanged it is intact: %s", err.text);
}

/* The plain part is bound to the encrypted one: a commit with other ranks and a new check is
 * refused. */
static void test_forged_commit(void)
{
	struct gck_store *s = gck_store_open(url, "c", 1, 0, false, NULL);
	char path[300], hash[GCK_HASH_TEXT], text[8192] = "", *body, *at;
	struct gck_error err = { 0 };
	FILE *f;

	snprintf(path, sizeof path, "%s/commit-20.json", s->b->where);
	gck_store_close(s);
	f = fopen(path, "r+");
	ok(all_of(f, fread(text, 1, sizeof text - 1, f) > 0), "%s", path);
	body = strstr(text, "\"commit\":") + strlen("\"commit\":");
	at = strstr(body, "\"rank\":1");
	at[7] = '0';
	gck_hash_text(gck_hash_bytes(body, strlen(body) - 2), hash);
	memcpy(text + strlen("{\"check\":\""), hash, 32);
	rewind(f);
	fwrite(text, 1, strlen(text), f);
	fclose(f);
	ok(all_of(verify(20, &err) < 0, err.code == EBADMSG, strstr(err.text, "decrypt")),
	   "a commit whose ranks were changed: %s", err.text);
}

/* Each bit that an attacker can flip in a manifest's encrypted part, and text that is not
 * base64. */
static void test_bad_manifest(void)
{
	struct gck_store *s;
	struct gck_error err = { 0 };
	json_t *commit, *m;
	uint64_t stored;

	ok(take(&(struct plan){21, 0, "n", "k3", GCK_COMPRESS_NONE, 0}, &stored, &err) == 0,
	   "another");
	s = gck_store_open(url, "c", 1, 0, false, &err);
	commit = gck_store_read_commit(s, 21, NULL, NULL, &err);
	ok(all_of(commit,
		  !strcmp(json_string_value(json_object_get(commit, "fingerprint")), SECRET),
		  !strcmp(json_string_value(
				  json_object_get(json_object_get(commit, "sealed"), "key")),
			  "k3")),
	   "a commit is read as it was written");
	m = commit ? gck_store_read_manifest(s, commit, 0, &err) : NULL;
	ok(all_of(m, !strcmp(json_string_value(json_object_get(m, "secret")), SECRET)),
	   "and so is a manifest");
	json_decref(m);
	/* The manifest of another rank in place of this one, with its hash in the reader's
	 * commit. */
	json_object_set(json_array_get(json_object_get(commit, "ranks"), 0), "manifest",
			json_object_get(json_array_get(json_object_get(commit, "ranks"), 1),
					"manifest"));
	{
		char from[300], to[300];

		snprintf(from, sizeof from, "%s/21-n/rank-1.json", s->b->where);
		snprintf(to, sizeof to, "%s/21-n/rank-0.json", s->b->where);
		ok(rename(from, to) == 0, "rank 1's manifest in place of rank 0's");
	}
	m = gck_store_read_manifest(s, commit, 0, &err);
	ok(all_of(!m, err.code == EBADMSG, strstr(err.text, "decrypt")), "and is none: %s",
	   err.text);
	json_decref(commit);
	gck_store_close(s);
}

/* ---- what is asked of one rank, and documents that do not belong together ------------------- */

static void test_check_rank(void)
{
	struct gck_store *s = gck_store_open(url, "c", 1, 0, false, NULL);
	json_t *commit, *m = NULL, *objects;
	struct gck_error err = { 0 };
	uint64_t stored;
	char path[300];

	ok(take(&(struct plan){22, 0, "t", "k3", GCK_COMPRESS_NONE, 0}, &stored, &err) == 0,
	   "another");
	commit = gck_store_read_commit(s, 22, NULL, NULL, &err);
	if (commit)
		m = gck_store_read_manifest(s, commit, 0, &err);
	ok(all_of(m, gck_store_check_rank(s, m, &err) == 0), "the objects of a rank exist: %s",
	   err.text);
	objects = json_object_get(json_object_get(m, "store"), "objects");
	snprintf(path, sizeof path, "%s/%s", s->b->where,
		 json_string_value(json_array_get(objects, 0)));
	ok(all_of(truncate(path, SIZE - 1) == 0, gck_store_check_rank(s, m, &err) < 0,
		  err.code == EBADMSG, strstr(err.text, "cut off")), "one object was cut: %s",
	   err.text);
	json_decref(m);
	json_decref(commit);
	gck_store_close(s);
}

/* Rank 0's manifest of another commit in place of this one, with its hash in the reader's commit: a
 * hash that is not cryptographic binds a commit to nothing. */
static void exchanged(struct gck_store *s, const char *to, json_t *commit, const char *from,
		      json_t *other,
		      const char *what)
{
	json_t *rank = json_array_get(json_object_get(commit, "ranks"), 0), *m;
	json_t *given = json_array_get(json_object_get(other, "ranks"), 0);
	json_t *own = json_incref(json_object_get(rank, "manifest"));
	char path[300], source[300], aside[310];
	struct gck_error err = { 0 };

	snprintf(path, sizeof path, "%s/%s/rank-0.json", s->b->where, to);
	snprintf(source, sizeof source, "%s/%s/rank-0.json", s->b->where, from);
	snprintf(aside, sizeof aside, "%s.aside", path);
	ok(all_of(rename(path, aside) == 0, link(source, path) == 0), "%s", what);
	json_object_set(rank, "manifest", json_object_get(given, "manifest"));
	m = gck_store_read_manifest(s, commit, 0, &err);
	ok(all_of(!m, err.code == EBADMSG, strstr(err.text, "as its commit is")), "is refused: %s",
	   err.text);
	json_decref(m);
	json_object_set_new(rank, "manifest", own);
	rename(aside, path);
}

static void test_in_clear(void)
{
	struct gck_store *s = gck_store_open(url, "c", 1, 0, false, NULL);
	struct gck_error err = { 0 };
	json_t *sealed, *clear;
	uint64_t stored;

	ok(all_of(take(&(struct plan){23, 0, "u", "k3", GCK_COMPRESS_NONE, 0}, &stored, &err) == 0,
		  take(&(struct plan){24, 0, "v", "", GCK_COMPRESS_NONE, 0}, &stored, &err) == 0),
	   "two more commits");
	sealed = gck_store_read_commit(s, 23, NULL, NULL, &err);
	clear = gck_store_read_commit(s, 24, NULL, NULL, &err);
	exchanged(s, "23-u", sealed, "24-v", clear, "a plain manifest with an encrypted commit");
	exchanged(s, "24-v", clear, "23-u", sealed, "an encrypted manifest with a plain commit");
	json_decref(sealed);
	json_decref(clear);
	gck_store_close(s);
}

/* If encryption fails, nothing is written in plain text, nor with a part of the key's text. */
static void test_bad_key(void)
{
	struct gck_store *s = gck_store_open(url, "c", 1, 0, true, NULL);
	json_t *const keys[] = { json_integer(3), json_null(), json_string("") };
	json_t *commit = gck_store_read_commit(s, 24, NULL, NULL, NULL);
	char hash[GCK_HASH_TEXT], text[GCK_WRAPPED_MAX + 1];
	struct gck_error err = { 0 };

	memset(text, '1', sizeof text - 1);
	text[0] = 'k';
	text[GCK_WRAPPED_MAX] = '\0';
	asked = 0;
	ok(all_of(gck_store_encrypt(s, text, &err) < 0, err.code == EINVAL, asked == 0),
	   "a wrapped key that is too long: %s", err.text);
	text[GCK_WRAPPED_MAX - 1] = '\0';
	ok(all_of(gck_store_encrypt(s, text, &err) == 0, gck_store_encrypt(s, "", &err) == 0),
	   "the longest one is accepted");
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
		err.code = 0;
		json_object_set_new(commit, "key", keys[i]);
		ok(all_of(gck_store_commit(s, 24, commit, hash, &err) < 0, err.code == EINVAL),
		   "a commit with an invalid key: %s", err.text);
	}
	json_decref(commit);
	gck_store_close(s);
}

/* Full objects of pages and of whole chunks are read completely, and there are no more objects than
 * without a key. */
static void test_full_objects(void)
{
	static char page[4096], chunk[GCK_CHUNK_MAX];
	struct gck_store *s = gck_store_open(url, "c", 2, 0, true, NULL);
	json_t *m = json_object(), *commit;
	char hash[1][GCK_HASH_TEXT], of[GCK_HASH_TEXT];
	struct gck_writer *w;
	struct gck_error err = { 0 };
	struct gck_chunk c;
	uint64_t objects = 0;
	int rc;

	rc = gck_store_encrypt(s, "k4", &err);
	w = open_writer(s, 1, "p", GCK_COMPRESS_NONE, NULL, &err);
	for (unsigned i = 0; rc == 0 && i < 2 * 4096; i++) {
		fill(page, sizeof page, 7 + i);
		rc = gck_writer_put(w, page, sizeof page, &c, &err);
	}
	for (unsigned i = 0; rc == 0 && i < 64; i++) {
		fill(chunk, sizeof chunk, 70000 + i);
		rc = gck_writer_put(w, chunk, sizeof chunk, &c, &err);
	}
	if (rc == 0)
		rc = gck_writer_manifest(w, 0, m, hash[0], &err);
	gck_writer_close(w);
	commit = commit_of(1, "p", hash, 1);
	json_object_set_new(commit, "key", json_string("k4"));
	ok(all_of(rc == 0, gck_store_commit(s, 1, commit, of, &err) == 0,
		  gck_store_verify(s, 1, NULL, NULL, &err) == 0,
		  gck_store_check(s, 1, NULL, &objects, &err) == 0), "48 MiB in full objects: %s",
	   err.text);
	ok(objects == 4, "three objects, and one for the rest");
	json_decref(commit);
	json_decref(m);
	gck_store_close(s);
}

int main(void)
{
	make_root(root, url);
	gck_store_unwrapper(unwrap, NULL);
	test_secret();
	ok(!readable, "no other process may read the memory of one that gets a key");
	test_methods();
	test_deduplication();
	test_keys();
	test_names();
	test_wrong_key();
	test_damage();
	test_forged_commit();
	test_bad_manifest();
	test_check_rank();
	test_in_clear();
	test_bad_key();
	test_full_objects();
	remove_tree(root);
	return tap_done();
}
