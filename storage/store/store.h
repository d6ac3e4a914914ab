/* SPDX-License-Identifier: Apache-2.0
 * The store of one step's images: <root>/<cluster>/<job>/<step>/ (doc/store.md).
 *
 *   commit-<seq>.json            the only thing readers trust: ranks, hash of each manifest
 *   <seq>-<nonce>/               what the checkpoint wrote:
 *     rank-<n>.json              manifest of a rank: what the process was, where its chunks are
 *     <hash>                     an object: chunks one after the other, named by its content
 *
 * A chunk is up to GCK_CHUNK_MAX bytes, known by the XXH3-128 of its (uncompressed) bytes. Objects
 * hold up to GCK_OBJECT_MAX bytes of chunks. The writer numbers the chunks that it is given; the
 * manifest's member "store", which the writer adds, lists the objects and the chunks by number, so
 * that whoever describes memory refers to a chunk by its number alone. A chunk that the commit
 * before has is not written again: the new manifest refers to the object of the older checkpoint.
 * Backends see objects and small documents only, so that `s3:` needs no more than PUT, GET, LIST
 * and DELETE.
 *
 * Everything here blocks and is meant for worker processes, not for an event loop. Functions
 * return -1 or NULL with err filled. A struct is used by one thread; writers and
 * readers have threads of their own: nobody forks while they are open. */
#ifndef GCK_STORE_H
#define GCK_STORE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/options.h"
#include "storage/document/hex_table.h"

#define GCK_CHUNK_MAX (256u * 1024)
#define GCK_OBJECT_MAX (16u * 1024 * 1024)
#define GCK_HASH_TEXT 33 /* 32 hex digits and the NUL */

struct gck_hash {
	uint64_t hi, lo;
};

static inline bool gck_hash_same(struct gck_hash a, struct gck_hash b)
{
	return a.hi == b.hi && a.lo == b.lo;
}

/* XXH3-128, canonical byte order in the text form. */
struct gck_hash gck_hash_bytes(const void *data, size_t size);
void gck_hash_text(struct gck_hash h, char text[GCK_HASH_TEXT]);
/* Of its compact text with sorted keys: equal values have equal hashes. */
void gck_hash_json(const json_t *value, char text[GCK_HASH_TEXT]);
int gck_hash_parse(const char *text, struct gck_hash *h, struct gck_error *err);

/* Where a chunk lies. */
struct gck_chunk {
	struct gck_hash hash; /* of its bytes */
	uint32_t index;       /* its number: what JSON refers to it by */
	uint32_t object;      /* index into the object table of the manifest or writer */
	uint32_t offset;      /* in the object */
	uint32_t stored;      /* bytes there */
	uint32_t size;        /* bytes of the chunk, at least 1 */
	uint32_t method;      /* enum gck_compress: how it is stored */
};

/* Chunks by number. */
struct gck_chunks {
	struct gck_hex_table rows;
};

/* Those of a manifest, to be given to gck_chunks_clear. Everything is checked: a chunk that comes from
 * here lies in an object of the manifest's table. */
int gck_chunks_load(const json_t *manifest, struct gck_chunks *c, struct gck_error *err);
void gck_chunks_clear(struct gck_chunks *c);

/* How many there are, of a manifest that was not checked. */
size_t gck_manifest_chunks(const json_t *manifest);

struct gck_chunk gck_chunks_at(const struct gck_chunks *c, size_t number);

struct gck_store;

/* Open <url>/<cluster>/<job>/<step>. create: make the directories that are missing, the job's and
 * below 0700 and the user's own; the cluster's only where the store itself is the user's, since its
 * owner has power over what all keep in it. A job's directory that belongs to another user is
 * refused, and a cluster's that is neither root's nor the user's. ENOENT: the store is there and
 * has nothing of the step; ENODEV: the store is not there. */
struct gck_store *gck_store_open(const char *url, const char *cluster, uint32_t job, uint32_t step,
				 bool create, struct gck_error *err);
