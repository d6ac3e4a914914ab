/* SPDX-License-Identifier: Apache-2.0
 * asker DIR: an MPI rank that asks for checkpoints of its step. Every rank obeys the line in
 * DIR/go.1, then the line in DIR/go.2, and so on, when the file exists:
 *
 *   one RANK          gck_checkpoint() in this rank
 *   threads RANK N    in N threads of this rank at once
 *   all LATE          gck_checkpoint_all() in every rank; if LATE is 1, the last rank calls it once
 *                     DIR/late exists
 *   die               the same with LATE 1, and rank 0 is killed once the checkpoint is committed
 *   init LATE         MPI_Init; if LATE is 1, in the last rank once DIR/late exists
 *   finalize          MPI_Finalize
 *   end
 *
 * A rank writes the results of its calls to DIR/log.RANK: "LINE'S-NUMBER RESULT REASON". It makes
 * the file DIR/calls.RANK.LINE'S-NUMBER before the call of "one". */
#include <gpuckpt.h>
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define THREADS 8

static const char *dir;
static int rank, ranks, number;
static pthread_barrier_t together;

static void rest_ms(int ms)
{
	struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

	while (nanosleep(&t, &t))
		;
}

/* The file is closed during a checkpoint, so that a restart does not cut it. */
static void note(int result, const char *why)
{
	char path[4096];
	FILE *f;

	snprintf(path, sizeof path, "%s/log.%d", dir, rank);
	f = fopen(path, "a");
	if (!f)
		exit(3);
	fprintf(f, "%d %d %s\n", number, result, why);
	fclose(f);
}

static void announce_call(void)
{
	char path[4096];
	FILE *f;

	snprintf(path, sizeof path, "%s/calls.%d.%d", dir, rank, number);
	f = fopen(path, "w");
	if (!f)
		exit(3);
	fclose(f);
}

static void *one(void *result)
{
	pthread_barrier_wait(&together);
	*(int *)result = gck_checkpoint();
	return NULL;
}

static void by_threads(int n)
{
	pthread_t t[THREADS];
	int result[THREADS];

	pthread_barrier_init(&together, NULL, (unsigned)n);
	for (int i = 0; i < n; i++)
		pthread_create(&t[i], NULL, one, &result[i]);
	for (int i = 0; i < n; i++) {
		pthread_join(t[i], NULL);
		note(result[i], "");
	}
}

static void wait_until_late(void)
{
	char path[4096];

	snprintf(path, sizeof path, "%s/late", dir);
	while (access(path, F_OK))
		rest_ms(20);
}

static void by_all(int dies)
{
	int result;

	result = gck_checkpoint_all();
	note(result, gck_checkpoint_error());
	if (dies && result == 0 && rank == 0)
		kill(getpid(), SIGKILL);
}

static bool is_late(const char *verb, int late)
{
	return !strcmp(verb, "die") || (late && (!strcmp(verb, "all") || !strcmp(verb, "init")));
}

static int obey(const char *line)
{
	int a = 0, b = 0, result;
	char verb[16] = "";

	sscanf(line, "%15s %d %d", verb, &a, &b);
	if (rank == ranks - 1 && is_late(verb, a))
		wait_until_late();
	if (!strcmp(verb, "init"))
		MPI_Init(NULL, NULL);
	else if (!strcmp(verb, "finalize"))
		MPI_Finalize();
	else if (!strcmp(verb, "all"))
		by_all(0);
	else if (!strcmp(verb, "die"))
		by_all(1);
	else if (!strcmp(verb, "threads") && a == rank)
		by_threads(b < THREADS ? b : THREADS);
	else if (!strcmp(verb, "one") && a == rank) {
		announce_call();
		result = gck_checkpoint();
		note(result, gck_checkpoint_error());
	}
	return strcmp(verb, "end");
}

/* Wait for the next line. */
static void take(char *line, size_t size)
{
	char path[4096];
	FILE *f;

	snprintf(path, sizeof path, "%s/go.%d", dir, ++number);
	for (line[0] = '\0'; !strchr(line, '\n'); rest_ms(20)) {
		f = fopen(path, "r");
		if (f && !fgets(line, (int)size, f))
			line[0] = '\0';
		if (f)
			fclose(f);
	}
}

int main(int argc, char **argv)
{
	const char *me = getenv("SLURM_PROCID"), *all = getenv("SLURM_NTASKS");
	char line[64];

	if (argc != 2 || !me || !all)
		return 2;
	dir = argv[1];
	rank = atoi(me);
	ranks = atoi(all);
	do
		take(line, sizeof line);
	while (obey(line));
	return 0;
}
