/* SPDX-License-Identifier: Apache-2.0
 * The driver's private tables: functions without names, which the CUDA runtime and the libraries
 * get by cuGetExportTable (doc/cuda-driver.md has what they are).
 *
 * The tables stay the driver's own, since the runtime compares a hash of their addresses with one
 * that the driver makes; only what is in them is changed. A function that is known leads to ours,
 * any other to a jump that notes that it is called: nothing is known of what it does. The table
 * with the hash function stays as it is. After a restart the program still has the addresses of
 * the old driver's tables, so they are there again, with ours and the jumps. */
#include "shim/cuda/records/jumps.h"
#include "shim/cuda/records/listeners.h"
#include "shim/cuda/records/records.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define DEVICES 64

/* In the place of a function that a fresh driver does not have. */
static CUresult no_function(void)
{
	return CUDA_ERROR_NOT_SUPPORTED;
}
#define NO_FUNCTION ((function *)no_function)

/* ---- the tables ------------------------------------------------------------------------------ */

typedef void destructor(CUcontext context, void *key, void *value);
typedef void told_function(void *arg, CUfunction f, const char *name);

#define GATED(...) GCK_RECORD_GATED(static, __VA_ARGS__)

GATED(CUresult, primary_handle, (CUcontext *context, CUdevice device), (context, device))
GATED(void *, callbacks, (void **at, size_t *size), (at, size))
GATED(void *, more_callbacks, (void **at, size_t *size), (at, size))
GATED(CUresult, current_context, (CUcontext *context), (context))
GATED(CUresult, storage_put, (CUcontext context, void *key, void *value, destructor *end),
      (context, key, value, end))
GATED(CUresult, storage_delete, (CUcontext context, void *key, void **value),
      (context, key, value))
GATED(CUresult, storage_get, (void **value, CUcontext context, void *key),
      (value, context, key))
GATED(CUresult, check_context, (CUcontext context, uint32_t *flags, const void **about),
      (context, flags, about))
GATED(CUresult, context_id, (CUcontext context, uint32_t *id), (context, id))
GATED(uint64_t, each_function, (CUcontext context, CUmodule module, told_function *told, void *arg),
      (context, module, told, arg))
GATED(CUresult, cache_open, (void **entry, int kind, const void *key, size_t size),
      (entry, kind, key, size))
GATED(CUresult, cache_close, (void *entry), (entry))

#define OURS(slot, f) {slot, (function *)(f)}
#define HARMLESS(slot) {slot, NULL} /* it is given no handles, and keeps nothing */

