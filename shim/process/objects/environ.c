/* SPDX-License-Identifier: Apache-2.0
 * Restore: the environment, in two places.
 *
 * The program's environment (getenv): the launcher's variables come from the new task, all others
 * stay the program's, and a variable that the program has unset stays unset. The launcher's
 * variables lie in a mapping of their own (environ_slots.h), followed by the program's new list of
 * pointers. A restart reuses the mapping of the previous restart. If that is too small it makes
 * another and leaves the old one, since the program may hold pointers into it.
 *
 * The initial environment, as exec left it on the stack: a preload's constructor learns from some
 * of its variables that it is in a rank. They name the first task's PID and link. The new task's
 * are written over them, for programs that the rank executes later. */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "common/base/environ_slots.h"
#include "common/base/launcher_env.h"
#include "shim/process/objects/objects.h"
#include "shim/process/proc/procfs.h"

#define ENTRIES_MAX 65536u
#define ENTRY_MAX (128u << 10)  /* a longer one is left as it is */
#define INITIAL_MAX (8u << 20)
#define LIST_SPARE 64u          /* spare entries, for more variables at the next restart */

struct entries {
	uint64_t *v;  /* addresses in the process */
	size_t n, capacity;
};

/* The program's environment before the restart. */
struct before {
	struct entries list; /* the list that `environ` points to */
	char **texts;        /* copies of the strings; NULL: unreadable, or too long for a variable
			      * of the launcher */
	char *initial;       /* environment of the last start; NULL: unknown */
	size_t initial_size;
};

static int add(struct entries *e, uint64_t address, struct gck_error *err)
{
	if (e->n == e->capacity) {
		size_t capacity = e->capacity ? e->capacity * 2 : 256;
		uint64_t *v = realloc(e->v, capacity * sizeof *v);

		if (!v)
			return gck_fail(err, ENOMEM, "no memory for the environment");
		e->v = v;
		e->capacity = capacity;
	}
	e->v[e->n++] = address;
	return 0;
}

/* ---- reading the program's environment ----------------------------------------------------- */

/* The page of the process that was read last: what is read mostly lies together. */
struct page {
	uint64_t at; /* 0: none */
	char bytes[GCK_PAGE];
};

/* The byte at this address and those that follow in its page. NULL: it cannot be read. */
static const char *look(const struct gck_restore *r, struct page *p, uint64_t at)
{
	uint64_t start = at / GCK_PAGE * GCK_PAGE;

	if (p->at != start && gck_remote_read(&r->remote, start, p->bytes, GCK_PAGE, NULL)) {
		p->at = 0;
		return NULL;
	}
	p->at = start;
	return p->bytes + (at - start);
}

/* A string of the process. NULL: it cannot be read, or is too long for a variable of the
 * launcher. */
static char *read_entry(const struct gck_restore *r, struct page *p, uint64_t at)
{
	size_t n = 0, size, length;
	char *text = NULL;

	do {
		const char *from = look(r, p, at + n);
		char *more;

		size = GCK_PAGE - (at + n) % GCK_PAGE;
		length = from ? strnlen(from, size) : 0;
		more = from ? realloc(text, n + length + 1) : NULL;
		if (!more)
			break;
		text = more;
		memcpy(text + n, from, length);
		n += length;
		text[n] = '\0';
		if (length < size)
			return text;
	} while (n < ENTRY_MAX);
	free(text);
	return NULL;
}

/* Read the list that `environ` points to, which is aligned; a program may have emptied it. */
static int read_list(const struct gck_restore *r, uint64_t at, struct page *p, struct entries *e,
		     struct gck_error *err)
{
	uint64_t list, entry;

	if (gck_remote_read(&r->remote, at, &list, sizeof list, err))
		return gck_fail_in(err, "environ");
	for (size_t i = 0; list && list % sizeof entry == 0 && i < ENTRIES_MAX; i++) {
		const char *from = look(r, p, list + i * sizeof entry);

		if (!from)
			break;
		memcpy(&entry, from, sizeof entry);
		if (!entry)
			break;
		if (add(e, entry, err))
			return -1;
	}
	return 0;
}

/* The environment of the last start: a restart's, or the first start's. */
static char *read_initial(const struct gck_restore *r, const struct gck_shim_state *s, size_t *size)
{
	uint64_t at = s->environment ? s->environment : r->img->env_start;
	char *text;

	*size = s->environment ? s->environment_size : r->img->env_end - r->img->env_start;
	if (!*size || *size > INITIAL_MAX)
		return NULL;
	text = malloc(*size);
	if (text && gck_remote_read(&r->remote, at, text, *size, NULL)) {
		free(text);
		text = NULL;
	}
	return text;
}

