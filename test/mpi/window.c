/* SPDX-License-Identifier: Apache-2.0
 * One-sided communication. Each rank knows the contents of all windows: within an epoch no two
 * operations use the same word, unless they are accumulations with one commutative operation. */
#include "traffic.h"

#include <stdlib.h>
#include <string.h>

enum { WORDS = 96, WINDOWS = 3, OPS = 24, MOST = 8 };
enum { TICKETS = WORDS - 1 }; /* a counter that many ranks increment at once */
enum made { MADE_CREATE, MADE_ALLOCATE, MADE_DYNAMIC, MADE_KINDS };
enum kind { PUT, GET, ACCUMULATE, GET_ACCUMULATE, FETCH_AND_OP, COMPARE_AND_SWAP, RPUT, RGET,
	RACCUMULATE, KINDS };

struct tr_window {
	struct tr_window *next;
	MPI_Comm comm;          /* MPI_COMM_NULL: this rank has no part in it */
	MPI_Win win;
	enum made made;
	int n, rank;
	uint64_t *base;
	MPI_Aint where[TR_RANKS]; /* the displacement of each rank's first word */
	int unit;
	bool locked_all;          /* an epoch that lasts over steps */
	uint64_t model[TR_RANKS][WORDS];
};

struct op {
	enum kind kind;
	int origin, target, at, count, stride;
	MPI_Op op;
	uint64_t key;
	uint64_t data[MOST], result[MOST], want[MOST], compare;
	MPI_Request req;
};

static uint64_t apply(MPI_Op op, uint64_t old, uint64_t v)
{
	return op == MPI_SUM    ? old + v
	       : op == MPI_BXOR ? (old ^ v)
	       : op == MPI_MAX  ? old > v ? old : v
				: v;
}

/* ---- drawing the operations of an epoch */

static bool claim(char (*taken)[WORDS], const struct op *o, char mark)
{
	for (int i = 0; i < o->count; i++) {
		char *t = &taken[o->target][o->at + i * o->stride];

		if (*t && (*t != mark || mark == 1))
			return false;
	}
	for (int i = 0; i < o->count; i++)
		taken[o->target][o->at + i * o->stride] = mark;
	return true;
}

/* Draws an operation of any rank on any rank; false: it would conflict with another. */
static bool draw_op(struct tr_run *r, const struct tr_window *w, int number, char (*taken)[WORDS],
	struct op *o)
{
	static const MPI_Op ops[] = {MPI_SUM, MPI_BXOR, MPI_MAX};
	int which;

	memset(o, 0, sizeof(*o));
	o->req = MPI_REQUEST_NULL;
	o->kind = tr_below(&r->plan, KINDS);
	o->origin = tr_below(&r->plan, w->n);
	o->target = tr_below(&r->plan, w->n);
	o->stride = tr_between(&r->plan, 1, 2);
	o->count = tr_between(&r->plan, 1, MOST);
	if (o->kind == FETCH_AND_OP || o->kind == COMPARE_AND_SWAP)
		o->count = 1;
	o->at = tr_below(&r->plan, TICKETS - o->count * o->stride);
	which = tr_below(&r->plan, 3);
	o->op = ops[which];
	o->key = tr_key(r, number, 0);
	bool shared = o->kind == ACCUMULATE || o->kind == RACCUMULATE;

	return claim(taken, o, shared ? (char)(2 + which) : 1);
}

/* Applies it to the model; the value that it returns. */
static void model_op(struct tr_window *w, struct op *o)
{
	for (int i = 0; i < o->count; i++) {
		uint64_t *word = &w->model[o->target][o->at + i * o->stride];

		o->data[i] = tr_mix(o->key, (uint64_t)i);
		o->want[i] = *word;
		if (o->kind == COMPARE_AND_SWAP) {
			/* every second comparison succeeds */
			o->compare = o->key & 1 ? *word : ~*word;
			*word = o->key & 1 ? o->data[i] : *word;
		} else if (o->kind == PUT || o->kind == RPUT) {
			*word = o->data[i];
		} else if (o->kind != GET && o->kind != RGET) {
			*word = apply(o->op, *word, o->data[i]);
		}
	}
}