void gck_store_close(struct gck_store *s);
const char *gck_store_path(const struct gck_store *s); /* for messages */

/* What writers and readers that are opened from now on may take: threads that compress at once (1
 * to begin with), bytes on their way (64 MiB; a writer takes two objects at least). */
void gck_store_limit(struct gck_store *s, unsigned cpus, size_t memory);

/* Whoever wants to know how far gck_store_verify, _export, _import, the upload out of a stage (in bytes)
 * and _check (in objects) are; called often, by one thread at a time. False: they are to end, with ECANCELED. */
typedef bool gck_progress_fn(void *arg, uint64_t done, uint64_t all);
void gck_store_on_progress(struct gck_store *s, gck_progress_fn *fn, void *arg);

/* Bytes that can be written now (UINT64_MAX where nobody knows). */
int gck_store_space(struct gck_store *s, uint64_t *bytes, struct gck_error *err);

/* ---- writing ------------------------------------------------------------------------------- */

struct gck_writer;

/* A writer of one rank's image. previous: the rank's manifest in the commit before (borrowed for
 * the call), whose chunks are found again by hash; NULL if there is none. One of another store
 * (restart=JOBID:SEQ) is taken for NULL. The commit it is of must be kept until this one counts. */
struct gck_writer *gck_writer_open(struct gck_store *s, uint32_t seq, const char *nonce,
				   const struct gck_options *o, const json_t *previous,
				   struct gck_error *err);

/* Wait until all that was put is in the stage, or in a store without one. Nothing can be put afterwards. */
int gck_writer_finish(struct gck_writer *w, struct gck_error *err);

/* Store a chunk unless this writer or the previous manifest has it. The bytes are copied; of *out
 * hash, index and size are set, where it lies is known when the manifest is written. Waits while
 * what was put before is on its way. A failure may be of something that was put before, and names
 * it; after one only gck_writer_close may follow. */
int gck_writer_put(struct gck_writer *w, const void *data, size_t size, struct gck_chunk *out,
		   struct gck_error *err);

/* The same for bytes of which only the hash is at hand: 1, if this writer or the previous manifest has
 * them; 0: they have to be put. */
int gck_writer_find(struct gck_writer *w, struct gck_hash hash, uint32_t size,
		     struct gck_chunk *out, struct gck_error *err);

/* The same for the bytes of the previous manifest's chunk of that number; one of another size is not it. */
int gck_writer_reuse(struct gck_writer *w, uint32_t number, uint32_t size, struct gck_chunk *out,
		     struct gck_error *err);

/* What follows is (not) the same in other ranks, files' text for example: it goes into objects
 * apart, in the order in which it is put, so that equal content makes equal objects. One that is
 * there already is not written again. */
int gck_writer_shared(struct gck_writer *w, bool shared, struct gck_error *err);

/* Write rank-<rank>.json: manifest with the member "store" added. When this returns, everything put
 * is durable. Gives the hash of the manifest's bytes. Nothing can be put afterwards. */
int gck_writer_manifest(struct gck_writer *w, uint32_t rank, const json_t *manifest,
			char hash[GCK_HASH_TEXT], struct gck_error *err);

/* Bytes put, bytes newly stored (after deduplication and compression) when the manifest is written;
 * objects that another rank had stored already count too. */
void gck_writer_totals(const struct gck_writer *w, uint64_t *put, uint64_t *stored);

/* How many names of objects that several ranks may have put, 16 MiB each as a rule, are told and kept: of a
 * rank's; of those of a node's ranks and of a step's nodes; by gpuckptd of all steps of a user, whose agents
 * choose them (40 MiB of memory). An object beyond that counts with each who put it. */
#define GCK_SHARED_OBJECTS_RANK 2048
#define GCK_SHARED_OBJECTS_STEP 4096
#define GCK_SHARED_OBJECTS_USER (64 * GCK_SHARED_OBJECTS_STEP)

