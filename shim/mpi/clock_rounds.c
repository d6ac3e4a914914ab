/* SPDX-License-Identifier: Apache-2.0
 * The rounds of the collective clock, one rank's side.
 *
 * What must come about: of every clock all members have entered the same blocking collectives, every
 * non-blocking collective that one program has seen complete is started everywhere (and then finished
 * by the MPI threads), and what was made or freed collectively was so by all.
 *
 * A correct program gets on even if every collective waits for all its members. So whoever has
 * entered what others have not (it is ahead) need not move for them to get there: it would be
 * waiting in that very call. Ranks that are behind run; they may go into other collectives on the
 * way, which raises the targets of those and no more than the program itself demands. What they
 * need besides is messages, from ranks that are neither ahead nor behind. Therefore, when a round
 * has moved nothing, those run too: first without entering a collective, then into one, which puts
 * them ahead and calls in the others of it. Threads, and completions that the real library told and
 * the program has not asked for yet, make a rank ahead and needed all the same, so at last everybody
 * goes on, and then by one. Nobody is ahead for good: each step is one that the program could have
 * made with collectives that wait, and by that schedule the ranks that are behind arrive. */
#include "config.h"

#include <stdlib.h>

#include "shim/mpi/clock.h"

#define HEAD_WORDS 5 /* out, active, open, clocks, tallies */
#define CLOCK_WORDS 4
#define TALLY_WORDS 5

/* ---- this rank's words ---------------------------------------------------------------------- */

static struct gck_mpi_tally *find_tally(struct gck_mpi_clocks *s, enum gck_mpi_tally_kind kind,
					uint64_t key)
{
	struct gck_mpi_tally *t;

	for (t = s->tallies; t && (t->kind != kind || t->key != key); t = t->next)
		;
	return t;
}

static struct gck_mpi_tally *get_tally(struct gck_mpi_clocks *s, enum gck_mpi_tally_kind kind,
				       uint64_t key, size_t nranks)
{
	struct gck_mpi_tally *t = find_tally(s, kind, key);

	if (t || !(t = calloc(1, sizeof *t + nranks * sizeof *t->ranks)))
		return t;
	t->key = key;
	t->kind = kind;
	t->nranks = nranks;
	t->next = s->tallies;
	s->tallies = t;
	return t;
}

int gck_mpi_clocks_add(struct gck_mpi_clocks *s, struct gck_mpi_clock *c)
{
	struct gck_mpi_tally *t;

	pthread_mutex_lock(&s->lock);
	t = get_tally(s, GCK_MPI_TALLY_FREED, c->members, 0);
	if (t) {
		c->prev = NULL;
		c->next = s->first;
		if (s->first)
			s->first->prev = c;
		s->first = c;
	}
	pthread_mutex_unlock(&s->lock);
	return t ? 0 : -1;
}

/* The lock is held. */
static void unlink_clock(struct gck_mpi_clocks *s, struct gck_mpi_clock *c)
{
	*(c->prev ? &c->prev->next : &s->first) = c->next;
	if (c->next)
		c->next->prev = c->prev;
}

void gck_mpi_clocks_drop(struct gck_mpi_clocks *s, struct gck_mpi_clock *c)
{
	pthread_mutex_lock(&s->lock);
	unlink_clock(s, c);
	pthread_mutex_unlock(&s->lock);
}

/* Its last tick was the freeing call's. Who has not come to it yet is told by the tally: count and
 * sum of ids, since threads may free things of the same members in different order. */
void gck_mpi_clocks_remove(struct gck_mpi_clocks *s, struct gck_mpi_clock *c)
{
	struct gck_mpi_tally *t;

	pthread_mutex_lock(&s->lock);
	unlink_clock(s, c);
	t = find_tally(s, GCK_MPI_TALLY_FREED, c->members);
	t->count++;
	t->sum += c->id;
	c->finish = UINT64_MAX; /* all have started what was started on it */
	pthread_mutex_unlock(&s->lock);
}

