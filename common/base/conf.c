/* SPDX-License-Identifier: Apache-2.0
 * gpuckpt.conf: a table of keys, with the type and the place of each value. */
#include "common/base/conf.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum kind { TEXT, PATH, NUMBER, AGE, SIZE };

/* Refuse a path that LD_PRELOAD would split at a colon. */
static int no_colon(const char *value, struct gck_error *err)
{
	if (!strchr(value, ':'))
		return 0;
	return gck_fail(err, EINVAL, "the path must not hold a colon, which separates paths in "
			"LD_PRELOAD");
}

static int is_addressing(const char *value, struct gck_error *err)
{
	if (strcmp(value, "path") == 0 || strcmp(value, "virtual") == 0)
		return 0;
	return gck_fail(err, EINVAL, "must be path or virtual");
}

static int is_cut_off(const char *value, struct gck_error *err)
{
	if (strcmp(value, "stop") == 0 || strcmp(value, "run") == 0)
		return 0;
	return gck_fail(err, EINVAL, "must be stop or run");
}

typedef int check_fn(const char *value, struct gck_error *err);

static const struct key {
	const char *name;
	enum kind kind;
	size_t offset, size; /* size: of a text with its NUL; numbers are unsigned */
	unsigned min, max;
	check_fn *check;     /* of a text; may be NULL */
} keys[] = {
#define FIELD(f) offsetof(struct gck_conf, f), sizeof(((struct gck_conf *)0)->f)
#define CHECK(fn) .check = (fn)
	{ "ClusterName", TEXT, FIELD(cluster) },
	{ "CoordinatorHost", TEXT, FIELD(host) },
	{ "CoordinatorPort", NUMBER, FIELD(port), 1, 65535 },
	{ "ListenAddress", TEXT, FIELD(listen) },
	{ "CoordinatorUser", TEXT, FIELD(user) },
	{ "StateDir", PATH, FIELD(state_dir) },
	{ "MungeSocket", PATH, FIELD(munge_socket) },
	{ "AgentPath", PATH, FIELD(agent) },
	{ "PreloadPath", PATH, FIELD(preload), CHECK(no_colon) },
	{ "MpiPath", PATH, FIELD(mpi), CHECK(no_colon) },
	{ "CudaPath", PATH, FIELD(cuda), CHECK(no_colon) },
	{ "AgentLog", PATH, FIELD(agent_log) },
	{ "CutOff", TEXT, FIELD(cut_off), CHECK(is_cut_off) },
	{ "NodePoll", NUMBER, FIELD(poll_s), 1, 3600 },
	{ "RestartFailures", NUMBER, FIELD(restart_failures), 1, 1000 },
	{ "RestartFailureTime", NUMBER, FIELD(restart_failure_s), 0, 86400 },
	{ "KeepAge", AGE, FIELD(keep_age_s) },
	{ "Quota", SIZE, FIELD(quota) },
	{ "MaxConnections", NUMBER, FIELD(max_connections), 1, 1000000 },
	{ "MaxUserConnections", NUMBER, FIELD(user_connections), 1, 1000000 },
	{ "MaxNewConnections", NUMBER, FIELD(new_connections), 1, 1000000 },
	{ "MaxUserRate", NUMBER, FIELD(user_rate), 1, 1000000 },
	{ "EncryptionKeyFile", PATH, FIELD(encryption_key_file) },
	{ "S3Store", TEXT, FIELD(s3_store), CHECK(gck_s3_url_check) },
	{ "S3Endpoint", TEXT, FIELD(s3_endpoint), CHECK(gck_s3_endpoint_check) },
	{ "S3Region", TEXT, FIELD(s3_region) },
	{ "S3Addressing", TEXT, FIELD(s3_addressing), CHECK(is_addressing) },
	{ "S3KeyFile", PATH, FIELD(s3_key_file) },
	{ "S3CAFile", PATH, FIELD(s3_ca_file) },
	{ "S3Timeout", NUMBER, FIELD(s3_timeout_s), 1, 3600 },
#undef CHECK
#undef FIELD
};

#define MIN_AGE_MS 1000u
#define NKEYS (sizeof keys / sizeof *keys)
#define MAX_KEYS 64 /* capacity of reader.lines, with the keys Default... */

/* The state of a reader of gpuckpt.conf. */
struct reader {
	struct gck_conf conf;
	unsigned lines[MAX_KEYS]; /* where each key was set; 0: not yet */
	gck_conf_problem_fn *problem; /* told of each wrong line; NULL: the first ends it */
	void *arg;
};

