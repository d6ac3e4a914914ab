/* SPDX-License-Identifier: Apache-2.0
 * The operations of a backend, a place that keeps objects: PUT, GET with a range, LIST and DELETE.
 * Names are relative to the step: "commit-7.json" or "7-5ab0c1/rank-0.json". A directory is a
 * prefix; it exists once something is put into it.
 *
 * Functions return -1 or NULL with err filled, naming the object in full. */
#ifndef GCK_BACKEND_H
#define GCK_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <sys/types.h>

#include "common/base/error.h"
#include "storage/base/names.h"

#define GCK_ANY_OWNER ((uid_t)-1) /* the job's owner is not known */

struct gck_backend;

/* Called for each name that list finds; directories end in '/'. -1 ends the list. */
typedef int gck_list_fn(void *arg, const char *name, struct gck_error *err);

/* Called for each step of a cluster that a store has. Not 0 ends the walk, which returns it. */
typedef int gck_walk_fn(void *arg, uid_t owner, uint32_t job, uint32_t step);

struct gck_backend_ops {
	void (*close)(struct gck_backend *b);

	/* Write a whole object, named by its content; an equal one is replaced. Objects are at most
	 * GCK_OBJECT_STORED_MAX bytes. shared: other ranks may write the same object, which is not
	 * transferred if it exists. Several threads may put and get at once. */
	int (*put_object)(struct gck_backend *b, const char *name, const void *data, size_t size,
			  bool shared, struct gck_error *err);
	/* Make everything that was put durable. */
	int (*flush)(struct gck_backend *b, struct gck_error *err);

	/* Write a small document durably: it exists as a whole or not at all. The names of
	 * objects in the same directory become durable too. dir: where a temporary file may lie. */
	int (*put)(struct gck_backend *b, const char *name, const char *dir, const void *data,
		   size_t size, struct gck_error *err);

	/* Several threads may call these at once. ENOENT: the object does not exist. get reads
	 * exactly size bytes; EBADMSG: the object is shorter. */
	int (*size)(struct gck_backend *b, const char *name, uint64_t *size, struct gck_error *err);
	int (*get)(struct gck_backend *b, const char *name, uint64_t offset, void *data,
		   size_t size, struct gck_error *err);

	/* The bytes that get read of an object were damaged. True: get reads another copy from
	 * now on. NULL: the backend has one copy only. */
	bool (*distrust)(struct gck_backend *b, const char *name);

	/* dir: "" is the step. Names that do not exist are no error. remove of a directory (name
	 * with '/') removes it if it is empty and otherwise does nothing. Several threads may
	 * remove at once. */
	int (*list)(struct gck_backend *b, const char *dir, gck_list_fn *fn, void *arg,
		    struct gck_error *err);
	int (*remove)(struct gck_backend *b, const char *name, struct gck_error *err);

	/* Lock the step against other callers of lock until the backend is closed. EBUSY: another
	 * process holds the lock. Not for remote backends, whose steps gpuckptd locks. */
	int (*lock)(struct gck_backend *b, struct gck_error *err);

	int (*space)(struct gck_backend *b, uint64_t *bytes, struct gck_error *err);
	void (*remove_empty)(struct gck_backend *b);
};

/* The head of every backend's own struct. */
struct gck_backend {
	const struct gck_backend_ops *ops;
	char *where;       /* <url without scheme>/<cluster>/<job>/<step>, for messages */
	unsigned parallel; /* transfers of objects that are worth running at once */
	bool remote;       /* each get is a transfer, even of what another process here has read */
	char *squatter;    /* what another user has in the place of the job's directory, or NULL */
};

#endif
