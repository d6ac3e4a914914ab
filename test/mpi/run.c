/* SPDX-License-Identifier: Apache-2.0
 * The program of one seed: its steps, and the digest of everything received. */
#include "traffic.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

const struct tr_family tr_families[] = {
	{"p2p", 12, tr_p2p, true},
	{"storm", 10, tr_storm, true},
	{"any", 6, tr_any, true},
	{"shift", 4, tr_shift, true},
	{"persistent", 10, tr_channel_step, true},
	{"coll", 10, tr_coll, true},
	{"nbc", 8, tr_nbc, true},
	{"reduce", 8, tr_reduce, true},
	{"nbreduce", 8, tr_nbreduce, true},
	{"neighbour", 5, tr_neighbour, false},
	{"comm", 5, tr_comm_step, false},
	{"group", 1, tr_group_step, true},
	{"type", 6, tr_type_step, true},
	{"pack", 3, tr_pack_step, true},
	{"attr", 2, tr_attr_step, false},
	{"object", 2, tr_object_step, true},
	{"window", 6, tr_window_step, false},
	{"file", 4, tr_file_step, false},
	{NULL, 0, NULL, false},
};

static const struct tr_family *draw_family(struct tr_run *r)
{
	int all = 0, k;

	for (int i = 0; tr_families[i].name; i++)
		all += r->opt->families >> i & 1 ? tr_families[i].weight : 0;
	k = tr_below(&r->plan, all);
	for (int i = 0;; i++) {
		k -= r->opt->families >> i & 1 ? tr_families[i].weight : 0;
		if (k < 0)
			return &tr_families[i];
	}
}

/* The stand-in's test hook: a checkpoint and restart in place. */
static void cycle(const struct tr_run *r)
{
	int (*hook)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "gck_mpi_test_cycle");

	tr_need(r, hook,
		"--cycle: there is no gck_mpi_test_cycle here: preload a test build of the "
		"stand-in");
	tr_need(r, !hook(), "gck_mpi_test_cycle failed");
}

static void step(struct tr_run *r)
{
	const struct tr_family *family;

	/* each step has its own stream, so that it can be examined without the earlier ones */
	r->plan.state = tr_mix(r->seed, (uint64_t)r->step);
	r->mine.state = tr_mix(r->plan.state, (uint64_t)r->me + 1);
	family = draw_family(r);
	if (r->opt->verbose && !r->me)
		fprintf(stderr, "step %d %s\n", r->step, family->name);
	tr_late_post(r, NULL, false);
	family->step(r);
	tr_settle(r, NULL, false);
	if (r->opt->pause_us)
		usleep((useconds_t)r->opt->pause_us);
	if (r->opt->cycle && r->step % r->opt->cycle == r->opt->cycle - 1)
		cycle(r);
}

uint64_t tr_run(const struct tr_options *opt, uint64_t seed, MPI_Comm world, int thread)
{
	struct tr_run *r = calloc(1, sizeof(*r));
	uint64_t all;

	if (!r)
		abort();
	r->opt = opt;
	r->seed = tr_mix(seed, (uint64_t)thread);
	r->thread = thread;
	r->last_transfer = &r->transfers;
	MPI_Comm_size(world, &r->n);
	MPI_Comm_rank(world, &r->me);
	tr_comm_start(r, world);
	tr_type_start(r);
	for (r->step = 0; r->step < opt->steps; r->step++)
		step(r);
	tr_late_post(r, NULL, true);
	tr_settle(r, NULL, true);
	tr_window_end(r);
	tr_file_end(r);
	tr_comm_end(r);
	tr_channel_end(r, NULL);
	tr_type_end(r);
	MPI_Allreduce(&r->digest, &all, 1, MPI_UINT64_T, MPI_SUM, world);
	free(r);
	return all;
}