/* The newly stored objects that other ranks may have stored, too, and their bytes: {"<name>": bytes}. */
json_t *gck_writer_shared_objects(const struct gck_writer *w); /* the writer's */

/* How much of `stored` bytes, these objects of `common` among them, is new to who has those named in `all`. They
 * are added to `all`, up to `most`. Whatever in `common` is not as above is passed over. */
uint64_t gck_shared_objects_count(json_t *all, size_t most, const json_t *common, uint64_t stored);

/* Free, when the threads have put down what they have in hand. */
void gck_writer_close(struct gck_writer *w);

/* ---- commits ------------------------------------------------------------------------------- */

/* A commit document: {"format":1,"seq":S,"nonce":"..","time":..,"cluster":..,"job":..,"step":..,
 * "ranks":[{"rank":0,"manifest":"<hash>"}|{"rank":1,"exit":STATUS},...], ...}. Every manifest must
 * be there and whole. Durable when this returns. Gives the hash of the file's bytes. */
int gck_store_commit(struct gck_store *s, uint32_t seq, const json_t *commit,
		     char hash[GCK_HASH_TEXT], struct gck_error *err);

/* Sequence numbers of the commit objects that are there, ascending; free *seqs. */
int gck_store_list(struct gck_store *s, uint32_t **seqs, size_t *n, struct gck_error *err);

/* Read and check: hash of the file (NULL: not known; damage is found all the same), format, seq.
 * New reference. found (may be NULL) gets the hash. */
json_t *gck_store_read_commit(struct gck_store *s, uint32_t seq, const char *hash,
			      char found[GCK_HASH_TEXT], struct gck_error *err);

/* The manifest of a rank, checked against the commit. ENODATA: the rank had finished. */
json_t *gck_store_read_manifest(struct gck_store *s, const json_t *commit, uint32_t rank,
				struct gck_error *err);

/* Remove every commit below busy but those in keep, then what no kept commit needs. busy is the
 * lowest sequence number that runs or may yet start: the last one given out plus one when nothing
 * runs. Whatever belongs to it or to a later one is left alone. A kept commit that cannot be read
 * is a failure, before anything but commits was removed. */
int gck_store_prune(struct gck_store *s, const uint32_t *keep, size_t nkeep, uint32_t busy,
		    struct gck_error *err);

/* The same, with keep as JSON's array of numbers. */
int gck_store_prune_listed(struct gck_store *s, const json_t *keep, uint32_t busy,
			   struct gck_error *err);

/* Remove what a checkpoint that was aborted left: its manifests, temporary files and objects. */
int gck_store_discard(struct gck_store *s, uint32_t seq, const char *nonce, struct gck_error *err);

/* Remove the step's and the job's directory if they are empty. */
void gck_store_remove_empty(struct gck_store *s);

/* ---- reading ------------------------------------------------------------------------------- */

struct gck_reader;

/* Read chunks of one manifest (its object table is copied). */
struct gck_reader *gck_reader_open(struct gck_store *s, const json_t *manifest,
				   struct gck_error *err);

/* What will be wanted, in that order, so that threads read it ahead (made by this, as by
 * gck_writer_open; what the store's share of memory allows). The plan gives the next chunk, or
 * false after the last; it is asked within this function and those below, so that it need not be a
 * table. What is not in it, or not in its order, can be had all the same, without being read ahead.
 * NULL: nothing more will be wanted; threads and memory are given back. */
typedef bool gck_plan_fn(void *arg, struct gck_chunk *c);
int gck_reader_plan(struct gck_reader *r, gck_plan_fn *plan, void *arg, struct gck_error *err);

/* Bring a chunk's bytes into data, verified. An error names object, offset and reason. EBADMSG:
 * damaged; ENOENT: the object is gone. */
int gck_reader_get(struct gck_reader *r, const struct gck_chunk *c, void *data,
		   struct gck_error *err);

