/* SPDX-License-Identifier: Apache-2.0
 * gpuckpt.conf and what it names: munge, the coordinator, the store. */
#include "config.h"

#include "coordinator/cli/check/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/wire/credential.h"
#include "common/wire/wire.h"
#include "storage/s3/http.h"

#define CLOCK_S 5       /* munge refuses credentials from 300 s on, object stores from 900 s */
#define S3_S 10         /* without a byte */
#define SPACE_PERCENT 2 /* a store with less free space is nearly full */

void check_configuration(struct checks *c)
{
	if (c->conf_error->code)
		check_error(c, "the same file must be on all machines, readable by everyone; see "
			    "gpuckpt.conf(5)", "%s", c->conf_error->text);
	else if (!*c->conf->host)
		check_error(c, "set it to the name of gpuckptd's host, on all machines",
			    "%s: CoordinatorHost is not set", c->conf_path);
	else
		check_ok(c, "%s is valid", c->conf_path);
}

void check_munge(struct checks *c)
{
	struct gck_error err = { 0 };
	char *text = gck_credential_encode(c->conf->munge_socket, GCK_WIRE_ANY_UID, "check", &err);
	char *payload = NULL;
	size_t n;
	uid_t uid;

	if (text)
		payload = gck_credential_decode(c->conf->munge_socket, text, strlen(text), &n,
						&uid, &err);
	if (payload)
		check_ok(c, "credentials can be made and read");
	else
		check_error(c, "start munged (systemctl enable --now munge), or correct "
			    "MungeSocket", "%s", err.text);
	free(payload);
	free(text);
}

/* Without gpuckpt.conf nothing is known about it. */
void check_coordinator(struct checks *c)
{
	const char *version = json_string_value(json_object_get(c->status, "version"));

	if (c->conf_error->code || !*c->conf->host)
		return;
	if (!c->status)
		check_error(c, "start gpuckptd there, let its port through the firewall, and see "
			    "its log", "%s", c->status_error->text);
	else if (!version || strcmp(version, PACKAGE_VERSION) != 0)
		check_warn(c, "install the same version on all machines, gpuckptd's host first",
			   "gpuckptd at %s is version %s, this is %s", c->conf->host,
			   version ? version : "?", PACKAGE_VERSION);
	else
		check_ok(c, "version %s answers at %s port %u", version, c->conf->host,
			 c->conf->port);
}

void check_clock(struct checks *c)
{
	if (!json_is_integer(json_object_get(c->status, "time")))
		return;
	if (fabs(c->clock_s) <= CLOCK_S)
		check_ok(c, "it agrees with gpuckptd's");
	else
		check_warn(c, "set the clocks of all machines by NTP",
			   "this node's clock is %.0f s %s gpuckptd's; from 300 s on munge refuses "
			   "every message", fabs(c->clock_s),
			   c->clock_s > 0 ? "ahead of" : "behind");
}

/* ---- the store ------------------------------------------------------------------------------ */

static void check_space(struct checks *c, const char *dir)
{
	struct statvfs v;
	double percent;

	if (statvfs(dir, &v) || !v.f_blocks)
		return;
	percent = 100.0 * (double)v.f_bavail / (double)v.f_blocks;
	if (percent < SPACE_PERCENT)
		check_warn(c, "free some; KeepAge= and Quota= in gpuckpt.conf limit images",
			   "%s has %.1f %% free space", dir, percent);
}

/* Root may write everywhere: what counts is whether users may. */
void check_directory(struct checks *c, const char *dir, const char *command)
{
	struct stat st;

	if (stat(dir, &st)) {
		check_error(c, command, "%s: %s", dir, strerror(errno));
		return;
	}
	if (!S_ISDIR(st.st_mode)) {
		check_error(c, command, "%s is not a directory", dir);
	} else if (geteuid() ? access(dir, W_OK | X_OK) : !(st.st_mode & S_IWOTH)) {
		check_error(c, command, "%s cannot be written by %s (mode %04o)", dir,
			    geteuid() ? "this user" : "users", (unsigned)st.st_mode & 07777);
	} else if ((st.st_mode & S_IWOTH) && !(st.st_mode & S_ISVTX)) {
		check_warn(c, command, "in %s users may remove each other's files (mode %04o)",
			   dir, (unsigned)st.st_mode & 07777);
	} else {
		check_ok(c, "%s is there and can be written", dir);
		check_space(c, dir);
	}
}

static void check_file_store(struct checks *c, const char *root)
{
	const char *cluster = json_string_value(json_object_get(c->status, "cluster"));
	char dir[PATH_MAX + 260], command[PATH_MAX + 320];

	if (!cluster || !*cluster)
		cluster = c->conf->cluster;
	if (access(root, X_OK)) {
		check_error(c, "mount the store's file system on this node, or correct "
			    "DefaultStore", "%s: %s", root, strerror(errno));
		return;
	}
	if (!*cluster) {
		check_ok(c, "%s is there; gpuckptd, which knows the cluster's name, does not "
			 "answer", root);
		return;
	}
	snprintf(dir, sizeof dir, "%s/%s", root, cluster);
	snprintf(command, sizeof command, "as root: install -d -o root -m 1777 %s", dir);
	check_directory(c, dir, command);
}

void check_store(struct checks *c)
{
	const char *store = c->conf->defaults.store;

	if (c->conf_error->code)
		return;
	if (!*store)
		check_warn(c, "set it, or tell users to give store=",
			   "%s: DefaultStore is not set", c->conf_path);
	else if (strncmp(store, "file:", 5) != 0)
		check_ok(c, "%s: gpuckptd checks it when it starts, see its log", store);
	else
		check_file_store(c, store + 5);
}

/* Any answer will do: the store's keys are gpuckptd's. */
void check_s3(struct checks *c)
{
	char url[GCK_S3_ENDPOINT_MAX];
	struct gck_http h = { .method = "GET", .url = url, .patience = S3_S };
	struct gck_error err = { 0 };

	if (c->conf_error->code || !*c->conf->s3_store)
		return;
	gck_conf_s3_endpoint(c->conf, url);
	if (*c->conf->s3_ca_file)
		h.ca = c->conf->s3_ca_file;
	if (gck_http(&h, &err) == 0)
		check_ok(c, "%s answers", url);
	else
		check_error(c, err.code == EACCES ?
			    "set S3CAFile to the certificates that have signed the server's" :
			    "let nodes reach it (name service, routes, firewall, https_proxy), or "
			    "correct S3Endpoint", "%s: %s", url, err.text);
	gck_http_end(&h);
}
