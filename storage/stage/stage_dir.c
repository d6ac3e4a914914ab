/* SPDX-License-Identifier: Apache-2.0
 * A stage's directories: <dir>/gpuckpt-<uid>/<cluster>/<job>/<step>, below the second one as in a
 * `file:` store. The disk is shared by many users; the second directory is the user's own. */
#include "config.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/place/owner.h"
#include "common/user/user.h"
#include "storage/document/document.h"
#include "storage/document/json.h"
#include "storage/retention/retention.h"
#include "storage/retention/sweep.h"
#include "storage/stage/stage.h"
#include "storage/store/chunks.h"
#include "storage/store/store.h"

#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_CLOEXEC)
#define URL_MAX (PATH_MAX + 32)

/* ---- opening -------------------------------------------------------------------------------- */

/* No other user may be able to replace the user's files in it. */
static int check_disk(int fd, const char *dir, struct gck_error *err)
{
	char user[GCK_USER_MAX];
	struct stat st;

	if (gck_owner_fstat(fd, &st) < 0)
		return gck_fail(err, errno, "stage %s: %s", dir, strerror(errno));
	if (st.st_uid != 0 && st.st_uid != geteuid())
		return gck_fail(err, EPERM,
				"stage %s belongs to %s, who could replace what is put there: "
				"it must be root's or the job's user's",
				dir, gck_user_name(st.st_uid, user));
	if (st.st_mode & (S_IWGRP | S_IWOTH) && !(st.st_mode & S_ISVTX))
		return gck_fail(err, EPERM,
				"stage %s: others may replace what is put there (its mode is %o): "
				"chmod +t it",
				dir, st.st_mode & 07777);
	return 0;
}

static int check_own(int fd, const char *dir, const char *name, struct gck_error *err)
{
	char user[GCK_USER_MAX];
	struct stat st;

	if (gck_owner_fstat(fd, &st) < 0)
		return gck_fail(err, errno, "stage %s/%s: %s", dir, name, strerror(errno));
	if (st.st_uid != geteuid())
		return gck_fail(err, EPERM, "stage %s: %s belongs to %s; have it removed", dir,
				name, gck_user_name(st.st_uid, user));
	if (st.st_mode & 077 && fchmod(fd, 0700) < 0)
		return gck_fail(err, errno, "stage %s: chmod %s: %s", dir, name, strerror(errno));
	return 0;
}

static int enter_own(int disk, const char *dir, const char *name, bool create,
		     struct gck_error *err)
{
	int fd, rc;

	if (create && mkdirat(disk, name, 0700) < 0 && errno != EEXIST)
		return gck_fail(err, errno, "stage %s: mkdir %s: %s", dir, name, strerror(errno));
	fd = openat(disk, name, DIR_FLAGS | O_NOFOLLOW);
	if (fd < 0)
		return gck_fail(err, errno, "stage %s: %s: %s", dir, name,
				errno == ELOOP || errno == ENOTDIR ? "not a directory" :
				strerror(errno));
	rc = check_own(fd, dir, name, err);
	close(fd);
	return rc;
}

static int enter(const char *dir, const char *name, bool create, struct gck_error *err)
{
	int disk = open(dir, DIR_FLAGS), rc;

	if (disk < 0)
		return gck_fail(err, errno, "stage %s: %s", dir, errno == ENOENT ?
				"this node has no such directory" : strerror(errno));
	rc = check_disk(disk, dir, err);
	if (rc == 0)
		rc = enter_own(disk, dir, name, create, err);
	close(disk);
	return rc;
}

struct gck_store *gck_stage_open(const char *dir, const char *cluster, uint32_t job, uint32_t step,
				 bool create, struct gck_error *err)
{
	char name[32], url[URL_MAX];
	struct gck_store *s;

	snprintf(name, sizeof name, "gpuckpt-%u", (unsigned)geteuid());
	if (enter(dir, name, create, err) < 0)
		return NULL;
	snprintf(url, sizeof url, "file:%s/%s", dir, name);
	s = gck_store_open(url, cluster, job, step, create, err);
	if (!s)
		gck_fail_in(err, "stage %s", dir);
	return s;
}

int gck_store_stage(struct gck_store *s, struct gck_store *stage, struct gck_error *err)
{
	struct gck_backend *both = gck_stage_backend(s, stage->b, err);

	if (!both) {
		gck_store_close(stage);
		return -1;
	}
	s->b = both;
	s->staged = true;
	free(stage);
	return 0;
}

uint64_t gck_store_staged_bytes(const struct gck_store *s, struct gck_error *why)
{
	*why = (struct gck_error){ 0 };
	return s->staged ? gck_stage_pending_bytes(s->b, why) : 0;
}

