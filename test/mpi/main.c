/* SPDX-License-Identifier: Apache-2.0
 * traffic [--seed=N] [--seeds=N] [--seconds=S] [--steps=N] [--threads=N] [--families=NAME,…]
 * [--pause=US] [--cycle=STEPS] [--scratch=DIR] [--restarts] [--verbose]
 *
 * Runs the program of a seed and prints its digest, which depends only on the seed, the steps, the
 * families, --restarts, threads and the number of ranks. Runs --seeds programs one after another,
 * and more until --seconds are over. Any deviation from the plan ends the job. With --restarts a
 * program can be restarted from an earlier checkpoint with the present files: no word of them is
 * written twice, and they stay. */
#include "traffic.h"

#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BSEND_BYTES = 64 << 20, THREADS = 8 };

static uint64_t families(const char *list)
{
	char *copy = strdup(list), *save = NULL;
	uint64_t set = 0;

	for (char *name = strtok_r(copy, ",", &save); name; name = strtok_r(NULL, ",", &save)) {
		int i = 0;

		while (tr_families[i].name && strcmp(tr_families[i].name, name))
			i++;
		if (!tr_families[i].name) {
			fprintf(stderr, "traffic: --families: there is no %s; there are", name);
			for (i = 0; tr_families[i].name; i++)
				fprintf(stderr, " %s", tr_families[i].name);
			fprintf(stderr, "\n");
			exit(2);
		}
		set |= 1ull << i;
	}
	free(copy);
	return set;
}

/* All families, or with threads those that work: in Open MPI 4.1 several threads that make
 * communicators at the same time hang, and files fail. */
static uint64_t all_families(int threads)
{
	uint64_t set = 0;

	for (int i = 0; tr_families[i].name; i++)
		set |= (uint64_t)(threads == 1 || tr_families[i].threads) << i;
	return set;
}

static void options(int argc, char **argv, struct tr_options *o)
{
	static const struct option known[] = {{"seed", 1, NULL, 's'},    {"steps", 1, NULL, 'n'},
					      {"seeds", 1, NULL, 'N'},   {"seconds", 1, NULL, 't'},
					      {"threads", 1, NULL, 'T'}, {"families", 1, NULL, 'f'},
					      {"pause", 1, NULL, 'p'},   {"cycle", 1, NULL, 'c'},
					      {"scratch", 1, NULL, 'd'}, {"restarts", 0, NULL, 'r'},
					      {"verbose", 0, NULL, 'v'}, {0}};
	int k;

	*o = (struct tr_options){.seed = 1, .seeds = 1, .steps = 200, .threads = 1, .scratch = "."};
	while ((k = getopt_long(argc, argv, "", known, NULL)) != -1)
		switch (k) {
		case 's': o->seed = strtoull(optarg, NULL, 0); break;
		case 'n': o->steps = atoi(optarg); break;
		case 'N': o->seeds = strtoull(optarg, NULL, 0); break;
		case 't': o->seconds = atof(optarg); break;
		case 'T': o->threads = atoi(optarg); break;
		case 'f': o->families = families(optarg); break;
		case 'p': o->pause_us = atoi(optarg); break;
		case 'c': o->cycle = atoi(optarg); break;
		case 'd': o->scratch = optarg; break;
		case 'r': o->restarts = true; break;
		case 'v': o->verbose = true; break;
		default: exit(2);
		}
	if (!o->families)
		o->families = all_families(o->threads);
	if (o->threads < 1 || o->threads > THREADS || optind < argc) {
		fprintf(stderr, "traffic: 1 to %d threads, and no arguments but options\n",
			THREADS);
		exit(2);
	}
}

/* ---- one seed, in one thread or in several, each on a duplicate of the world */

struct work {
	pthread_t id;
	const struct tr_options *opt;
	uint64_t seed, digest;
	MPI_Comm world;
	int number;
};

static void *worker(void *arg)
{
	struct work *w = arg;

	w->digest = tr_run(w->opt, w->seed, w->world, w->number);
	return NULL;
}

static uint64_t seed_run(const struct tr_options *o, uint64_t seed)
{
	struct work w[THREADS];
	uint64_t digest = 0;

	for (int i = 0; i < o->threads; i++) {
		w[i] = (struct work){.opt = o, .seed = seed, .number = i};
		MPI_Comm_dup(MPI_COMM_WORLD, &w[i].world);
	}
	for (int i = 1; i < o->threads; i++)
		if (pthread_create(&w[i].id, NULL, worker, &w[i])) {
			perror("traffic: pthread_create");
			MPI_Abort(MPI_COMM_WORLD, 1);
		}
	worker(&w[0]);
	for (int i = 1; i < o->threads; i++)
		pthread_join(w[i].id, NULL);
	for (int i = 0; i < o->threads; i++) {
		digest += w[i].digest;
		MPI_Comm_free(&w[i].world);
	}
	return digest;
}

/* True if another program follows. */
static bool more_seeds(const struct tr_options *o, uint64_t done, double begin)
{
	int more = MPI_Wtime() - begin < o->seconds;

	if (done < o->seeds)
		return true;
	if (o->seconds <= 0)
		return false;

	MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
	return more;
}

int main(int argc, char **argv)
{
	struct tr_options o;
	int rank, size, level, bytes;
	void *buffer = malloc(BSEND_BYTES);

	options(argc, argv, &o);
	/* Open MPI 4.1's osc/rdma and osc/ucx give wrong results or crash within one node */
	setenv("OMPI_MCA_osc", "pt2pt", 0);
	MPI_Init_thread(&argc, &argv, o.threads > 1 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE,
			&level);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	if (!buffer || size > TR_RANKS || (o.threads > 1 && level < MPI_THREAD_MULTIPLE)) {
		fprintf(stderr,
			"traffic: needs MPI_THREAD_MULTIPLE for threads, and at most %d ranks\n",
			TR_RANKS);
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	MPI_Buffer_attach(buffer, BSEND_BYTES);
	double begin = MPI_Wtime();
	uint64_t first = o.seed, digest;

	do {
		digest = seed_run(&o, o.seed);
		if (!rank) {
			printf("traffic: seed %" PRIu64
			       ": %d steps of %d threads on %d ranks: %016" PRIx64 "\n",
			       o.seed, o.steps, o.threads, size, digest);
			fflush(stdout);
		}
		o.seed++;
	} while (more_seeds(&o, o.seed - first, begin));
	MPI_Buffer_detach(&buffer, &bytes);
	MPI_Finalize();
	free(buffer);
	return 0;
}