void gck_conf_init(struct gck_conf *c)
{
	*c = (struct gck_conf){
		.port = 6821, .user = "root", .state_dir = "/var/lib/gpuckpt",
		.agent = GCK_LIBEXECDIR "/gpuckpt-agent",
		.preload = GCK_PKGLIBDIR "/libgpuckpt-preload.so",
		.mpi = GCK_PKGLIBDIR "/libgpuckpt-mpi.so",
		.cuda = GCK_PKGLIBDIR "/libgpuckpt-cuda.so",
		.cut_off = "stop", .poll_s = 5, .max_connections = 65536, .user_connections = 16384,
		.new_connections = 256, .user_rate = 200, .restart_failures = 3,
		.restart_failure_s = 60, .s3_region = "us-east-1", .s3_addressing = "path",
		.s3_timeout_s = 30,
	};
	gck_options_init(&c->defaults);
}

static int set_text(struct gck_conf *c, const struct key *k, const char *value,
		    struct gck_error *err)
{
	if (k->kind == PATH && *value && *value != '/')
		return gck_fail(err, EINVAL, "%s=%.100s: must be an absolute path", k->name, value);
	if (k->check && k->check(value, err))
		return gck_fail_in(err, "%s=%.100s", k->name, value);
	if (strlen(value) >= k->size)
		return gck_fail(err, ENAMETOOLONG, "%s: the value is longer than %zu bytes",
				k->name, k->size - 1);
	strcpy((char *)c + k->offset, value);
	return 0;
}

static int set_number(struct gck_conf *c, const struct key *k, const char *value,
		      struct gck_error *err)
{
	uint64_t n = 0;
	unsigned u;

	if (gck_parse_number(value, k->min, k->max, &n, err))
		return gck_fail_in(err, "%s=%.100s", k->name, value);
	u = (unsigned)n;
	memcpy((char *)c + k->offset, &u, sizeof u);
	return 0;
}

/* Set an age in seconds; "off" is 0. */
static int set_age(struct gck_conf *c, const struct key *k, const char *value,
		   struct gck_error *err)
{
	uint64_t ms = 0;
	unsigned s;

	if (strcmp(value, "off") != 0 && (gck_parse_time_ms(value, &ms, err) || ms < MIN_AGE_MS ||
					  ms / 1000 > INT_MAX))
		return gck_fail(err, EINVAL, "%s=%.100s: must be off, or a time of 1s or more such "
				"as 30d", k->name, value);
	s = (unsigned)(ms / 1000);
	memcpy((char *)c + k->offset, &s, sizeof s);
	return 0;
}

static int set_size(struct gck_conf *c, const struct key *k, const char *value,
		    struct gck_error *err)
{
	uint64_t n = 0;

	if (strcmp(value, "off") != 0 && (gck_parse_size(value, &n, err) || !n))
		return gck_fail(err, EINVAL, "%s=%.100s: must be off, or a size such as 500G",
				k->name, value);
	memcpy((char *)c + k->offset, &n, sizeof n);
	return 0;
}

static int set_value(struct gck_conf *c, const struct key *k, const char *value,
		     struct gck_error *err)
{
	switch (k->kind) {
	case NUMBER:
		return set_number(c, k, value, err);
	case AGE:
		return set_age(c, k, value, err);
	case SIZE:
		return set_size(c, k, value, err);
	default:
		return set_text(c, k, value, err);
	}
}

/* Does a key such as DefaultRestartWait name this option (restart-wait)? */
static bool is_default(const char *key, const char *option)
{
	if (strncasecmp(key, "Default", 7) != 0)
		return false;
	key += 7;
	for (; *option; option++) {
		if (*option == '-')
			continue;
		if (tolower((unsigned char)*key++) != *option)
			return false;
	}
	return !*key;
}

static int check_first(struct reader *r, size_t i, unsigned line, const char *key,
		       struct gck_error *err)
{
	if (r->lines[i])
		return gck_fail(err, EINVAL, "%s was already given in line %u", key, r->lines[i]);
	r->lines[i] = line;
	return 0;
}

static int set(struct reader *r, const char *key, const char *value, unsigned line,
	       struct gck_error *err)
{
	const char *option;

	for (size_t i = 0; i < NKEYS; i++)
		if (strcasecmp(keys[i].name, key) == 0)
			return check_first(r, i, line, keys[i].name, err) ? -1 :
			       set_value(&r->conf, &keys[i], value, err);
	for (size_t i = 0; (option = gck_options_key(i)); i++)
		if (is_default(key, option)) {
			if (check_first(r, NKEYS + i, line, key, err))
				return -1;
			if (gck_options_set(&r->conf.defaults, option, value, err))
				return gck_fail_in(err, "%s", key);
			return 0;
		}
	return gck_fail(err, EINVAL, "unknown key %.64s; gpuckpt.conf(5) lists the keys", key);
}

