/* SPDX-License-Identifier: Apache-2.0
 * For the model test: a checkpoint that knows the content of its commit. */
#ifndef GCK_STORE_TEST_SHOT_H
#define GCK_STORE_TEST_SHOT_H

#include "storage/base/hash.h"
#include "storage/base/open_store.h"

#define RANKS 2
#define CHUNKS_MAX 24

struct shot {
	uint32_t seq; /* 0: none */
	char nonce[16];
	uint64_t seeds[RANKS][CHUNKS_MAX];
	size_t n[RANKS];
	char hashes[RANKS][GCK_HASH_TEXT];
	json_t *numbers[RANKS];
	struct gck_writer *w[RANKS];
	struct gck_store *staged[RANKS]; /* NULL: it writes to the store directly */
	uint32_t base;  /* commit that it deduplicates against, 0: none */
	bool tainted;   /* that one was damaged meanwhile */
	bool bad;       /* damaged by us */
};

/* Report the first error. */
extern size_t shot_wrong;
void shot_wrong_at(const char *what, uint32_t seq, const struct gck_error *err);

void shot_seed(uint64_t seed);

/* The stage's place, and the store opened with it; readers and, randomly, writers use it. */
void shot_stage(const char *url, const char *disk);
struct gck_store *shot_open_staged(struct gck_error *err);

/* Begin a checkpoint in a zeroed x: writers of all ranks, random methods and nonce. */
void shot_begin(struct shot *x, struct gck_store *s, uint32_t seq, uint32_t base);
void shot_put(struct shot *x);   /* a random chunk of a random rank */
void shot_haunt(struct shot *x); /* the same of one that was given up: nobody minds how it ends */
void shot_commit(struct shot *x, struct gck_store *s);
void shot_end(struct shot *x);   /* zeroes it */

/* Has the commit the bytes that were put, read from the store alone or also from the stage? */
bool shot_good(const struct shot *x, struct gck_error *err);
bool shot_good_staged(const struct shot *x, struct gck_error *err);

#endif
