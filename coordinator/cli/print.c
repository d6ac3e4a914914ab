/* SPDX-License-Identifier: Apache-2.0
 * Tables and lists of named values, from JSON. */
#include "coordinator/cli/print.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/user/user.h"
#include "coordinator/cli/cli.h"

#define COLUMNS_MAX 24

void cli_print_json(const json_t *data)
{
	json_dumpf(data, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
	putchar('\n');
}

/* ---- cells --------------------------------------------------------------------------------- */

static void put_bytes(double n, char text[CELL_MAX])
{
	static const char units[] = "KMGTPE";
	int u = -1;

	for (; n >= 1024 && units[u + 1]; u++)
		n /= 1024;
	if (u < 0)
		snprintf(text, CELL_MAX, "%.0f", n);
	else
		snprintf(text, CELL_MAX, n < 10 ? "%.2f%c" : n < 100 ? "%.1f%c" : "%.0f%c", n,
			 units[u]);
}

static void put_time(json_int_t seconds, char text[CELL_MAX])
{
	time_t t = (time_t)seconds;
	struct tm tm;

	if (!localtime_r(&t, &tm) || strftime(text, CELL_MAX, "%Y-%m-%dT%H:%M:%S", &tm) == 0)
		snprintf(text, CELL_MAX, "-");
}

static void put_duration(long long s, char text[CELL_MAX])
{
	if (s < 60)
		snprintf(text, CELL_MAX, "%llds", s < 0 ? 0 : s);
	else if (s < 3600)
		snprintf(text, CELL_MAX, "%lldm%02llds", s / 60, s % 60);
	else if (s < 86400)
		snprintf(text, CELL_MAX, "%lldh%02lldm", s / 3600, s / 60 % 60);
	else
		snprintf(text, CELL_MAX, "%lldd%02lldh", s / 86400, s / 3600 % 24);
}

static void put_plain(const json_t *v, char text[CELL_MAX])
{
	if (json_is_string(v))
		snprintf(text, CELL_MAX, "%s", json_string_value(v));
	else if (json_is_integer(v))
		snprintf(text, CELL_MAX, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
	else if (json_is_real(v))
		snprintf(text, CELL_MAX, "%.3g", json_real_value(v));
	else if (json_is_boolean(v))
		snprintf(text, CELL_MAX, "%s", json_is_true(v) ? "yes" : "no");
}

/* "create by user 1234", as reasons of 0.1.0 end. */
static void put_reason(const char *reason, char text[CELL_MAX])
{
	static const char by[] = " by user ";
	const char *at = strstr(reason, by);
	char name[GCK_USER_MAX];
	uid_t uid;

	if (!at || gck_user_id(at + strlen(by), &uid) < 0)
		snprintf(text, CELL_MAX, "%s", reason);
	else
		snprintf(text, CELL_MAX, "%.*s by %s", (int)(at - reason), reason,
			 gck_user_name(uid, name));
}

/* Arrays of plain values are joined by commas; of entries, the member is. */
static void put_list(const json_t *v, const char *member, char text[CELL_MAX])
{
	char one[CELL_MAX];
	size_t i, used = 0;
	json_t *x;

	json_array_foreach(v, i, x) {
		*one = '\0';
		put_plain(json_is_object(x) ? json_object_get(x, member) : x, one);
		used += (size_t)snprintf(text + used, CELL_MAX - used, "%s%s", i ? "," : "", one);
		if (used >= CELL_MAX)
			return;
	}
}

static void put_value(const json_t *v, enum kind kind, char text[CELL_MAX])
{
	if (json_is_number(v) && kind == KIND_BYTES)
		put_bytes(json_number_value(v), text);
	else if (json_is_number(v) && kind == KIND_RATE) {
		put_bytes(json_number_value(v), text);
		strcat(text, "/s");
	} else if (json_is_integer(v) && kind == KIND_TIME)
		put_time(json_integer_value(v), text);
	else if (json_is_number(v) && kind == KIND_MS)
		snprintf(text, CELL_MAX, "%.3fs", json_number_value(v) / 1000);
	else if (json_is_number(v) && kind == KIND_SECONDS)
		snprintf(text, CELL_MAX, "%.1fs", json_number_value(v));
	else if (json_is_number(v) && kind == KIND_DURATION)
		put_duration((long long)json_number_value(v), text);
	else if (json_is_number(v) && kind == KIND_PERCENT)
		snprintf(text, CELL_MAX, "%.0f%%", json_number_value(v));
	else if (json_is_string(v) && kind == KIND_REASON)
		put_reason(json_string_value(v), text);
	else if (json_is_array(v))
		put_list(v, kind == KIND_NODES ? "node" : "", text);
	else if (kind != KIND_FLAG || json_is_true(v))
		put_plain(v, text);
}

static const json_t *find(const json_t *row, const char *key)
{
	const char *dot = strchr(key, '.');
	char member[32];

	if (!dot)
		return json_object_get(row, key);
	snprintf(member, sizeof member, "%.*s", (int)(dot - key), key);
	return json_object_get(json_object_get(row, member), dot + 1);
}

static void put_step(const json_t *row, char text[CELL_MAX])
{
	const json_t *job = json_object_get(row, "job"), *step = json_object_get(row, "step");

	if (json_is_integer(job) && json_is_integer(step))
		snprintf(text, CELL_MAX, "%" JSON_INTEGER_FORMAT ".%" JSON_INTEGER_FORMAT,
			 json_integer_value(job), json_integer_value(step));
}

void print_cell(const json_t *row, const struct column *col, char text[CELL_MAX])
{
	*text = '\0';
	if (col->kind == KIND_STEP)
		put_step(row, text);
	else
		put_value(find(row, col->key), col->kind, text);
	if (!*text)
		snprintf(text, CELL_MAX, "-");
	/* Names of other users' programs must not control the terminal. */
	for (char *p = text; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 127)
			*p = '?';
}

/* ---- tables -------------------------------------------------------------------------------- */

static bool with_titles = true;

void print_titles(bool titles)
{
	with_titles = titles;
}

json_t *print_rows(const json_t *steps, const char *key)
{
	json_t *rows = json_array(), *step, *entry;
	size_t i, k;

	json_array_foreach(steps, i, step) {
		json_array_foreach(json_object_get(step, key), k, entry) {
			json_t *row = json_copy(entry);

			json_object_update_missing(row, step);
			json_array_append_new(rows, row);
		}
	}
	return rows;
}

static bool is_right(enum kind kind)
{
	return kind != KIND_TEXT && kind != KIND_REASON && kind != KIND_STEP &&
	       kind != KIND_TIME && kind != KIND_FLAG && kind != KIND_NODES;
}

/* Characters on the screen: continuation bytes of UTF-8 have no width. */
static int width(const char *text)
{
	int n = 0;

	for (; *text; text++)
		n += ((unsigned char)*text & 0xc0) != 0x80;
	return n;
}

static void put_cell(const char *text, int columns, bool right, bool last)
{
	int pad = columns - width(text);

	if (right)
		printf("%*s", pad, "");
	fputs(text, stdout);
	if (!right && !last)
		printf("%*s", pad, "");
	putchar(last ? '\n' : ' ');
}

/* Widths of the columns, 0 for one without a value. Returns the number of the last one shown. */
static int measure(const json_t *rows, const struct column *cols, int widths[COLUMNS_MAX])
{
	char text[CELL_MAX];
	json_t *row;
	size_t i;
	int last = -1;

	for (int k = 0; cols[k].title && k < COLUMNS_MAX; k++) {
		widths[k] = 0;
		json_array_foreach(rows, i, row) {
			print_cell(row, &cols[k], text);
			if (strcmp(text, "-") && width(text) > widths[k])
				widths[k] = width(text);
		}
		if (with_titles && widths[k] && widths[k] < width(cols[k].title))
			widths[k] = width(cols[k].title);
		if (widths[k])
			last = k;
	}
	return last;
}

void print_table(const json_t *rows, const struct column *cols)
{
	int widths[COLUMNS_MAX];
	int last = measure(rows, cols, widths);
	char text[CELL_MAX];
	json_t *row;
	size_t i;

	for (int k = 0; with_titles && k <= last; k++)
		if (widths[k])
			put_cell(cols[k].title, widths[k], is_right(cols[k].kind), k == last);
	json_array_foreach(rows, i, row) {
		for (int k = 0; k <= last; k++) {
			if (!widths[k])
				continue;
			print_cell(row, &cols[k], text);
			put_cell(text, widths[k], is_right(cols[k].kind), k == last);
		}
	}
}

void print_values(const json_t *object, const struct column *cols)
{
	char text[CELL_MAX];

	for (; cols->title; cols++) {
		print_cell(object, cols, text);
		if (strcmp(text, "-"))
			printf("%s=%s\n", cols->title, text);
	}
}
