/* SPDX-License-Identifier: Apache-2.0
 * MPI_Pack and MPI_Unpack, native and external32, alone and sent as MPI_PACKED. */
#include "traffic.h"

#include <stdlib.h>

/* Packs two pieces one after the other; sends them to the next rank if there is one. */
static void packed(struct tr_run *r, struct tr_comm *c, const struct tr_type *t, int count)
{
	const struct tr_type *head = &r->types[0];
	struct tr_buffer *data = tr_buffer_new(t, count), *got = tr_buffer_new(t, count),
		*want = tr_buffer_new(t, count);
	int n = c->g[0].n, to = (c->rank + 1) % n, from = (c->rank + n - 1) % n, at = 0, most, more,
	    word, bytes, tag = r->step % 500 * 64;
	char *out, *in;
	MPI_Status st;

	MPI_Pack_size(1, head->type, c->comm, &most);
	MPI_Pack_size(count, t->type, c->comm, &more);
	most += more;
	out = malloc((size_t)most);
	in = malloc((size_t)most);
	if (!out || !in)
		abort();
	tr_buffer_fill(data, t, 0, count, tr_key(r, c->rank, 0));
	tr_buffer_fill(want, t, 0, count, tr_key(r, from, 0));
	word = r->step + c->rank;
	MPI_Pack(&word, 1, head->type, out, most, &at, c->comm);
	MPI_Pack(data->at, count, t->type, out, most, &at, c->comm);
	MPI_Sendrecv(out, at, MPI_PACKED, to, tag, in, most, MPI_PACKED, from, tag, c->comm, &st);
	MPI_Get_count(&st, MPI_PACKED, &bytes);
	at = 0;
	MPI_Unpack(in, bytes, &at, &word, 1, head->type, c->comm);
	tr_equal(r, "a packed word", word, r->step + from);
	MPI_Unpack(in, bytes, &at, got->at, count, t->type, c->comm);
	tr_equal(r, "position after unpacking", at, bytes);
	tr_buffer_check(r, "unpacked data", got, want);
	tr_buffer_free(data);
	tr_buffer_free(got);
	tr_buffer_free(want);
	free(out);
	free(in);
}

/* Big endian, as the standard requires. */
static void external(struct tr_run *r)
{
	unsigned char out[64];
	int value = tr_below(&r->plan, 1 << 30), back = 0;
	MPI_Aint size, at = 0;

	MPI_Pack_external_size("external32", 1, MPI_INT, &size);
	tr_equal(r, "Pack_external_size of an int", size, 4);
	MPI_Pack_external("external32", &value, 1, MPI_INT, out, sizeof(out), &at);
	tr_equal(r, "position after Pack_external", at, 4);
	tr_equal(r, "an int in external32", out[0] << 24 | out[1] << 16 | out[2] << 8 | out[3],
		 value);
	at = 0;
	MPI_Unpack_external("external32", out, 4, &at, &back, 1, MPI_INT);
	tr_equal(r, "an int back from external32", back, value);
}

void tr_pack_step(struct tr_run *r)
{
	struct tr_comm *c = tr_comm_draw_intra(r);
	const struct tr_type *t = tr_type_draw(r);
	int count = tr_count_draw(r, t);

	if (c->rank >= 0)
		packed(r, c, t, count);
	external(r);
}
