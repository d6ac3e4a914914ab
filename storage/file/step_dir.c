/* SPDX-License-Identifier: Apache-2.0
 * The `file:` backend: the way to a step's directory. Other users may create entries in the
 * cluster's directory, so links are not followed there, and what belongs to another user is not the
 * job's directory: that has then the next of its names (doc/store.md). The owner of a directory may
 * rename and remove what others have in it, sticky bit or not, so the cluster's directory is root's
 * or ours. */
#include "config.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/place/owner.h"
#include "common/user/user.h"
#include "storage/file/file.h"

#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_CLOEXEC)
#define NAMES 10000 /* of a job's directory */
#define FREE_NAMES 4 /* so many are looked past: their squatters may have been removed */
#define MAKE_CLUSTER \
	"an administrator makes it once for all users: install -d -o root -m 1777 %s/%s"

static int open_root(const char *path, struct gck_error *err)
{
	int fd;

	if (path[0] != '/')
		return gck_fail(err, EINVAL, "store file:%s: the path must be absolute", path);
	fd = open(path, DIR_FLAGS);
	if (fd >= 0)
		return fd;
	if (errno == ENOENT)
		return gck_fail(err, ENODEV, "store file:%s is not there; create or mount it, on a "
				"file system that all nodes share", path);
	return gck_fail(err, errno, "store file:%s: %s", path, strerror(errno));
}

/* A directory below fd, made with mode if it is missing. path is for messages. */
static int enter(int fd, const char *name, const char *path, bool create, mode_t mode,
		 struct gck_error *err)
{
	bool made = false;
	int sub = openat(fd, name, DIR_FLAGS | O_NOFOLLOW);

	if (sub < 0 && errno == ENOENT && create) {
		made = mkdirat(fd, name, mode) == 0;
		if (made || errno == EEXIST)
			sub = openat(fd, name, DIR_FLAGS | O_NOFOLLOW);
	}
	if (sub < 0)
		return gck_fail(err, errno, "store %s: %s: %s", path, name,
				errno == ELOOP || errno == ENOTDIR ? "not a directory" :
				strerror(errno));
	/* mkdir's mode is cut by the umask, and the name must outlive a crash of the node. */
	if (made && (fchmod(sub, mode) < 0 || fsync(fd) < 0)) {
		gck_fail(err, errno, "store %s: make %s: %s", path, name, strerror(errno));
		close(sub);
		return -1;
	}
	return sub;
}

/* The first user to come must not own what all share: it is made where the store is one's own. */
static bool may_make_cluster(int root)
{
	struct stat st;

	return gck_owner_fstat(root, &st) == 0 && st.st_uid == geteuid();
}

static int check_cluster_dir(int fd, const char *path, const char *cluster, bool create,
			     struct gck_error *err)
{
	char user[GCK_USER_MAX];
	struct stat st;

	if (gck_owner_fstat(fd, &st) < 0)
		return gck_fail(err, errno, "store %s: %s: %s", path, cluster, strerror(errno));
	if (geteuid() == 0 && !create)
		return 0;
	if (st.st_uid != 0 && st.st_uid != geteuid())
		return gck_fail(err, EPERM, "store %s: %s belongs to %s, who could remove and "
				"replace what others keep there; " MAKE_CLUSTER, path, cluster,
				gck_user_name(st.st_uid, user), path, cluster);
	if (st.st_mode & S_IWOTH && !(st.st_mode & S_ISVTX))
		return gck_fail(err, EPERM, "store %s: in %s everybody may remove and replace what "
				"others keep there (its mode is %o); " MAKE_CLUSTER, path, cluster,
				st.st_mode & 07777, path, cluster);
	return 0;
}

static int enter_cluster(int root, const char *path, const char *cluster, bool create,
			 struct gck_error *err)
{
	bool own = may_make_cluster(root);
	int fd;