static int read_texts(const struct gck_restore *r, struct page *p, struct before *b,
		      struct gck_error *err)
{
	b->texts = calloc(b->list.n + 1, sizeof *b->texts);
	if (!b->texts)
		return gck_fail(err, ENOMEM, "no memory for the environment");
	for (size_t i = 0; i < b->list.n; i++)
		b->texts[i] = read_entry(r, p, b->list.v[i]);
	return 0;
}

static int read_before(const struct gck_restore *r, const struct gck_shim_state *s,
		       struct before *b, struct gck_error *err)
{
	struct page p = {.at = 0};

	if (read_list(r, s->environ_at, &p, &b->list, err) || read_texts(r, &p, b, err))
		return -1;
	b->initial = read_initial(r, s, &b->initial_size);
	return 0;
}

static void drop_before(struct before *b)
{
	for (size_t i = 0; b->texts && i < b->list.n; i++)
		free(b->texts[i]);
	free(b->texts);
	free(b->list.v);
	free(b->initial);
}

/* ---- the new environment ------------------------------------------------------------------- */

/* The value of this variable at the last start. */
static const char *value_before(const struct before *b, const char *entry)
{
	return b->initial ? gck_slots_find(b->initial, b->initial_size, entry) : NULL;
}

/* Whether the new task's variable replaces this one: always for the launcher's own; for offers,
 * only if the program has not changed it. */
static bool is_replaced(const struct before *b, const char *text)
{
	const char *was = text ? value_before(b, text) : NULL;

	return text && (gck_launcher_owns(text) ||
			(gck_launcher_default(text) && was && !strcmp(was, text)));
}

/* The program's variable of that name; NULL: none. */
static const char *own(const struct before *b, const char *entry)
{
	for (size_t i = 0; i < b->list.n; i++)
		if (b->texts[i] && !strncmp(b->texts[i], entry, strcspn(entry, "=") + 1))
			return b->texts[i];
	return NULL;
}

static bool is_wanted(const struct before *b, const char *entry)
{
	const char *had = own(b, entry);

	return had ? is_replaced(b, had) : !value_before(b, entry);
}

/* Make the new list; the slots will lie at `at`. */
static int make_list(const struct before *b, const struct gck_slots *slots, uint64_t at,
		     struct entries *list, struct gck_error *err)
{
	const char *entry;

	for (size_t i = 0; i < b->list.n; i++)
		if (!is_replaced(b, b->texts[i]) && add(list, b->list.v[i], err))
			return -1;
	for (size_t next = 0; (entry = gck_slots_next(slots->text, slots->used, &next, NULL));)
		if (is_wanted(b, entry) && add(list, at + (uint64_t)(entry - slots->text), err))
			return -1;
	return add(list, 0, err);
}

/* ---- the mapping --------------------------------------------------------------------------- */

/* The list follows after the slots' capacity. */
static uint64_t list_at(const struct gck_shim_state *s)
{
	return s->environment + s->environment_capacity;
}

static int put(struct gck_restore *r, const struct gck_shim_state *s, const struct gck_slots *slots,
	       const struct entries *list, struct gck_error *err)
{
	uint64_t at = list_at(s);

	if (gck_remote_write(&r->remote, s->environment, slots->text, slots->used, err) ||
	    gck_remote_write(&r->remote, at, list->v, list->n * sizeof *list->v, err) ||
	    gck_remote_write(&r->remote, s->environ_at, &at, sizeof at, err))
		return gck_fail_in(err, "the environment");
	return 0;
}

static int map(struct gck_restore *r, struct gck_shim_state *s, size_t capacity, size_t entries,
	       struct gck_error *err)
{
	size_t size = (capacity + entries * sizeof(uint64_t) + GCK_PAGE - 1) / GCK_PAGE * GCK_PAGE;
	int64_t at = gck_remote_call(&r->remote, r->remote.pid, err, SYS_mmap, 0, size,
				     PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				     (uint64_t)-1, 0);

	if (at == -ESRCH)
		return -1;
	if (at < 0 && at > -4096)
		return gck_fail(err, (int)-at, "no memory for the environment: %s",
				strerror((int)-at));
	s->environment = (uint64_t)at;
	s->environment_capacity = capacity;
	s->environment_list = (size - capacity) / sizeof(uint64_t);
	return 0;
}

/* Reuse the slots of the previous restart, if the new variables fit. */
static int reuse(const struct gck_restore *r, const struct gck_shim_state *s,
		 const struct before *b, struct gck_slots *slots)
{
	if (!s->environment_capacity || !b->initial || s->environment_capacity > INITIAL_MAX ||
	    b->initial_size > s->environment_capacity)
		return -1;
	slots->text = calloc(1, s->environment_capacity);
	if (!slots->text)
		return -1;
	memcpy(slots->text, b->initial, b->initial_size);
	slots->used = b->initial_size;
	slots->capacity = s->environment_capacity;
	return gck_slots_fill(slots, r->environment, r->environment_size);
}

