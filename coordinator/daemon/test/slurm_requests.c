/* SPDX-License-Identifier: Apache-2.0
 * Questions to Slurm: each is answered, also one that could not be put into words. */
#include "coordinator/daemon/slurm/slurm.h"

#include <string.h>

#include "common/base/log.h"
#include "test/support/tap.h"

static unsigned answers;
static char error[200];

static void on_answer(void *arg, const struct gck_slurm_answer *answer)
{
	(void)arg;
	answers++;
	snprintf(error, sizeof error, "%s", answer->ok ? "" : answer->error);
}

int main(void)
{
	struct gck_slurm s = {.loop = ev_default_loop(0)};

	gck_log_open("questions", "/dev/null", GCK_LOG_ERROR);
	gck_slurm_ask(&s, NULL, on_answer, NULL);
	ok(all_of(answers == 1, strstr(error, "no memory")),
	   "a question that could not be made: %s", error);
	gck_slurm_ask(&s, json_pack("{s:s}", "op", "conf"), on_answer, NULL);
	gck_slurm_ask(&s, NULL, on_answer, NULL);
	is_int(answers, 2, "one that waits does not hinder it");
	ev_run(s.loop, 0);
	ok(all_of(answers == 3, strstr(error, "Slurm is away")), "and is answered: %s", error);
	gck_slurm_close(&s);
	return tap_done();
}
