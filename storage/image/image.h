/* SPDX-License-Identifier: Apache-2.0
 * Writing and reading a rank's image, and verifying the images of a commit. */
#ifndef GCK_STORE_IMAGE_H
#define GCK_STORE_IMAGE_H

#include "common/base/options.h"
#include "storage/base/hash.h"
#include "storage/base/open_store.h"

/* ---- writing (writer.c) --------------------------------------------------------------------- */

struct gck_writer;

/* Open a writer of one rank's image. previous: the rank's manifest in the previous commit (borrowed
 * for the call), whose chunks are found by hash; NULL: none. A manifest of another store
 * (restart=JOBID:SEQ) counts as none. The previous commit must be kept until this one counts. */
GCK_MUST_CHECK struct gck_writer *gck_writer_open(struct gck_store *s, uint32_t seq,
						  const char *nonce, const struct gck_options *o,
						  const json_t *previous, struct gck_error *err);

/* Wait until everything that was put is in the stage, or in a store without one. Nothing can be put
 * afterwards. */
GCK_MUST_CHECK int gck_writer_finish(struct gck_writer *w, struct gck_error *err);

/* Store a chunk unless this writer or the previous manifest has it. The bytes are copied. hash,
 * index and size of *out are set; where the chunk lies is known when the manifest is written. Waits
 * while earlier chunks are in transfer. A failure may be that of an earlier chunk, which the error
 * names; after a failure only gck_writer_close may follow. */
GCK_MUST_CHECK int gck_writer_put(struct gck_writer *w, const void *data, size_t size,
				  struct gck_chunk *out, struct gck_error *err);

/* Look up a chunk by hash in this writer and the previous manifest. 1: found, 0: absent. */
GCK_MUST_CHECK int gck_writer_find(struct gck_writer *w, struct gck_hash hash, uint32_t size,
				   struct gck_chunk *out, struct gck_error *err);

/* Look up a chunk by its number in the previous manifest. 1: found, 0: absent or of another
 * size. */
GCK_MUST_CHECK int gck_writer_reuse(struct gck_writer *w, uint32_t number, uint32_t size,
				    struct gck_chunk *out, struct gck_error *err);

/* Say whether the chunks that follow are the same in other ranks, as the text of files is. They go
 * into separate objects in the order in which they are put, so that equal content makes equal
 * objects. An object that exists is not written again. */
GCK_MUST_CHECK int gck_writer_shared(struct gck_writer *w, bool shared, struct gck_error *err);

/* Write rank-<rank>.json: manifest with the member "store" added. Everything that was put is
 * durable on return. hash gets the hash of the manifest's bytes. Nothing can be put afterwards. */
GCK_MUST_CHECK int gck_writer_manifest(struct gck_writer *w, uint32_t rank, const json_t *manifest,
				       char hash[GCK_HASH_TEXT], struct gck_error *err);

/* Bytes put, and bytes newly stored after deduplication and compression, when the manifest is
 * written. Objects that another rank had stored already count too. */
void gck_writer_totals(const struct gck_writer *w, uint64_t *put, uint64_t *stored);

/* How many names of shared objects (16 MiB each as a rule) are reported and kept: of a rank's
 * objects; of those of a node's ranks and of a step's nodes; by gpuckptd of all steps of a user,
 * whose agents choose them (40 MiB of memory). An object beyond that counts once for each rank that
 * put it. */
#define GCK_SHARED_OBJECTS_RANK 2048
#define GCK_SHARED_OBJECTS_STEP 4096
#define GCK_SHARED_OBJECTS_USER (64 * GCK_SHARED_OBJECTS_STEP)

/* The newly stored objects that other ranks may have stored too: {"<name>": bytes}. Borrowed. */
json_t *gck_writer_shared_objects(const struct gck_writer *w);

/* Free the writer after its threads have finished the objects they work on. */
void gck_writer_close(struct gck_writer *w);