uint64_t gck_mpi_clocks_meet(struct gck_mpi_clocks *s, uint64_t key, const int *ranks, size_t n)
{
	struct gck_mpi_tally *t;
	uint64_t count = 0;

	pthread_mutex_lock(&s->lock);
	t = get_tally(s, GCK_MPI_TALLY_MEETING, key, n);
	if (t) {
		for (size_t i = 0; i < n; i++)
			t->ranks[i] = ranks[i];
		count = ++t->count;
	}
	pthread_mutex_unlock(&s->lock);
	return count;
}

static int put_words(struct gck_mpi_blob *b, const uint64_t *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (gck_mpi_blob_put(b, v[i]))
			return -1;
	return 0;
}

static int put_tally(struct gck_mpi_blob *b, const struct gck_mpi_tally *t)
{
	uint64_t v[TALLY_WORDS] = { t->kind, t->key, t->count, t->sum, t->nranks };

	if (put_words(b, v, TALLY_WORDS))
		return -1;
	for (uint32_t i = 0; i < t->nranks; i++)
		if (gck_mpi_blob_put(b, t->ranks[i]))
			return -1;
	return 0;
}

static int put_all(struct gck_mpi_clocks *s, struct gck_mpi_blob *b, bool out, size_t active,
		   size_t open)
{
	uint64_t head[HEAD_WORDS] = { out, active, open };
	struct gck_mpi_clock *c;
	struct gck_mpi_tally *t;

	for (c = s->first; c; c = c->next)
		head[3]++;
	for (t = s->tallies; t; t = t->next)
		head[4]++;
	if (put_words(b, head, HEAD_WORDS))
		return -1;
	for (c = s->first; c; c = c->next) {
		uint64_t v[CLOCK_WORDS] = { c->id, c->blocking, c->started, c->seen };

		if (put_words(b, v, CLOCK_WORDS))
			return -1;
	}
	for (t = s->tallies; t; t = t->next)
		if (put_tally(b, t))
			return -1;
	return 0;
}

int gck_mpi_clocks_put(struct gck_mpi_clocks *s, struct gck_mpi_blob *b, bool out, size_t active,
		       size_t open, struct gck_error *err)
{
	int r;

	pthread_mutex_lock(&s->lock);
	s->limited = true;
	r = put_all(s, b, out, active, open);
	pthread_mutex_unlock(&s->lock);
	return r ? gck_fail(err, ENOMEM, "the collective clock's words for the other ranks: no memory") : 0;
}

/* ---- all ranks' words ----------------------------------------------------------------------- */

enum { KEY_FREED = GCK_MPI_TALLY_FREED, KEY_MEETING = GCK_MPI_TALLY_MEETING, KEY_CLOCK };

/* What all ranks together say of a clock or tally. */
struct sum {
	uint64_t key;
	unsigned kind;
	size_t reports, at_high, wanted; /* wanted: ranks that must be at high; 0: all that report */
	uint64_t low, high, total;       /* blocking, or count; total: sum of freed ids */
	uint64_t low_started, high_seen;
	bool differ;                     /* some have freed as many, but not the same */
};

struct sums {
	struct sum *v;
	size_t room, n; /* room: a power of two */
};

static struct sum *slot(struct sums *m, unsigned kind, uint64_t key)
{
	size_t i = gck_mpi_mix(key, kind) & (m->room - 1);

	while (m->v[i].reports && (m->v[i].key != key || m->v[i].kind != kind))
		i = (i + 1) & (m->room - 1);
	return &m->v[i];
}

static int grow(struct sums *m)
{
	struct sums bigger = { .room = m->room ? 2 * m->room : 64, .n = m->n };

	bigger.v = calloc(bigger.room, sizeof *bigger.v);
	if (!bigger.v)
		return -1;
	for (size_t i = 0; i < m->room; i++)
		if (m->v[i].reports)
			*slot(&bigger, m->v[i].kind, m->v[i].key) = m->v[i];
	free(m->v);
	*m = bigger;
	return 0;
}

