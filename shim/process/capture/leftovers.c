/* SPDX-License-Identifier: Apache-2.0
 * What a rank that is ended for good, since it continues elsewhere, would leave behind on its node:
 * System V objects and the names of message queues, which the image carries. */
#include "config.h"

#include <errno.h>
#include <mqueue.h>
#include <stdlib.h>
#include <string.h>

#include "shim/process/capture/capture.h"

static int add(struct gck_capture *root, struct gck_leftover x, struct gck_error *err)
{
	struct gck_leftover *slot = gck_grow(&root->left, &root->nleft, sizeof *slot, err);

	if (slot)
		*slot = x;
	return slot ? 0 : -1;
}

static int add_queues(struct gck_capture *root, const struct gck_capture *c, struct gck_error *err)
{
	for (size_t i = 0; i < c->img->nfiles; i++) {
		const struct gck_file *f = &c->img->files[i];
		char *name;

		if (f->kind != GCK_FD_QUEUE || f->unlinked)
			continue;
		name = strdup(f->path);
		if (!name)
			return gck_fail(err, ENOMEM, "out of memory for names of message queues");
		if (add(root, (struct gck_leftover){.queue = name}, err)) {
			free(name);
			return -1;
		}
	}
	for (size_t i = 0; i < c->nchildren; i++)
		if (add_queues(root, c->children[i], err))
			return -1;
	return 0;
}

int gck_leftovers_note(struct gck_capture *root, struct gck_error *err)
{
	for (size_t i = 0; i < root->img->nipc; i++) {
		const struct gck_ipc *x = &root->img->ipc[i];

		if (add(root, (struct gck_leftover){x->kind, x->number, NULL}, err))
			return -1;
	}
	return add_queues(root, root, err);
}

void gck_leftovers_remove(const struct gck_capture *root)
{
	for (size_t i = 0; i < root->nleft; i++) {
		const struct gck_leftover *x = &root->left[i];

		if (x->queue)
			mq_unlink(x->queue);
		else
			gck_ipc_remove(x->kind, x->number);
	}
}

void gck_leftovers_free(struct gck_capture *root)
{
	for (size_t i = 0; i < root->nleft; i++)
		free(root->left[i].queue);
	free(root->left);
}
