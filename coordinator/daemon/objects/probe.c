/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "coordinator/daemon/objects/objects.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "common/base/log.h"
#include "storage/s3/presign.h"
#include "storage/s3/s3.h"
#include "storage/s3/signer.h"

#define LIFETIME_S 600
#define SKEW_S 60 /* a warning; from 900 s on servers refuse all signatures */

static uid_t owner; /* of the jobs that this process signs for */

/* This process has the keys itself. */
static int sign(void *arg, const struct gck_sign_scope *of, const struct gck_sign_request *v,
		size_t n, char **urls, time_t *expires, char **ca, struct gck_error *err)
{
	const struct gck_daemon *d = arg;
	char *path = *d->conf.s3_ca_file ? strdup(d->conf.s3_ca_file) : NULL;
	struct gck_sign_scope whose = *of;

	whose.uid = (uint32_t)owner;
	for (size_t i = 0; i < n; i++) {
		if (gck_s3_presign(&d->keys.server, &d->keys.sigv4, &whose, &v[i], time(NULL),
				   LIFETIME_S, &urls[i], err) == 0)
			continue;
		while (i-- > 0)
			free(urls[i]);
		free(path);
		return -1;
	}
	*expires = time(NULL) + LIFETIME_S;
	*ca = path;
	return 0;
}

void gck_probe_signer(struct gck_daemon *d, uid_t uid)
{
	owner = uid;
	gck_store_signer(sign, d);
	gck_store_request_timeout(d->conf.s3_timeout_s);
}

static void tell(const struct gck_daemon *d, const struct gck_s3_probe *found)
{
	gck_info("object store %s at %s: reached and written to; %s", d->conf.s3_store,
		 d->keys.endpoint, found->only_new ?
		 "it does not let a commit be written over (If-None-Match)" :
		 "it would let a commit be written over (no If-None-Match): the journal alone says "
		 "which one counts");
	if (labs(found->skew_s) > SKEW_S)
		gck_warn("object store %s: its clock is %ld s %s this host's; from 900 s on it "
			 "refuses every request: set both by NTP", d->conf.s3_store,
			 labs(found->skew_s), found->skew_s > 0 ? "ahead of" : "behind");
}

static void child(struct gck_daemon *d, pid_t parent)
{
	struct gck_s3_probe found = {0};
	struct gck_error err = {0};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	gck_probe_signer(d, 0);
	if (gck_s3_probe(d->conf.s3_store, *d->conf.cluster ? d->conf.cluster : "probe", &found,
			 &err) == 0)
		tell(d, &found);
	else
		gck_warn("object store %s at %s does not work: %s", d->conf.s3_store,
			 d->keys.endpoint, err.text);
	_exit(0);
}

void gck_probe_start(struct gck_daemon *d)
{
	pid_t parent = getpid(), pid;

	if (!*d->keys.file.path)
		return;
	pid = fork(); /* libev waits for it */
	if (pid == 0)
		child(d, parent);
	if (pid < 0)
		gck_warn("object store %s is not looked at: %s", d->conf.s3_store, strerror(errno));
}
