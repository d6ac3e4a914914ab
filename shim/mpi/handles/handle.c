/* SPDX-License-Identifier: Apache-2.0
 * Handles: a list of each kind, reuse of their memory, and a table from real handles to the
 * stand-in's. */
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "shim/mpi/handles/bind.h"
#include "shim/mpi/handles/attachment.h"
#include "shim/mpi/handles/fortran_number.h"
#include "shim/mpi/handles/handle.h"

/* Freed handles of a kind that are kept for reuse: a program makes and frees a request with almost
 * every call. */
#define SPARES_MAX 1024

static struct kind {
	pthread_mutex_t lock;
	struct gck_mpi_handle *first, *last;
	struct gck_mpi_handle *spare; /* linked by ->next */
	size_t spare_size;            /* the size of each spare */
	unsigned spares;
} kinds[GCK_MPI_KINDS] = {[0 ... GCK_MPI_KINDS - 1] = {.lock = PTHREAD_MUTEX_INITIALIZER}};

void *gck_mpi_real_null[GCK_MPI_KINDS];

/* From real handles to the stand-in's: open addressing, linear probing, the capacity a power of
 * two. Several handles may have the same real one (MPI_Comm_group returns the same group each
 * time); a lookup finds any of them. */
static struct {
	pthread_mutex_t lock;
	struct gck_mpi_handle **v;
	size_t n, capacity;
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool found_again(enum gck_mpi_kind kind)
{
	return kind != GCK_MPI_REQUEST && kind != GCK_MPI_MESSAGE;
}

static size_t slot_of(const void *real, size_t capacity)
{
	return ((uintptr_t)real >> 4) * 0x9e3779b97f4a7c15ull >> 20 & (capacity - 1);
}

static void table_insert(struct gck_mpi_handle **v, size_t capacity, struct gck_mpi_handle *h)
{
	size_t i = slot_of(h->real, capacity);

	while (v[i])
		i = (i + 1) & (capacity - 1);
	v[i] = h;
}

static int table_add(struct gck_mpi_handle *h)
{
	int rc = -1;

	pthread_mutex_lock(&table.lock);
	if (table.n * 2 >= table.capacity) {
		size_t capacity = table.capacity ? table.capacity * 2 : 512;
		struct gck_mpi_handle **v = calloc(capacity, sizeof(*v));

		if (!v)
			goto out;
		for (size_t i = 0; i < table.capacity; i++)
			if (table.v[i])
				table_insert(v, capacity, table.v[i]);
		free(table.v);
		table.v = v;
		table.capacity = capacity;
	}
	table_insert(table.v, table.capacity, h);
	table.n++;
	rc = 0;
out:
	pthread_mutex_unlock(&table.lock);
	return rc;
}

static void table_remove(struct gck_mpi_handle *h)
{
	struct gck_mpi_handle *moved;
	size_t i;

	pthread_mutex_lock(&table.lock);
	if (!table.capacity)
		goto out;
	for (i = slot_of(h->real, table.capacity); table.v[i] != h;
	     i = (i + 1) & (table.capacity - 1))
		if (!table.v[i])
			goto out;
	table.v[i] = NULL;
	table.n--;
	/* reinsert the entries that follow: a collision may have moved them past the gap */
	while ((moved = table.v[i = (i + 1) & (table.capacity - 1)])) {
		table.v[i] = NULL;
		table_insert(table.v, table.capacity, moved);
	}
out:
	pthread_mutex_unlock(&table.lock);
}

void *gck_mpi_find(enum gck_mpi_kind kind, const void *real)
{
	struct gck_mpi_handle *h = NULL;

	pthread_mutex_lock(&table.lock);
	for (size_t i = table.capacity ? slot_of(real, table.capacity) : 0;
	     table.capacity && table.v[i];
	     i = (i + 1) & (table.capacity - 1))
		if (table.v[i]->real == real && table.v[i]->kind == kind) {
			h = table.v[i];
			break;
		}
	pthread_mutex_unlock(&table.lock);
	return h;
}

/* A spare of the size, or new memory. The caller holds the lock. */
static struct gck_mpi_handle *take(struct kind *k, size_t size)
{
	struct gck_mpi_handle *h = k->spare;

	if (!h || size != k->spare_size)
		return calloc(1, size);
	k->spare = h->next;
	k->spares--;
	memset(h, 0, size);
	return h;
}

void *gck_mpi_handle_new(enum gck_mpi_kind kind, size_t size, void *real)
{
	struct kind *k = &kinds[kind];
	struct gck_mpi_handle *h;

	pthread_mutex_lock(&k->lock);
	h = take(k, size);
	if (h) {
		h->magic = GCK_MPI_HANDLE_MAGIC(kind);
		h->kind = kind;
		h->real = real;
		h->fortran = -1;
		h->size = (uint32_t)size;
		h->prev = k->last;
		*(k->last ? &k->last->next : &k->first) = h;
		k->last = h;
	}
	pthread_mutex_unlock(&k->lock);
	if (h && found_again(kind) && real && table_add(h)) {
		gck_mpi_handle_free(h);
		return NULL;
	}
	return h;
}

void gck_mpi_handle_free(void *handle)
{
	struct gck_mpi_handle *h = handle;
	struct kind *k = &kinds[h->kind];

	if (h->flags & GCK_MPI_PREDEFINED)
		return;
	if (found_again(h->kind))
		table_remove(h);
	gck_mpi_attached_free(h);
	gck_mpi_fortran_free(h);
	pthread_mutex_lock(&k->lock);
	*(h->prev ? &h->prev->next : &k->first) = h->next;
	*(h->next ? &h->next->prev : &k->last) = h->prev;
	h->magic = 0; /* so that use after free is detected where possible */
	if (!k->spares)
		k->spare_size = h->size;
	if (h->size == k->spare_size && k->spares < SPARES_MAX) {
		h->next = k->spare;
		k->spare = h;
		k->spares++;
		h = NULL;
	}
	pthread_mutex_unlock(&k->lock);
	free(h);
}

void gck_mpi_handle_set_real(void *handle, void *real)
{
	struct gck_mpi_handle *h = handle;

	if (found_again(h->kind) && h->real)
		table_remove(h);
	h->real = real;
	/* without memory the handle works but gck_mpi_find does not find it; its caller then makes
	 * another */
	if (found_again(h->kind) && real)
		table_add(h);
}

struct gck_mpi_handle *gck_mpi_first(enum gck_mpi_kind kind)
{
	return kinds[kind].first;
}

struct gck_mpi_handle *gck_mpi_first_that(enum gck_mpi_kind kind,
					  bool (*fn)(struct gck_mpi_handle *h, void *arg),
					  void *arg)
{
	struct gck_mpi_handle *h;

	pthread_mutex_lock(&kinds[kind].lock);
	for (h = kinds[kind].first; h && !fn(h, arg); h = h->next)
		;
	pthread_mutex_unlock(&kinds[kind].lock);
	return h;
}
