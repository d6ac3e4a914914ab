/* SPDX-License-Identifier: Apache-2.0
 * Encrypted images with a stage: common objects of ranks have one name but different encrypted
 * bytes in each rank, and are still read correctly. */
#include "config.h"

#include "storage/crypto/keyring.h"
#include "storage/image/image.h"
#include "storage/stage/stage.h"
#include "storage/store/commit.h"
#include "storage/store/store.h"
#include "storage/test/util.h"
#include "test/support/tap.h"

#define SIZE 100000
#define RANKS 2

static char root[ROOT_MAX], url[URL_MAX], disk[ROOT_MAX];

/* Each rank has its own store and stage, as each has its process in the agent. */
static struct gck_store *open_staged(const char *key)
{
	struct gck_error err = { 0 };
	struct gck_store *s = gck_store_open(url, "c", 1, 0, true, &err);
	struct gck_store *stage = gck_stage_open(disk, "c", 1, 0, true, &err);

	if (!s || !stage || gck_store_stage(s, stage, &err) < 0 || gck_store_encrypt(s, key,
										     &err) < 0) {
		printf("Bail out! %s\n", err.text);
		exit(99);
	}
	return s;
}

static int put(struct gck_writer *w, uint64_t seed, bool shared, struct gck_error *err)
{
	static unsigned char data[SIZE];
	struct gck_chunk c;

	fill(data, SIZE, seed);
	if (gck_writer_shared(w, shared, err) < 0 || gck_writer_put(w, data, SIZE, &c, err) < 0)
		return -1;
	return gck_writer_shared(w, false, err);
}

static int commit(struct gck_store *s, uint32_t seq, const char *key, char hashes[][GCK_HASH_TEXT],
		  struct gck_error *err)
{
	json_t *document = commit_of(seq, "a", hashes, RANKS);
	char hash[GCK_HASH_TEXT];
	int rc;

	if (*key)
		json_object_set_new(document, "key", json_string(key));
	rc = gck_store_commit(s, seq, document, hash, err);
	json_decref(document);
	return rc;
}

/* All ranks write a common chunk and one of their own, then all upload. */
static void test_shared(uint32_t seq, const char *key, uint64_t waiting)
{
	struct gck_error err = { 0 }, why;
	char hashes[RANKS][GCK_HASH_TEXT];
	struct gck_store *s[RANKS];
	struct gck_writer *w[RANKS];
	json_t *m = json_object();
	uint64_t objects = 0;
	int rc = 0;

	for (uint32_t i = 0; i < RANKS && rc == 0; i++) {
		s[i] = open_staged(key);
		w[i] = open_writer(s[i], seq, "a", GCK_COMPRESS_NONE, NULL, &err);
		if (put(w[i], seq, true, &err) < 0 || put(w[i], 100 * seq + i, false, &err) < 0)
			rc = -1;
		if (rc == 0)
			rc = gck_writer_finish(w[i], &err);
		is_int((long long)gck_store_staged_bytes(s[i], &why), (long long)waiting,
		       *key ? "encrypted: objects of one rank wait in the stage" :
		       "not encrypted: all objects wait there");
	}
	for (uint32_t i = 0; i < RANKS && rc == 0; i++)
		rc = gck_writer_manifest(w[i], i, m, hashes[i], &err);
	ok(all_of(rc == 0, commit(s[0], seq, key, hashes, &err) == 0), "all are uploaded: %s",
	   err.text);
	for (uint32_t i = 0; i < RANKS; i++) {
		gck_writer_close(w[i]);
		gck_store_close(s[i]);
	}
	json_decref(m);
	s[0] = gck_store_open(url, "c", 1, 0, false, &err);
	ok(gck_store_verify(s[0], seq, NULL, NULL, &err) == 0, "and intact: %s", err.text);
	ok(gck_store_check(s[0], seq, NULL, &objects, &err) == 0, "%s", err.text);
	is_int((long long)objects, RANKS + 1, "the common object exists once");
	gck_store_close(s[0]);
}

int main(void)
{
	char none[URL_MAX];

	make_root(root, url);
	make_root(disk, none);
	gck_store_unwrapper(unwrap_any, NULL);
	test_shared(1, "", 2 * SIZE);
	test_shared(2, "k", SIZE + GCK_ENCRYPT_EXTRA);
	remove_tree(root);
	remove_tree(disk);
	return tap_done();
}
