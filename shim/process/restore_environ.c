/* SPDX-License-Identifier: Apache-2.0
 * Restore: what getenv tells the program. Variables that the launcher sets are the new task's, all
 * others stay as the program had them. The new task's environment is put into a mapping of its own,
 * with the program's new list of pointers behind it; strings that the program may hold pointers to
 * stay where they are, also those of earlier restarts. */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "common/launcher.h"
#include "shim/process/restore.h"

#define ENTRIES_MAX 65536u
#define ENTRY_MAX (128u << 10)  /* one that is longer stays */
#define PIECE 256u
#define INITIAL_MAX (8u << 20)

struct entries {
	uint64_t *v;  /* addresses in the process */
	size_t n, room;
};

static int add(struct entries *e, uint64_t address, struct gck_error *err)
{
	if (e->n == e->room) {
		size_t room = e->room ? e->room * 2 : 256;
		uint64_t *v = realloc(e->v, room * sizeof *v);

		if (!v)
			return gck_fail(err, ENOMEM, "no memory for the environment");
		e->v = v;
		e->room = room;
	}
	e->v[e->n++] = address;
	return 0;
}

/* ---- what the program has ------------------------------------------------------------------- */

/* A string of the process's; NULL: there is none, or it is too long for one of the launcher's. */
static char *read_entry(const struct gck_restore *r, uint64_t at)
{
	char *text = NULL;

	for (size_t n = 0; n < ENTRY_MAX; n += PIECE) {
		/* never over a page's end: the next may not be there */
		size_t size = PIECE - (at + n) % PIECE;
		char *more = realloc(text, n + PIECE + 1);

		if (more)
			text = more;
		if (!more || gck_remote_read(&r->remote, at + n, text + n, size, NULL))
			break;
		if (memchr(text + n, '\0', size))
			return text;
		n -= PIECE - size;
	}
	free(text);
	return NULL;
}

/* The list that `environ` points at; a program may have emptied it. */
static int read_list(const struct gck_restore *r, uint64_t at, struct entries *e,
		     struct gck_error *err)
{
	uint64_t list, entry;

	if (gck_remote_read(&r->remote, at, &list, sizeof list, err))
		return gck_fail_in(err, "environ");
	for (size_t i = 0; list && i < ENTRIES_MAX; i++) {
		if (gck_remote_read(&r->remote, list + i * sizeof entry, &entry, sizeof entry, NULL) ||
		    !entry)
			break;
		if (add(e, entry, err))
			return -1;
	}
	return 0;
}

/* The environment that the last start was given: a restart's, or the first one's. */
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

/* ---- what it gets --------------------------------------------------------------------------- */

static bool has(const char *entries, size_t size, const char *entry)
{
	for (size_t at = 0, n; at < size; at += n + 1) {
		n = strnlen(entries + at, size - at);
		if (at + n < size && !strcmp(entries + at, entry))
			return true;
	}
	return false;
}

static size_t name_length(const char *entry)
{
	return strcspn(entry, "=") + 1;
}

/* Does an entry that stays have this one's name? */
static bool is_kept(char *const *kept, size_t n, const char *entry)
{
	for (size_t i = 0; i < n; i++)
		if (kept[i] && !strncmp(kept[i], entry, name_length(entry)))
			return true;
	return false;
}

/* Take out what the new task's stands for. kept[i]: the text of what the launcher offers and the
 * program has changed, NULL for all else. */
static void keep(const struct gck_restore *r, const struct gck_shim_state *s, struct entries *e,
		 char **kept)
{
	size_t initial_size, n = 0;
	char *initial = read_initial(r, s, &initial_size);

	for (size_t i = 0; i < e->n; i++) {
		char *text = read_entry(r, e->v[i]);
		bool offered = text && gck_launcher_offers(text);

		if (text && (gck_launcher_sets(text) ||
			     (offered && initial && has(initial, initial_size, text)))) {
			free(text);
			continue;
		}
		kept[n] = offered ? text : NULL;
		e->v[n++] = e->v[i];
		if (!offered)
			free(text);
	}
	e->n = n;
	free(initial);
}

/* The new task's entries, which will lie at `at`. */
static int add_new(const struct gck_restore *r, uint64_t at, struct entries *e, char *const *kept,
		   struct gck_error *err)
{
	size_t nkept = e->n;

	for (size_t i = 0, n; i < r->environment_size; i += n + 1) {
		const char *entry = r->environment + i;

		n = strnlen(entry, r->environment_size - i);
		if (i + n >= r->environment_size || !memchr(entry, '=', n))
			continue;
		if ((gck_launcher_sets(entry) ||
		     (gck_launcher_offers(entry) && !is_kept(kept, nkept, entry))) &&
		    add(e, at + i, err))
			return -1;
	}
	return 0;
}

/* ---- the mapping ---------------------------------------------------------------------------- */

static int put(struct gck_restore *r, const struct gck_shim_state *s, uint64_t at,
	       const struct entries *e, struct gck_error *err)
{
	uint64_t list = at + (r->environment_size + 7) / 8 * 8;

	if (gck_remote_write(&r->remote, at, r->environment, r->environment_size, err) ||
	    gck_remote_write(&r->remote, list, e->v, e->n * sizeof *e->v, err) ||
	    gck_remote_write(&r->remote, s->environ_at, &list, sizeof list, err))
		return gck_fail_in(err, "the environment");
	return 0;
}

static int64_t map(struct gck_restore *r, size_t size, struct gck_error *err)
{
	int64_t at = gck_remote_call(&r->remote, r->remote.pid, err, SYS_mmap, 0, size,
				     PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				     (uint64_t)-1, 0);

	if (at < 0 && at > -4096)
		gck_fail(err, (int)-at, "no memory for the environment: %s", strerror((int)-at));
	return at;
}

static int replace(struct gck_restore *r, struct gck_shim_state *s, struct entries *e, char **kept,
		   struct gck_error *err)
{
	size_t most = e->n + r->environment_size / 2 + 2; /* entries */
	int64_t at;

	keep(r, s, e, kept);
	at = map(r, r->environment_size + 8 + most * sizeof *e->v, err);
	if ((at < 0 && at > -4096) || add_new(r, (uint64_t)at, e, kept, err) || add(e, 0, err) ||
	    put(r, s, (uint64_t)at, e, err))
		return -1;
	s->environment = (uint64_t)at;
	s->environment_size = r->environment_size;
	return 0;
}

int gck_restore_environ(struct gck_restore *r, struct gck_shim_state *s, struct gck_error *err)
{
	struct entries e = {0};
	char **kept;
	size_t n;
	int rc;

	if (!s->environ_at || !r->environment || !r->environment_size) {
		s->environment = s->environment_size = 0;
		return 0;
	}
	rc = read_list(r, s->environ_at, &e, err);
	n = e.n;
	kept = rc ? NULL : calloc(n + 1, sizeof *kept);
	if (!rc && !kept)
		rc = gck_fail(err, ENOMEM, "no memory for the environment");
	if (!rc)
		rc = replace(r, s, &e, kept, err);
	for (size_t i = 0; kept && i < n; i++)
		free(kept[i]);
	free(kept);
	free(e.v);
	return rc;
}
