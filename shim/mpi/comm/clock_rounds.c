/* SPDX-License-Identifier: Apache-2.0
 * The rounds of the collective clock, one rank's side.
 *
 * The rounds end when three conditions hold. All ranks of a clock have entered the same blocking
 * collectives. Each non-blocking collective that one rank has seen complete is started in all its
 * ranks (the MPI threads then finish it). All ranks of a clock or meeting report it, so what one
 * rank made collectively exists in all.
 *
 * A correct program makes progress even if every collective waits for all its members. So a rank
 * that has entered what others have not (it is ahead) need not run for them to get there: with such
 * collectives it would wait in that call. Ranks that are behind run. On the way they may enter
 * other collectives, which raises the targets of those, but only as far as the program demands.
 * Ranks that are behind may also need messages from ranks that are neither ahead nor behind. So
 * after a round without progress those ranks run too: first without entering a collective, then
 * into one, which puts them ahead and calls in its other ranks. A rank can also be ahead and
 * needed: it has several threads, or the real library has reported a completion that the program
 * has not asked for. So finally all ranks run, first without entering a collective, then into one.
 *
 * This ends: each step is one that the program could have made with collectives that wait, and with
 * that schedule the ranks that are behind arrive. */
#include "config.h"

#include <stdlib.h>

#include "shim/mpi/comm/clock_words.h"
#include "shim/mpi/comm/clock_rounds.h"

/* ---- this rank's clocks --------------------------------------------------------------------- */

void gck_mpi_clocks_add(struct gck_mpi_clocks *s, struct gck_mpi_clock *c)
{
	pthread_mutex_lock(&s->lock);
	c->prev = NULL;
	c->next = s->first;
	if (s->first)
		s->first->prev = c;
	s->first = c;
	pthread_mutex_unlock(&s->lock);
}

void gck_mpi_clocks_remove(struct gck_mpi_clocks *s, struct gck_mpi_clock *c)
{
	pthread_mutex_lock(&s->lock);
	*(c->prev ? &c->prev->next : &s->first) = c->next;
	if (c->next)
		c->next->prev = c->prev;
	pthread_mutex_unlock(&s->lock);
}

/* The index of a meeting in `called`; ncalled: absent. The caller holds the lock. */
static size_t find_call(const struct gck_mpi_clocks *s, uint64_t key)
{
	size_t i = 0;

	while (i < s->ncalled && s->called[i] != key)
		i++;
	return i;
}

/* A rank that has arrived is no longer called. */
void gck_mpi_clocks_meet(struct gck_mpi_clocks *s, struct gck_mpi_meeting *m)
{
	size_t i;

	pthread_mutex_lock(&s->lock);
	m->prev = NULL;
	m->next = s->meetings;
	if (s->meetings)
		s->meetings->prev = m;
	s->meetings = m;
	i = find_call(s, m->key);
	if (i < s->ncalled)
		s->called[i] = s->called[--s->ncalled];
	pthread_mutex_unlock(&s->lock);
}

void gck_mpi_clocks_part(struct gck_mpi_clocks *s, struct gck_mpi_meeting *m)
{
	pthread_mutex_lock(&s->lock);
	*(m->prev ? &m->prev->next : &s->meetings) = m->next;
	if (m->next)
		m->next->prev = m->prev;
	pthread_mutex_unlock(&s->lock);
}

int gck_mpi_clocks_put(struct gck_mpi_clocks *s, struct gck_mpi_blob *b, bool out, size_t active,
		       size_t open, struct gck_error *err)
{
	int r;

	pthread_mutex_lock(&s->lock);
	s->limited = true;
	r = gck_mpi_clock_words_put(s, b, out, active, open);
	pthread_mutex_unlock(&s->lock);
	return r ? gck_fail(err, ENOMEM,
			    "no memory for the collective clock's words to the other ranks")
		 : 0;
}

/* ---- evaluation of a round ------------------------------------------------------------------ */

static bool is_at(const struct gck_mpi_clocks *s, uint64_t key)
{
	const struct gck_mpi_meeting *m = s->meetings;

	while (m && m->key != key)
		m = m->next;
	return m;
}

static int note_call(void *arg, uint64_t key)
{
	struct gck_mpi_clocks *s = arg;
	uint64_t *grown;

	if (is_at(s, key) || find_call(s, key) < s->ncalled)
		return 0;
	grown = realloc(s->called, (s->ncalled + 1) * sizeof *grown);
	if (!grown)
		return ENOMEM;
	s->called = grown;
	s->called[s->ncalled++] = key;
	return 0;
}