	if (!own && faccessat(root, cluster, F_OK, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT)
		return gck_fail(err, ENODEV, "store %s: there is no directory %s; " MAKE_CLUSTER,
				path, cluster, path, cluster);
	fd = enter(root, cluster, path, create && own, 01777, err);
	if (fd < 0 || check_cluster_dir(fd, path, cluster, create, err) == 0)
		return fd;
	close(fd);
	return -1;
}

/* ---- the job's directory -------------------------------------------------------------------- */

static void set_name(struct gck_file_store *f, unsigned n)
{
	if (n == 0)
		snprintf(f->job, sizeof f->job, "%u", f->job_id);
	else if (n == 1)
		snprintf(f->job, sizeof f->job, "%u-%u", f->job_id, (unsigned)f->owner);
	else
		snprintf(f->job, sizeof f->job, "%u-%u.%u", f->job_id, (unsigned)f->owner, n);
}

/* Whether a name is the owner's: 1; another user's: 0; -1 with errno. */
static int is_owners(struct gck_file_store *f, unsigned n, uid_t *uid)
{
	struct stat st;

	set_name(f, n);
	if (fstatat(f->cluster_fd, f->job, &st, AT_SYMLINK_NOFOLLOW))
		return -1;
	*uid = st.st_uid;
	return st.st_uid == f->owner || f->owner == GCK_ANY_OWNER;
}

static int note_squatter(struct gck_file_store *f, uid_t uid, struct gck_error *err)
{
	char user[GCK_USER_MAX];

	if (!f->head.squatter &&
	    asprintf(&f->head.squatter, "%s/%s belongs to %s, who has no job of this number",
		     f->cluster, f->job, gck_user_name(uid, user)) < 0)
		return f->head.squatter = NULL, gck_fail(err, ENOMEM, "no memory");
	return 0;
}

/* Set f->job to the first name that is the owner's; if there is none, to the first free one. */
static int find_job(struct gck_file_store *f, struct gck_error *err)
{
	unsigned first = NAMES, missing = 0;
	uid_t uid;

	for (unsigned n = 0; n < NAMES && missing < FREE_NAMES; n++) {
		int owners = is_owners(f, n, &uid);

		if (owners > 0)
			return 0;
		if (owners < 0 && errno != ENOENT)
			return gck_fail(err, errno, "store %s: %s: %s", f->cluster, f->job,
					strerror(errno));
		missing = owners < 0 ? missing + 1 : 0;
		if (owners < 0 && first == NAMES)
			first = n;
		if (!owners && note_squatter(f, uid, err))
			return -1;
	}
	if (first == NAMES)
		return gck_fail(err, EPERM, "store %s: all names of the job's directory are taken: "
				"%s; have them removed", f->cluster, f->head.squatter);
	set_name(f, first);
	return 0;
}

/* Root may read and remove what is a user's, but not write. */
static int enter_job(struct gck_file_store *f, bool create, struct gck_error *err)
{
	char user[GCK_USER_MAX];
	struct stat st;
	int fd = find_job(f, err) < 0 ? -1 :
		 enter(f->cluster_fd, f->job, f->cluster, create, 0700, err);

	if (fd < 0 || gck_owner_fstat(fd, &st) < 0 || f->owner == GCK_ANY_OWNER ||
	    st.st_uid == f->owner)
		return fd;
	close(fd);
	return gck_fail(err, EAGAIN, "store %s: %s was just made and belongs to %s: try again, or "
			"look how this file system maps users", f->cluster, f->job,
			gck_user_name(st.st_uid, user));
}

static int set_where(struct gck_file_store *f, struct gck_error *err)
{
	free(f->head.where);
	if (asprintf(&f->head.where, "%s/%s/%s", f->cluster, f->job, f->step) >= 0)
		return 0;
	f->head.where = NULL;
	return gck_fail(err, ENOMEM, "no memory to open the store %s", f->cluster);
}

/* ---- all of it ------------------------------------------------------------------------------ */

static int open_all(struct gck_file_store *f, const char *path, const char *cluster, bool create,
		    struct gck_error *err)
{
	int root = open_root(path, err);

	if (root < 0)
		return -1;
	f->cluster_fd = enter_cluster(root, path, cluster, create, err);
	close(root);
	if (f->cluster_fd < 0)
		return -1;
	f->job_fd = enter_job(f, create, err);
	if (f->job_fd < 0 || set_where(f, err) < 0)
		return -1;
	f->step_fd = enter(f->job_fd, f->step, f->head.where, create, 0700, err);
	if (f->step_fd < 0)
		return -1;
	if (create && faccessat(f->step_fd, ".", W_OK, AT_EACCESS) < 0)
		return gck_file_fail(f, "write to", "", errno, err);
	return 0;
}

static struct gck_file_store *file_new(const char *path, const char *cluster, uid_t owner,
				       uint32_t job, uint32_t step)
{
	struct gck_file_store *f = calloc(1, sizeof *f);

	if (!f)
		return NULL;
	if (asprintf(&f->cluster, "%s/%s", path, cluster) < 0) {
		free(f);
		return NULL;
	}
	f->owner = owner;
	f->job_id = job;
	f->head.ops = &gck_file_ops;
	f->head.parallel = GCK_FILE_PARALLEL;
	pthread_mutex_init(&f->lock, NULL);
	f->cluster_fd = f->job_fd = f->step_fd = -1;
	snprintf(f->step, sizeof f->step, "%u", step);
	for (size_t i = 0; i < GCK_FILE_PENDING; i++)
		f->pending[i].fd = -1;
	for (size_t i = 0; i < GCK_FILE_CACHED; i++)
		f->cached[i].fd = -1;
	return f;
}

struct gck_backend *gck_file_open(const char *path, const char *cluster, uid_t owner, uint32_t job,
				  uint32_t step, bool create, struct gck_error *err)
{
	struct gck_file_store *f = file_new(path, cluster, owner, job, step);

	if (!f) {
		gck_fail(err, ENOMEM, "no memory to open the store %s", path);
		return NULL;
	}
	if (open_all(f, path, cluster, create, err) == 0)
		return &f->head;
	f->head.ops->close(&f->head);
	return NULL;
}