/* One rank's report of something; value: how far it is. NULL: no memory. */
static struct sum *report(struct sums *m, unsigned kind, uint64_t key, uint64_t value)
{
	struct sum *e;

	if (2 * m->n >= m->room && grow(m))
		return NULL;
	e = slot(m, kind, key);
	if (!e->reports++) {
		m->n++;
		*e = (struct sum){ .key = key, .kind = kind, .reports = 1, .low = value, .high = value,
				   .at_high = 1, .low_started = UINT64_MAX };
		return e;
	}
	if (value < e->low)
		e->low = value;
	if (value > e->high) {
		e->high = value;
		e->at_high = 1;
	} else if (value == e->high) {
		e->at_high++;
	}
	return e;
}

/* As many freed in all ranks, but not the same: everybody has one more to free. */
static bool sum_differs(const struct sum *e)
{
	return e->differ && e->low == e->high;
}

static bool sum_behind(const struct sum *e)
{
	if (e->wanted)
		return e->at_high < e->wanted;
	return e->low < e->high || sum_differs(e) || (e->kind == KEY_CLOCK && e->low_started < e->high_seen);
}

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

static int fold_clock(struct sums *m, const unsigned long *v)
{
	struct sum *e = report(m, KEY_CLOCK, v[0], v[1]);

	if (!e)
		return ENOMEM;
	if (v[2] < e->low_started)
		e->low_started = v[2];
	if (v[3] > e->high_seen)
		e->high_seen = v[3];
	return 0;
}

static int fold_tally(struct sums *m, struct cursor *c, const unsigned long *v)
{
	struct sum *e;

	if (v[0] > GCK_MPI_TALLY_MEETING || !take(c, v[4]))
		return EBADMSG;
	e = report(m, v[0], v[1], v[2]);
	if (!e)
		return ENOMEM;
	e->wanted = v[4];
	if (v[0] == GCK_MPI_TALLY_FREED) {
		e->differ |= e->reports > 1 && e->low == e->high && e->total != v[3];
		e->total = v[3];
	}
	return 0;
}

/* What one rank says. 0, or an errno value. */
static int fold_rank(struct sums *m, const struct gck_mpi_words *w, bool *out, bool *active,
		     bool *open)
{
	struct cursor c = { w->v, w->n };
	const unsigned long *head = take(&c, HEAD_WORDS), *v;
	int r = 0;

	if (!head)
		return EBADMSG;
	*out &= head[0] != 0;
	*active |= head[1] != 0;
	*open |= head[2] != 0;
	for (size_t i = 0; !r && i < head[3]; i++)
		r = (v = take(&c, CLOCK_WORDS)) ? fold_clock(m, v) : EBADMSG;
	for (size_t i = 0; !r && i < head[4]; i++)
		r = (v = take(&c, TALLY_WORDS)) ? fold_tally(m, &c, v) : EBADMSG;
	return !r && c.left ? EBADMSG : r;
}

/* ---- the verdict ---------------------------------------------------------------------------- */

static uint64_t digest(const struct gck_mpi_words *all, size_t nranks)
{
	uint64_t h = 1;

	for (size_t r = 0; r < nranks; r++)
		for (size_t i = 3; i < all[r].n; i++)
			h = gck_mpi_mix(h, all[r].v[i]);
	return h;
}

/* Meetings that others have come to already, and this rank has not. */
static int note_meetings(struct gck_mpi_clocks *s, const struct gck_mpi_words *w, size_t self)
{
	struct cursor c = { w->v, w->n };
	const unsigned long *head = take(&c, HEAD_WORDS), *v, *ranks;
	struct gck_mpi_tally *t;

	take(&c, head[3] * CLOCK_WORDS);
	for (size_t i = 0; i < head[4]; i++) {
		v = take(&c, TALLY_WORDS);
		ranks = take(&c, v[4]);
		for (size_t k = 0; k < v[4]; k++) {
			if (ranks[k] != self)
				continue;
			t = get_tally(s, GCK_MPI_TALLY_MEETING, v[1], v[4]);
			if (!t)
				return ENOMEM;
			for (size_t j = 0; j < v[4]; j++)
				t->ranks[j] = ranks[j];
		}
	}
	return 0;
}

