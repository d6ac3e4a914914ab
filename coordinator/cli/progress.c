/* SPDX-License-Identifier: Apache-2.0
 * A line on the terminal that shows progress; elsewhere one line about what takes long. */
#include "coordinator/cli/progress.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BAR 30
#define EVERY_MS 100
#define LONG_MS 10000 /* then one line says so where there is no terminal */

static bool shown;

/* What is shown, and since when. */
static struct {
	char what[160];
	long long since_ms;
	double from; /* done then */
	bool told;
} work;

static long long now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

static void put_bar(double part)
{
	int full = (int)(part * BAR);

	fputs(" [", stderr);
	for (int i = 0; i < BAR; i++)
		fputc(i < full ? '#' : '.', stderr);
	fputc(']', stderr);
}

static void put_cell(const char *before, double value, enum kind kind)
{
	const struct column column = { "", "v", kind };
	json_t *row = json_pack("{s:f}", "v", value);
	char cell[CELL_MAX];

	print_cell(row, &column, cell);
	fprintf(stderr, "%s%s", before, cell);
	json_decref(row);
}

/* " 40% of 3.2G, 210M/s, 9s left" */
static void put_amount(double done, double all, enum kind kind)
{
	double seconds = (double)(now_ms() - work.since_ms) / 1e3;
	double rate = seconds > 0 ? (done - work.from) / seconds : 0;

	put_cell(" ", done < all ? done / all * 100 : 100, KIND_PERCENT);
	put_cell(" of ", all, kind);
	if (rate <= 0 || seconds < 1)
		return;
	if (kind == KIND_BYTES)
		put_cell(", ", rate, KIND_RATE);
	if (done < all) {
		put_cell(", ", (all - done) / rate, KIND_DURATION);
		fputs(" left", stderr);
	}
}

/* On a terminal the line is replaced by the next one. */
static void put_line(const char *what, double done, double all, enum kind kind)
{
	bool terminal = isatty(STDERR_FILENO);

	if (strcmp(work.what, what)) {
		snprintf(work.what, sizeof work.what, "%s", what);
		work.since_ms = now_ms();
		work.from = done;
		work.told = false;
	}
	if (!terminal && (work.told || now_ms() - work.since_ms < LONG_MS))
		return;
	work.told = true;
	fprintf(stderr, terminal ? "\r\033[K%s" : "gpuckpt: %s", what);
	if (all > 0 && terminal)
		put_bar(done < all ? done / all : 1);
	if (all > 0)
		put_amount(done, all, kind);
	if (!terminal)
		fputc('\n', stderr);
	fflush(stderr);
	shown = terminal;
}

void progress_show(const json_t *event)
{
	static const struct column step = { "", "", KIND_STEP }, seq = { "", "seq", KIND_NUMBER },
				   phase = { "", "phase", KIND_TEXT },
				   text = { "", "text", KIND_TEXT };
	const json_t *data = json_object_get(event, "data");
	double all = json_number_value(json_object_get(data, "all"));
	double done = json_number_value(json_object_get(data, "done"));
	char cell[3][CELL_MAX], what[sizeof work.what];

	print_cell(data, &step, cell[0]);
	print_cell(data, &seq, cell[1]);
	print_cell(data, &phase, cell[2]);
	if (cell[2][0] == '-')
		print_cell(event, &text, cell[2]);
	snprintf(what, sizeof what, "%.32s checkpoint %.16s: %.60s", cell[0], cell[1], cell[2]);
	put_line(what, done, all, KIND_BYTES);
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
	long long ms = now_ms();

	if (last && ms - last < EVERY_MS)
		return false;
	last = ms;
	return true;
}

bool progress_tell(void *arg, uint64_t done, uint64_t all)
{
	const struct progress *p = arg;
	char what[sizeof work.what];

	if (p->stop && *p->stop)
		return false;
	if (!is_time())
		return true;
	snprintf(what, sizeof what, "%" JSON_INTEGER_FORMAT ".%" JSON_INTEGER_FORMAT
		 " checkpoint %" JSON_INTEGER_FORMAT ": %.60s", p->job, p->step, p->seq, p->what);
	put_line(what, (double)done, (double)all, p->kind);
	return true;
}

void progress_end(void)
{
	if (shown)
		fputs("\r\033[K", stderr);
	shown = false;
}
