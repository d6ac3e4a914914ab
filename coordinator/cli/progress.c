/* SPDX-License-Identifier: Apache-2.0
 * One line on the terminal that says how far a checkpoint is. */
#include "coordinator/cli/progress.h"

#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include "coordinator/cli/print.h"

#define BAR 30

static bool shown;

static void put_bar(double part)
{
	int full = (int)(part * BAR);

	fputs(" [", stderr);
	for (int i = 0; i < BAR; i++)
		fputc(i < full ? '#' : '.', stderr);
	fprintf(stderr, "] %3.0f%%", part * 100);
}

void progress_show(const json_t *event)
{
	static const struct column step = { "", "", KIND_STEP }, seq = { "", "seq", KIND_NUMBER },
				   phase = { "", "phase", KIND_TEXT },
				   text = { "", "text", KIND_TEXT },
				   bytes = { "", "all", KIND_BYTES };
	const json_t *data = json_object_get(event, "data");
	double all = json_number_value(json_object_get(data, "all"));
	double done = json_number_value(json_object_get(data, "done"));
	char cell[4][CELL_MAX];

	if (!isatty(STDERR_FILENO))
		return;
	print_cell(data, &step, cell[0]);
	print_cell(data, &seq, cell[1]);
	print_cell(data, &phase, cell[2]);
	if (cell[2][0] == '-')
		print_cell(event, &text, cell[2]);
	fprintf(stderr, "\r\033[K%s checkpoint %s: %.60s", cell[0], cell[1], cell[2]);
	if (all > 0) {
		print_cell(data, &bytes, cell[3]);
		put_bar(done < all ? done / all : 1);
		fprintf(stderr, " of %s", cell[3]);
	}
	fflush(stderr);
	shown = true;
}

void progress_end(void)
{
	if (shown)
		fputs("\r\033[K", stderr);
	shown = false;
}
