/* SPDX-License-Identifier: Apache-2.0
 * The `file:` backend: directories of a file system. step_dir.c opens them, open_files.c opens and
 * removes names in them, file.c reads and lists, write.c writes, walk.c finds all steps. */
#ifndef GCK_FILE_H
#define GCK_FILE_H

#include <pthread.h>

#include "storage/base/backend.h"

/* Open the store of a step. path: the URL without "file:". owner: of the job's directory, or
 * GCK_ANY_OWNER. */
GCK_MUST_CHECK struct gck_backend *gck_file_open(const char *path, const char *cluster, uid_t owner,
						 uint32_t job, uint32_t step, bool create,
						 struct gck_error *err);

/* Call fn for each step of the cluster. Directories that cannot be read are skipped: users make
 * them. -1: the cluster's directory cannot be read. */
GCK_MUST_CHECK int gck_file_walk(const char *path, const char *cluster, gck_walk_fn *fn, void *arg,
				 struct gck_error *err);

/* ---- within storage/file -------------------------------------------------------------------- */

#define GCK_FILE_PENDING 4 /* finished objects whose write-back may still run */
#define GCK_FILE_CACHED 8  /* objects kept open for reading */
#define GCK_FILE_PARALLEL 2

struct gck_file_open {
	int fd; /* -1: free */
	unsigned users;
	char name[GCK_NAME_MAX];
};

struct gck_file_store {
	struct gck_backend head;
	int cluster_fd, job_fd, step_fd;
	char *cluster;      /* the path of its directory, for messages */
	char job[32], step[16];
	uid_t owner;
	uint32_t job_id;
	pthread_mutex_t lock; /* of the members below */
	struct gck_file_open pending[GCK_FILE_PENDING];
	unsigned next_pending;
	struct gck_file_open cached[GCK_FILE_CACHED];
	unsigned next_cached;
};

/* "<what> <where>/<name>: <why>", with a remedy where there is one. Returns -1. */
int gck_file_fail(const struct gck_file_store *f, const char *what, const char *name, int code,
		  struct gck_error *err);

/* open_files.c: names of the step, DIR/LEAF at most. Links are not followed, neither in the
 * place of DIR nor in that of LEAF. -1 with errno; flags are open's. A name that ends in '/' is
 * removed as a directory. */
GCK_MUST_CHECK int gck_file_at_open(const struct gck_file_store *f, const char *name, int flags);
GCK_MUST_CHECK int gck_file_at_rename(const struct gck_file_store *f, const char *from,
				      const char *to);
GCK_MUST_CHECK int gck_file_at_remove(const struct gck_file_store *f, const char *name);

/* Open a regular file for reading; a FIFO or a link in its place does not block. */
GCK_MUST_CHECK int gck_file_open_regular(const struct gck_file_store *f, const char *name,
					 uint64_t *size, struct gck_error *err);

/* An object opened for reading until it is released. Several threads may call these at once. */
GCK_MUST_CHECK int gck_file_acquire(struct gck_file_store *f, const char *name,
				    struct gck_error *err);
void gck_file_release(struct gck_file_store *f, int fd);

/* Close the kept objects that no thread uses. */
void gck_file_forget(struct gck_file_store *f);

/* write.c */
GCK_MUST_CHECK int gck_file_put_object(struct gck_backend *b, const char *name, const void *data,
				       size_t size, bool shared, struct gck_error *err);
GCK_MUST_CHECK int gck_file_flush(struct gck_backend *b, struct gck_error *err);
GCK_MUST_CHECK int gck_file_put(struct gck_backend *b, const char *name, const char *dir,
				const void *data, size_t size, struct gck_error *err);
void gck_file_drop_pending(struct gck_file_store *f);

/* file.c */
extern const struct gck_backend_ops gck_file_ops;

#endif
