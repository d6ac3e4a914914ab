/* SPDX-License-Identifier: Apache-2.0
 * The object store's keys. */
#include "config.h"

#include "coordinator/daemon/keys.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CREDENTIAL "gpuckpt-s3"
#define FILE_MAX 16384

/* ---- the file ------------------------------------------------------------------------------ */

/* A credential's mode is systemd's business; it may be open to a group by an ACL for this user. */
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

static int read_file(const struct gck_keys *k, char text[FILE_MAX], struct stat *st,
		     struct gck_error *err)
{
	int fd = open(k->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	ssize_t n = 0;
	int rc;

	if (fd < 0)
		return gck_fail(err, errno, "cannot be opened: %s", strerror(errno));
	rc = fstat(fd, st) ? gck_fail(err, errno, "%s", strerror(errno)) :
			     check_owner(st, k->credential, err);
	if (rc == 0)
		n = read(fd, text, FILE_MAX - 1);
	close(fd);
	if (rc == 0 && n < 0)
		return gck_fail(err, errno, "cannot be read: %s", strerror(errno));
	text[n > 0 ? n : 0] = '\0';
	return rc;
}

/* ---- its lines ----------------------------------------------------------------------------- */

struct value {
	const char *name;
	char *to;
	size_t size;
};

/* name=value, or the value of the place that the line has. A secret may well have a '=' in it. */
static struct value *choose(struct value *v, size_t n, size_t *place, char **line)
{
	for (size_t i = 0; i < n; i++) {
		size_t length = strlen(v[i].name);

		if (strncmp(*line, v[i].name, length) || (*line)[length] != '=')
			continue;
		*line += length + 1;
		return &v[i];
	}
	return *place < n ? &v[(*place)++] : NULL;
}

static int take_line(struct value *v, size_t n, size_t *place, char *line, unsigned number,
		     struct gck_error *err)
{
	struct value *to;

	line[strcspn(line, "\r")] = '\0';
	if (!*line || *line == '#')
		return 0;
	to = choose(v, n, place, &line);
	for (const char *p = line; *p; p++)
		if (!isgraph((unsigned char)*p))
			return gck_fail(err, EINVAL, "line %u has a space or a control character",
					number);
	if (!to || *to->to || !*line || strlen(line) >= to->size)
		return gck_fail(err, EINVAL, "line %u is not understood; write access=, secret= and, "
				"if there is one, token=", number);
	strcpy(to->to, line);
	return 0;
}

static int parse(struct gck_keys *k, char *text, struct gck_error *err)
{
	struct value v[] = {
		{ "access", k->access, sizeof k->access },
		{ "secret", k->secret, sizeof k->secret },
		{ "token", k->token, sizeof k->token },
	};
	size_t place = 0;
	unsigned number = 0;
	char *line;

	*k->access = *k->secret = *k->token = '\0';
	while ((line = strsep(&text, "\n")))
		if (take_line(v, sizeof v / sizeof *v, &place, line, ++number, err))
			return -1;
	if (!*k->access || !*k->secret)
		return gck_fail(err, EINVAL, "it has no access= or no secret=");
	return 0;
}

static int load(struct gck_keys *k, struct gck_error *err)
{
	char text[FILE_MAX];
	int rc = read_file(k, text, &k->seen, err);

	if (rc == 0)
		rc = parse(k, text, err);
	explicit_bzero(text, sizeof text);
	if (rc)
		gck_fail_in(err, "S3KeyFile=%.300s", k->path);
	return rc;
}

/* ---- from outside -------------------------------------------------------------------------- */

static void point(struct gck_keys *k)
{
	k->server.endpoint = k->endpoint;
	k->sigv4 = (struct gck_sigv4_keys){ k->access, k->secret, *k->token ? k->token : NULL };
}

static int find(struct gck_keys *k, const struct gck_conf *c, struct gck_error *err)
{
	const char *dir = getenv("CREDENTIALS_DIRECTORY");

	k->credential = !*c->s3_key_file;
	if (*c->s3_key_file)
		snprintf(k->path, sizeof k->path, "%s", c->s3_key_file);
	else if (dir)
		snprintf(k->path, sizeof k->path, "%s/" CREDENTIAL, dir);
	else
		return gck_fail(err, EINVAL, "S3Store=%.200s needs keys: set S3KeyFile, or give the "
				"systemd credential " CREDENTIAL, c->s3_store);
	return 0;
}

int gck_keys_open(struct gck_keys *k, const struct gck_conf *c, struct gck_error *err)
{
	memset(k, 0, sizeof *k);
	if (!*c->s3_store)
		return 0;
	if (*c->s3_endpoint)
		snprintf(k->endpoint, sizeof k->endpoint, "%s", c->s3_endpoint);
	else
		snprintf(k->endpoint, sizeof k->endpoint, "https://s3.%s.amazonaws.com",
			 c->s3_region);
	k->server = (struct gck_s3_server){ .region = c->s3_region,
					    .virtual_host = !strcmp(c->s3_addressing, "virtual") };
	if (find(k, c, err) || load(k, err))
		return -1;
	point(k);
	return 0;
}

static bool is_same(const struct stat *a, const struct stat *b)
{
	return a->st_ino == b->st_ino && a->st_dev == b->st_dev && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

int gck_keys_renew(struct gck_keys *k, struct gck_error *err)
{
	struct gck_keys fresh = *k;
	struct stat now;
	int rc;

	if (stat(k->path, &now) || is_same(&now, &k->seen))
		return 0;
	k->seen = now; /* one that is not good is not tried again and again */
	rc = load(&fresh, err);
	if (rc == 0) {
		*k = fresh;
		point(k);
	}
	explicit_bzero(&fresh, sizeof fresh);
	return rc;
}