static struct table {
	char id[17];
	bool has_size;  /* the first word is the size in bytes; else a NULL ends the table */
	bool untouched; /* that of the present driver */
	unsigned nknown;
	struct {
		unsigned slot;
		function *ours;
	} known[7];
	unsigned n;     /* words */
	function **at;  /* the present driver's; NULL: it was not asked for */
} tables[TABLES] = {
	[PRIMARY] = {"\x6b\xd5\xfb\x6c\x5b\xf4\xe7\x4a\x89\x87\xd9\x39\x12\xfd\x9d\xf9", true,
		     false, 1, {OURS(2, primary_handle)}},
	[CALLBACKS] = {"\xa0\x94\x79\x8c\x2e\x74\x2e\x74\x93\xf2\x08\x00\x20\x0c\x0a\x66", true,
		       false, 2, {OURS(2, callbacks), OURS(6, more_callbacks)}},
	[CURRENT] = {"\x42\xd8\x5a\x81\x23\xf6\xcb\x47\x82\x98\xf6\xe7\x8a\x3a\xec\xdc", true,
		     false, 1, {OURS(2, current_context)}},
	[STORAGE] = {"\xc6\x93\x33\x6e\x11\x21\xdf\x11\xa8\xc3\x68\xf3\x55\xd8\x95\x93", false,
		     false, 3, {OURS(0, storage_put), OURS(1, storage_delete),
				OURS(2, storage_get)}},
	[CHECKS] = {"\x26\x3e\x88\x60\x7c\xd2\x61\x43\x92\xf6\xbb\xd5\x00\x6d\xfa\x7e", true,
		    false, 2, {OURS(2, check_context), HARMLESS(3)}},
	[CONTEXT_ID] = {"\x21\x31\x8c\x60\x97\x14\x32\x48\x8c\xa6\x41\xff\x73\x24\xc8\xf2", true,
			false, 1, {OURS(4, context_id)}},
	[TOOLS] = {"\x6e\x16\x3f\xbe\xb9\x58\x44\x4d\x83\x5c\xe1\x82\xaf\xf1\x99\x1e", true,
		   false, 1, {OURS(7, each_function)}},
	[CACHE] = {"\xda\x91\x51\xd3\x3a\xe6\xcc\x41\xa5\xc0\x4f\x26\xd5\x33\xe3\x28", true,
		   false, 4, {OURS(1, cache_open), OURS(2, cache_close), HARMLESS(3),
			      HARMLESS(4)}},
	[NVML] = {"\x69\xa2\x8e\x9f\x24\x49\x8b\x47\xb0\x30\xc5\xda\x33\x0e\xa4\xe9", true,
		  false, 7, {OURS(GCK_LISTENER_MAKE, gck_record_listener_make),
			     OURS(GCK_LISTENER_DROP, gck_record_listener_drop),
			     OURS(GCK_LISTENER_BEGIN, gck_record_listener_begin),
			     OURS(GCK_LISTENER_END, gck_record_listener_end),
			     HARMLESS(GCK_LISTENERS_TIME), HARMLESS(GCK_LISTENERS_LOCK),
			     HARMLESS(GCK_LISTENERS_UNLOCK)}},
	[RUNTIME] = {"\xf8\xcf\xf9\x51\x21\x46\x8b\x4e\xb9\xe2\xfb\x46\x9e\x7c\x0d\xd9", true,
		     false, 0, {{0}}},
	[HASH] = {"\xd4\x08\x20\x55\xbd\xe6\x70\x4b\x8d\x34\xba\x12\x3c\x66\xe1\xf2", true,
		  true, 0, {{0}}},
};
static bool unknown_table; /* one that is not listed was asked for */

static bool is_known(const struct table *t, unsigned slot, function **ours)
{
	for (unsigned i = 0; i < t->nknown; i++) {
		if (t->known[i].slot == slot) {
			*ours = t->known[i].ours;
			return true;
		}
	}
	return false;
}

/* Makes memory that may be read only, or only reserved, writable. */
static int open_pages(const void *at, size_t size)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)at & -page;
	size_t length = ((uintptr_t)at + size - from + page - 1) & -page;

	if (!mprotect((void *)from, length, PROT_READ | PROT_WRITE))
		return 0;
	return mmap((void *)from, length, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == MAP_FAILED ? -1
											   : 0;
}

static unsigned words_of(const struct table *t, function *const *at)
{
	unsigned n = 0;

	if (t->has_size)
		return (unsigned)((uintptr_t)at[0] / sizeof *at);
	while (n < WORDS && at[n])
		n++;
	return n;
}

/* Leads all that is in the table to ours or to jumps. */
static int lead(struct table *t, function **at)
{
	int first = (int)(t - tables) * WORDS;

	if (open_pages(at, t->n * sizeof *at))
		return -1;
	if (t->has_size)
		at[0] = (function *)(t->n * sizeof *at);
	for (unsigned i = t->has_size; i < t->n; i++) {
		function *ours = NULL;

		is_known(t, i, &ours);
		if (gck_record_jump_to[first + (int)i])
			at[i] = ours ? ours : gck_record_jump(first + (int)i);
	}
	return 0;
}

/* The first of the known functions that an earlier driver had and this one lacks; -1: none. */
static int lost(const struct table *t)
{
	for (unsigned i = 0; i < t->nknown; i++) {
		if (gck_record_jump_to[(t - tables) * WORDS + t->known[i].slot] == NO_FUNCTION)
			return (int)t->known[i].slot;
	}
	return -1;
}

/* Takes a table of the present driver. */
static int take(struct table *t, function **at)
{
	function **to = &gck_record_jump_to[(t - tables) * WORDS];
	unsigned n = words_of(t, at), before = t->n;

	if (n > WORDS)
		return -1;
	for (unsigned i = t->has_size; i < n || i < before; i++) {
		if (i < n && at[i])
			to[i] = at[i];
		else if (to[i])
			to[i] = NO_FUNCTION;
	}
	t->at = at;
	t->n = n;
	return t->untouched ? 0 : lead(t, at);
}