/* Of `stored` bytes, which include the objects in `shared`, how many are new to the owner of the
 * names in `all`? The names are added to `all`, up to `most`. Malformed members of `shared` are
 * skipped. */
uint64_t gck_shared_objects_count(json_t *all, size_t most, const json_t *shared, uint64_t stored);

/* ---- reading (reader.c) --------------------------------------------------------------------- */

struct gck_reader;

/* Read chunks of one manifest, whose object table is copied. */
GCK_MUST_CHECK struct gck_reader *gck_reader_open(struct gck_store *s, const json_t *manifest,
						  struct gck_error *err);

/* Plan which chunks will be read, in that order, so that threads read ahead within the store's
 * limit of memory. The plan gives the next chunk, or false after the last one; it is called within
 * this function and gck_reader_view, so that it need not be a table. Other chunks, or another
 * order, can be read too, without reading ahead. A new plan ends the one before it, and uses its
 * threads and memory. plan NULL: ends the plan, and does not fail. */
typedef bool gck_plan_fn(void *arg, struct gck_chunk *c);
GCK_MUST_CHECK int gck_reader_plan(struct gck_reader *r, gck_plan_fn *plan, void *arg,
				   struct gck_error *err);

/* End the plan, and free threads and memory until there is another one. */
void gck_reader_rest(struct gck_reader *r);

/* Read and verify a chunk. The bytes are the reader's, and valid until the next call. NULL on
 * failure; an error names object, offset and reason. EBADMSG: damaged; ENOENT: the object does not
 * exist. */
const void *gck_reader_view(struct gck_reader *r, const struct gck_chunk *c, struct gck_error *err);

/* Did that ever fail? */
bool gck_reader_failed(const struct gck_reader *r);
void gck_reader_close(struct gck_reader *r);

/* ---- verifying (verify.c) ------------------------------------------------------------------- */

/* Read and verify everything that a commit refers to. bytes (may be NULL): how much was read. */
GCK_MUST_CHECK int gck_store_verify(struct gck_store *s, uint32_t seq, const char *hash,
				    uint64_t *bytes, struct gck_error *err);

/* The same without reading the data: the commit and its manifests are verified, and every object
 * must exist and be long enough. objects (may be NULL): how many there are. */
GCK_MUST_CHECK int gck_store_check(struct gck_store *s, uint32_t seq, const char *hash,
				   uint64_t *objects, struct gck_error *err);

/* The same for one manifest that was read. */
GCK_MUST_CHECK int gck_store_check_rank(struct gck_store *s, const json_t *manifest,
					struct gck_error *err);

/* ---- within storage/image: reading ahead (readahead.c) --------------------------------------- */

/* Threads read neighbouring chunks with one request, decode and verify them. Memory is bounded.
 * Open it after fork(), in the process that uses it. */
struct gck_readahead;

/* The manifest whose chunks will be read. Everything is borrowed until close. */
struct gck_readahead_source {
	const json_t *objects;         /* the manifest's table of names: all chunks are in these */
	const uint64_t *ends;          /* by object: bytes that others may read too, or 0 */
	const struct gck_job_key *key; /* NULL: the chunks are not encrypted */
};

GCK_MUST_CHECK struct gck_readahead *gck_readahead_open(struct gck_store *s,
							const struct gck_readahead_source *source,
							struct gck_error *err);

/* Read these chunks ahead instead of those of an earlier plan. `plan` and its argument are called
 * within this function and gck_readahead_next. NULL: none. */
void gck_readahead_plan(struct gck_readahead *a, gck_plan_fn *plan, void *arg);

/* The verified bytes of c, valid until the next call; earlier chunks of the plan are skipped. NULL:
 * c is not near in the plan, or could not be read or is damaged; reading it alone tells why. */
const void *gck_readahead_next(struct gck_readahead *a, const struct gck_chunk *c);
void gck_readahead_close(struct gck_readahead *a);

#endif
