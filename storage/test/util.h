/* SPDX-License-Identifier: Apache-2.0
 * For the store's tests: a directory, random bytes, whole checkpoints. */
#ifndef GCK_STORE_TEST_UTIL_H
#define GCK_STORE_TEST_UTIL_H

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "storage/image/image.h"
#include "storage/store/chunks.h"
#include "storage/store/commit.h"

#define ROOT_MAX 64
#define URL_MAX (ROOT_MAX + 5)

static uint64_t seed_ = 88172645463325252u;

__attribute__((unused)) static uint64_t rnd(void)
{
	seed_ ^= seed_ << 13;
	seed_ ^= seed_ >> 7;
	seed_ ^= seed_ << 17;
	return seed_;
}

__attribute__((unused)) static void fill(void *data, size_t size, uint64_t seed)
{
	uint64_t x = seed * 0x9e3779b97f4a7c15u + 1;

	for (size_t i = 0; i < size; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		((unsigned char *)data)[i] = (unsigned char)x;
	}
}

static int unlink_one(const char *path, const struct stat *st, int type, struct FTW *f)
{
	(void)st;
	(void)type;
	(void)f;
	return remove(path);
}

__attribute__((unused)) static void remove_tree(const char *path)
{
	nftw(path, unlink_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* A fresh directory and the URL of a store in it. */
__attribute__((unused)) static void make_root(char root[ROOT_MAX], char url[URL_MAX])
{
	const char *tmp = getenv("TMPDIR");

	if (snprintf(root, ROOT_MAX, "%s/gck-test-XXXXXX", tmp ? tmp : "/tmp") >= ROOT_MAX ||
	    !mkdtemp(root)) {
		perror(root);
		exit(99);
	}
	snprintf(url, URL_MAX, "file:%s", root);
}

/* A key for each name, as long as names begin with different letters. */
__attribute__((unused)) static int unwrap_any(void *arg, const char *wrapped,
					      unsigned char key[GCK_CRYPTO_KEY],
					      struct gck_error *err)
{
	(void)arg;
	(void)err;
	memset(key, wrapped[0], GCK_CRYPTO_KEY);
	return 0;
}

static struct gck_options options_(enum gck_compress method)
{
	struct gck_options o;

	memset(&o, 0, sizeof o);
	o.compress = method;
	return o;
}

__attribute__((unused)) static struct gck_writer *
open_writer(struct gck_store *s, uint32_t seq, const char *nonce, enum gck_compress method,
	    const json_t *previous, struct gck_error *err)
{
	struct gck_options o = options_(method);

	return gck_writer_open(s, seq, nonce, &o, previous, err);
}

/* {"rank": R, "chunks": [numbers]} from n chunks whose content is fill(seeds[i]). */
__attribute__((unused)) static int write_rank(struct gck_writer *w, uint32_t rank,
					      const uint64_t *seeds, size_t n, size_t size,
					      char hash[GCK_HASH_TEXT], struct gck_error *err)
{
	json_t *numbers = json_array();
	json_t *m = json_pack("{s:i, s:o}", "rank", (int)rank, "numbers", numbers);
	unsigned char *data = malloc(size);
	struct gck_chunk c;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < n; i++) {
		fill(data, size, seeds[i]);
		rc = gck_writer_put(w, data, size, &c, err);
		if (rc == 0)
			json_array_append_new(numbers, json_integer(c.index));
	}
	if (rc == 0)
		rc = gck_writer_manifest(w, rank, m, hash, err);
	free(data);
	json_decref(m);
	return rc;
}

__attribute__((unused)) static json_t *commit_of(uint32_t seq, const char *nonce,
						 char hashes[][GCK_HASH_TEXT], size_t n)
{
	json_t *ranks = json_array();

	for (size_t i = 0; i < n; i++)
		json_array_append_new(ranks, json_pack("{s:i, s:s}", "rank", (int)i, "manifest",
						       hashes[i]));
	return json_pack("{s:i, s:I, s:s, s:o}", "format", 1, "seq", (json_int_t)seq, "nonce",
			 nonce, "ranks", ranks);
}

/* A manifest's chunks as an array, free() it. */
__attribute__((unused)) static int load_chunks(const json_t *manifest, struct gck_chunk **v,
					       size_t *n,
					       struct gck_error *err)
{
	struct gck_chunks c;

	if (gck_chunks_load(manifest, &c, err) < 0)
		return -1;
	*n = c.rows.n;
	*v = calloc(*n + 1, sizeof **v);
	for (size_t i = 0; i < *n; i++)
		(*v)[i] = gck_chunks_at(&c, i);
	gck_chunks_clear(&c);
	return 0;
}

/* A whole checkpoint of one rank. previous: sequence number of the commit before, 0: none. */
__attribute__((unused)) static int checkpoint(struct gck_store *s, uint32_t seq, const char *nonce,
					      enum gck_compress method, uint32_t previous,
					      const uint64_t *seeds, size_t n, size_t size,
					      struct gck_error *err)
{
	char hashes[1][GCK_HASH_TEXT], hash[GCK_HASH_TEXT];
	json_t *old = previous ? gck_store_read_commit(s, previous, NULL, NULL, err) : NULL;
	json_t *manifest = old ? gck_store_read_manifest(s, old, 0, err) : NULL;
	struct gck_writer *w = open_writer(s, seq, nonce, method, manifest, err);
	int rc = w ? write_rank(w, 0, seeds, n, size, hashes[0], err) : -1;
	json_t *commit;

	gck_writer_close(w);
	json_decref(manifest);
	json_decref(old);
	if (rc < 0)
		return -1;
	commit = commit_of(seq, nonce, hashes, 1);
	rc = gck_store_commit(s, seq, commit, hash, err);
	json_decref(commit);
	return rc;
}

#endif