/* ---- pruning -------------------------------------------------------------------------------- */

struct prune {
	struct gck_store *s;
	uint32_t seq;
	const char *dir;        /* the checkpoint's, while its manifests are read */
	struct gck_name_list kept, older;
};

static int keep_manifest(void *arg, const char *name, struct gck_error *err)
{
	struct prune *k = arg;
	char full[GCK_NAME_MAX], hash[GCK_HASH_TEXT], *text;
	struct gck_error why = { 0 };
	json_t *manifest;
	size_t size;
	int rc = 0;

	if (strncmp(name, "rank-", 5))
		return 0;
	snprintf(full, sizeof full, "%s%s", k->dir, name);
	if (gck_document_load(k->s, full, &text, &size, hash, err) < 0)
		return -1;
	manifest = gck_json_parse(text, size, &why);
	free(text);
	if (why.code == ENOMEM)
		return gck_fail(err, why.code, "%s/%s: %s", k->s->b->where, full, why.text);
	/* A damaged manifest keeps nothing here: the store has everything. */
	if (gck_manifest_objects(manifest, NULL))
		rc = gck_name_list_add_objects(&k->kept, manifest, err);
	json_decref(manifest);
	return rc;
}

static int collect(void *arg, const char *name, struct gck_error *err)
{
	struct prune *k = arg;
	uint32_t seq;

	if (!gck_name_is_dir(name, &seq) || seq > k->seq)
		return 0;
	if (seq < k->seq)
		return gck_name_list_add(&k->older, name, err);
	k->dir = name;
	return k->s->b->ops->list(k->s->b, name, keep_manifest, k, err);
}

int gck_stage_prune(struct gck_store *stage, uint32_t seq, struct gck_error *err)
{
	struct prune k = { .s = stage, .seq = seq };
	int rc = stage->b->ops->list(stage->b, "", collect, &k, err);

	gck_name_list_sort(&k.kept);
	for (size_t i = 0; rc == 0 && i < k.older.n; i++)
		rc = gck_sweep_directory(stage, k.older.v[i], &k.kept, err);
	gck_name_list_free(&k.kept);
	gck_name_list_free(&k.older);
	return rc;
}

int gck_stage_clear(struct gck_store *stage, struct gck_error *err)
{
	if (gck_store_prune(stage, NULL, 0, UINT32_MAX, err) < 0)
		return -1;
	gck_store_remove_empty(stage);
	return 0;
}

/* ---- stages of other steps ------------------------------------------------------------------ */

struct leftovers {
	const char *dir;
	char cluster[256];
	uint32_t job, step;     /* not these */
	time_t before;
};

static void clear_step(const struct leftovers *l, uint32_t job, uint32_t step)
{
	struct gck_store *s = gck_stage_open(l->dir, l->cluster, job, step, false, NULL);

	if (!s)
		return;
	(void)!gck_stage_clear(s, NULL); /* the next sweep tries again */
	gck_store_close(s);
}

/* Only decimal numbers are names of a stage. */
static bool is_number(const char *name, uint32_t *n)
{
	char *end;
	unsigned long v;

	if (*name < '0' || *name > '9')
		return false;
	v = strtoul(name, &end, 10);
	*n = (uint32_t)v;
	return !*end && v <= UINT32_MAX;
}

static void clear_job(const struct leftovers *l, int cluster, const char *name, uint32_t job)
{
	int fd = openat(cluster, name, DIR_FLAGS | O_NOFOLLOW);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;
	struct stat st;
	uint32_t step;

	while (d && (e = readdir(d)))
		if (is_number(e->d_name, &step) && (job != l->job || step != l->step) &&
		    fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    st.st_mtime < l->before)
			clear_step(l, job, step);
	if (d)
		closedir(d);
	else if (fd >= 0)
		close(fd);
}

void gck_stage_sweep(const char *dir, const char *cluster, uint32_t job, uint32_t step,
		     unsigned age_s)
{
	struct leftovers l = { .dir = dir, .job = job, .step = step, .before = time(NULL) - age_s };
	char path[PATH_MAX + 300];
	struct dirent *e;
	uint32_t other;
	DIR *d;

	snprintf(l.cluster, sizeof l.cluster, "%s", cluster);
	snprintf(path, sizeof path, "%s/gpuckpt-%u/%s", dir, (unsigned)geteuid(), l.cluster);
	d = opendir(path);
	while (d && (e = readdir(d)))
		if (is_number(e->d_name, &other))
			clear_job(&l, dirfd(d), e->d_name, other);
	if (d)
		closedir(d);
}
