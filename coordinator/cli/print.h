/* SPDX-License-Identifier: Apache-2.0
 * Tables and lists of named values, from JSON. */
#ifndef CLI_PRINT_H
#define CLI_PRINT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum kind {
	KIND_TEXT,
	KIND_REASON, /* a text; users in it by name */
	KIND_STEP,   /* "job" and "step" of the row: the key is not used */
	KIND_NUMBER,
	KIND_BYTES,  /* 1.2G */
	KIND_RATE,   /* bytes a second: 1.2G/s */
	KIND_TIME,   /* seconds since the epoch */
	KIND_MS,     /* milliseconds, printed as seconds */
	KIND_SECONDS,
	KIND_DURATION, /* seconds, printed as 45s, 12m30s, 3h05m or 2d04h */
	KIND_PERCENT,
	KIND_FLAG,   /* "yes" or nothing */
	KIND_NODES,  /* entries' "node" */
};

struct column {
	const char *title, *key; /* "last.seq": a member of a member */
	enum kind kind;
};

#define CELL_MAX 1024

/* One formatted value; "-" if it is missing. Control characters become '?'. */
void print_cell(const json_t *row, const struct column *col, char text[CELL_MAX]);

/* Rows for a table: each entry of the steps' arrays `key`, with the members of the step added. */
json_t *print_rows(const json_t *steps, const char *key);

/* Aligned columns like squeue's; rows is an array of objects. The table ends with a column that has
 * no title. Columns that no row has a value for are left out. */
void print_table(const json_t *rows, const struct column *cols);

/* Whether tables have a line of titles; at first they have. */
void print_titles(bool titles);

/* "Title=value" lines, in the order of cols; missing values are left out. */
void print_values(const json_t *object, const struct column *cols);

#endif
