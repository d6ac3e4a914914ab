/* SPDX-License-Identifier: Apache-2.0
 * The `file:` backend: objects that are kept open for reading. One that is in use is not closed. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "storage/file/file.h"

/* With the lock held. */
static struct gck_file_open *find(struct gck_file_store *f, const char *name)
{
	for (size_t i = 0; i < GCK_FILE_CACHED; i++)
		if (f->cached[i].fd >= 0 && !strcmp(f->cached[i].name, name))
			return &f->cached[i];
	return NULL;
}

/* The next place in turns whose object nobody uses. */
static struct gck_file_open *find_place(struct gck_file_store *f)
{
	for (size_t i = 0; i < GCK_FILE_CACHED; i++) {
		struct gck_file_open *o = &f->cached[f->next_cached++ % GCK_FILE_CACHED];

		if (!o->users)
			return o;
	}
	return NULL;
}

static void keep(struct gck_file_store *f, const char *name, int fd)
{
	struct gck_file_open *o = find_place(f);

	if (!o)
		return;
	if (o->fd >= 0)
		close(o->fd);
	o->fd = fd;
	o->users = 1;
	snprintf(o->name, sizeof o->name, "%s", name);
}

int gck_file_acquire(struct gck_file_store *f, const char *name, struct gck_error *err)
{
	struct gck_file_open *o;
	uint64_t size;
	int fd = -1;

	pthread_mutex_lock(&f->lock);
	o = find(f, name);
	if (o) {
		o->users++;
		fd = o->fd;
	}
	pthread_mutex_unlock(&f->lock);
	if (fd >= 0)
		return fd;
	fd = gck_file_open_regular(f, name, &size, err);
	if (fd < 0)
		return -1;
	pthread_mutex_lock(&f->lock);
	keep(f, name, fd);
	pthread_mutex_unlock(&f->lock);
	return fd;
}

void gck_file_release(struct gck_file_store *f, int fd)
{
	bool kept = false;

	pthread_mutex_lock(&f->lock);
	for (size_t i = 0; i < GCK_FILE_CACHED && !kept; i++) {
		kept = f->cached[i].fd == fd;
		f->cached[i].users -= kept;
	}
	pthread_mutex_unlock(&f->lock);
	if (!kept)
		close(fd);
}

void gck_file_forget(struct gck_file_store *f)
{
	pthread_mutex_lock(&f->lock);
	for (size_t i = 0; i < GCK_FILE_CACHED; i++) {
		struct gck_file_open *o = &f->cached[i];

		if (o->users || o->fd < 0)
			continue;
		close(o->fd);
		o->fd = -1;
	}
	pthread_mutex_unlock(&f->lock);
}
