/* SPDX-License-Identifier: Apache-2.0
 * export, import: a commit in one file. */
#include "config.h"

#include <fcntl.h>
#include <libgen.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "coordinator/cli/cli.h"
#include "coordinator/cli/progress.h"
#include "common/s3_url.h"
#include "storage/store.h"

static volatile sig_atomic_t stop;

static void on_signal(int sig)
{
	(void)sig;
	stop = 1;
}

/* What was begun is taken back before this process ends. */
static void catch_signals(void)
{
	struct sigaction sa = { .sa_handler = on_signal };

	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGHUP, &sa, NULL);
}

/* ---- export -------------------------------------------------------------------------------- */

static const json_t *find_commit(const json_t *step, uint32_t seq)
{
	json_t *commit;
	size_t i;

	json_array_foreach(json_object_get(step, "commits"), i, commit)
		if (json_integer_value(json_object_get(commit, "seq")) == seq)
			return commit;
	return NULL;
}

/* The only step that has this commit. */
static const json_t *find_step(const struct cli *c, const json_t *steps, struct gck_error *err)
{
	const json_t *found = NULL;
	json_t *step;
	size_t i;

	json_array_foreach(steps, i, step) {
		if (!find_commit(step, c->seqs[0]))
			continue;
		if (found) {
			gck_fail(err, EINVAL, "several steps of job %u have a commit %u: name one, "
				 "%u.STEPID:%u", c->job, c->seqs[0], c->job, c->seqs[0]);
			return NULL;
		}
		found = step;
	}
	if (!found)
		gck_fail(err, ENOENT, "%s %u%s has no commit %u; see gpuckpt list", c->has_step ?
			 "the step of job" : "job", c->job, c->has_step ? " that was named" : "",
			 c->seqs[0]);
	return found;
}

/* What has been written is read again: the file is whole, or it does not get its name. */
static int check_file(const char *path, const char *hash, struct progress *p, struct gck_error *err)
{
	struct gck_image_id id;
	struct gck_store *image = gck_image_open(path, &id, err);
	int rc;

	if (!image)
		return -1;
	p->what = "checking the file";
	gck_store_tell(image, progress_tell, p);
	rc = gck_store_verify(image, id.seq, hash, NULL, err);
	gck_store_close(image);
	return rc;
}

/* It does not replace what is there. */
static int give_name(const char *temporary, const char *path, struct gck_error *err)
{
	char *copy = strdup(path);
	int fd;

	if (link(temporary, path) < 0) {
		free(copy);
		return gck_fail(err, errno, "%s: %s", path, strerror(errno));
	}
	fd = copy ? open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	if (fd >= 0) {
		fsync(fd);
		close(fd);
	}
	free(copy);
	return 0;
}

static int export_to(struct gck_store *s, const char *hash, struct progress *p, const char *path,
		     struct gck_error *err)
{
	char *temporary;
	int rc, fd;

	if (asprintf(&temporary, "%s.XXXXXX", path) < 0)
		return gck_fail(err, ENOMEM, "no memory");
	fd = mkstemp(temporary);
	if (fd < 0) {
		rc = gck_fail(err, errno, "make a file beside %s: %s", path, strerror(errno));
		free(temporary);
		return rc;
	}
	p->what = "exporting";
	gck_store_tell(s, progress_tell, p);
	rc = gck_store_export(s, (uint32_t)p->seq, hash, fd, err);
	close(fd);
	if (rc == 0)
		rc = check_file(temporary, hash, p, err);
	if (rc == 0)
		rc = give_name(temporary, path, err);
	unlink(temporary);
	free(temporary);
	progress_end();
	return rc < 0 ? gck_fail_in(err, "nothing was left in %s", path) : 0;
}

static int export_step(const struct cli *c, const json_t *step, struct gck_error *err)
{
	const char *hash = json_string_value(json_object_get(find_commit(step, c->seqs[0]), "hash"));
	struct progress p = {
		.job = json_integer_value(json_object_get(step, "job")),
		.step = json_integer_value(json_object_get(step, "step")),
		.seq = c->seqs[0], .kind = KIND_BYTES, .stop = &stop,
	};
	struct gck_store *s;
	int rc;

	if (access(c->file, F_OK) == 0)
		return gck_fail(err, EEXIST, "%s is there already", c->file);
	s = cli_open_store(c, step, err);
	if (!s)
		return -1;
	catch_signals();
	rc = export_to(s, hash, &p, c->file, err);
	gck_store_close(s);
	return rc;
}

int cli_export(struct cli *c, struct gck_error *err)
{
	json_t *steps = cli_ask_steps(c, "list", err);
	const json_t *step = steps ? find_step(c, steps, err) : NULL;
	int rc = step ? export_step(c, step, err) : -1;

	json_decref(steps);
	return rc;
}

/* ---- import -------------------------------------------------------------------------------- */

static int import_into(const char *url, struct gck_store *image, const struct gck_image_id *id,
		       struct gck_error *err)
{
	struct progress reading = { .what = "checking the file", .job = id->job, .step = id->step,
				    .seq = id->seq, .kind = KIND_BYTES, .stop = &stop };
	struct progress writing = reading;
	struct gck_store *s = gck_store_open(url, id->cluster, id->job, id->step, true, err);
	int rc;

	if (!s)
		return -1;
	writing.what = "importing";
	gck_store_tell(image, progress_tell, &reading);
	gck_store_tell(s, progress_tell, &writing);
	catch_signals();
	rc = gck_store_import(s, image, id->seq, err);
	progress_end();
	if (rc == 0)
		printf("step %u.%u, commit %u: srun --gpu-ckpt=store=%s,restart=%u:%u\n", id->job,
		       id->step, id->seq, url, id->job, id->seq);
	gck_store_close(s);
	return rc;
}

int cli_import(struct cli *c, struct gck_error *err)
{
	const char *url = c->store ? c->store : c->conf.defaults.store;
	struct gck_store *image;
	struct gck_image_id id;
	int rc;

	if (!*url)
		return gck_fail(err, EINVAL, "say where: --store=file:/DIRECTORY");
	if (gck_s3_is(url))
		return gck_fail(err, ENOTSUP, "%.200s: only a step that runs gets URLs to write with; "
				"import into --store=file:/DIRECTORY", url);
	image = gck_image_open(c->file, &id, err);
	if (!image)
		return -1;
	rc = import_into(url, image, &id, err);
	gck_store_close(image);
	return rc;
}