static bool brings_back(const struct op *o)
{
	return o->kind == GET || o->kind == RGET || o->kind == GET_ACCUMULATE ||
	       o->kind == FETCH_AND_OP || o->kind == COMPARE_AND_SWAP;
}

/* ---- executing the operations */

static void issue(const struct tr_window *w, struct op *o, bool requests)
{
	MPI_Aint disp = w->where[o->target] + (MPI_Aint)o->at * (w->unit == 1 ? 8 : 1);
	MPI_Datatype u = MPI_UINT64_T, t;
	int n = o->count, to = o->target;

	MPI_Type_vector(n, 1, o->stride, u, &t);
	MPI_Type_commit(&t);
	switch (o->kind) {
	case RPUT:
		if (requests) {
			MPI_Rput(o->data, n, u, to, disp, 1, t, w->win, &o->req);
			break;
		}
		__attribute__((fallthrough));
	case PUT:
		MPI_Put(o->data, n, u, to, disp, 1, t, w->win);
		break;
	case RGET:
		if (requests) {
			MPI_Rget(o->result, n, u, to, disp, 1, t, w->win, &o->req);
			break;
		}
		__attribute__((fallthrough));
	case GET:
		MPI_Get(o->result, n, u, to, disp, 1, t, w->win);
		break;
	case RACCUMULATE:
		if (requests) {
			MPI_Raccumulate(o->data, n, u, to, disp, 1, t, o->op, w->win, &o->req);
			break;
		}
		__attribute__((fallthrough));
	case ACCUMULATE:
		MPI_Accumulate(o->data, n, u, to, disp, 1, t, o->op, w->win);
		break;
	case GET_ACCUMULATE:
		MPI_Get_accumulate(o->data, n, u, o->result, n, u, to, disp, 1, t, o->op, w->win);
		break;
	case FETCH_AND_OP:
		MPI_Fetch_and_op(o->data, o->result, u, to, disp, o->op, w->win);
		break;
	default:
		MPI_Compare_and_swap(o->data, &o->compare, o->result, u, to, disp, w->win);
	}
	MPI_Type_free(&t);
}

struct epoch {
	int n;
	struct op ops[OPS];
};

static void issue_mine(const struct tr_window *w, struct epoch *e, int target, bool requests)
{
	for (int i = 0; i < e->n; i++)
		if (e->ops[i].origin == w->rank && (target < 0 || e->ops[i].target == target))
			issue(w, &e->ops[i], requests);
	for (int i = 0; i < e->n; i++)
		MPI_Wait(&e->ops[i].req, MPI_STATUS_IGNORE);
}

static void fence(struct tr_run *r, struct tr_window *w, struct epoch *e)
{
	MPI_Win_fence(tr_chance(&r->plan, 50) ? MPI_MODE_NOPRECEDE : 0, w->win);
	issue_mine(w, e, -1, false);
	MPI_Win_fence(MPI_MODE_NOSUCCEED, w->win);
}

/* All ranks are exposed to all; each is origin and target at once. */
static void post_start(struct tr_run *r, struct tr_window *w, struct epoch *e)
{
	MPI_Group group;
	int flag = 0;

	MPI_Comm_group(w->comm, &group);
	MPI_Win_post(group, 0, w->win);
	MPI_Win_start(group, 0, w->win);
	issue_mine(w, e, -1, false);
	MPI_Win_complete(w->win);
	if (tr_chance(&r->mine, 50))
		MPI_Win_wait(w->win);
	else
		while (!flag)
			MPI_Win_test(w->win, &flag);
	MPI_Group_free(&group);
}

static void lock_each(struct tr_run *r, struct tr_window *w, struct epoch *e)
{
	for (int target = 0; target < w->n; target++) {
		int kind = tr_chance(&r->mine, 50) ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE;

		MPI_Win_lock(kind, target, 0, w->win);
		issue_mine(w, e, target, true);
		if (tr_chance(&r->mine, 30))
			MPI_Win_flush(target, w->win);
		MPI_Win_unlock(target, w->win);
	}
}

