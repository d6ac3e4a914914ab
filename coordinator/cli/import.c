/* SPDX-License-Identifier: Apache-2.0
 * import: a commit from a file. Into a `file:` store the user writes it directly. gpuckptd has the
 * keys of an object store, so it is asked first, and journals the commit when it exists. A file may
 * be large: gpuckptd is asked before all of it is read. */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "coordinator/cli/cli.h"
#include "coordinator/cli/progress.h"
#include "common/base/s3_url.h"
#include "common/wire/wire.h"
#include "storage/archive/archive.h"
#include "storage/image/image.h"
#include "storage/store/commit.h"
#include "storage/store/store.h"

struct import {
	const struct cli *c;
	const char *url;
	struct gck_store *image;
	struct gck_image_id id;
	json_t *commit; /* for an object store only */
	char hash[GCK_HASH_TEXT];
};

static struct progress progress_of(const struct import *i, const char *what)
{
	return (struct progress){.what = what,
				 .job = i->id.job,
				 .step = i->id.step,
				 .seq = i->id.seq,
				 .kind = KIND_BYTES,
				 .stop = &interrupted};
}

static int verify(struct import *i, struct gck_error *err)
{
	struct progress p = progress_of(i, "checking the file");
	int rc;

	gck_store_on_progress(i->image, progress_tell, &p);
	rc = gck_store_verify(i->image, i->id.seq, i->commit ? i->hash : NULL, NULL, err);
	progress_end();
	gck_store_on_progress(i->image, NULL, NULL);
	return rc;
}

static int put(struct import *i, struct gck_store *s, struct gck_error *err)
{
	struct progress p = progress_of(i, "importing");
	int rc;

	gck_store_on_progress(s, progress_tell, &p);
	rc = gck_store_import(s, i->image, i->id.seq, err);
	progress_end();
	return rc;
}

/* ---- into files ---------------------------------------------------------------------------- */

/* Do not remove directories that another import has just made. */
static int put_alone(struct import *i, struct gck_store *s, struct gck_error *err)
{
	if (gck_store_may_import(s, i->id.seq, err) < 0)
		return -1;
	if (verify(i, err) == 0 && put(i, s, err) == 0)
		return 0;
	gck_store_remove_empty(s);
	return -1;
}

static int import_into_files(struct import *i, struct gck_error *err)
{
	struct gck_store *s = gck_store_open(i->url, i->id.cluster, i->id.job, i->id.step, true,
					     err);
	int rc = s ? put_alone(i, s, err) : -1;

	gck_store_close(s);
	return rc;
}

/* ---- into an object store ------------------------------------------------------------------ */

static json_t *request(const struct import *i, const char *op)
{
	const json_t *fingerprint = json_object_get(i->commit, "fingerprint");
	json_t *none = json_null(), *directories;
	uint64_t bytes;

	directories = gck_image_directories(i->image, &bytes);
	return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:s, s:o, s:O}", "op", op, "job",
			 (json_int_t)i->id.job, "step", (json_int_t)i->id.step, "seq",
			 (json_int_t)i->id.seq, "ranks",
			 (json_int_t)json_array_size(json_object_get(i->commit, "ranks")), "stored",
			 (json_int_t)bytes, "store", i->url, "directories", directories,
			 "fingerprint", fingerprint ? fingerprint : none);
}

/* Sealed objects are bound to their names in the store. */
static int check_cluster(const struct import *i, const char *cluster, struct gck_error *err)
{
	if (!*cluster)
		return gck_fail(err, EPROTO, "the coordinator does not tell its cluster's name");
	if (json_object_get(i->commit, "sealed") && strcmp(cluster, i->id.cluster))
		return gck_fail(err, EINVAL,
				"encrypted images of cluster %.100s can be read as that's only, "
				"and this is %.100s",
				i->id.cluster, cluster);
	return 0;
}

/* No hash: the commit does not exist, and nothing more will be put. */
static int say_end(const struct import *i, struct gck_wire *w, bool good, struct gck_error *err)
{
	json_t *body = json_pack("{s:s, s:s?}", "op", "imported", "hash", good ? i->hash : NULL);
	json_t *data = cli_say(w, body, CLI_QUERY_S, err);

	json_decref(data);
	return data ? 0 : -1;
}

static int put_objects(struct import *i, const char *cluster, struct gck_error *err)
{
	struct gck_store *s = gck_store_open(i->url, cluster, i->id.job, i->id.step, true, err);
	int rc = s ? put(i, s, err) : -1;

	gck_store_close(s);
	return rc;
}

static int import_over(struct import *i, struct gck_wire *w, struct gck_error *err)
{
	json_t *data = cli_say(w, request(i, "import"), CLI_QUERY_S, err);
	int rc;

	if (!data)
		return -1;
	rc = put_objects(i, cli_text(data, "cluster"), err);
	json_decref(data);
	if (rc == 0)
		return say_end(i, w, true, err);
	say_end(i, w, false, NULL);
	return -1;
}

/* The import begins only now: reading the file may take longer than the coordinator waits. */
static int may_import(struct import *i, struct gck_error *err)
{
	json_t *data;
	int rc;

	i->commit = gck_store_read_commit(i->image, i->id.seq, NULL, i->hash, err);
	if (!i->commit)
		return -1;
	data = cli_ask(i->c, request(i, "may_import"), CLI_QUERY_S, err);
	rc = data ? check_cluster(i, cli_text(data, "cluster"), err) : -1;
	json_decref(data);
	return rc;
}

static int import_by_coordinator(struct import *i, struct gck_error *err)
{
	struct gck_wire *w;
	int rc;

	if (may_import(i, err) < 0 || verify(i, err) < 0)
		return -1;
	w = cli_connect(i->c, err);
	rc = w ? import_over(i, w, err) : -1;
	gck_wire_free(w);
	return rc;
}

/* ---- both ---------------------------------------------------------------------------------- */

static int import(struct import *i, struct gck_error *err)
{
	int rc;

	catch_signals();
	rc = gck_s3_is(i->url) ? import_by_coordinator(i, err) : import_into_files(i, err);
	if (rc == 0)
		printf("step %u.%u, commit %u: srun --gpu-ckpt=store=%s,restart=%u:%u\n", i->id.job,
		       i->id.step, i->id.seq, i->url, i->id.job, i->id.seq);
	return rc;
}

int cli_import(struct cli *c, struct gck_error *err)
{
	struct import i = { .c = c, .url = c->store ? c->store : c->conf.defaults.store };
	int rc;

	if (!*i.url)
		return gck_fail(err, EINVAL,
				"say where: --store=file:/DIRECTORY or s3://BUCKET/PREFIX");
	cli_use_signer(c);
	i.image = gck_image_open(c->file, &i.id, err);
	if (!i.image)
		return -1;
	rc = import(&i, err);
	json_decref(i.commit);
	gck_store_close(i.image);
	return rc;
}