static CUresult ask(struct table *t, const void **at)
{
	CUuuid id;
	CUresult rc;

	memcpy(&id, t->id, sizeof id);
	rc = gck_cuda_driver.cuGetExportTable(at, &id);
	return rc ? rc : *at ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

static gck_record_get_function *get_function;

CUresult gck_record_export_table(const void **at, const CUuuid *id, gck_record_get_function *get)
{
	CUresult rc = gck_cuda_driver.cuGetExportTable(at, id);
	struct table *t = tables;

	if (rc || !at || !*at)
		return rc;
	while (t < tables + TABLES && memcmp(t->id, id, sizeof *id))
		t++;
	gck_records_lock();
	get_function = get;
	if (t == tables + TABLES ||
	    (t->at != *at && take(t, (function **)(uintptr_t)*at)))
		unknown_table = true;
	gck_records_unlock();
	return rc;
}

/* ---- the handle of a device's primary context ------------------------------------------------ */

/* It is the same while the driver lives, also while nobody holds the context. */
static struct primary {
	uint64_t handle, now;
	unsigned age;
} primaries[DEVICES];

uint64_t gck_record_primary(uint64_t device, uint64_t now)
{
	struct primary *p = device < DEVICES ? &primaries[device] : NULL;

	if (!p)
		return now;
	if (!p->handle)
		p->handle = now;
	p->now = now;
	p->age = atomic_load(&gck_records_age);
	return p->handle;
}

/* From a fresh driver. */
static uint64_t ask_primary(CUdevice device)
{
	CUcontext context = NULL;
	const void *at;

	if (!tables[PRIMARY].at &&
	    (ask(&tables[PRIMARY], &at) || take(&tables[PRIMARY], (function **)(uintptr_t)at)))
		return 0;
	return REAL(PRIMARY, 2, primary_handle)(&context, device) ? 0 : (uintptr_t)context;
}

uint64_t gck_record_primary_of(uint64_t now)
{
	for (int i = 0; i < DEVICES; i++) {
		if (primaries[i].handle && primaries[i].now == now &&
		    primaries[i].age == atomic_load(&gck_records_age))
			return primaries[i].handle;
	}
	return 0;
}

uint64_t gck_record_primary_now(uint64_t handle)
{
	for (int i = 0; handle && i < DEVICES; i++) {
		struct primary *p = &primaries[i];
		uint64_t now = p->now;

		if (p->handle != handle)
			continue;
		if (p->age != atomic_load(&gck_records_age))
			now = ask_primary(i);
		if (!now)
			return handle;
		gck_record_primary((uint64_t)i, now);
		return now;
	}
	return handle;
}

static CUresult primary_handle_inside(CUcontext *context, CUdevice device)
{
	CUresult rc;

	gck_record_enter();
	rc = REAL(PRIMARY, 2, primary_handle)(context, device);
	gck_records_lock();
	if (!rc)
		*context = (CUcontext)(uintptr_t)gck_record_primary((uint64_t)device,
								    (uintptr_t)*context);
	gck_records_unlock();
	return rc;
}

/* ---- functions that are given contexts ------------------------------------------------------- */

static CUcontext now_of(CUcontext context)
{
	return (CUcontext)(uintptr_t)gck_now(GCK_RECORD_CONTEXT, (uintptr_t)context);
}

static CUresult current_context_inside(CUcontext *context)
{
	const struct gck_record *r;
	uint64_t handle = 0;
	CUresult rc;

	gck_record_enter();
	rc = REAL(CURRENT, 2, current_context)(context);
	gck_records_lock();
	r = rc ? NULL : gck_record_find_now(GCK_RECORD_CONTEXT, (uintptr_t)*context);
	if (!rc)
		handle = r ? r->handle : gck_record_primary_of((uintptr_t)*context);
	if (handle)
		*context = (CUcontext)(uintptr_t)handle;
	gck_records_unlock();
	return rc;
}

static CUresult check_context_inside(CUcontext context, uint32_t *flags, const void **about)
{
	gck_record_enter();
	return REAL(CHECKS, 2, check_context)(now_of(context), flags, about);
}

static CUresult context_id_inside(CUcontext context, uint32_t *id)
{
	gck_record_enter();
	return REAL(CONTEXT_ID, 4, context_id)(now_of(context), id);
}

/* ---- the functions of a module --------------------------------------------------------------- */

struct functions {
	CUfunction *v;
	size_t n;
};

static void add_function(void *arg, CUfunction f, const char *name)
{
	struct functions *all = arg;

	(void)name;
	all->v = realloc(all->v, (all->n + 1) * sizeof *all->v);
	if (!all->v)
		abort();
	all->v[all->n++] = f;
}

/* Each is recorded as one that the program has asked for by its name. The driver may have a lock
 * while it tells them. */
static uint64_t each_function_inside(CUcontext context, CUmodule module, told_function *told,
				     void *arg)
{
	CUmodule now = (CUmodule)(uintptr_t)gck_now(GCK_RECORD_MODULE, (uintptr_t)module);
	struct functions all = {0};
	uint64_t n;

	gck_record_enter();
	n = REAL(TOOLS, 7, each_function)(now_of(context), now, add_function, &all);
	for (size_t i = 0; i < all.n; i++) {
		CUfunction f = all.v[i];
		const char *name;

		if (!gck_cuda_driver.cuFuncGetName(&name, f) && !get_function(&f, module, name))
			told(arg, f, gck_record_text(name));
	}
	free(all.v);
	return n;
}

/* ---- what programs keep beside a context ----------------------------------------------------- */

struct gck_record_storage {
	struct gck_record_storage *next;
	void *key, *value;
	destructor *end;
};

static struct gck_record *context_of(CUcontext context)
{
	return context ? gck_record_find(GCK_RECORD_CONTEXT, (uintptr_t)context)
		       : gck_record_current();
}

static struct gck_record_storage **find_storage(struct gck_record *context, const void *key)
{
	struct gck_record_storage **at = &context->storage;

	while (*at && (*at)->key != key)
		at = &(*at)->next;
	return at;
}

static void drop_storage(struct gck_record_storage **at)
{
	struct gck_record_storage *s = *at;

	if (s)
		*at = s->next;
	free(s);
}

void gck_record_storage_forget(struct gck_record *context)
{
	while (context->storage)
		drop_storage(&context->storage);
}

/* A fresh driver calls it with its own handle. */
static void translated_end(CUcontext context, void *key, void *value)
{
	destructor *end = NULL;
	struct gck_record *r;

	gck_records_lock();
	r = gck_record_find_now(GCK_RECORD_CONTEXT, (uintptr_t)context);
	if (r && *find_storage(r, key)) {
		end = (*find_storage(r, key))->end;
		context = (CUcontext)(uintptr_t)r->handle;
	}
	gck_records_unlock();
	if (end)
		end(context, key, value);
}

static CUresult put(CUcontext now, void *key, void *value, destructor *end)
{
	return REAL(STORAGE, 0, storage_put)(
		now, key, value, end && atomic_load(&gck_records_age) ? translated_end : end);
}

static CUresult storage_put_inside(CUcontext context, void *key, void *value, destructor *end)
{
	struct gck_record_storage *s;
	struct gck_record *r;
	CUresult rc;

	gck_record_enter();
	rc = put(now_of(context), key, value, end);
	if (rc)
		return rc;
	s = malloc(sizeof *s);
	if (!s)
		abort();
	gck_records_lock();
	r = context_of(context);
	if (r) {
		drop_storage(find_storage(r, key));
		*s = (struct gck_record_storage){r->storage, key, value, end};
		r->storage = s;
	} else {
		free(s); /* of a context of others */
	}
	gck_records_unlock();
	return rc;
}

static CUresult storage_delete_inside(CUcontext context, void *key, void **value)
{
	struct gck_record *r;
	CUresult rc;

	gck_record_enter();
	rc = REAL(STORAGE, 1, storage_delete)(now_of(context), key, value);
	gck_records_lock();
	r = rc ? NULL : context_of(context);
	if (r)
		drop_storage(find_storage(r, key));
	gck_records_unlock();
	return rc;
}

static CUresult storage_get_inside(void **value, CUcontext context, void *key)
{
	gck_record_enter();
	return REAL(STORAGE, 2, storage_get)(value, now_of(context), key);
}

CUresult gck_record_storage_again(const struct gck_record *context)
{
	CUresult rc = CUDA_SUCCESS;

	for (const struct gck_record_storage *s = context->storage; s && !rc; s = s->next)
		rc = put((CUcontext)(uintptr_t)context->now, s->key, s->value, s->end);
	return rc;
}

/* ---- the driver's memory that the runtime reads ---------------------------------------------- */

static struct buffer {
	void *at;
	size_t size;
	void *content;
} buffers[2];

/* The size is told as a number of words of 4 bytes. */
static void *see_buffer(struct buffer *b, void *r, void *const *at, const size_t *size)
{
	gck_records_lock();
	b->at = *at;
	b->size = *size * sizeof(uint32_t);
	gck_records_unlock();
	return r;
}

static void *callbacks_inside(void **at, size_t *size)
{
	return see_buffer(&buffers[0], REAL(CALLBACKS, 2, callbacks)(at, size), at, size);
}

static void *more_callbacks_inside(void **at, size_t *size)
{
	return see_buffer(&buffers[1], REAL(CALLBACKS, 6, more_callbacks)(at, size), at, size);
}

/* ---- the cache of compiled programs ---------------------------------------------------------- */

static _Atomic int entries;

static CUresult cache_open_inside(void **entry, int kind, const void *key, size_t size)
{
	CUresult rc = REAL(CACHE, 1, cache_open)(entry, kind, key, size);

	entries += !rc;
	return rc;
}

static CUresult cache_close_inside(void *entry)
{
	CUresult rc = REAL(CACHE, 2, cache_close)(entry);

	entries -= !rc;
	return rc;
}

/* ---- checkpoint and restart ------------------------------------------------------------------ */

/* The beginning of a table's id. */
static const char *id_text(const struct table *t, char text[9])
{
	for (int k = 0; k < 4; k++)
		snprintf(text + 2 * k, 3, "%02x", (unsigned char)t->id[k]);
	return text;
}

const char *gck_record_private_unable(void)
{
	static char text[96];
	char id[9];
	function *ours;

	for (int i = 0; i < TABLES * WORDS; i++) {
		const struct table *t = &tables[i / WORDS];

		if (!gck_record_jump_used[i] || is_known(t, (unsigned)i % WORDS, &ours))
			continue;
		snprintf(text, sizeof text, "function %d of the driver's private table %s",
			 i % WORDS, id_text(t, id));
		return text;
	}
	if (unknown_table)
		return "a private table of the driver that is not known";
	return entries ? "an open entry of the driver's cache of compiled programs"
		       : gck_record_listeners_unable();
}

int gck_record_private_save(struct gck_error *err)
{
	for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) {
		struct buffer *b = &buffers[i];
		void *content = realloc(b->content, b->size + 1);

		if (!content)
			return gck_fail(err, ENOMEM, "no memory for what the runtime reads");
		b->content = content;
		memcpy(content, b->at ? b->at : "", b->size);
	}
	return 0;
}

