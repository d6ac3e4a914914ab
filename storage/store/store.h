/* SPDX-License-Identifier: Apache-2.0
 * The store of one step's images: <root>/<cluster>/<job>/<step>/ (doc/store.md).
 *
 *   commit-<seq>.json            the document that readers trust: ranks, hash of each manifest
 *   <seq>-<nonce>/               written by the checkpoint:
 *     rank-<n>.json              manifest of a rank: the process, and where its chunks are
 *     <hash>                     an object: chunks one after the other, named by its content
 *
 * The writer numbers the chunks that it is given. The manifest's member "store", which the writer
 * adds, lists the objects and the chunks by number, so that a description of memory refers to a
 * chunk by its number alone. A chunk that the previous commit has is not written again: the new
 * manifest refers to the object of the older checkpoint.
 *
 * Everything in storage/ blocks and is meant for worker processes, not for an event loop. Functions
 * return -1 or NULL with err filled. One thread uses a struct; writers and readers have threads of
 * their own, so the process must not fork while one is open. */
#ifndef GCK_STORE_H
#define GCK_STORE_H

#include "storage/base/open_store.h"

/* Open <url>/<cluster>/<job>/<step>. create: make the directories that are missing, the job's and
 * below with mode 0700 and owned by the user; the cluster's only where the store itself is the
 * user's, since its owner controls everything in it. A job's directory that belongs to another user
 * is passed over, a cluster's that belongs to neither root nor the user is refused. ENOENT: the
 * store exists and has nothing of the step; ENODEV: the store does not exist. Root that does not
 * create takes the job's directory of any user. */
GCK_MUST_CHECK struct gck_store *gck_store_open(const char *url, const char *cluster, uint32_t job,
						uint32_t step, bool create, struct gck_error *err);

/* The same, to read and remove, for a job of this user. */
GCK_MUST_CHECK struct gck_store *gck_store_open_of(const char *url, const char *cluster,
						   uid_t owner, uint32_t job, uint32_t step,
						   struct gck_error *err);
void gck_store_close(struct gck_store *s);

/* Call fn for each step of the cluster that the store has, of every user. In an object store only a
 * process that has the keys can (gck_store_signer). */
GCK_MUST_CHECK int gck_store_walk(const char *url, const char *cluster, gck_walk_fn *fn, void *arg,
				  struct gck_error *err);

/* What another user has in the place of the job's directory: "PATH belongs to user UID ...", or
 * NULL. The store is another directory, and needs nothing of it. */
const char *gck_store_squatter(const struct gck_store *s);

/* Limit the writers and readers that are opened from now on: threads that compress at once (1 by
 * default), and bytes in transfer (64 MiB by default; a writer takes two objects at least). */
void gck_store_limit(struct gck_store *s, unsigned cpus, size_t memory);

/* Report the progress of gck_store_verify, _export, _import and of an upload from a stage (in
 * bytes), and of gck_store_check (in objects). */
void gck_store_on_progress(struct gck_store *s, gck_progress_fn *fn, void *arg);

/* Call the function that gck_store_on_progress set. ECANCELED: it returned false. */
GCK_MUST_CHECK int gck_store_progress(const struct gck_store *s, uint64_t done, uint64_t all,
				      struct gck_error *err);

/* Bytes that can be written now (UINT64_MAX where this is unknown). */
GCK_MUST_CHECK int gck_store_space(struct gck_store *s, uint64_t *bytes, struct gck_error *err);

/* Encrypt with this key what writers that are opened from now on write. "": do not encrypt. */
GCK_MUST_CHECK int gck_store_encrypt(struct gck_store *s, const char *wrapped,
				     struct gck_error *err);

/* Remove the step's and the job's directory if they are empty. */
void gck_store_remove_empty(struct gck_store *s);

#endif
