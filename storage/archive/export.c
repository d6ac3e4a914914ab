/* SPDX-License-Identifier: Apache-2.0
 * Writing a commit and everything it refers to into one file: objects, manifests, and the commit
 * last. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "storage/archive/archive.h"
#include "storage/archive/tar.h"
#include "storage/store/chunks.h"
#include "storage/store/commit.h"
#include "storage/store/commit_objects.h"
#include "storage/store/store.h"

struct export {
	struct gck_store *s;
	int fd;
	uint64_t done, all; /* bytes of objects */
	char *buffer;       /* GCK_OBJECT_STORED_MAX bytes */
};

static int write_all(struct export *x, const char *data, size_t size, struct gck_error *err)
{
	while (size > 0) {
		ssize_t n = write(x->fd, data, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return gck_fail(err, errno, "write: %s", strerror(errno));
		data += n;
		size -= (size_t)n;
	}
	return 0;
}

static int add(struct export *x, const char *name, const char *data, size_t size,
	       struct gck_error *err)
{
	static const char zeros[GCK_TAR_BLOCK];
	const char *slash = strrchr(name, '/'), *last = slash ? slash + 1 : name;
	char block[GCK_TAR_BLOCK], dir[GCK_STEP_ID_MAX + GCK_NAME_MAX];

	snprintf(dir, sizeof dir, "%s%s%.*s", x->s->of, slash ? "/" : "",
		 slash ? (int)(slash - name) : 0, name);
	if (gck_tar_header(block, dir, last, size, err) < 0 ||
	    write_all(x, block, sizeof block, err) < 0 || write_all(x, data, size, err) < 0)
		return -1;
	return write_all(x, zeros, gck_tar_padded(size) - size, err);
}

static int add_object(struct export *x, const struct gck_object_extent *o, struct gck_error *err)
{
	struct gck_backend *b = x->s->b;
	uint64_t size;

	if (b->ops->size(b, o->name, &size, err) < 0)
		return -1;
	if (size > GCK_OBJECT_STORED_MAX)
		return gck_fail(err, EBADMSG, "%s/%s is longer than any object", b->where, o->name);
	if (b->ops->get(b, o->name, 0, x->buffer, size, err) < 0 ||
	    add(x, o->name, x->buffer, size, err) < 0)
		return -1;
	x->done += o->length;
	return gck_store_progress(x->s, x->done, x->all, err);
}

static int add_document(struct export *x, const char *name, const char *want, struct gck_error *err)
{
	char hash[GCK_HASH_TEXT], *data;
	size_t size;
	int rc;

	if (gck_document_load(x->s, name, &data, &size, hash, err) < 0)
		return -1;
	if (want && strcmp(want, hash))
		rc = gck_fail(err, EBADMSG, "%s/%s has changed", x->s->b->where, name);
	else
		rc = add(x, name, data, size, err);
	free(data);
	return rc;
}

static int add_documents(struct export *x, const json_t *commit, const char *hash,
			 struct gck_error *err)
{
	static const char zeros[2 * GCK_TAR_BLOCK];
	char name[GCK_NAME_MAX];
	struct gck_ranks r;
	int rc;

	if (gck_ranks_begin(&r, commit, err) < 0)
		return -1;
	while ((rc = gck_ranks_next(&r, err)) > 0) {
		gck_name_manifest(name, r.seq, r.nonce, r.rank);
		if (add_document(x, name, r.manifest, err) < 0)
			return -1;
	}
	gck_name_commit(name, r.seq);
	if (rc < 0 || add_document(x, name, hash, err) < 0)
		return -1;
	return write_all(x, zeros, sizeof zeros, err);
}

static int add_all(struct export *x, const json_t *commit, const char *hash, struct gck_error *err)
{
	struct gck_commit_objects need = { NULL, 0, 0, 0 };
	int rc = gck_commit_objects_load(&need, x->s, commit, err);

	for (size_t i = 0; i < need.n; i++)
		x->all += need.v[i].length;
	for (size_t i = 0; rc == 0 && i < need.n; i++)
		rc = add_object(x, &need.v[i], err);
	gck_commit_objects_free(&need);
	return rc < 0 ? -1 : add_documents(x, commit, hash, err);
}

int gck_store_export(struct gck_store *s, uint32_t seq, const char *hash, int fd,
		     struct gck_error *err)
{
	struct export x = { .s = s, .fd = fd, .buffer = malloc(GCK_OBJECT_STORED_MAX) };
	char found[GCK_HASH_TEXT];
	json_t *commit;
	int rc = -1;

	if (!x.buffer)
		return gck_fail(err, ENOMEM, "no memory to export from %s", s->b->where);
	commit = gck_commit_load(s, seq, hash, found, err);
	if (commit)
		rc = add_all(&x, commit, found, err);
	if (rc == 0 && fsync(fd) < 0)
		rc = gck_fail(err, errno, "fsync: %s", strerror(errno));
	json_decref(commit);
	free(x.buffer);
	return rc;
}
