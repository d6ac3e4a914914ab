/* SPDX-License-Identifier: Apache-2.0
 * What the parts of the store share: names, whole documents, the encoding of stored bytes. */
#ifndef GCK_STORE_INTERNAL_H
#define GCK_STORE_INTERNAL_H

#include "storage/base/backend.h"
#include "storage/crypto/keyring.h"
#include "storage/store/store.h"

#define GCK_OF_MAX 320     /* "<cluster>/<job>/<step>" */
#define GCK_NONCE_MAX 64
#define GCK_STORE_MEMORY ((size_t)64 << 20) /* on its way, unless told otherwise */
#define GCK_DOCUMENT_MAX (1u << 30)
#define GCK_OBJECT_CHUNKS 4096 /* as many as there are pages in the largest object */
#define GCK_OBJECT_STORED_MAX (GCK_OBJECT_MAX + GCK_OBJECT_CHUNKS * GCK_ENCRYPT_EXTRA)

struct gck_store {
	struct gck_backend *b;
	char of[GCK_OF_MAX]; /* this store's identity in manifests */
	unsigned cpus;       /* what writers may take */
	size_t memory;
	const struct gck_job_key *seal;   /* what is written is encrypted with this key; NULL: it is not */
	char wrapped[GCK_WRAPPED_MAX]; /* the same, as it lies in the store */
	struct gck_keyring_entry *keys;
	struct gck_node_cache *pool; /* NULL: objects are fetched by each process */
	bool staged;         /* b is above a stage (stage.h) */
	gck_progress_fn *progress; /* NULL: nobody wants to know */
	void *progress_arg;
};

/* Tell how far it is (store.c). ECANCELED: it is to end. */
int gck_store_progress(const struct gck_store *s, uint64_t done, uint64_t all,
		       struct gck_error *err);

/* ---- names (names.c) ----------------------------------------------------------------------- */

/* A name goes into a path: letters and digits only. */
bool gck_nonce_ok(const char *nonce);
int gck_nonce_check(const char *nonce, struct gck_error *err);

void gck_name_commit(char name[GCK_NAME_MAX], uint32_t seq);
void gck_name_dir(char name[GCK_NAME_MAX], uint32_t seq, const char *nonce);
void gck_name_manifest(char name[GCK_NAME_MAX], uint32_t seq, const char *nonce, uint32_t rank);

/* What a name in the step's directory is; false: not ours. */
bool gck_name_is_commit(const char *name, uint32_t *seq);
bool gck_name_is_dir(const char *name, uint32_t *seq); /* "<seq>-<nonce>/" */
bool gck_name_is_object(const char *name);             /* "<seq>-<nonce>/<hash>" */
bool gck_name_is_content(const char *name, uint32_t *seq); /* that, or a manifest's name */
bool gck_name_is_temporary(const char *name);              /* "<seq>-<nonce>/tmp-<random>" */

/* ---- documents (document.c) ---------------------------------------------------------------- */

/* A whole document and the hash of its bytes; *data has a NUL behind it and is free()d. */
int gck_document_load(struct gck_store *s, const char *name, char **data, size_t *size,
		      char hash[GCK_HASH_TEXT], struct gck_error *err);

/* As gck_store_read_commit, but what is sealed in it stays so. */
json_t *gck_commit_load(struct gck_store *s, uint32_t seq, const char *hash,
			char found[GCK_HASH_TEXT], struct gck_error *err);

/* "seq" and "nonce" of a commit, checked. The nonce is borrowed from it. */
int gck_commit_identity(const json_t *commit, uint32_t *seq, const char **nonce,
			struct gck_error *err);

/* The manifest hash of an entry of a commit's "ranks"; NULL: the rank had finished. */
int gck_commit_rank(const json_t *entry, uint32_t *rank, const char **manifest,
		    struct gck_error *err);

/* The ranks of a commit that have a manifest, one after the other. */
struct gck_ranks {
	const json_t *commit; /* borrowed, as what is in it */
	size_t next;
	uint32_t seq, rank;
	const char *nonce, *manifest; /* the manifest's hash */
};

int gck_ranks_begin(struct gck_ranks *r, const json_t *commit, struct gck_error *err);

/* 1: the next one; 0: there is none; -1: the commit is malformed. */
int gck_ranks_next(struct gck_ranks *r, struct gck_error *err);

/* Its manifest, opened, or with what is sealed in it. */
json_t *gck_ranks_read(const struct gck_ranks *r, struct gck_store *s, struct gck_error *err);
json_t *gck_ranks_read_raw(const struct gck_ranks *r, struct gck_store *s, struct gck_error *err);

/* All manifests that a commit names are there and whole. */
int gck_manifests_check(struct gck_store *s, const json_t *commit, struct gck_error *err);

/* EBADMSG: "<where>/<name> is damaged: <why>". Returns -1. */
int gck_document_damaged(const struct gck_store *s, const char *name, const char *why,
			 struct gck_error *err);

/* A member that is an unsigned 32-bit number. */
int gck_json_u32(const json_t *object, const char *key, uint32_t *value, struct gck_error *err);

/* ---- the member "store" of a manifest (chunks.c) ------------------------------------------- */

/* Append a chunk, or give another the place of one. */
int gck_chunks_add(struct gck_chunks *c, const struct gck_chunk *x, struct gck_error *err);
void gck_chunks_set(struct gck_chunks *c, size_t number, const struct gck_chunk *x);

/* The part of a chunk's hash by which it is looked for. */
uint64_t gck_chunks_key(const struct gck_chunks *c, size_t number);

/* How far the chunks in each object reach: reach has a number for each, 0 before. Returns the bytes of all
 * chunks, as they are stored. */
uint64_t gck_chunks_reach(const struct gck_chunks *c, uint64_t *reach);

const json_t *gck_manifest_objects(const json_t *manifest, struct gck_error *err);
const char *gck_manifest_of(const json_t *manifest); /* NULL: not said */
bool gck_manifest_shares(const json_t *manifest, size_t object); /* other ranks may have it too */

/* ---- stored bytes (codec.c) ---------------------------------------------------------------- */

struct gck_codec;

/* seal: what chunks are encrypted with; NULL: they are not. Borrowed until the codec is freed. */
struct gck_codec *gck_codec_new(enum gck_compress method, int level, const struct gck_job_key *seal,
				struct gck_error *err);
void gck_codec_free(struct gck_codec *c);

/* By how many bytes at most a stored chunk is longer than the chunk, and how many of them come before. */
#define GCK_CODEC_EXTRA GCK_ENCRYPT_EXTRA
#define GCK_CODEC_BEFORE GCK_ENCRYPT_BEFORE

/* Encode in place: the chunk's bytes are GCK_CODEC_BEFORE behind `at` if they are to be encrypted, the
 * stored ones come to `at`. Of chunk hash and size are set; stored and method are what is told. */
int gck_codec_encode(struct gck_codec *c, struct gck_chunk *chunk, void *at, struct gck_error *err);

/* Room for the stored bytes of a chunk. Its bytes as they were, from what is stored (which does not
 * survive it); a raw chunk may lie where it is wanted already. */
void *gck_codec_buffer(struct gck_codec *c);
int gck_codec_decode(struct gck_codec *c, const struct gck_chunk *chunk, void *in, void *data,
		     struct gck_error *err);

#endif
