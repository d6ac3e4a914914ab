/* SPDX-License-Identifier: Apache-2.0
 * Persistent requests that live over many steps and are started repeatedly. They are inactive
 * between their rounds. */
#include "traffic.h"

#include <stdlib.h>

enum { CHANNELS = 8, LANES = 4 };

struct tr_channel {
	struct tr_channel *next;
	struct tr_comm *c;
	int slot, n, round;
	int src[LANES], dst[LANES], count[LANES], side;
	bool sender, receiver; /* of any lane */
	int nreq;
	MPI_Request req[2 * LANES];
	int lane[2 * LANES];   /* of each request; ~lane for a receive */
	int *data[2 * LANES];
};

static int word(const struct tr_channel *ch, int lane, int i)
{
	return (int)(uint32_t)tr_mix((uint64_t)(ch->round * LANES + lane), (uint64_t)i);
}

static void add_lane(struct tr_channel *ch, int lane, bool sends, int mode, int tag)
{
	int k = ch->nreq++, *data = calloc((size_t)ch->count[lane] + 1, sizeof(int));
	MPI_Comm comm = ch->c->comm;

	if (!data)
		abort();
	ch->data[k] = data;
	ch->lane[k] = sends ? lane : ~lane;
	if (!sends)
		MPI_Recv_init(data, ch->count[lane], MPI_INT, ch->src[lane], tag, comm,
			      &ch->req[k]);
	else if (mode == 0)
		MPI_Send_init(data, ch->count[lane], MPI_INT, ch->dst[lane], tag, comm,
			      &ch->req[k]);
	else
		MPI_Ssend_init(data, ch->count[lane], MPI_INT, ch->dst[lane], tag, comm,
			       &ch->req[k]);
}

static int free_slot(const struct tr_run *r)
{
	unsigned taken = 0;
	int slot = 0;

	for (const struct tr_channel *ch = r->channels; ch; ch = ch->next)
		taken |= 1u << ch->slot;
	while (taken >> slot & 1)
		slot++;
	return slot;
}

/* Its tags are above those of the steps and below 32767, the least MPI_TAG_UB. */
static void channel_new(struct tr_run *r)
{
	struct tr_channel *ch = calloc(1, sizeof(*ch));
	struct tr_comm *c = tr_comm_draw(r);

	if (!ch)
		abort();
	ch->c = c;
	ch->slot = free_slot(r);
	ch->side = c->inter ? tr_below(&r->plan, 2) : 0;
	ch->n = tr_between(&r->plan, 1, LANES);
	for (int i = 0; i < ch->n; i++) {
		int mode, tag = 32100 + ch->slot * LANES + i;

		ch->src[i] = tr_below(&r->plan, c->g[ch->side].n);
		ch->dst[i] = tr_below(&r->plan, tr_peers(c, ch->side)->n);
		ch->count[i] = tr_chance(&r->plan, 10) ? 5000 : tr_below(&r->plan, 60);
		mode = tr_below(&r->plan, 2);
		if (c->rank == ch->dst[i] && c->side == (c->inter ? !ch->side : 0))
			add_lane(ch, i, false, mode, tag);
		if (c->rank == ch->src[i] && c->side == ch->side)
			add_lane(ch, i, true, mode, tag);
	}
	struct tr_channel **link = &r->channels;

	while (*link)
		link = &(*link)->next;
	*link = ch;
}

static void channel_round(struct tr_run *r, struct tr_channel *ch)
{
	MPI_Status st[2 * LANES];

	ch->round++;
	for (int k = 0; k < ch->nreq; k++)
		for (int lane = ch->lane[k], i = 0; lane >= 0 && i < ch->count[lane]; i++)
			ch->data[k][i] = word(ch, lane, i);
	if (tr_chance(&r->mine, 50))
		MPI_Startall(ch->nreq, ch->req);
	else
		for (int k = 0; k < ch->nreq; k++)
			MPI_Start(&ch->req[k]);
	MPI_Waitall(ch->nreq, ch->req, st);
	for (int k = 0; k < ch->nreq; k++) {
		int lane = ~ch->lane[k], count;

		tr_need(r, ch->req[k] != MPI_REQUEST_NULL,
			"a persistent request is gone after its round");
		if (lane < 0)
			continue;
		MPI_Get_count(&st[k], MPI_INT, &count);
		tr_equal(r, "words of a persistent receive", count, ch->count[lane]);
		tr_equal(r, "source of a persistent receive", st[k].MPI_SOURCE, ch->src[lane]);
		for (int i = 0; i < count; i++)
			tr_equal(r, "a word of a persistent receive", ch->data[k][i],
				 word(ch, lane, i));
		tr_digest(r, ch->data[k], (size_t)count * sizeof(int));
	}
}

static void channel_free(struct tr_channel **link)
{
	struct tr_channel *ch = *link;

	for (int k = 0; k < ch->nreq; k++) {
		MPI_Request_free(&ch->req[k]);
		free(ch->data[k]);
	}
	*link = ch->next;
	free(ch);
}

void tr_channel_end(struct tr_run *r, const struct tr_comm *c)
{
	struct tr_channel **link = &r->channels;

	while (*link)
		if (!c || (*link)->c == c)
			channel_free(link);
		else
			link = &(*link)->next;
}

void tr_channel_step(struct tr_run *r)
{
	struct tr_channel **link = &r->channels;
	int n = 0, k;

	for (struct tr_channel *ch = r->channels; ch; ch = ch->next)
		n++;
	if (n < CHANNELS && (!n || tr_chance(&r->plan, 30))) {
		channel_new(r);
		return;
	}
	for (k = tr_below(&r->plan, n); k; k--)
		link = &(*link)->next;
	if ((*link)->round >= 6)
		channel_free(link);
	else
		channel_round(r, *link);
}
