/* SPDX-License-Identifier: Apache-2.0
 * What a place that keeps objects must be able to do: no more than PUT, GET with a range, LIST and
 * DELETE. Names are relative to the step: "commit-7.json" or "7-5ab0c1/rank-0.json". A directory is
 * a prefix; it comes into being with the first thing that is put into it.
 *
 * Functions return -1 or NULL with err filled, naming the object in full. */
#ifndef GCK_BACKEND_H
#define GCK_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"

#define GCK_NAME_MAX 160 /* of an object, with its directory and the NUL */

struct gck_backend;

/* A name that list found; directories have a '/' at the end. -1 ends the list. */
typedef int gck_list_fn(void *arg, const char *name, struct gck_error *err);

struct gck_backend_ops {
	void (*close)(struct gck_backend *b);

	/* A whole object of 16 MiB and a little at most, named by its content: it replaces an equal
	 * one. shared: other ranks may be writing the same one; it is not transferred if it is
	 * there. Several threads may put and get at once. */
	int (*put_object)(struct gck_backend *b, const char *name, const void *data, size_t size,
			  bool shared, struct gck_error *err);
	/* All that was put is durable. */
	int (*flush)(struct gck_backend *b, struct gck_error *err);

	/* A small document, there as a whole and durable or not at all; makes the names of objects
	 * in the same directory durable too. dir: where a temporary file may lie. */
	int (*put)(struct gck_backend *b, const char *name, const char *dir, const void *data,
		   size_t size, struct gck_error *err);

	/* By several threads at once. ENOENT: there is none. get brings exactly size bytes; EBADMSG:
	 * the object is shorter. */
	int (*size)(struct gck_backend *b, const char *name, uint64_t *size, struct gck_error *err);
	int (*get)(struct gck_backend *b, const char *name, uint64_t offset, void *data,
		   size_t size, struct gck_error *err);

	/* What get brought of an object was damaged. True: from now on it brings it from elsewhere. NULL:
	 * there is nowhere else. */
	bool (*distrust)(struct gck_backend *b, const char *name);

	/* dir: "" is the step. What is not there: nothing is listed, nothing to remove. A directory
	 * is removed (name with '/') when it is empty; otherwise that does nothing. Several threads
	 * may remove at once. */
	int (*list)(struct gck_backend *b, const char *dir, gck_list_fn *fn, void *arg,
		    struct gck_error *err);
	int (*remove)(struct gck_backend *b, const char *name, struct gck_error *err);

	/* Until the backend is closed nobody else has the step who asks as well. EBUSY: somebody has. Only of
	 * one that is not far: gpuckptd sees to that elsewhere. */
	int (*lock)(struct gck_backend *b, struct gck_error *err);

	int (*space)(struct gck_backend *b, uint64_t *bytes, struct gck_error *err);
	void (*remove_empty)(struct gck_backend *b);
};

/* The head of every backend's own struct. */
struct gck_backend {
	const struct gck_backend_ops *ops;
	char *where; /* <url without scheme>/<cluster>/<job>/<step>, for messages */
	unsigned parallel; /* transfers of objects that it pays to have under way at once */
	bool far; /* whoever gets an object has it sent, also what another process here has got */
};

/* path: what follows "file:" in the URL. */
struct gck_backend *gck_file_open(const char *path, const char *cluster, uint32_t job,
				  uint32_t step, bool create, struct gck_error *err);

/* url: s3://bucket[/prefix]; gck_store_signer has been called. */
struct gck_backend *gck_s3_open(const char *url, const char *cluster, uint32_t job, uint32_t step,
				bool create, struct gck_error *err);

#endif
