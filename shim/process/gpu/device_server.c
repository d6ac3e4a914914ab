/* SPDX-License-Identifier: Apache-2.0
 * Bringing a restored rank what its devices had. */
#include "config.h"

#include <errno.h>
#include <string.h>

#include "shim/process/gpu/device_channel.h"
#include "storage/image/image.h"

#define LOOK_MS 100 /* between looks whether it was called off */

struct serving {
	const struct gck_device *d;
	const struct gck_windows *w;
	struct gck_reader *reader;
	size_t planned;              /* windows that the reader was told of */
	size_t last;                 /* the window whose bytes are at hand: */
	const unsigned char *bytes;  /* or NULL */
	struct gck_error *err;
};

static bool next_chunk(void *arg, struct gck_chunk *c)
{
	struct serving *s = arg;

	if (s->planned == s->w->rows.n)
		return false;
	*c = gck_windows_at(s->w, s->planned++).chunk;
	return true;
}

static int fetch(struct serving *s, size_t number, const struct gck_window *w)
{
	if (s->bytes && s->last == number)
		return 0;
	s->bytes = gck_reader_view(s->reader, &w->chunk, s->err);
	s->last = number;
	return s->bytes ? 0 : -1;
}

/* The pages of a window that are between start and end, to where start is at. */
static int put_window(struct serving *s, size_t number, const struct gck_window *w, uint64_t start,
		      uint64_t end, unsigned char *at)
{
	const unsigned char *page;

	if (fetch(s, number, w))
		return -1;
	page = s->bytes;
	for (unsigned i = 0; i < GCK_WINDOW_PAGES; i++) {
		uint64_t address = w->address + (uint64_t)i * GCK_PAGE;

		if (!(w->mask >> i & 1))
			continue;
		if (address >= start && address < end)
			memcpy(at + (address - start), page, GCK_PAGE);
		page += GCK_PAGE;
	}
	return 0;
}

static int put_range(struct serving *s, uint64_t start, uint64_t end, unsigned char *at)
{
	memset(at, 0, end - start);
	for (size_t i = gck_windows_find(s->w, start); i < s->w->rows.n; i++) {
		struct gck_window x = gck_windows_at(s->w, i);

		if (x.address >= end)
			break;
		if (put_window(s, i, &x, start, end, at))
			return -1;
	}
	return 0;
}

static bool is_sound(const struct gck_device *d, const struct gck_link_data *m)
{
	return m->type == GCK_LINK_DATA_GET && m->size && m->size <= GCK_LINK_DATA_MOST &&
	       m->address % GCK_PAGE == 0 && m->size % GCK_PAGE == 0 && m->number % GCK_PAGE == 0 &&
	       m->address < INT64_MAX && m->number <= d->size && m->size <= d->size - m->number;
}

static int serve_one(struct serving *s, const struct gck_link_data *m)
{
	struct gck_link_data answer = {.type = GCK_LINK_DATA_READY, .address = m->address,
				       .size = m->size};

	if (!is_sound(s->d, m))
		return gck_fail(s->err, EPROTO, "its CUDA part asked for %llu bytes at %llx of its "
				"device data", (unsigned long long)m->size,
				(unsigned long long)m->address);
	if (put_range(s, m->address, m->address + m->size, s->d->ring + m->number)) {
		answer.value = (uint32_t)s->err->code;
		gck_device_say(s->d, &answer, s->err->text);
		return -1;
	}
	gck_device_say(s->d, &answer, NULL);
	return 0;
}

/* 1: a question; 0: there will be no more; -1. */
static int hear(struct serving *s, struct gck_link_data *m,
		int (*progress)(void *, uint64_t, uint64_t), void *arg, uint64_t done, uint64_t all)
{
	int rc;

	while ((rc = gck_device_hear(s->d, m, LOOK_MS, s->err)) == 0)
		if (progress(arg, done, all))
			return gck_fail(s->err, ECANCELED, "the restart was cancelled");
	if (rc < 0)
		return s->err->code == ECONNRESET ? 0 : -1;
	return m->type != GCK_LINK_DATA_DONE;
}

/* What a rank asks for is more than the image stores: pages of zeros are not in it. */
int gck_device_serve(const struct gck_device *d, const struct gck_windows *w, struct gck_reader *reader,
		     int (*progress)(void *, uint64_t done, uint64_t all), void *arg,
		     struct gck_error *err)
{
	struct serving s = {.d = d, .w = w, .reader = reader, .err = err};
	const uint64_t stored = gck_windows_bytes(w);
	uint64_t done = 0, all = stored;
	struct gck_link_data m;
	int rc;

	if (gck_reader_plan(reader, next_chunk, &s, err))
		return -1;
	while ((rc = hear(&s, &m, progress, arg, done, all)) > 0) {
		if (serve_one(&s, &m))
			return -1;
		done += m.size;
		all = done < stored ? stored : done + 1;
		if (progress(arg, done, all))
			return gck_fail(err, ECANCELED, "the restart was cancelled");
	}
	return rc;
}
