/* SPDX-License-Identifier: Apache-2.0
 * What the parts of the store share: names, whole documents, the encoding of stored bytes. */
#ifndef GCK_STORE_INTERNAL_H
#define GCK_STORE_INTERNAL_H

#include "storage/backend.h"
#include "storage/store.h"

#define GCK_OF_MAX 320     /* "<cluster>/<job>/<step>" */
#define GCK_NONCE_MAX 64
#define GCK_STORE_MEMORY ((size_t)64 << 20) /* on its way, unless told otherwise */
#define GCK_DOCUMENT_MAX (1u << 30)

struct gck_store {
	struct gck_backend *b;
	char of[GCK_OF_MAX]; /* this store's identity in manifests */
	unsigned cpus;       /* what writers may take */
	size_t memory;
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

/* ---- documents (document.c) ---------------------------------------------------------------- */

/* A whole document and the hash of its bytes; *data has a NUL behind it and is free()d. */
int gck_document_load(struct gck_store *s, const char *name, char **data, size_t *size,
		      char hash[GCK_HASH_TEXT], struct gck_error *err);

/* "seq" and "nonce" of a commit, checked. The nonce is borrowed from it. */
int gck_commit_identity(const json_t *commit, uint32_t *seq, const char **nonce,
			struct gck_error *err);

/* A member that is an unsigned 32-bit number. */
int gck_json_u32(const json_t *object, const char *key, uint32_t *value, struct gck_error *err);

/* ---- the member "store" of a manifest (chunks.c) ------------------------------------------- */

json_t *gck_chunks_text(const struct gck_chunk *v, size_t n, struct gck_error *err);
const json_t *gck_manifest_objects(const json_t *manifest, struct gck_error *err);
const char *gck_manifest_of(const json_t *manifest); /* NULL: not said */

/* ---- stored bytes (codec.c) ---------------------------------------------------------------- */

struct gck_codec;

struct gck_codec *gck_codec_new(enum gck_compress method, int level, struct gck_error *err);
void gck_codec_free(struct gck_codec *c);

/* Encode: *out is data itself (method none) or the codec's buffer, valid until the next call. */
void gck_codec_encode(struct gck_codec *c, const void *data, size_t size, const void **out,
		      size_t *stored, uint32_t *method);

/* Room for the stored bytes of a chunk. Its bytes as they were, from what is stored; a raw chunk
 * may lie where it is wanted already. */
void *gck_codec_room(struct gck_codec *c);
int gck_codec_decode(struct gck_codec *c, const struct gck_chunk *chunk, const void *in, void *data,
		     struct gck_error *err);

#endif
