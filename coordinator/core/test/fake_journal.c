/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/core/test/fake_journal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "coordinator/core/agents/epoch.h"
#include "coordinator/core/model/journal.h"
#include "coordinator/core/model/record.h"

static char dir[64], path[80];

static void remove_dir(void)
{
	unlink(path);
	rmdir(dir);
}

/* One for the whole program: worlds follow each other. */
static void make_dir(void)
{
	if (*dir)
		return;
	snprintf(dir, sizeof dir, "%s/gck-world-XXXXXX",
		 access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
	if (!mkdtemp(dir)) {
		printf("Bail out! no directory for a journal: %s\n", strerror(errno));
		exit(1);
	}
	snprintf(path, sizeof path, "%s/journal", dir);
	atexit(remove_dir);
}

/* ---- its bytes ----------------------------------------------------------------------------- */

static void add(struct fake_journal *j, const json_t *record)
{
	size_t size = 0;
	char *line = gck_journal_line(record, &size);

	if (j->size + size > j->capacity) {
		j->capacity = 2 * (j->size + size);
		j->text = realloc(j->text, j->capacity);
	}
	memcpy(j->text + j->size, line, size);
	j->size += size;
	free(line);
}

static void cut(struct fake *f, size_t from)
{
	struct fake_journal *j = &f->journal;

	j->size = from + f->random(f, (unsigned)(j->size - from) + 1);
}

static void assign(struct fake_journal *to, const struct fake_journal *from)
{
	free(to->text);
	*to = *from;
	to->capacity = from->size;
	to->text = malloc(from->size + 1);
	if (from->size)
		memcpy(to->text, from->text, from->size);
}

static void clear(struct fake_journal *j)
{
	free(j->text);
	*j = (struct fake_journal){0};
}

/* ---- a coordinator's life ------------------------------------------------------------------ */

static int take(void *arg, const json_t *record, struct gck_error *err)
{
	return gck_record_apply(arg, record, err);
}

static void write_file(struct fake *f)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0 || write(fd, f->journal.text, f->journal.size) != (ssize_t)f->journal.size)
		fake_wrong(f, "the journal cannot be written: %s", strerror(errno));
	close(fd);
}

static void read_back(struct fake *f)
{
	struct gck_error err = {0};
	struct gck_journal *j;
	bool torn;

	make_dir();
	write_file(f);
	j = gck_journal_open(dir, take, &f->core.state, &torn, &err);
	if (!j)
		fake_wrong(f, "the journal cannot be read back: %s", err.text);
	gck_journal_close(j);
}

void fake_journal_start(struct fake *f, bool current)
{
	struct gck_error err = {0};

	f->journal_fails = false; /* gpuckptd does not start without space */
	read_back(f);
	gck_epoch_begin(&f->core, current);
	if (f->core.world->rewrite(&f->core, &err))
		fake_wrong(f, "the journal cannot be written anew: %s", err.text);
}

void fake_journal_end(struct fake *f)
{
	clear(&f->journal);
	clear(&f->copy);
}

/* ---- what the core calls ------------------------------------------------------------------- */

/* The coordinator dies in the middle of a record. */
static int die(struct fake *f, size_t before)
{
	f->dead = true;
	cut(f, before);
	return 0;
}

int fake_journal_append(struct gck_core *core, const json_t *record, bool sync,
			struct gck_error *err)
{
	struct fake *f = (struct fake *)core;
	size_t before = f->journal.size;

	f->syncs += sync;
	if (f->dead)
		return 0;
	f->journal_broken |= f->journal_fails;
	if (f->journal_broken)
		return gck_fail(err, ENOSPC, "the journal is full");
	add(&f->journal, record);
	if (f->dies && --f->dies == 0)
		return die(f, before);
	if (sync)
		f->journal.on_disk = f->journal.size;
	fake_noted(f, record, sync);
	return 0;
}

int fake_journal_rewrite(struct gck_core *core, struct gck_error *err)
{
	struct fake *f = (struct fake *)core;
	json_t *record;
	size_t i;

	if (f->dead)
		return 0;
	if (f->journal_fails)
		return gck_fail(err, ENOSPC, "the journal is full");
	json_decref(f->records);
	f->records = gck_state_dump(&core->state);
	f->journal.size = 0;
	json_array_foreach(f->records, i, record)
		add(&f->journal, record);
	f->journal.on_disk = f->journal.size;
	f->journal_broken = false;
	return 0;
}

/* ---- while no coordinator runs ------------------------------------------------------------- */

void fake_journal_copy(struct fake *f)
{
	assign(&f->copy, &f->journal);
}

void fake_journal_put_back(struct fake *f)
{
	if (f->copy.text)
		assign(&f->journal, &f->copy);
}

/* Nobody puts back a copy from before that: its numbers may have been given again. */
void fake_journal_remove(struct fake *f)
{
	fake_journal_end(f);
}

void fake_journal_lose_tail(struct fake *f)
{
	cut(f, f->journal.on_disk);
}
