/* SPDX-License-Identifier: Apache-2.0
 * A checkpoint of random chunks, and reading it. */
#include "config.h"

#include "storage/test/shot.h"

#include "storage/image/image.h"
#include "storage/stage/stage.h"
#include "storage/store/commit.h"
#include "storage/store/store.h"
#include "storage/test/util.h"
#include "test/support/tap.h"
#include "test/support/read_chunk.h"

#define SIZE 600

size_t shot_wrong;

void shot_wrong_at(const char *what, uint32_t seq, const struct gck_error *err)
{
	if (!shot_wrong++)
		printf("# %s %u: %s\n", what, seq, err->text);
}

static const char *url, *disk;

void shot_stage(const char *url_, const char *disk_)
{
	url = url_;
	disk = disk_;
}

struct gck_store *shot_open_staged(struct gck_error *err)
{
	struct gck_store *s = gck_store_open(url, "c", 1, 0, true, err);
	struct gck_store *stage = gck_stage_open(disk, "c", 1, 0, true, err);

	if (s && stage && gck_store_stage(s, stage, err) == 0)
		return s;
	printf("# %s\n", err->text);
	exit(99);
}

void shot_seed(uint64_t seed)
{
	seed_ = seed;
}

void shot_end(struct shot *x)
{
	for (size_t r = 0; r < RANKS; r++) {
		gck_writer_close(x->w[r]);
		gck_store_close(x->staged[r]);
		json_decref(x->numbers[r]);
	}
	memset(x, 0, sizeof *x);
}

void shot_begin(struct shot *x, struct gck_store *s, uint32_t seq, uint32_t base)
{
	json_t *commit = base ? gck_store_read_commit(s, base, NULL, NULL, NULL) : NULL;
	struct gck_error err;

	x->seq = seq;
	x->base = base;
	snprintf(x->nonce, sizeof x->nonce, "n%llx", (unsigned long long)rnd() & 0xffffff);
	for (uint32_t r = 0; r < RANKS; r++) {
		json_t *manifest = commit ? gck_store_read_manifest(s, commit, r, NULL) : NULL;

		x->staged[r] = rnd() % 2 ? shot_open_staged(&err) : NULL;
		x->w[r] = open_writer(x->staged[r] ? x->staged[r] : s, seq, x->nonce, rnd() % 3,
				      manifest, NULL);
		x->numbers[r] = json_array();
		json_decref(manifest);
	}
	json_decref(commit);
}

static void chunk(unsigned char data[SIZE], uint64_t seed)
{
	fill(data, SIZE / 2, seed);
	memset(data + SIZE / 2, (int)seed, SIZE / 2);
}

void shot_put(struct shot *x)
{
	uint32_t r = rnd() % RANKS;
	unsigned char data[SIZE];
	struct gck_error err;
	struct gck_chunk c;

	if (!x->w[r] || x->n[r] == CHUNKS_MAX)
		return;
	x->seeds[r][x->n[r]] = rnd() % 40;
	chunk(data, x->seeds[r][x->n[r]]);
	if (gck_writer_put(x->w[r], data, SIZE, &c, &err) < 0)
		shot_wrong_at("put", x->seq, &err);
	json_array_append_new(x->numbers[r], json_integer(c.index));
	x->n[r]++;
	if (rnd() % 4 == 0 && gck_writer_shared(x->w[r], rnd() % 2, &err) < 0)
		shot_wrong_at("shared", x->seq, &err);
}

void shot_haunt(struct shot *x)
{
	unsigned char data[SIZE];
	struct gck_chunk c;
	uint32_t r = rnd() % RANKS;

	if (!x->w[r])
		return;
	chunk(data, rnd() % 40);
	if (gck_writer_put(x->w[r], data, SIZE, &c, NULL) < 0 ||
	    gck_writer_shared(x->w[r], rnd() % 2, NULL) < 0) {
		gck_writer_close(x->w[r]); /* its folder was discarded */
		x->w[r] = NULL;
	}
}

void shot_commit(struct shot *x, struct gck_store *s)
{
	char hash[GCK_HASH_TEXT];
	struct gck_error err;
	json_t *commit;

	for (uint32_t r = 0; r < RANKS; r++) {
		json_t *m = json_pack("{s:O}", "numbers", x->numbers[r]);

		if (gck_writer_manifest(x->w[r], r, m, x->hashes[r], &err) < 0)
			shot_wrong_at("manifest", x->seq, &err);
		json_decref(m);
		gck_writer_close(x->w[r]);
		x->w[r] = NULL;
	}
	commit = commit_of(x->seq, x->nonce, x->hashes, RANKS);
	if (gck_store_commit(s, x->seq, commit, hash, &err) < 0)
		shot_wrong_at("commit", x->seq, &err);
	json_decref(commit);
}

static bool rank_good(struct gck_store *fresh, const struct shot *x, const json_t *commit,
		      uint32_t rank, struct gck_error *err)
{
	json_t *m = gck_store_read_manifest(fresh, commit, rank, err);
	const json_t *numbers = json_object_get(m, "numbers");
	struct gck_reader *r = m ? gck_reader_open(fresh, m, err) : NULL;
	unsigned char want[SIZE], got[SIZE];
	struct gck_chunk *v = NULL;
	size_t n;
	bool good = r && load_chunks(m, &v, &n, err) == 0 &&
		    json_array_size(numbers) == x->n[rank];

	for (size_t i = 0; good && i < x->n[rank]; i++) {
		size_t k = (size_t)json_integer_value(json_array_get(numbers, i));

		chunk(want, x->seeds[rank][i]);
		good = k < n && read_chunk(r, &v[k], got, err) == 0 && !memcmp(want, got, SIZE);
	}
	free(v);
	gck_reader_close(r);
	json_decref(m);
	return good;
}

static bool good_in(struct gck_store *fresh, const struct shot *x, struct gck_error *err)
{
	json_t *commit = gck_store_read_commit(fresh, x->seq, NULL, NULL, err);
	bool all = commit != NULL;

	for (uint32_t r = 0; all && r < RANKS; r++)
		all = rank_good(fresh, x, commit, r, err);
	json_decref(commit);
	gck_store_close(fresh);
	return all;
}

bool shot_good(const struct shot *x, struct gck_error *err)
{
	return good_in(gck_store_open(url, "c", 1, 0, false, err), x, err);
}

bool shot_good_staged(const struct shot *x, struct gck_error *err)
{
	return good_in(shot_open_staged(err), x, err);
}