/* In an open epoch, or in one for these operations alone. */
static void lock_all(struct tr_run *r, struct tr_window *w, struct epoch *e)
{
	if (!w->locked_all)
		MPI_Win_lock_all(0, w->win);
	issue_mine(w, e, -1, true);
	switch (tr_below(&r->mine, 3)) {
	case 0:
		MPI_Win_flush_all(w->win);
		break;
	case 1:
		for (int i = 0; i < w->n; i++)
			MPI_Win_flush(i, w->win);
		break;
	default:
		MPI_Win_flush_local_all(w->win);
		MPI_Win_flush_all(w->win);
	}
	if (!w->locked_all)
		MPI_Win_unlock_all(w->win);
}

/* Each rank takes numbers from a counter of rank 0: they increase and stay below the total. */
static void tickets(struct tr_run *r, struct tr_window *w, int each)
{
	uint64_t one = 1, got, before = w->model[0][TICKETS], last = before;
	MPI_Aint disp = w->where[0] + (MPI_Aint)TICKETS * (w->unit == 1 ? 8 : 1);

	if (!w->locked_all)
		MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, w->win);
	for (int i = 0; i < each; i++) {
		MPI_Fetch_and_op(&one, &got, MPI_UINT64_T, 0, disp, MPI_SUM, w->win);
		MPI_Win_flush(0, w->win);
		tr_need(r, got >= last + !!i && got < before + (uint64_t)(each * w->n),
			"a number taken from a window is %llu after %llu, beginning at %llu",
			(unsigned long long)got, (unsigned long long)last,
			(unsigned long long)before);
		last = got;
	}
	if (!w->locked_all)
		MPI_Win_unlock(0, w->win);
	w->model[0][TICKETS] += (uint64_t)(each * w->n);
}

static void check(struct tr_run *r, struct tr_window *w, const struct epoch *e)
{
	for (int i = 0; i < e->n; i++) {
		const struct op *o = &e->ops[i];

		if (o->origin != w->rank || !brings_back(o))
			continue;
		for (int k = 0; k < o->count; k++)
			tr_need(r, o->result[k] == o->want[k],
				"one-sided operation kind %d on rank %d brought back %llx, "
				"expected %llx",
				o->kind, o->target, (unsigned long long)o->result[k],
				(unsigned long long)o->want[k]);
		tr_digest(r, o->result, (size_t)o->count * 8);
	}
	MPI_Barrier(w->comm);
	if (w->locked_all)
		MPI_Win_sync(w->win);
	else
		MPI_Win_lock(MPI_LOCK_SHARED, w->rank, 0, w->win);
	for (int k = 0; k < WORDS; k++)
		tr_need(r, w->base[k] == w->model[w->rank][k],
			"word %d of the window is %llx, expected %llx", k,
			(unsigned long long)w->base[k], (unsigned long long)w->model[w->rank][k]);
	tr_digest(r, w->base, WORDS * 8);
	if (!w->locked_all)
		MPI_Win_unlock(w->rank, w->win);
	MPI_Barrier(w->comm);
}

static void epoch(struct tr_run *r, struct tr_window *w)
{
	struct epoch *e = calloc(1, sizeof(*e));
	char (*taken)[WORDS] = calloc(TR_RANKS, sizeof(*taken));
	int n = tr_between(&r->plan, 1, OPS), way = tr_below(&r->plan, 5),
	    each = tr_between(&r->plan, 1, 8);

	if (!e || !taken)
		abort();
	for (int i = 0; i < n; i++)
		e->n += draw_op(r, w, i, taken, &e->ops[e->n]);
	if (w->comm != MPI_COMM_NULL) {
		if (way != 4 || w->locked_all)
			for (int i = 0; i < e->n; i++)
				model_op(w, &e->ops[i]);
		else
			e->n = 0;
		if (w->locked_all)
			lock_all(r, w, e);
		else if (way == 0)
			fence(r, w, e);
		else if (way == 1)
			post_start(r, w, e);
		else if (way == 2)
			lock_each(r, w, e);
		else if (way == 3)
			lock_all(r, w, e);
		else
			tickets(r, w, each);
		check(r, w, e);
	}
	free(e);
	free(taken);
}