/* Where this rank must get to, and whether others must get to where it is. */
static void take_targets(struct gck_mpi_clocks *s, struct sums *m)
{
	const struct sum *e;

	s->ahead = false;
	for (struct gck_mpi_clock *c = s->first; c; c = c->next) {
		e = slot(m, KEY_CLOCK, c->id);
		if (!e->reports) /* made by a thread that was inside when the words were put */
			continue;
		c->target = e->high;
		c->target_started = e->high_seen;
		c->finish = e->high_seen > e->low_started ? e->high_seen : e->low_started;
		if (e->reports < c->ranks) /* all have started the last that there is on it */
			c->finish = UINT64_MAX;
		s->ahead |= c->blocking > e->low || c->seen > e->low_started;
	}
	for (struct gck_mpi_tally *t = s->tallies; t; t = t->next) {
		e = slot(m, t->kind, t->key);
		t->target = e->high + sum_differs(e);
		s->ahead |= e->reports && sum_behind(e) && t->count == e->high && !sum_differs(e);
	}
}

/* The more rounds have moved nothing, the more may ranks do that are not behind. */
static void let_on(struct gck_mpi_clocks *s)
{
	s->runs = s->any_behind && s->stale > 0 && (!s->ahead || s->stale > 2);
	s->enters = s->runs && (s->stale == 2 || s->stale > 3);
	s->entries = s->enters;
}

static int fold_all(struct gck_mpi_clocks *s, struct sums *m, const struct gck_mpi_words *all,
		    size_t nranks, size_t self)
{
	bool out = true, active = false, open = false, still;
	uint64_t d = digest(all, nranks);
	int r;

	for (size_t i = 0; i < nranks; i++) {
		r = fold_rank(m, &all[i], &out, &active, &open);
		if (!r)
			r = note_meetings(s, &all[i], self);
		if (r)
			return r;
	}
	s->any_behind = false;
	for (size_t i = 0; i < m->room; i++)
		s->any_behind |= m->v[i].reports && sum_behind(&m->v[i]);
	still = s->judged && d == s->digest;
	s->stale = still ? s->stale + 1 : 0;
	s->digest = d;
	s->judged = true;
	/* how many are open was counted against the targets of the round before */
	s->settled = !s->any_behind && out && !open && (!active || still);
	take_targets(s, m);
	let_on(s);
	return 0;
}

int gck_mpi_clocks_judge(struct gck_mpi_clocks *s, const struct gck_mpi_words *all, size_t nranks,
			 size_t self, struct gck_error *err)
{
	struct sums m = { 0 };
	int r;

	pthread_mutex_lock(&s->lock);
	r = grow(&m) ? ENOMEM : fold_all(s, &m, all, nranks, self);
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
	free(m.v);
	if (r == ENOMEM)
		return gck_fail(err, r, "the collective clocks of %zu ranks: no memory", nranks);
	return r ? gck_fail(err, r, "the collective clocks of %zu ranks make no sense: are all ranks' "
			    "libgpuckpt-mpi.so of one version?", nranks) : 0;
}

/* ---- between rounds ------------------------------------------------------------------------- */

static bool owes(const struct gck_mpi_clocks *s)
{
	for (const struct gck_mpi_clock *c = s->first; c; c = c->next)
		if (c->blocking < c->target || c->started < c->target_started)
			return true;
	for (const struct gck_mpi_tally *t = s->tallies; t; t = t->next)
		if (t->count < t->target)
			return true;
	return false;
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
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
}
