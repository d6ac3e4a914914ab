/* SPDX-License-Identifier: Apache-2.0
 * The fake driver: its private tables (cuGetExportTable), functions without names, as programs of
 * the CUDA runtime call them (doc/cuda-driver.md). They lie in memory of their own, which is gone
 * when the driver is loaded anew. */
#include "test/support/driver/bodies.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define ROOM 8192
#define LATER FAKE_LATER_SLOTS
#define CALLBACKS 512 /* words, at most */
#define MORE_CALLBACKS 14

typedef void function(void);
typedef void destructor(CUcontext context, void *key, void *value);

static struct memory {
	function *primary[3 + LATER], *callbacks[7 + LATER], *current[3 + LATER],
		*storage[4 + LATER], *checks[4 + LATER], *id[5 + LATER], *tools[8 + LATER],
		*cache[5 + LATER], *hash[3 + LATER], *listeners[26 + LATER];
	uint32_t buffer[CALLBACKS], more[MORE_CALLBACKS];
} *memory;
_Static_assert(sizeof *memory <= ROOM, "the tables fit");

/* ---- contexts -------------------------------------------------------------------------------- */

static CUresult primary_handle(CUcontext *context, CUdevice device)
{
	CUresult rc = fake_device(device);

	fake_lock();
	if (!rc)
		*context = fake_primary(device);
	fake_unlock();
	return rc;
}

static CUresult current_context(CUcontext *context)
{
	*context = fake_current();
	return CUDA_SUCCESS;
}

/* The context, or the current one; NULL: none. */
static CUcontext that(CUcontext context)
{
	context = context ? context : fake_current();
	return context && fake_is_alive(context) ? context : NULL;
}

