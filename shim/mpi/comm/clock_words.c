/* SPDX-License-Identifier: Apache-2.0
 * Words of the collective clocks. They are checked as data from outside, because ranks may have
 * different versions of this library. */
#include "config.h"

#include "shim/mpi/comm/clock_words.h"

#include <stdlib.h>

enum { OUT, ACTIVE, OPEN, CLOCKS, MEETINGS, HEAD_WORDS };
enum { ID, RANKS, BLOCKING, STARTED, SEEN, CLOCK_WORDS };
enum { KEY, NRANKS, MEETING_WORDS };

/* ---- this rank's words ---------------------------------------------------------------------- */

static int put_words(struct gck_mpi_blob *b, const uint64_t *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (gck_mpi_blob_put(b, v[i]))
			return -1;
	return 0;
}

static int put_clock(struct gck_mpi_blob *b, const struct gck_mpi_clock *c)
{
	uint64_t v[CLOCK_WORDS] = { c->id, c->ranks, c->blocking, c->started, c->seen };

	return put_words(b, v, CLOCK_WORDS);
}

static int put_meeting(struct gck_mpi_blob *b, const struct gck_mpi_meeting *m)
{
	uint64_t v[MEETING_WORDS] = { m->key, m->nranks };

	if (put_words(b, v, MEETING_WORDS))
		return -1;
	for (size_t i = 0; i < m->nranks; i++)
		if (gck_mpi_blob_put(b, (unsigned long)m->ranks[i]))
			return -1;
	return 0;
}

/* Clocks of this rank alone are left out: they do not concern others. */
int gck_mpi_clock_words_put(const struct gck_mpi_clocks *s, struct gck_mpi_blob *b, bool out,
			    size_t active, size_t open)
{
	uint64_t head[HEAD_WORDS] = { out, active, open };
	int rc;

	for (const struct gck_mpi_clock *c = s->first; c; c = c->next)
		head[CLOCKS] += c->ranks > 1;
	for (const struct gck_mpi_meeting *m = s->meetings; m; m = m->next)
		head[MEETINGS]++;
	rc = put_words(b, head, HEAD_WORDS);
	for (const struct gck_mpi_clock *c = s->first; !rc && c; c = c->next)
		rc = c->ranks > 1 ? put_clock(b, c) : 0;
	for (const struct gck_mpi_meeting *m = s->meetings; !rc && m; m = m->next)
		rc = put_meeting(b, m);
	return rc;
}

/* ---- sums ----------------------------------------------------------------------------------- */

struct gck_mpi_sum *gck_mpi_sum_of(const struct gck_mpi_sums *m, bool meeting, uint64_t key)
{
	size_t i = gck_mpi_mix(key, meeting) & (m->capacity - 1);

	while (m->v[i].reports && (m->v[i].key != key || m->v[i].meeting != meeting))
		i = (i + 1) & (m->capacity - 1);
	return &m->v[i];
}

bool gck_mpi_sum_behind(const struct gck_mpi_sum *e)
{
	return e->reports < e->ranks || e->low < e->high || e->low_started < e->high_seen;
}

static int grow(struct gck_mpi_sums *m)
{
	struct gck_mpi_sums bigger = *m;

	bigger.capacity = m->capacity ? 2 * m->capacity : 64;
	bigger.v = calloc(bigger.capacity, sizeof *bigger.v);
	if (!bigger.v)
		return ENOMEM;
	for (size_t i = 0; i < m->capacity; i++)
		if (m->v[i].reports)
			*gck_mpi_sum_of(&bigger, m->v[i].meeting, m->v[i].key) = m->v[i];
	free(m->v);
	*m = bigger;
	return 0;
}

