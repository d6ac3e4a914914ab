/* SPDX-License-Identifier: Apache-2.0
 * What a restored rank's devices had: the process that brings it, once the rank runs and asks. */
#include "config.h"

#include <errno.h>

#include "coordinator/agent/worker/rank_image.h"
#include "coordinator/agent/worker/report.h"
#include "shim/process/gpu/device_channel.h"

static int serve(const struct worker_task *t, struct found *f, struct report *report,
		 struct gck_error *err)
{
	struct gck_image *img = gck_image_from_json(f->manifest, err);
	struct gck_device d;
	int rc;

	if (!img)
		return -1;
	found_drop_manifest(f);
	rc = gck_device_open(&d, t->device, err);
	if (rc == 0) {
		rc = gck_device_serve(&d, &img->device, f->reader, report_progress, report, err);
		gck_device_close(&d);
	}
	gck_image_free(img);
	return rc;
}

/* It was all there before the ranks were let go: what is gone since is as good as damaged. */
static int fill(const struct worker_task *t, struct report *report, struct gck_error *err)
{
	struct found f = { .exit = -1 };
	struct gck_store *store = found_store(t, err);
	int rc = store ? found_fetch(&f, store, t, t->seq, t->hash, err) : -1;

	if (rc == 0)
		rc = f.manifest ? serve(t, &f, report, err)
				: gck_fail(err, EPROTO, "it had finished, and has no device data");
	found_drop(&f);
	if (store)
		gck_store_close(store);
	if (rc < 0 && err->code == ENOENT)
		err->code = EBADMSG;
	return rc;
}

int filler_main(int fd, void *arg)
{
	const struct worker_task *t = arg;
	struct report report = { .fd = fd };
	struct gck_error err = { 0 };

	if (fill(t, &report, &err) == 0)
		return 0;
	report_failure(&report, "fill", &err);
	return 1;
}
