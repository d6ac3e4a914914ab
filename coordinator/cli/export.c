/* SPDX-License-Identifier: Apache-2.0
 * export: a commit into one file. */
#include "config.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "coordinator/cli/cli.h"
#include "coordinator/cli/progress.h"
#include "storage/archive/archive.h"
#include "storage/image/image.h"
#include "storage/store/store.h"

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

/* The file is read again: it gets its name only if it is complete. */
static int check_file(const char *path, const char *hash, struct progress *p, struct gck_error *err)
{
	struct gck_image_id id;
	struct gck_store *image = gck_image_open(path, &id, err);
	int rc = -1;

	p->what = "checking the file";
	if (image) {
		gck_store_on_progress(image, progress_tell, p);
		rc = gck_store_verify(image, id.seq, hash, NULL, err);
	}
	gck_store_close(image);
	if (rc == 0)
		return 0;
	if (err->code == EBADMSG || err->code == ENOENT)
		return gck_fail_in(err, "read again, the file is not whole (is the store's commit? "
					"gpuckpt verify tells)");
	return gck_fail_in(err, "while the file was checked");
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
	gck_store_on_progress(s, progress_tell, p);
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
	const char *hash = json_string_value(
		json_object_get(find_commit(step, c->seqs[0]), "hash"));
	struct progress p = {
		.job = json_integer_value(json_object_get(step, "job")),
		.step = json_integer_value(json_object_get(step, "step")),
		.seq = c->seqs[0], .kind = KIND_BYTES, .stop = &interrupted,
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
