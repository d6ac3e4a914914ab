/* SPDX-License-Identifier: Apache-2.0
 * gpu_storm RESTARTS REFUSALS PROGRAM [ARGUMENT...]: a CUDA program under checkpoints by the
 * stand-in, about one a second or one every GPUCKPT_STORM_MS milliseconds. After one checkpoint the
 * program is killed and restored in a new process, after the next it continues. Its last line must
 * be the same as when it runs alone. At least REFUSALS checkpoints must be refused because a kernel
 * of the program waits for the CPU. Each refusal must name the obstacle and leave the program
 * unharmed. GPUCKPT_TEST_PRELOAD names the libraries to preload. */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "test/support/cuda_link.h"
#include "test/support/lineage.h"
#include "test/support/tap.h"

#define WATCHDOG_MS 60000

static struct lineage l;
static struct cuda_link cuda = {.fd = -1};
static int every_ms = 1000, resumes, refusals, unnamed;

/* 1: drained; 0: refused; -1: any other answer. */
static int drain(bool keep)
{
	const char *why = (const char *)cuda.m.data;

	cuda.keep = keep;
	cuda_link_ask_drain(&cuda, l.seq + 1, (uint32_t)every_ms * 3 / 2, WATCHDOG_MS);
	if (cuda_link_receive(&cuda, WAIT_MS) != GCK_LINK_CUDA_DRAINED)
		return -1;
	if (!cuda.m.value)
		return 1;
	printf("# refused: %.*s\n", (int)cuda.m.total, why);
	refusals++;
	unnamed += cuda.m.value != EBUSY || (!strstr(why, "stream") && !strstr(why, "thread") &&
					     !strstr(why, "device "));
	return 0;
}

static bool restart(void)
{
	if (lineage_checkpoint(&l))
		return false;
	lineage_kill(&l);
	return lineage_restore(&l, l.seq) == 0 && cuda_link_join(&cuda, &l.agent, true) &&
	       cuda_link_hear(&cuda, GCK_LINK_CUDA_RESUMED);
}

/* A checkpoint before a restart leaves no copy on the device: this test does not give it to the
 * restored rank. */
static bool once(int *restarts)
{
	bool dies = *restarts <= resumes;
	int rc;

	pause_ms(every_ms / 2 + rand() % every_ms);
	rc = drain(!dies && rand() % 2);
	if (rc <= 0)
		return rc == 0;
	++*(dies ? restarts : &resumes);
	return dies ? restart() : cuda_link_resume(&cuda, l.seq + 1);
}

static void storm(int wanted, int least)
{
	char alone[300];
	int restarts = 0;

	is_int(lineage_alone(&l), 0, "the program runs alone");
	snprintf(alone, sizeof alone, "%s", lineage_output(&l));
	ok(all_of(!lineage_start(&l), cuda_link_join(&cuda, &l.agent, false)), "it runs as a rank");
	while ((restarts < wanted || refusals < least) && once(&restarts))
		;
	ok(restarts >= wanted, "killed and restored %d times", restarts);
	ok(all_of(refusals >= least, !unnamed),
	   "%d checkpoints refused, each with the name of the obstacle", refusals);
	printf("# continued %d times\n", resumes);
	is_int(l.pid ? lineage_wait(&l) : -1, 0, "it ends well");
	is_str(lineage_output(&l), alone, "with the same result");
}

int main(int argc, char **argv)
{
	unsigned seed = getenv("GPUCKPT_SEED") ? (unsigned)atoi(getenv("GPUCKPT_SEED"))
					       : (unsigned)time(NULL);

	if (argc < 4 || !getenv("GPUCKPT_TEST_PRELOAD"))
		return 2;
	printf("# GPUCKPT_SEED=%u\n", seed);
	srand(seed);
	if (getenv("GPUCKPT_STORM_MS"))
		every_ms = atoi(getenv("GPUCKPT_STORM_MS"));
	if (ok(!lineage_begin(&l, "/dev/shm", argv + 3), "a store")) {
		storm(atoi(argv[1]), atoi(argv[2]));
		lineage_end(&l);
	}
	return tap_done();
}
