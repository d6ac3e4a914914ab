/* SPDX-License-Identifier: Apache-2.0
 * The table of the program's handles. */
#include <pthread.h>
#include <stdlib.h>

#include "shim/cuda/base/handle_map.h"
#include "shim/cuda/base/obstacles.h"
#include "shim/cuda/memory/free_bytes.h"
#include "shim/cuda/memory/slab.h"
#include "shim/cuda/vmm/vmm.h"

/* Numbers that look like no address and no small number. */
#define MARK 0x67636bull
#define MARK_SHIFT 40

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct gck_cuda_handle_map handles; /* number: struct gck_cuda_handle * */
static uint64_t last;

static struct gck_cuda_handle *get(CUmemGenericAllocationHandle id)
{
	const uint64_t *at = gck_cuda_handle_map_get(&handles, id);

	return at ? (struct gck_cuda_handle *)(uintptr_t)*at : NULL;
}

bool gck_cuda_handle_is_ours(CUmemGenericAllocationHandle id)
{
	return id >> MARK_SHIFT == MARK;
}

struct gck_cuda_handle *gck_cuda_handle_new(uint64_t size, const CUmemAllocationProp *prop)
{
	struct gck_cuda_handle *h = malloc(sizeof *h);
	uint64_t *at;

	if (!h)
		return NULL;
	*h = (struct gck_cuda_handle){.size = size, .prop = *prop, .named = 1, .uses = 1};
	pthread_mutex_lock(&lock);
	h->id = MARK << MARK_SHIFT | ++last;
	at = gck_cuda_handle_map_put(&handles, h->id);
	if (at)
		*at = (uint64_t)(uintptr_t)h;
	pthread_mutex_unlock(&lock);
	if (!at)
		free(h);
	return at ? h : NULL;
}

struct gck_cuda_handle *gck_cuda_handle_hold(CUmemGenericAllocationHandle id)
{
	struct gck_cuda_handle *h;

	pthread_mutex_lock(&lock);
	h = get(id);
	if (h && h->named)
		h->uses++;
	else
		h = NULL;
	pthread_mutex_unlock(&lock);
	return h;
}

void gck_cuda_handle_hold_too(struct gck_cuda_handle *h)
{
	pthread_mutex_lock(&lock);
	h->uses++;
	pthread_mutex_unlock(&lock);
}

void gck_cuda_handle_count(const struct gck_cuda_handle *h, int64_t bytes)
{
	gck_cuda_slabs_lock();
	if (h->memory.vault_name)
		gck_cuda_free_bytes_changed(h->prop.location.id, bytes);
	else if (h->memory.handle)
		gck_cuda_free_bytes_carried(bytes);
	gck_cuda_slabs_unlock();
}

/* Free a handle that nothing refers to any more. */
static void end(struct gck_cuda_handle *h)
{
	gck_cuda_handle_count(h, -(int64_t)h->size);
	gck_cuda_physical_drop(&h->memory);
	gck_cuda_obstacle_remove(GCK_CUDA_EXPORT, h->id);
	free(h);
}

void gck_cuda_handle_let_go(struct gck_cuda_handle *h)
{
	bool last_use;

	pthread_mutex_lock(&lock);
	last_use = --h->uses == 0;
	if (last_use)
		gck_cuda_handle_map_drop(&handles, h->id);
	pthread_mutex_unlock(&lock);
	if (last_use)
		end(h);
}

void gck_cuda_handle_name(struct gck_cuda_handle *h)
{
	pthread_mutex_lock(&lock);
	h->named++;
	h->uses++;
	pthread_mutex_unlock(&lock);
}

int gck_cuda_handle_release(CUmemGenericAllocationHandle id)
{
	struct gck_cuda_handle *h;

	pthread_mutex_lock(&lock);
	h = get(id);
	if (h && h->named)
		h->named--;
	else
		h = NULL;
	pthread_mutex_unlock(&lock);
	if (h)
		gck_cuda_handle_let_go(h);
	return h ? 0 : -1;
}

void gck_cuda_handles_forked(void)
{
	pthread_mutex_init(&lock, NULL);
}

struct gck_cuda_handle *gck_cuda_handle_next(size_t *at)
{
	while (*at < handles.capacity) {
		const struct gck_cuda_entry *e = &handles.entries[(*at)++];

		if (e->handle)
			return (struct gck_cuda_handle *)(uintptr_t)e->value;
	}
	return NULL;
}
