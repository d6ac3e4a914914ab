/* SPDX-License-Identifier: Apache-2.0
 * The configuration, and what it names on this host. */
#include "config.h"

#include <limits.h>
#include <netdb.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "coordinator/daemon/daemon.h"

/* Agents accept messages of CoordinatorUser only. */
static int check_user(struct gck_daemon *d, struct gck_error *err)
{
	const struct passwd *pw = getpwnam(d->conf.user);

	if (!pw)
		return gck_fail(err, EINVAL, "CoordinatorUser=%s does not exist here",
				d->conf.user);
	if (pw->pw_uid != geteuid())
		return gck_fail(err, EPERM,
				"gpuckptd must run as CoordinatorUser=%s (it runs as uid %u)",
				d->conf.user, (unsigned)geteuid());
	return 0;
}

/* A directory that is missing is made at the start, if the one above it allows that. */
static int check_missing(const char *dir, struct gck_error *err)
{
	char above[PATH_MAX];
	char *slash;

	snprintf(above, sizeof above, "%s", dir);
	slash = strrchr(above, '/');
	slash[slash == above] = '\0';
	if (access(above, W_OK | X_OK))
		return gck_fail(err, errno, "StateDir=%s does not exist and cannot be made: %s: %s",
				dir, above, strerror(errno));
	return 0;
}

static int check_state_dir(struct gck_daemon *d, struct gck_error *err)
{
	const char *dir = d->conf.state_dir;
	struct stat st;

	if (stat(dir, &st) && errno == ENOENT)
		return check_missing(dir, err);
	if (stat(dir, &st))
		return gck_fail(err, errno, "cannot look at StateDir=%s: %s", dir, strerror(errno));
	if (!S_ISDIR(st.st_mode))
		return gck_fail(err, ENOTDIR, "StateDir=%s is not a directory", dir);
	if (st.st_uid != geteuid() || st.st_mode & (S_IWGRP | S_IWOTH))
		return gck_fail(err, EPERM,
				"StateDir=%s must belong to CoordinatorUser and be writable by "
				"nobody else",
				dir);
	return 0;
}

static int open_keys(struct gck_daemon *d, struct gck_error *err)
{
	return gck_keys_open(&d->keys, &d->conf, err);
}

static int open_wrapping(struct gck_daemon *d, struct gck_error *err)
{
	return gck_wrapping_open(&d->wrapping, &d->conf, err);
}

static int check_address(struct gck_daemon *d, struct gck_error *err)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *all;
	int rc = *d->conf.listen ? getaddrinfo(d->conf.listen, "1", &hints, &all) : 0;

	if (rc)
		return gck_fail(err, EINVAL, "cannot listen at ListenAddress=%s: %s",
				d->conf.listen, gai_strerror(rc));
	if (*d->conf.listen)
		freeaddrinfo(all);
	return 0;
}

/* Each changes nothing on this host. */
typedef int part_fn(struct gck_daemon *d, struct gck_error *err);
static part_fn *const parts[] = {check_user, check_state_dir, open_keys, open_wrapping,
				 check_address};
#define NPARTS (sizeof parts / sizeof *parts)

int gck_configure(struct gck_daemon *d, const char *path, struct gck_error *err)
{
	gck_conf_init(&d->conf);
	if (gck_conf_load(&d->conf, path, err))
		return -1;
	if (mkdir(d->conf.state_dir, 0700) && errno != EEXIST)
		return gck_fail(err, errno, "cannot make StateDir=%s: %s", d->conf.state_dir,
				strerror(errno));
	for (size_t i = 0; i < NPARTS; i++)
		if (parts[i](d, err))
			return -1;
	return 0;
}

static void print_problem(void *arg, const struct gck_error *problem)
{
	unsigned *n = arg;

	++*n;
	fprintf(stderr, "gpuckptd: %s\n", problem->text);
}

/* What a wrong line leaves out has its default, with which the rest is tested. */
int gck_configure_test(struct gck_daemon *d, const char *path)
{
	struct gck_error err = {0};
	unsigned n = 0;

	gck_conf_init(&d->conf);
	gck_conf_test(&d->conf, path, print_problem, &n);
	for (size_t i = 0; i < NPARTS; i++)
		if (parts[i](d, &err))
			print_problem(&n, &err);
	if (n == 0)
		printf("gpuckptd: %s is valid\n", path);
	return n || fflush(stdout) ? 1 : 0;
}
