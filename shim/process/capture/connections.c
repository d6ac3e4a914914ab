/* SPDX-License-Identifier: Apache-2.0
 * Connections of unix sockets that one side has made: the other has not accepted it, or is a
 * datagram socket, which need not know. Both must be among the processes of the rank. */
#include "config.h"

#include <errno.h>

#include "shim/process/capture/capture.h"
#include "shim/process/objects/objects.h"

static const struct gck_file *find(const struct gck_capture *c, const void *of,
				   bool (*is)(const struct gck_file *, const void *))
{
	const struct gck_file *found = NULL;

	for (size_t i = 0; i < c->img->nfiles && !found; i++)
		if (is(&c->img->files[i], of))
			found = &c->img->files[i];
	for (size_t i = 0; i < c->nchildren && !found; i++)
		found = find(c->children[i], of, is);
	return found;
}

static bool is_client(const struct gck_file *f, const void *of)
{
	const struct gck_connection *c = of;

	return f->kind == GCK_FD_SOCKETPAIR && f->queued && f->id == c->id;
}

static bool is_server(const struct gck_file *f, const void *of)
{
	return gck_file_is_other_end(of, f);
}

/* What a client has sent is where nobody can look before it is accepted. */
static int check_queue(const struct gck_capture *root, const struct gck_file *listener,
		       struct gck_error *err)
{
	for (size_t i = 0; i < listener->nqueue; i++) {
		const struct gck_file *client = find(root, &listener->queue[i], is_client);

		if (!client)
			return gck_fail(err, EAGAIN, "a connection of another process waits to be "
					"accepted; try again");
		if (client->unread)
			return gck_fail(err, EAGAIN, "a connection in which something was sent "
					"waits to be accepted; try again");
	}
	return 0;
}

static int check_file(const struct gck_capture *root, const struct gck_file *f,
		      struct gck_error *err)
{
	bool alone = (f->kind == GCK_FD_SOCKETPAIR && f->queued) ||
		     (f->kind == GCK_FD_SOCKET && f->to);

	if (f->kind == GCK_FD_LISTENER)
		return check_queue(root, f, err);
	if (!alone || find(root, f, is_server))
		return 0;
	return gck_fail(err, EAGAIN, "a unix socket is connected to one of a process that is no "
			"descendant of the rank; close it before a checkpoint");
}

static int check_all(const struct gck_capture *root, const struct gck_capture *c,
		     struct gck_error *err)
{
	for (size_t i = 0; i < c->img->nfiles; i++)
		if (check_file(root, &c->img->files[i], err))
			return gck_fail_in(err, "fd %d of process %d",
					   gck_image_fd_of(c->img, (uint32_t)i), (int)c->t.pid);
	for (size_t i = 0; i < c->nchildren; i++)
		if (check_all(root, c->children[i], err))
			return -1;
	return 0;
}

int gck_tree_connect(const struct gck_capture *root, struct gck_error *err)
{
	return check_all(root, root, err);
}