/* Adds one rank's report. Returns 0 or an errno value. */
static int report(struct gck_mpi_sums *m, const struct gck_mpi_sum *r)
{
	struct gck_mpi_sum *e;

	if (2 * m->n >= m->capacity && grow(m))
		return ENOMEM;
	e = gck_mpi_sum_of(m, r->meeting, r->key);
	if (!e->reports) {
		m->n++;
		*e = *r;
		e->reports = 1;
		return 0;
	}
	if (e->ranks != r->ranks)
		return EBADMSG;
	e->reports++;
	e->low = r->low < e->low ? r->low : e->low;
	e->high = r->high > e->high ? r->high : e->high;
	e->low_started = r->low_started < e->low_started ? r->low_started : e->low_started;
	e->high_seen = r->high_seen > e->high_seen ? r->high_seen : e->high_seen;
	return 0;
}

/* ---- all ranks' words ----------------------------------------------------------------------- */

struct cursor {
	const unsigned long *v;
	size_t left;
};

static const unsigned long *take(struct cursor *c, size_t n)
{
	const unsigned long *v = c->v;

	if (n > c->left)
		return NULL;
	c->v += n;
	c->left -= n;
	return v;
}

static int take_clock(struct gck_mpi_sums *m, struct cursor *c)
{
	const unsigned long *v = take(c, CLOCK_WORDS);

	if (!v)
		return EBADMSG;
	return report(m, &(struct gck_mpi_sum){
		.key = v[ID], .ranks = v[RANKS], .low = v[BLOCKING], .high = v[BLOCKING],
		.low_started = v[STARTED], .high_seen = v[SEEN] });
}

static int take_meeting(struct gck_mpi_sums *m, struct cursor *c)
{
	const unsigned long *v = take(c, MEETING_WORDS);

	if (!v || !take(c, v[NRANKS]))
		return EBADMSG;
	return report(m, &(struct gck_mpi_sum){.key = v[KEY], .meeting = true, .ranks = v[NRANKS]});
}

static int take_rank(struct gck_mpi_sums *m, const struct gck_mpi_words *w)
{
	struct cursor c = { w->v, w->n };
	const unsigned long *head = take(&c, HEAD_WORDS);
	int rc = 0;

	if (!head)
		return EBADMSG;
	m->out &= head[OUT] != 0;
	m->active |= head[ACTIVE] != 0;
	m->open |= head[OPEN] != 0;
	for (size_t i = 0; !rc && i < head[CLOCKS]; i++)
		rc = take_clock(m, &c);
	for (size_t i = 0; !rc && i < head[MEETINGS]; i++)
		rc = take_meeting(m, &c);
	return !rc && c.left ? EBADMSG : rc;
}

int gck_mpi_sums_take(struct gck_mpi_sums *m, const struct gck_mpi_words *all, size_t nranks)
{
	int rc;

	*m = (struct gck_mpi_sums){ .out = true };
	rc = grow(m);
	for (size_t r = 0; !rc && r < nranks; r++)
		rc = take_rank(m, &all[r]);
	return rc;
}

uint64_t gck_mpi_clock_words_digest(const struct gck_mpi_words *all, size_t nranks)
{
	uint64_t h = 1;

	for (size_t r = 0; r < nranks; r++)
		for (size_t i = CLOCKS; i < all[r].n; i++)
			h = gck_mpi_mix(h, all[r].v[i]);
	return h;
}

static bool names(const unsigned long *ranks, size_t n, size_t rank)
{
	for (size_t i = 0; i < n; i++)
		if (ranks[i] == rank)
			return true;
	return false;
}

int gck_mpi_clock_words_calls(const struct gck_mpi_words *w, size_t rank,
			      int (*fn)(void *arg, uint64_t key), void *arg)
{
	struct cursor c = { w->v, w->n };
	const unsigned long *head = take(&c, HEAD_WORDS), *v, *ranks;
	int rc = 0;

	take(&c, head[CLOCKS] * CLOCK_WORDS);
	for (size_t i = 0; !rc && i < head[MEETINGS]; i++) {
		v = take(&c, MEETING_WORDS);
		ranks = take(&c, v[NRANKS]);
		if (names(ranks, v[NRANKS], rank))
			rc = fn(arg, v[KEY]);
	}
	return rc;
}