/* The same without a copy: the bytes are the reader's, and valid until the next call. */
const void *gck_reader_view(struct gck_reader *r, const struct gck_chunk *c, struct gck_error *err);
void gck_reader_close(struct gck_reader *r);

/* Read all that a commit needs and verify it. bytes: what was read (may be NULL). */
int gck_store_verify(struct gck_store *s, uint32_t seq, const char *hash, uint64_t *bytes,
		     struct gck_error *err);

/* The same without reading the data: the commit and its manifests are verified, every object is there
 * and long enough. objects: how many there are (may be NULL). */
int gck_store_check(struct gck_store *s, uint32_t seq, const char *hash, uint64_t *objects,
		    struct gck_error *err);

/* The same of one manifest that was read. */
int gck_store_check_rank(struct gck_store *s, const json_t *manifest, struct gck_error *err);

/* ---- staging ------------------------------------------------------------------------------- */

/* The stage of a step on this node, <dir>/gpuckpt-<uid>/<cluster>/<job>/<step>, all of it the user's own
 * and 0700: a store without commits. dir must be root's or the user's, and sticky where others may write
 * to it. ENOENT: it has none (create makes what is missing below dir). */
struct gck_store *gck_stage_open(const char *dir, const char *cluster, uint32_t job, uint32_t step,
				 bool create, struct gck_error *err);

/* From now on objects that are put into s lie in the stage (taken over, on failure too) alone, until
 * the image's manifest is written: then they are read back, compared and uploaded, which
 * gck_store_on_progress's function hears of. What the stage does not take goes to the store at once: a full
 * disk is no failure. Readers take objects from it that are there and whole. Before writers and readers
 * are opened; a store that one writer writes to. */
int gck_store_stage(struct gck_store *s, struct gck_store *stage, struct gck_error *err);

/* Bytes that the manifest will upload; why the stage did not take all (code 0: it did). */
uint64_t gck_store_staged_bytes(const struct gck_store *s, struct gck_error *why);

/* Of checkpoints before seq remove from a stage what its images that were written here do not need. */
int gck_stage_prune(struct gck_store *stage, uint32_t seq, struct gck_error *err);

/* Remove all of it. */
int gck_stage_clear(struct gck_store *stage, struct gck_error *err);

/* Remove what the user's other steps left in dir, and have not touched for age_s seconds. */
void gck_stage_sweep(const char *dir, const char *cluster, uint32_t job, uint32_t step,
		     unsigned age_s);

/* ---- images in files ----------------------------------------------------------------------- */

struct gck_image_id {
	char cluster[256];
	uint32_t job, step, seq;
};

/* Write a commit and all that it needs to fd (a tar file), durably. What is read is not verified: open
 * the file as an image and verify that. On failure the file has no end and is taken by nobody. */
int gck_store_export(struct gck_store *s, uint32_t seq, const char *hash, int fd,
		     struct gck_error *err);

/* Open such a file as a store that has one commit, to be read and verified. EBADMSG: it is not whole, or
 * something else; EPERM: another user's. */
struct gck_store *gck_image_open(const char *path, struct gck_image_id *id, struct gck_error *err);

/* The directories of the step ("7-5ab0c1/", an array of texts) that an image has something in; bytes: of
 * its objects. NULL without memory. */
json_t *gck_image_directories(const struct gck_store *image, uint64_t *bytes);

/* Before all of an image is read: can its commit be put into the store s of its step, which was opened to
 * be created? EEXIST: it is there; EBUSY: another import into that step is under way; until s is closed none
 * begins. What counts in an object store gpuckptd knows. */
int gck_store_may_import(struct gck_store *s, uint32_t seq, struct gck_error *err);

/* Put the commit of an image, which has been verified, into s. EEXIST, EBUSY as above. Whatever goes wrong,
 * s is as when it was opened; an object store, when gpuckptd has swept it. */
int gck_store_import(struct gck_store *s, struct gck_store *image, uint32_t seq,
		     struct gck_error *err);

#endif
