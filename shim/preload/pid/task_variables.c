/* SPDX-License-Identifier: Apache-2.0
 * The environment variables of one start of a task, in a process that executes a program: those of
 * the plugin, and the launcher's. After a restart a shell, or Python, still has those of before. */
#include "config.h"

#include <string.h>
#include <sys/stat.h>

#include "common/base/control.h"
#include "common/base/environ_slots.h"
#include "common/base/launcher_env.h"
#include "shim/preload/pid/pid.h"
#include "shim/preload/pid/virtual_ids.h"

/* ---- standard descriptors ------------------------------------------------------------------ */

/* The task's descriptors 0 to 2, by device and inode. A shell that starts the program by exec may
 * have put its own files there. So the first constructor writes what it finds over the dots that
 * the plugin put into GPUCKPT_STDIO, and a later one reads it: 16 hexadecimal digits, a colon, 16
 * digits, a comma; three times. */
#define DIGITS 16
#define FIELDS 6
#define FIELD (DIGITS + 1)

static void put_hex(char *text, uint64_t n)
{
	for (int i = DIGITS - 1; i >= 0; i--, n >>= 4)
		text[i] = "0123456789abcdef"[n & 15];
}

static uint64_t get_hex(const char *text)
{
	uint64_t n = 0;

	for (int i = 0; i < DIGITS; i++)
		n = n << 4 | (uint64_t)(text[i] <= '9' ? text[i] - '0' : text[i] - 'a' + 10);
	return n;
}

static void put_stdio(char *text, const uint64_t stdio[3][2])
{
	for (int i = 0; i < FIELDS; i++) {
		put_hex(text + i * FIELD, stdio[i / 2][i % 2]);
		text[i * FIELD + DIGITS] = i % 2 ? ',' : ':';
	}
}

static bool is_whole(const char *text)
{
	for (int i = 0; i < FIELDS * FIELD; i++) {
		char c = text[i];

		if (i % FIELD == DIGITS ? c != (i / FIELD % 2 ? ',' : ':') :
		    !((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')))
			return false;
	}
	return text[FIELDS * FIELD] == '\0';
}

static bool is_blank(const char *text)
{
	int i = 0;

	while (text[i] == '.')
		i++;
	return i == FIELDS * FIELD && !text[i];
}

static void look(uint64_t stdio[3][2])
{
	struct stat st;

	for (int fd = 0; fd < 3; fd++) {
		bool open = gck_raw(SYS_fstat, fd, &st) == 0;

		stdio[fd][0] = open ? st.st_dev : 0;
		stdio[fd][1] = open ? st.st_ino : 0;
	}
}

void gck_stdio_find(char *note, uint64_t stdio[3][2])
{
	if (note && is_whole(note)) {
		for (int i = 0; i < FIELDS; i++)
			stdio[i / 2][i % 2] = get_hex(note + i * FIELD);
		return;
	}
	look(stdio);
	if (note && is_blank(note))
		put_stdio(note, stdio);
}

/* ---- in this start ------------------------------------------------------------------------- */

#define PID "GPUCKPT_PID="
#define LINK "GPUCKPT_LINK="
#define STDIO "GPUCKPT_STDIO="

struct gck_task_variables {
	char pid[sizeof PID + GCK_PID_DIGITS], link[sizeof LINK + sizeof gck_state.link];
	char stdio[sizeof STDIO + FIELDS * FIELD];
};

size_t gck_task_variables_size(void)
{
	return sizeof(struct gck_task_variables);
}

void gck_task_variables_write(struct gck_task_variables *v)
{
	char digits[GCK_DIGITS_MAX], *begin;
	size_t n = gck_write_digits(digits, (uint32_t)gck_state.rank_pid, &begin);

	memset(stpcpy(v->pid, PID), '0', GCK_PID_DIGITS);
	memcpy(v->pid + sizeof v->pid - 1 - n, begin, n);
	v->pid[sizeof v->pid - 1] = '\0';
	stpcpy(stpcpy(v->link, LINK), gck_state.link);
	put_stdio(stpcpy(v->stdio, STDIO), gck_state.stdio);
	v->stdio[sizeof v->stdio - 1] = '\0';
}

/* The launcher's variable of this name; NULL: this start has none, or it is the program's. */
static const char *launchers(const char *entry)
{
	const char *slots = (const char *)gck_state.environment;

	return slots && gck_launcher_owns(entry)
		       ? gck_slots_find(slots, gck_state.environment_size, entry) : NULL;
}

const char *gck_task_variable(const struct gck_task_variables *v, const char *entry)
{
	const char *const own[] = { v->pid, v->link, v->stdio };
	const char *now;

	for (size_t i = 0; i < sizeof own / sizeof *own; i++)
		if (!strncmp(entry, own[i], strcspn(own[i], "=") + 1))
			return own[i];
	now = launchers(entry);
	return now ? now : entry;
}