/* ---- making and freeing windows */

static void make(struct tr_window *w)
{
	MPI_Aint bytes = WORDS * 8, here;

	if (w->made == MADE_ALLOCATE) {
		MPI_Win_allocate(bytes, 8, MPI_INFO_NULL, w->comm, &w->base, &w->win);
	} else {
		MPI_Alloc_mem(bytes, MPI_INFO_NULL, &w->base);
		if (w->made == MADE_CREATE)
			MPI_Win_create(w->base, bytes, 8, MPI_INFO_NULL, w->comm, &w->win);
		else
			MPI_Win_create_dynamic(MPI_INFO_NULL, w->comm, &w->win);
	}
	w->unit = w->made == MADE_DYNAMIC ? 1 : 8;
	MPI_Win_lock(MPI_LOCK_EXCLUSIVE, w->rank, 0, w->win);
	memset(w->base, 0, (size_t)bytes);
	MPI_Win_unlock(w->rank, w->win);
	if (w->made == MADE_DYNAMIC) {
		MPI_Win_attach(w->win, w->base, bytes);
		MPI_Get_address(w->base, &here);
		MPI_Allgather(&here, 1, MPI_AINT, w->where, 1, MPI_AINT, w->comm);
	}
	MPI_Barrier(w->comm);
}

static void window_new(struct tr_run *r)
{
	const struct tr_comm *c = tr_comm_draw_intra(r);
	struct tr_window *w = calloc(1, sizeof(*w));
	int flag;
	void *base;

	if (!w)
		abort();
	w->made = tr_below(&r->plan, MADE_KINDS);
	w->n = c->g[0].n;
	w->rank = c->rank;
	w->comm = MPI_COMM_NULL;
	w->next = r->windows;
	r->windows = w;
	if (c->rank < 0)
		return;
	MPI_Comm_dup(c->comm, &w->comm);
	make(w);
	MPI_Win_get_attr(w->win, MPI_WIN_BASE, &base, &flag);
	tr_need(r, flag && (w->made == MADE_DYNAMIC || base == w->base),
		"MPI_WIN_BASE is not the window's");
}

static void window_free(struct tr_window **link)
{
	struct tr_window *w = *link;

	if (w->comm != MPI_COMM_NULL) {
		if (w->locked_all)
			MPI_Win_unlock_all(w->win);
		if (w->made == MADE_DYNAMIC)
			MPI_Win_detach(w->win, w->base);
		MPI_Win_free(&w->win);
		if (w->made != MADE_ALLOCATE)
			MPI_Free_mem(w->base);
		MPI_Comm_free(&w->comm);
	}
	*link = w->next;
	free(w);
}

void tr_window_end(struct tr_run *r)
{
	while (r->windows)
		window_free(&r->windows);
}

void tr_window_step(struct tr_run *r)
{
	struct tr_window **link = &r->windows, *w;
	int n = 0, k;

	for (w = r->windows; w; w = w->next)
		n++;
	if (n < WINDOWS && (!n || tr_chance(&r->plan, 20))) {
		window_new(r);
		return;
	}
	for (k = tr_below(&r->plan, n); k; k--)
		link = &(*link)->next;
	w = *link;
	k = tr_below(&r->plan, 20);
	if (k == 0) {
		window_free(link);
	} else if (k == 1) {
		if (w->comm != MPI_COMM_NULL && w->locked_all)
			MPI_Win_unlock_all(w->win);
		if (w->comm != MPI_COMM_NULL && !w->locked_all)
			MPI_Win_lock_all(0, w->win);
		w->locked_all = !w->locked_all;
	} else {
		epoch(r, w);
	}
}
