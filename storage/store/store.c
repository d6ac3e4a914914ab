/* SPDX-License-Identifier: Apache-2.0
 * A step's store: the backend of a URL, limits, progress, encryption. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/s3_url.h"
#include "storage/crypto/keyring.h"
#include "storage/file/file.h"
#include "storage/s3/s3.h"
#include "storage/store/node_cache.h"
#include "storage/store/store.h"

static int check_cluster(const char *cluster, struct gck_error *err)
{
	if (*cluster && !strchr(cluster, '/') && cluster[0] != '.' && strlen(cluster) < 256)
		return 0;
	return gck_fail(err, EINVAL, "\"%.80s\" is not a cluster's name", cluster);
}

static struct gck_backend *backend_open(const char *url, const char *cluster, uid_t owner,
					uint32_t job, uint32_t step, bool create,
					struct gck_error *err)
{
	if (!strncmp(url, "file:", 5))
		return gck_file_open(url + 5, cluster, owner, job, step, create, err);
	if (gck_s3_is(url))
		return gck_s3_open(url, cluster, job, step, create, err);
	gck_fail(err, EINVAL, "store \"%s\" is not known; use file:/path or s3://bucket/prefix",
		 url);
	return NULL;
}

static struct gck_store *open_store(const char *url, const char *cluster, uid_t owner, uint32_t job,
				    uint32_t step, bool create, struct gck_error *err)
{
	struct gck_store *s;

	if (check_cluster(cluster, err) < 0)
		return NULL;
	s = calloc(1, sizeof *s);
	if (!s) {
		gck_fail(err, ENOMEM, "no memory to open the store %s", url);
		return NULL;
	}
	gck_store_limit(s, 1, GCK_STORE_MEMORY);
	snprintf(s->of, sizeof s->of, "%s/%u/%u", cluster, job, step);
	s->b = backend_open(url, cluster, owner, job, step, create, err);
	if (s->b)
		return s;
	free(s);
	return NULL;
}

int gck_store_walk(const char *url, const char *cluster, gck_walk_fn *fn, void *arg,
		   struct gck_error *err)
{
	if (check_cluster(cluster, err) < 0)
		return -1;
	if (gck_s3_is(url))
		return gck_s3_walk(url, cluster, fn, arg, err);
	if (!strncmp(url, "file:", 5))
		return gck_file_walk(url + 5, cluster, fn, arg, err);
	return gck_fail(err, EINVAL, "store \"%s\" is not known", url);
}

struct gck_store *gck_store_open(const char *url, const char *cluster, uint32_t job, uint32_t step,
				 bool create, struct gck_error *err)
{
	uid_t user = geteuid();

	return open_store(url, cluster, user || create ? user : GCK_ANY_OWNER, job, step, create,
			  err);
}

struct gck_store *gck_store_open_of(const char *url, const char *cluster, uid_t owner, uint32_t job,
				    uint32_t step, struct gck_error *err)
{
	return open_store(url, cluster, owner, job, step, false, err);
}

const char *gck_store_squatter(const struct gck_store *s)
{
	return s->b->squatter;
}

void gck_store_close(struct gck_store *s)
{
	if (!s)
		return;
	gck_node_cache_close(s->cache);
	gck_keyring_clear(s);
	s->b->ops->close(s->b);
	free(s);
}

void gck_store_limit(struct gck_store *s, unsigned cpus, size_t memory)
{
	s->cpus = cpus ? cpus : 1;
	s->memory = memory;
}

void gck_store_on_progress(struct gck_store *s, gck_progress_fn *fn, void *arg)
{
	s->progress = fn;
	s->progress_arg = arg;
}

int gck_store_progress(const struct gck_store *s, uint64_t done, uint64_t all,
		       struct gck_error *err)
{
	if (!s->progress || s->progress(s->progress_arg, done, all))
		return 0;
	return gck_fail(err, ECANCELED, "interrupted");
}

int gck_store_encrypt(struct gck_store *s, const char *wrapped, struct gck_error *err)
{
	const struct gck_job_key *seal = NULL;

	if (strlen(wrapped) >= sizeof s->wrapped)
		return gck_fail(err, EINVAL, "%s: a wrapped key of %zu bytes: %zu are possible",
				s->b->where, strlen(wrapped), sizeof s->wrapped - 1);
	if (*wrapped && !(seal = gck_keyring_get(s, wrapped, err)))
		return gck_fail_in(err, "%s", s->b->where);
	s->key = seal;
	snprintf(s->wrapped, sizeof s->wrapped, "%s", wrapped);
	return 0;
}

int gck_store_space(struct gck_store *s, uint64_t *bytes, struct gck_error *err)
{
	return s->b->ops->space(s->b, bytes, err);
}

void gck_store_remove_empty(struct gck_store *s)
{
	s->b->ops->remove_empty(s->b);
}