/* A communicator of this rank alone is at its target and finishes what it has started. */
static void take_own(struct gck_mpi_clock *c)
{
	c->target = c->blocking;
	c->target_started = c->finish = c->started;
}

/* Sets the targets of this rank, and whether other ranks must catch up with it. */
static void take_targets(struct gck_mpi_clocks *s, const struct gck_mpi_sums *m)
{
	const struct gck_mpi_sum *e;

	s->ahead = false;
	for (struct gck_mpi_clock *c = s->first; c; c = c->next) {
		if (c->ranks == 1) {
			take_own(c);
			continue;
		}
		e = gck_mpi_sum_of(m, false, c->id);
		if (!e->reports) /* a thread made it after the words were written */
			continue;
		c->target = e->high;
		c->target_started = e->high_seen;
		c->finish = e->high_seen > e->low_started ? e->high_seen : e->low_started;
		if (e->reports < e->ranks) /* some have passed its goodbye: all have started it */
			c->finish = UINT64_MAX;
		s->ahead |= c->blocking > e->low || c->seen > e->low_started;
	}
	for (const struct gck_mpi_meeting *at = s->meetings; at; at = at->next) {
		e = gck_mpi_sum_of(m, true, at->key);
		s->ahead |= e->reports && gck_mpi_sum_behind(e);
	}
}

/* Each further round without progress allows more to ranks that are not behind. */
static void let_on(struct gck_mpi_clocks *s)
{
	s->runs = s->any_behind && s->stale > 0 && (!s->ahead || s->stale > 2);
	s->enters = s->runs && (s->stale == 2 || s->stale > 3);
	s->entries = s->enters;
}

/* Returns 0 or an errno value. The caller holds the lock. */
static int judge(struct gck_mpi_clocks *s, struct gck_mpi_sums *m, const struct gck_mpi_words *all,
		 size_t nranks, size_t self)
{
	uint64_t d = gck_mpi_clock_words_digest(all, nranks);
	bool unchanged = s->judged && d == s->digest;
	int r = gck_mpi_sums_take(m, all, nranks);

	s->ncalled = 0;
	for (size_t i = 0; !r && i < nranks; i++)
		r = gck_mpi_clock_words_calls(&all[i], self, note_call, s);
	if (r)
		return r;
	s->any_behind = false;
	for (size_t i = 0; i < m->capacity; i++)
		s->any_behind |= m->v[i].reports && gck_mpi_sum_behind(&m->v[i]);
	s->stale = unchanged ? s->stale + 1 : 0;
	s->digest = d;
	s->judged = true;
	/* `open` was counted against the targets of the previous round */
	s->settled = !s->any_behind && m->out && !m->open && (!m->active || unchanged);
	take_targets(s, m);
	let_on(s);
	return 0;
}

int gck_mpi_clocks_judge(struct gck_mpi_clocks *s, const struct gck_mpi_words *all, size_t nranks,
			 size_t self, struct gck_error *err)
{
	struct gck_mpi_sums m = { 0 };
	int r;

	pthread_mutex_lock(&s->lock);
	r = judge(s, &m, all, nranks, self);
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
	free(m.v);
	if (r == ENOMEM)
		return gck_fail(err, r, "no memory for the collective clocks of %zu ranks", nranks);
	return r ? gck_fail(err, r,
			    "the collective clocks of %zu ranks are inconsistent: do all ranks "
			    "have the same version of libgpuckpt-mpi.so?",
			    nranks)
		 : 0;
}

/* ---- between rounds ------------------------------------------------------------------------- */

static bool owes(const struct gck_mpi_clocks *s)
{
	for (const struct gck_mpi_clock *c = s->first; c; c = c->next)
		if (c->blocking < c->target || c->started < c->target_started)
			return true;
	return s->ncalled > 0;
}

bool gck_mpi_clocks_behind(struct gck_mpi_clocks *s)
{
	bool b;

	pthread_mutex_lock(&s->lock);
	b = owes(s) || (s->runs && (s->entries || !s->enters));
	pthread_mutex_unlock(&s->lock);
	return b;
}

bool gck_mpi_clocks_settled(struct gck_mpi_clocks *s)
{
	return s->settled;
}

bool gck_mpi_clocks_may_enter(struct gck_mpi_clocks *s)
{
	if (!s->limited || owes(s))
		return true;
	if (!s->entries)
		return false;
	s->entries--;
	return true;
}

void gck_mpi_clocks_resume(struct gck_mpi_clocks *s)
{
	pthread_mutex_lock(&s->lock);
	s->limited = s->judged = s->settled = s->runs = false;
	s->stale = 0;
	s->ncalled = 0;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
}