static CUresult check_context(CUcontext context, uint32_t *flags, const void **about)
{
	fake_lock();
	context = that(context);
	fake_unlock();
	*flags = 0;
	*about = NULL;
	return context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

static unsigned check(void)
{
	return 0;
}

static CUresult context_id(CUcontext context, uint32_t *id)
{
	fake_lock();
	context = that(context);
	if (context)
		*id = 1 + (uint32_t)context->device;
	fake_unlock();
	return context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

static void *callbacks(void **at, size_t *size)
{
	*at = memory->buffer;
	*size = fake_version.callbacks;
	return *at;
}

static void *more_callbacks(void **at, size_t *size)
{
	*at = memory->more;
	*size = MORE_CALLBACKS;
	return *at;
}

/* ---- what programs keep beside a context ----------------------------------------------------- */

static struct kept {
	struct kept *next;
	CUcontext context;
	void *key, *value;
	destructor *end;
} *all_kept;

static struct kept **find_kept(CUcontext context, const void *key)
{
	struct kept **at = &all_kept;

	while (*at && ((*at)->context != context || (key && (*at)->key != key)))
		at = &(*at)->next;
	return at;
}

/* The place of what is kept; a place without any: there is none. With the lock. */
static CUresult look(CUcontext *context, const void *key, struct kept ***at)
{
	*context = that(*context);
	if (!*context)
		return CUDA_ERROR_INVALID_CONTEXT;
	*at = find_kept(*context, key);
	return CUDA_SUCCESS;
}

static CUresult storage_put(CUcontext context, void *key, void *value, destructor *end)
{
	struct kept *k = malloc(sizeof *k), **at;
	CUresult rc;

	fake_lock();
	rc = look(&context, key, &at);
	if (!rc && *at)
		rc = CUDA_ERROR_INVALID_HANDLE;
	if (!rc) {
		*k = (struct kept){all_kept, context, key, value, end};
		all_kept = k;
	} else {
		free(k);
	}
	fake_unlock();
	return rc;
}

static void take_out(struct kept **at)
{
	struct kept *k = *at;

	*at = k->next;
	free(k);
}

static CUresult get(void **value, CUcontext context, const void *key, bool and_take)
{
	struct kept **at;
	CUresult rc;

	fake_lock();
	rc = look(&context, key, &at);
	if (!rc && !*at)
		rc = CUDA_ERROR_INVALID_HANDLE;
	if (!rc)
		*value = (*at)->value;
	if (!rc && and_take)
		take_out(at);
	fake_unlock();
	return rc;
}

static CUresult storage_get(void **value, CUcontext context, void *key)
{
	return get(value, context, key, false);
}

static CUresult storage_delete(CUcontext context, void *key, void **value)
{
	return get(value, context, key, true);
}

void fake_context_storage_end(CUcontext context)
{
	struct kept **at;

	while (*(at = find_kept(context, NULL))) {
		const struct kept k = **at;

		take_out(at);
		if (k.end)
			k.end(k.context, k.key, k.value);
	}
}

/* ---- others ---------------------------------------------------------------------------------- */

static CUresult cache_open(void **entry, int kind, const void *key, size_t size)
{
	(void)kind;
	(void)key;
	*entry = malloc(size);
	return CUDA_SUCCESS;
}

static CUresult cache_close(void *entry)
{
	free(entry);
	return CUDA_SUCCESS;
}

static CUresult cache_get(void *entry, int kind, void **content, size_t *size)
{
	(void)entry;
	(void)kind;
	(void)content;
	*size = 0;
	return CUDA_ERROR_NOT_FOUND;
}

static CUresult cache_put(void *entry, int kind, const void *content, size_t size)
{
	(void)entry;
	(void)kind;
	(void)content;
	(void)size;
	return CUDA_SUCCESS;
}

typedef void told_function(void *arg, CUfunction f, const char *name);

/* The one that all modules have. */
static uint64_t each_function(CUcontext context, CUmodule module, told_function *told, void *arg)
{
	CUfunction f;

	(void)context;
	if (fake_cuModuleGetFunction(&f, module, "add"))
		return 0;
	told(arg, f, "add");
	return 1;
}

/* The runtime makes the same of the addresses that it was given, and compares. */
static CUresult hash(uint32_t version, uint64_t seconds, uint64_t result[2])
{
	result[0] = version ^ seconds ^ (uintptr_t)memory->primary;
	result[1] = (uintptr_t)memory->hash ^ (uintptr_t)memory->hash[1];
	return CUDA_SUCCESS;
}

/* ---- who is told of checkpoints -------------------------------------------------------------- */

struct about {
	size_t size;
	void *data;
	fake_listen *told[4]; /* lock, unlock, checkpoint, restore */
};

static struct listener {
	struct listener *next;
	struct about about;
	bool listed;
} *all_listeners;

static CUresult listener_make(struct listener **listener, const struct about *about)
{
	struct listener *l = calloc(1, sizeof *l);

	l->about = *about;
	fake_lock();
	l->next = all_listeners;
	all_listeners = l;
	fake_unlock();
	*listener = l;
	return CUDA_SUCCESS;
}

/* With the lock. */
static void drop(struct listener *listener)
{
	struct listener **at = &all_listeners;

	while (*at && *at != listener)
		at = &(*at)->next;
	if (*at)
		*at = listener->next;
	free(listener);
}

static void listener_drop(struct listener *listener)
{
	fake_lock();
	drop(listener);
	fake_unlock();
}

static void listener_begin(struct listener *listener)
{
	listener->listed = true;
}

static void listener_end(struct listener *listener)
{
	listener->listed = false;
}

static void lock_listeners(void)
{
}

static const void *lock_request(void)
{
	static struct fake_lock_request request;
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	request.end_ns = (now.tv_sec + 1) * 1000000000ll;
	return &request;
}

/* Of the devices that there were at the checkpoint. */
static struct fake_node seen;

static const void *restore_request(void)
{
	static struct fake_gpu_now gpus[FAKE_MAX_DEVICES];
	static struct fake_restore_request request = {.gpus = gpus};

	request.n = (uint32_t)seen.n;
	for (int i = 0; i < seen.n; i++)
		memcpy(gpus[i].was, &seen.v[i].uuid, sizeof gpus[i].was);
	return &request;
}

void fake_listeners_tell(enum fake_listened what)
{
	const void *request = NULL;

	if (what == FAKE_CHECKPOINT)
		seen = fake.seen;
	if (what == FAKE_LOCK)
		request = lock_request();
	else if (what == FAKE_RESTORE)
		request = restore_request();
	for (struct listener *l = all_listeners; l; l = l->next)
		if (l->listed)
			l->about.told[what](request);
}

/* ---- the tables ------------------------------------------------------------------------------ */

/* A function that drivers before this one lack. */
static CUresult later(void)
{
	return CUDA_SUCCESS;
}

/* Fills what comes behind the functions that all versions have. */
static void fill_end(function **table, size_t words)
{
	for (unsigned i = 0; i < fake_version.later_slots; i++)
		table[words - LATER + i] = (function *)later;
}

#define WORDS(table) (sizeof(table) / sizeof *(table))
#define FIRST(table) \
	((table)[0] = (function *)((WORDS(table) - LATER + fake_version.later_slots) * \
				   sizeof *(table)), \
	 fill_end(table, WORDS(table)))

static void fill(void)
{
	struct memory *m = memory;

	FIRST(m->primary);
	m->primary[2] = (function *)primary_handle;
	FIRST(m->callbacks);
	m->callbacks[2] = (function *)callbacks;
	m->callbacks[6] = (function *)more_callbacks;
	FIRST(m->current);
	m->current[2] = (function *)current_context;
	m->storage[0] = (function *)storage_put;
	m->storage[1] = (function *)storage_delete;
	m->storage[2] = (function *)storage_get;
	fill_end(m->storage, WORDS(m->storage) - 1);
	FIRST(m->checks);
	m->checks[2] = (function *)check_context;
	m->checks[3] = (function *)check;
	FIRST(m->id);
	m->id[4] = (function *)context_id;
	FIRST(m->tools);
	m->tools[6] = (function *)check;
	m->tools[7] = (function *)each_function;
	FIRST(m->cache);
	m->cache[1] = (function *)cache_open;
	m->cache[2] = (function *)cache_close;
	m->cache[3] = (function *)cache_get;
	m->cache[4] = (function *)cache_put;
	m->cache[0] = (function *)(fake_version.cache_words * sizeof *m->cache);
	FIRST(m->listeners);
	m->listeners[19] = (function *)listener_make;
	m->listeners[20] = (function *)listener_drop;
	m->listeners[21] = (function *)listener_begin;
	m->listeners[22] = (function *)listener_end;
	m->listeners[24] = m->listeners[25] = (function *)lock_listeners;
	FIRST(m->hash);
	m->hash[1] = (function *)hash;
	m->buffer[fake_version.callbacks - 1] = 1;
	m->more[MORE_CALLBACKS - 1] = 2;
}

static void make(void)
{
	memory = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		abort();
	fill();
	if (mprotect(memory, ROOM, PROT_READ))
		abort();
}

/* The old place stays reserved. */
void fake_tables_anew(void)
{
	while (all_kept)
		take_out(&all_kept);
	while (all_listeners)
		drop(all_listeners);
	if (memory && mmap(memory, ROOM, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
			   0) == MAP_FAILED)
		abort();
	memory = NULL;
}

/* By the first byte of its id. */
static const void *table_of(const CUuuid *id)
{
	switch ((unsigned char)id->bytes[0]) {
	case 0x6b:
		return memory->primary;
	case 0xa0:
		return memory->callbacks;
	case 0x42:
		return memory->current;
	case 0xc6:
		return memory->storage;
	case 0x26:
		return memory->checks;
	case 0x21:
		return memory->id;
	case 0x6e:
		return memory->tools;
	case 0xda:
		return memory->cache;
	case 0x69:
		return memory->listeners;
	case 0xd4:
		return memory->hash;
	default:
		return NULL;
	}
}

CUresult fake_cuGetExportTable(const void **table, const CUuuid *id)
{
	static const size_t none[2] = {sizeof none, 0};

	fake_lock();
	if (!memory)
		make();
	*table = table_of(id);
	fake_unlock();
	*table = *table ? *table : none;
	return CUDA_SUCCESS;
}