static int keep_buffer(const struct buffer *b)
{
	if (!b->at)
		return 0;
	if (open_pages(b->at, b->size))
		return -1;
	memcpy(b->at, b->content, b->size);
	return 0;
}

int gck_record_private_keep(struct gck_error *err)
{
	int failed = 0;

	for (int i = 0; i < TABLES; i++)
		failed |= tables[i].at ? lead(&tables[i], tables[i].at) : 0;
	for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
		failed |= keep_buffer(&buffers[i]);
	return failed ? gck_fail(err, errno, "no memory where the driver's private tables were")
		      : 0;
}

static int table_again(struct table *t, struct gck_error *err)
{
	const void *at;
	char id[9];

	if (ask(t, &at) || take(t, (function **)(uintptr_t)at))
		return gck_fail(err, EIO, "the fresh driver has no private table %s",
				id_text(t, id));
	if (lost(t) >= 0)
		return gck_fail(err, ENOTSUP,
				"the fresh driver's private table %s lacks function %d: restart "
				"the job where the driver is that of before, or a later one",
				id_text(t, id), lost(t));
	return 0;
}

int gck_record_private_again(struct gck_error *err)
{
	for (int i = 0; i < TABLES; i++) {
		if (tables[i].at && table_again(&tables[i], err))
			return -1;
	}
	return gck_record_listeners_again(err);
}
