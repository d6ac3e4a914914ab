/* SPDX-License-Identifier: Apache-2.0
 * A line on the terminal that shows progress. */
#include "coordinator/cli/progress.h"

#include <stdbool.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define BAR 30
#define EVERY_MS 100

static bool shown;

static void put_bar(double part)
{
	int full = (int)(part * BAR);

	fputs(" [", stderr);
	for (int i = 0; i < BAR; i++)
		fputc(i < full ? '#' : '.', stderr);
	fprintf(stderr, "] %3.0f%%", part * 100);
}

static void put_amount(const json_t *data, double done, double all, enum kind kind)
{
	const struct column amount = { "", "all", kind };
	char cell[CELL_MAX];

	print_cell(data, &amount, cell);
	put_bar(done < all ? done / all : 1);
	fprintf(stderr, " of %s", cell);
}

void progress_show(const json_t *event)
{
	static const struct column step = { "", "", KIND_STEP }, seq = { "", "seq", KIND_NUMBER },
				   phase = { "", "phase", KIND_TEXT },
				   text = { "", "text", KIND_TEXT };
	const json_t *data = json_object_get(event, "data");
	double all = json_number_value(json_object_get(data, "all"));
	double done = json_number_value(json_object_get(data, "done"));
	char cell[3][CELL_MAX];

	if (!isatty(STDERR_FILENO))
		return;
	print_cell(data, &step, cell[0]);
	print_cell(data, &seq, cell[1]);
	print_cell(data, &phase, cell[2]);
	if (cell[2][0] == '-')
		print_cell(event, &text, cell[2]);
	fprintf(stderr, "\r\033[K%s checkpoint %s: %.60s", cell[0], cell[1], cell[2]);
	if (all > 0)
		put_amount(data, done, all, KIND_BYTES);
	fflush(stderr);
	shown = true;
}

volatile sig_atomic_t interrupted;

static void on_signal(int sig)
{
	(void)sig;
	interrupted = 1;
}

void catch_signals(void)
{
	struct sigaction sa = { .sa_handler = on_signal };

	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGHUP, &sa, NULL);
	signal(SIGXFSZ, SIG_IGN); /* write() then fails with EFBIG */
}

static bool is_time(void)
{
	static long long last;
	struct timespec now;
	long long ms;

	clock_gettime(CLOCK_MONOTONIC, &now);
	ms = now.tv_sec * 1000LL + now.tv_nsec / 1000000;
	if (last && ms - last < EVERY_MS)
		return false;
	last = ms;
	return true;
}

bool progress_tell(void *arg, uint64_t done, uint64_t all)
{
	const struct progress *p = arg;
	json_t *data;

	if (p->stop && *p->stop)
		return false;
	if (!isatty(STDERR_FILENO) || !is_time())
		return true;
	data = json_pack("{s:I}", "all", (json_int_t)all);
	fprintf(stderr, "\r\033[K%" JSON_INTEGER_FORMAT ".%" JSON_INTEGER_FORMAT " checkpoint %"
		JSON_INTEGER_FORMAT ": %s", p->job, p->step, p->seq, p->what);
	put_amount(data, (double)done, (double)all, p->kind);
	json_decref(data);
	fflush(stderr);
	shown = true;
	return true;
}

void progress_end(void)
{
	if (shown)
		fputs("\r\033[K", stderr);
	shown = false;
}
