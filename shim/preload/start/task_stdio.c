/* SPDX-License-Identifier: Apache-2.0
 * What the task was given as descriptors 0 to 2, as device and inode. A shell that starts the
 * program by exec may have put files of its own there before, so the first constructor writes down
 * what it finds, in place of the dots that the plugin put into GPUCKPT_STDIO, and a later one reads
 * it: 16 hexadecimal digits, a colon, 16 digits, a comma; three times. */
#include "shim/preload/start/task_stdio.h"

#include <sys/stat.h>

#include "shim/preload/helper/raw.h"

#define DIGITS 16
#define FIELDS 6
#define FIELD (DIGITS + 1)

static void put(char *text, uint64_t n)
{
	for (int i = DIGITS - 1; i >= 0; i--, n >>= 4)
		text[i] = "0123456789abcdef"[n & 15];
}

static uint64_t get(const char *text)
{
	uint64_t n = 0;

	for (int i = 0; i < DIGITS; i++)
		n = n << 4 | (uint64_t)(text[i] <= '9' ? text[i] - '0' : text[i] - 'a' + 10);
	return n;
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
			stdio[i / 2][i % 2] = get(note + i * FIELD);
		return;
	}
	look(stdio);
	if (!note || !is_blank(note))
		return;
	for (int i = 0; i < FIELDS; i++) {
		put(note + i * FIELD, stdio[i / 2][i % 2]);
		note[i * FIELD + DIGITS] = i % 2 ? ',' : ':';
	}
}
