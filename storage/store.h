/* SPDX-License-Identifier: Apache-2.0
 * The store of one step's images: <root>/<cluster>/<job>/<step>/ (doc/store.md).
 *
 *   commit-<seq>.json            the only thing readers trust: ranks, hash of each manifest
 *   <seq>-<nonce>/rank-<n>.json  manifest of a rank: what the process was, where its chunks are
 *   objects/<hash>               an object: chunks one after the other, named by its content
 *
 * A chunk is up to GCK_CHUNK_MAX bytes, known by the XXH3-128 of its (uncompressed) bytes. Objects
 * hold up to GCK_OBJECT_MAX bytes of chunks; a manifest refers to a chunk by object, offset and
 * hash. A chunk that an earlier commit of the job has is not written again. Backends see objects
 * and small documents only, so that `s3:` needs no more than PUT, GET, LIST and DELETE.
 *
 * Everything here blocks and is meant for worker processes, not for an event loop. Functions
 * return -1 or NULL with err filled. A struct is used by one thread. */
#ifndef GCK_STORE_H
#define GCK_STORE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/options.h"

#define GCK_CHUNK_MAX (256u * 1024)
#define GCK_OBJECT_MAX (16u * 1024 * 1024)
#define GCK_HASH_TEXT 33 /* 32 hex digits and the NUL */

struct gck_hash {
	uint64_t hi, lo;
};

/* XXH3-128, canonical byte order in the text form. */
struct gck_hash gck_hash_bytes(const void *data, size_t size);
void gck_hash_text(struct gck_hash h, char text[GCK_HASH_TEXT]);
int gck_hash_parse(const char *text, struct gck_hash *h, struct gck_error *err);

/* Where a chunk lies. object is an index into the object table of the manifest (reader) or of the
 * writer (see gck_writer_objects). */
struct gck_chunk {
	struct gck_hash hash; /* of its bytes */
	uint32_t object;
	uint32_t offset;      /* in the object */
	uint32_t stored;      /* bytes there (smaller than size when compressed) */
	uint32_t size;        /* bytes of the chunk */
};

struct gck_store;

/* Open <url>/<cluster>/<job>/<step>. create: make the directories that are missing, the job's and
 * below 0700 and the user's own. A directory of the job's that belongs to another user is refused. */
struct gck_store *gck_store_open(const char *url, const char *cluster, uint32_t job, uint32_t step,
				 bool create, struct gck_error *err);
void gck_store_close(struct gck_store *s);
const char *gck_store_path(const struct gck_store *s); /* for messages */

/* Bytes that can be written now (UINT64_MAX where nobody knows). */
int gck_store_space(struct gck_store *s, uint64_t *bytes, struct gck_error *err);

/* ---- writing ------------------------------------------------------------------------------- */

struct gck_writer;

/* A writer of one rank's image. previous: the rank's manifest in the commit before (borrowed for
 * the call), whose chunks are found again by hash; NULL if there is none. */
struct gck_writer *gck_writer_open(struct gck_store *s, uint32_t seq, const char *nonce,
				   const struct gck_options *o, const json_t *previous,
				   struct gck_error *err);

/* Store a chunk unless an object of this writer or of the previous manifest has it. */
int gck_writer_put(struct gck_writer *w, const void *data, size_t size, struct gck_chunk *out,
		   struct gck_error *err);

/* End the current object: what follows goes into a new one. Callers use it around content that is
 * the same in other ranks (files' text), so that equal content makes equal objects. */
int gck_writer_cut(struct gck_writer *w, struct gck_error *err);

/* Make everything put so far durable, then return the names of all objects that chunks refer to,
 * in index order, as a JSON array (new reference). */
json_t *gck_writer_objects(struct gck_writer *w, struct gck_error *err);

/* Write rank-<rank>.json (durable), and give the hash of its bytes. */
int gck_writer_manifest(struct gck_writer *w, uint32_t rank, const json_t *manifest,
			char hash[GCK_HASH_TEXT], struct gck_error *err);

/* Bytes put, bytes newly stored (after deduplication and compression). */
void gck_writer_totals(const struct gck_writer *w, uint64_t *put, uint64_t *stored);

/* Free. Without a manifest written, temporary files are removed. */
void gck_writer_close(struct gck_writer *w);

/* ---- commits ------------------------------------------------------------------------------- */

/* A commit document: {"format":1,"seq":S,"nonce":"..","time":..,"cluster":..,"job":..,"step":..,
 * "ranks":[{"rank":0,"manifest":"<hash>"}|{"rank":1,"exit":STATUS},...], ...}. */
int gck_store_commit(struct gck_store *s, uint32_t seq, const json_t *commit,
		     char hash[GCK_HASH_TEXT], struct gck_error *err);

/* Sequence numbers of the commit objects that are there, ascending; free *seqs. */
int gck_store_list(struct gck_store *s, uint32_t **seqs, size_t *n, struct gck_error *err);

/* Read and check: hash (NULL: not known), format, seq. New reference. */
json_t *gck_store_read_commit(struct gck_store *s, uint32_t seq, const char *hash,
			      char found[GCK_HASH_TEXT], struct gck_error *err);
json_t *gck_store_read_manifest(struct gck_store *s, const json_t *commit, uint32_t rank,
				struct gck_error *err);

/* Remove every commit but those in keep, then manifests and objects that no kept commit and no
 * checkpoint with a sequence number of at least busy needs. */
int gck_store_prune(struct gck_store *s, const uint32_t *keep, size_t nkeep, uint32_t busy,
		    struct gck_error *err);

/* Remove what a checkpoint that was aborted left: its manifests, temporary files and objects. */
int gck_store_discard(struct gck_store *s, uint32_t seq, const char *nonce, struct gck_error *err);

/* ---- reading ------------------------------------------------------------------------------- */

struct gck_reader;

/* Read chunks of one manifest (borrowed while the reader lives; uses its "objects" array). */
struct gck_reader *gck_reader_open(struct gck_store *s, const json_t *manifest,
				   struct gck_error *err);

/* Bring size bytes of a chunk into data, verified. -1 names the object, the offset and the reason. */
int gck_reader_get(struct gck_reader *r, const struct gck_chunk *c, void *data,
		   struct gck_error *err);
void gck_reader_close(struct gck_reader *r);

/* Read all that a commit needs and verify it. bytes: what was read (may be NULL). */
int gck_store_verify(struct gck_store *s, uint32_t seq, const char *hash, uint64_t *bytes,
		     struct gck_error *err);

#endif
