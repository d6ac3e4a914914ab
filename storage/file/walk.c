/* SPDX-License-Identifier: Apache-2.0
 * The `file:` backend: all steps of a cluster. The owner of a job's directory is the job's. */
#include "config.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/place/owner.h"
#include "storage/file/file.h"

#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)

struct entry {
	char name[32];
	uint32_t number;
};

/* <job>, or <job>-...: what the job has if another user has that (step_dir.c). */
static bool parse(struct entry *e, const char *name)
{
	const char *rest = gck_name_number(name, &e->number);

	if (!rest || (*rest && *rest != '-') || strlen(name) >= sizeof e->name)
		return false;
	strcpy(e->name, name);
	return true;
}

/* The entries of the directory name in fd whose names begin with a number; free *v. None if there
 * is no directory that can be read: users make these. */
static size_t list(int fd, const char *name, struct entry **v, uid_t *owner)
{
	int sub = openat(fd, name, DIR_FLAGS);
	DIR *d = sub < 0 ? NULL : fdopendir(sub);
	const struct dirent *e;
	struct entry one, *more;
	struct stat st;
	size_t n = 0;

	*v = NULL;
	if (!d) {
		if (sub >= 0)
			close(sub);
		return 0;
	}
	*owner = gck_owner_fstat(sub, &st) == 0 ? st.st_uid : (uid_t)-1;
	while ((e = readdir(d))) {
		if (!parse(&one, e->d_name))
			continue;
		more = reallocarray(*v, n + 1, sizeof **v);
		if (!more)
			break;
		*v = more;
		(*v)[n++] = one;
	}
	closedir(d);
	return n;
}

static int walk_job(int cluster, const struct entry *job, gck_walk_fn *fn, void *arg)
{
	struct entry *steps;
	uid_t owner;
	size_t n = list(cluster, job->name, &steps, &owner);
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < n; i++)
		if (!strchr(steps[i].name, '-'))
			rc = fn(arg, owner, job->number, steps[i].number);
	free(steps);
	return rc;
}

int gck_file_walk(const char *path, const char *cluster, gck_walk_fn *fn, void *arg,
		  struct gck_error *err)
{
	int root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int fd = root < 0 ? -1 : openat(root, cluster, DIR_FLAGS);
	int code = errno, rc = 0;
	struct entry *jobs;
	uid_t owner;
	size_t n;

	if (root >= 0)
		close(root);
	if (fd < 0)
		return gck_fail(err, code, "store file:%s/%s: %s", path, cluster, strerror(code));
	n = list(fd, ".", &jobs, &owner);
	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = walk_job(fd, &jobs[i], fn, arg);
	free(jobs);
	close(fd);
	return rc;
}
