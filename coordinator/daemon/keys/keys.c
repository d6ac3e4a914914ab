/* SPDX-License-Identifier: Apache-2.0
 * The object store's keys. */
#include "config.h"

#include "coordinator/daemon/keys/keys.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define CREDENTIAL "gpuckpt-s3"

/* ---- its lines ----------------------------------------------------------------------------- */

struct value {
	const char *name;
	char *to;
	size_t size;
};

/* name=value, or a bare value known by its line number. A secret may contain '='. */
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
		return gck_fail(err, EINVAL,
				"line %u is not understood; write access=, secret= and, if there "
				"is one, token=",
				number);
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
	char text[GCK_SECRET_MAX];
	int rc = gck_secret_read(&k->file, text, err);

	if (rc == 0)
		rc = parse(k, text, err);
	explicit_bzero(text, sizeof text);
	if (rc)
		gck_fail_in(err, "S3KeyFile=%.300s", k->file.path);
	return rc;
}

/* ---- from outside -------------------------------------------------------------------------- */

static void point(struct gck_keys *k)
{
	k->server.endpoint = k->endpoint;
	k->sigv4 = (struct gck_sigv4_keys){ k->access, k->secret, *k->token ? k->token : NULL };
}

int gck_keys_open(struct gck_keys *k, const struct gck_conf *c, struct gck_error *err)
{
	memset(k, 0, sizeof *k);
	if (!*c->s3_store)
		return 0;
	gck_conf_s3_endpoint(c, k->endpoint);
	k->server = (struct gck_s3_server){ .region = c->s3_region,
					    .virtual_host = !strcmp(c->s3_addressing, "virtual") };
	gck_secret_find(&k->file, c->s3_key_file, CREDENTIAL);
	if (!*k->file.path)
		return gck_fail(err, EINVAL,
				"S3Store=%.200s needs keys: set S3KeyFile, or give the systemd "
				"credential " CREDENTIAL,
				c->s3_store);
	if (load(k, err))
		return -1;
	point(k);
	return 0;
}

int gck_keys_renew(struct gck_keys *k, struct gck_error *err)
{
	struct gck_keys fresh;
	int rc;

	if (!gck_secret_changed(&k->file))
		return 0;
	fresh = *k;
	rc = load(&fresh, err);
	if (rc == 0) {
		*k = fresh;
		point(k);
	}
	explicit_bzero(&fresh, sizeof fresh);
	return rc;
}