static int make_slots(struct gck_restore *r, struct gck_shim_state *s, const struct before *b,
		      struct gck_slots *slots, struct gck_error *err)
{
	size_t capacity = (gck_slots_capacity(r->environment, r->environment_size) + 7) / 8 * 8;

	free(slots->text);
	*slots = (struct gck_slots){.text = calloc(1, capacity), .capacity = capacity};
	if (!slots->text || gck_slots_fill(slots, r->environment, r->environment_size))
		return gck_fail(err, ENOMEM, "no memory for the environment");
	/* the slots add at most one entry for each 16 bytes */
	return map(r, s, capacity, b->list.n + capacity / 16 + LIST_SPARE, err);
}

static int replace(struct gck_restore *r, struct gck_shim_state *s, const struct before *b,
		   struct gck_error *err)
{
	struct gck_slots slots = {NULL};
	struct entries list = {0};
	int rc = 0;

	if (reuse(r, s, b, &slots) || b->list.n + slots.used / 16 + 1 > s->environment_list)
		rc = make_slots(r, s, b, &slots, err);
	if (!rc)
		rc = make_list(b, &slots, s->environment, &list, err) ||
		     put(r, s, &slots, &list, err) ? -1 : 0;
	s->environment_size = slots.used;
	free(slots.text);
	free(list.v);
	return rc;
}

/* At its end perl frees each entry of a list that is not the one that it began with. */
static bool frees_entries(const struct gck_image *img)
{
	for (size_t i = 0; i < img->nmaps; i++) {
		const char *slash = strrchr(img->maps[i].name, '/');

		if (slash && (!strncmp(slash, "/libperl.so", 11) || !strncmp(slash, "/perl", 5)))
			return true;
	}
	return false;
}

int gck_restore_environ(struct gck_restore *r, struct gck_shim_state *s, struct gck_error *err)
{
	struct before b = {.texts = NULL};
	int rc;

	if (frees_entries(r->img) || !s->environ_at || !r->environment || !r->environment_size)
		return 0;
	rc = read_before(r, s, &b, err);
	if (!rc)
		rc = replace(r, s, &b, err);
	drop_before(&b);
	return rc;
}

/* ---- the initial environment --------------------------------------------------------------- */

/* Not GPUCKPT_RESTARTS: with the image's value an exec is not taken for a restart. */
static const char *const identity[] = {"GPUCKPT_PID=", "GPUCKPT_LINK=", "GPUCKPT_STDIO="};

void gck_restore_note_environment(struct gck_restore *r)
{
	free(r->environment);
	r->environment = gck_proc_read(r->proc, "environ", &r->environment_size, NULL);
}

/* The entry "NAME=value" among NUL-terminated entries, at or after `from`; NULL: none. */
static char *find_entry(char *entries, size_t size, size_t from, const char *name)
{
	for (size_t at = from, n; at < size; at += n + 1) {
		n = strnlen(entries + at, size - at);
		if (at + n < size && !strncmp(entries + at, name, strlen(name)))
			return entries + at;
	}
	return NULL;
}

static int replace_initial(struct gck_restore *r, char *old, size_t size, const char *name,
		   struct gck_error *err)
{
	const char *new = find_entry(r->environment, r->environment_size, 0, name);
	size_t length = new ? strlen(new) : 0;
	char *at = new ? find_entry(old, size, 0, name) : NULL;

	for (; at; at = find_entry(old, size, (size_t)(at - old) + length + 1, name)) {
		if (strlen(at) != length)
			return 0;
		if (gck_remote_write(&r->remote, r->img->env_start + (uint64_t)(at - old), new,
				     length, err))
			return gck_fail_in(err, "the environment's %s", name);
	}
	return 0;
}

int gck_restore_environment(struct gck_restore *r, struct gck_error *err)
{
	uint64_t size = r->img->env_end - r->img->env_start;
	char *old;
	int failed = 0;

	if (!r->environment || r->img->env_end <= r->img->env_start || size > INITIAL_MAX)
		return 0;
	old = malloc(size);
	if (!old)
		return gck_fail(err, ENOMEM, "no memory for the environment");
	/* a program may have moved it (prctl) and unmapped this */
	if (!gck_remote_read(&r->remote, r->img->env_start, old, size, NULL))
		for (size_t i = 0; i < sizeof identity / sizeof identity[0] && !failed; i++)
			failed = replace_initial(r, old, size, identity[i], err);
	free(old);
	return failed;
}
