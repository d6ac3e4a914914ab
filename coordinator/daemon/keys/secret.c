/* SPDX-License-Identifier: Apache-2.0
 * Files with secrets. */
#include "config.h"

#include "coordinator/daemon/keys/keys.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void gck_secret_find(struct gck_secret *s, const char *configured, const char *credential)
{
	const char *dir = getenv("CREDENTIALS_DIRECTORY");

	memset(s, 0, sizeof *s);
	s->credential = !*configured;
	if (*configured)
		snprintf(s->path, sizeof s->path, "%s", configured);
	else if (dir)
		snprintf(s->path, sizeof s->path, "%s/%s", dir, credential);
	if (s->credential && *s->path && access(s->path, F_OK))
		*s->path = '\0';
}

/* systemd sets a credential's mode; an ACL for this user may show as group access. */
static int check_owner(const struct stat *st, bool credential, struct gck_error *err)
{
	if (!S_ISREG(st->st_mode))
		return gck_fail(err, EINVAL, "it is not a file");
	if (st->st_mode & (credential ? S_IRWXO : S_IRWXO | S_IRWXG))
		return gck_fail(err, EPERM, "others than its owner may use it (mode %03o); chmod "
				"600, and give out new keys if anybody may have read these",
				st->st_mode & 0777u);
	if (st->st_uid != geteuid() && st->st_uid != 0)
		return gck_fail(err, EPERM, "it belongs to uid %u, not to CoordinatorUser",
				(unsigned)st->st_uid);
	return 0;
}

int gck_secret_read(struct gck_secret *s, char text[GCK_SECRET_MAX], struct gck_error *err)
{
	int fd = open(s->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	ssize_t n = 0;
	int rc;

	if (fd < 0)
		return gck_fail(err, errno, "cannot be opened: %s", strerror(errno));
	rc = fstat(fd, &s->seen) ? gck_fail(err, errno, "%s", strerror(errno)) :
			     check_owner(&s->seen, s->credential, err);
	if (rc == 0)
		n = read(fd, text, GCK_SECRET_MAX - 1);
	close(fd);
	if (rc == 0 && n < 0)
		return gck_fail(err, errno, "cannot be read: %s", strerror(errno));
	text[n > 0 ? n : 0] = '\0';
	return rc;
}

/* The ctime changes with permissions, too. */
static bool is_same(const struct stat *a, const struct stat *b)
{
	return a->st_ino == b->st_ino && a->st_dev == b->st_dev && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
	       a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

bool gck_secret_changed(struct gck_secret *s)
{
	struct stat now;

	if (stat(s->path, &now) || is_same(&now, &s->seen))
		return false;
	s->seen = now; /* an invalid file is not read again and again */
	return true;
}