static char *trim(char *text)
{
	size_t n;

	text += strspn(text, " \t\r\n");
	n = strlen(text);
	while (n && strchr(" \t\r\n", text[n - 1]))
		text[--n] = '\0';
	return text;
}

static int read_line(struct reader *r, char *line, unsigned number, struct gck_error *err)
{
	char *key, *value;

	line[strcspn(line, "#")] = '\0';
	key = trim(line);
	if (!*key)
		return 0;
	value = strchr(key, '=');
	if (!value)
		return gck_fail(err, EINVAL, "%.64s: write Key=Value", key);
	*value++ = '\0';
	key = trim(key);
	value = trim(value);
	if (value[strcspn(value, " \t")])
		return gck_fail(err, EINVAL,
				"%.64s: a value with a space in it; write one Key=Value a line",
				key);
	return set(r, key, value, number, err);
}

/* A line is wrong: -1 if it ends the reading. */
static int on_problem(const struct reader *r, const struct gck_error *err)
{
	if (!r->problem)
		return -1;
	r->problem(r->arg, err);
	return 0;
}

static int read_lines(struct reader *r, FILE *f, const char *path, struct gck_error *err)
{
	char *line = NULL;
	size_t capacity = 0;
	ssize_t n;
	int rc = 0;

	for (unsigned number = 1; rc == 0 && (n = getline(&line, &capacity, f)) >= 0; number++) {
		if (strlen(line) != (size_t)n)
			rc = gck_fail(err, EINVAL, "a NUL byte in it; this is not a text file");
		else
			rc = read_line(r, line, number, err);
		if (rc) {
			gck_fail_in(err, "%s:%u", path, number);
			rc = on_problem(r, err);
		}
	}
	if (rc == 0 && ferror(f))
		rc = gck_fail(err, errno, "%s: cannot read: %s", path, strerror(errno));
	free(line);
	return rc;
}

int gck_conf_allows(const struct gck_conf *c, const char *store, struct gck_error *err)
{
	if (!gck_s3_is(store))
		return 0;
	if (!*c->s3_store)
		return gck_fail(err, ENOTSUP,
				"store=%.200s: this site has no object store (S3Store is not set "
				"in gpuckpt.conf); use file:/path",
				store);
	if (gck_s3_is_below(store, c->s3_store))
		return 0;
	return gck_fail(err, EACCES, "store=%.200s: this site's object store is %.200s (S3Store in "
			"gpuckpt.conf); use it or a prefix below it", store, c->s3_store);
}

void gck_conf_s3_endpoint(const struct gck_conf *c, char url[GCK_S3_ENDPOINT_MAX])
{
	if (*c->s3_endpoint)
		snprintf(url, GCK_S3_ENDPOINT_MAX, "%s", c->s3_endpoint);
	else
		snprintf(url, GCK_S3_ENDPOINT_MAX, "https://s3.%s.amazonaws.com", c->s3_region);
}

void gck_conf_preload(const char *path, char *text, size_t size)
{
	const char *name = strrchr(path, '/');
	char linked[PATH_MAX + 64];
	int n;

	name = name ? name : path;
	n = (int)(name - path);
	snprintf(linked, sizeof linked, "%.*s/lib64%s", n, path, name);
	if (faccessat(AT_FDCWD, linked, R_OK, AT_EACCESS) == 0)
		snprintf(text, size, "%.*s/$LIB%s", n, path, name);
	else
		snprintf(text, size, "%s", path);
}

/* Checks that need the whole file. */
static int check_all(const struct gck_conf *c, const char *path, struct gck_error *err)
{
	if (gck_conf_allows(c, c->defaults.store, err))
		return gck_fail_in(err, "%s: DefaultStore", path);
	return 0;
}

/* Slurm converts the cluster name of slurm.conf to lower case. */
static void lower(char *name)
{
	for (; *name; name++)
		*name = (char)tolower((unsigned char)*name);
}

static int load(struct reader *r, const char *path, struct gck_error *err)
{
	FILE *f = fopen(path, "re");
	int rc;

	if (!f)
		return gck_fail(err, errno, "cannot open %s: %s", path, strerror(errno));
	rc = read_lines(r, f, path, err);
	fclose(f);
	lower(r->conf.cluster);
	return rc ? -1 : check_all(&r->conf, path, err);
}

int gck_conf_load(struct gck_conf *c, const char *path, struct gck_error *err)
{
	struct reader r = { .conf = *c };
	int rc = load(&r, path, err);

	if (rc == 0)
		*c = r.conf;
	return rc;
}

void gck_conf_test(struct gck_conf *c, const char *path, gck_conf_problem_fn *problem, void *arg)
{
	struct reader r = { .conf = *c, .problem = problem, .arg = arg };
	struct gck_error err = { 0 };

	if (load(&r, path, &err))
		problem(arg, &err);
	*c = r.conf;
}
