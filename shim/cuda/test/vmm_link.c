/* SPDX-License-Identifier: Apache-2.0
 * The program's own virtual memory management through drains: at random against a model, with its
 * copy on the device and on the host, in several threads, without an agent, and with a failure of
 * each call of a drain. (cuda_restart takes the model through restarts.) */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "shim/cuda/test/link_agent.h"
#include "test/support/cuda_data.h"
#include "test/support/tap.h"

#define ERROR 999 /* CUDA_ERROR_UNKNOWN */
#define SOME "vmm steps 200"
#define UNIT (2 << 20)

static bool serve(struct cuda_rank *r, uint64_t seq, struct cuda_data *d)
{
	cuda_data_open(d);
	cuda_data_give(d, &r->cuda, GCK_LINK_CUDA_RESUME, seq);
	return cuda_hear(r, WAIT_MS) == GCK_LINK_CUDA_RESUMED && value == 0 &&
	       cuda_data_list(d) && cuda_data_bytes(d) && cuda_data_read(d);
}

static void start(struct cuda_rank *r, const char *fail, const char *begin)
{
	cuda_rank_start(r, fail);
	is_int(cuda_tell(r, "vmm") | cuda_tell(r, begin), 0,
	       "a program has memory of cuMemCreate");
}

static void ends(struct cuda_rank *r)
{
	is_int(cuda_tell(r, "vmm ends"), 0, "no data is lost");
	is_int(cuda_rank_end(r), 0, "the rank ends well");
}

static void at_random(bool keep)
{
	struct cuda_rank r;
	struct cuda_data d;

	start(&r, NULL, SOME);
	r.cuda.keep = keep;
	for (uint64_t seq = 1; seq < 6; seq++) {
		ok(cuda_drain(&r, seq, WAIT_MS), "drained: %s", text);
		if (keep) {
			ok(serve(&r, seq, &d), "its copy on the device is read: %s%s", text, d.why);
			cuda_data_free(&d);
		} else {
			ok(cuda_resume(&r, seq, NULL), "resumed: %s", text);
		}
		is_int(cuda_tell(&r, "vmm look"), 0, "all mappings and contents are unchanged");
		is_int(cuda_tell(&r, SOME), 0, "the program goes on using them");
	}
	ends(&r);
}

static void threads(void)
{
	struct cuda_rank r;
	uint64_t seq = 1;
	bool good = true;
	int answer;

	start(&r, NULL, SOME);
	cuda_begin(&r, "vmm threads");
	do
		good = good && cuda_drain(&r, seq, WAIT_MS) && cuda_resume(&r, seq, NULL);
	while (seq++ < 40 && (answer = cuda_answer(&r, 20)) == -1000);
	ok(good, "a rank with threads that make and drop memory is drained: %s", text);
	is_int(answer == -1000 ? cuda_answer(&r, WAIT_MS) : answer, 0,
	       "each thread has its own data");
	ends(&r);
}

static void agent_gone(void)
{
	struct cuda_rank r;

	start(&r, NULL, SOME);
	ok(cuda_drain(&r, 1, WAIT_MS), "drained: %s", text);
	close(r.cuda.fd);
	r.cuda.fd = -1;
	is_int(cuda_tell(&r, "vmm look"), 0, "a rank whose agent has gone resumes by itself");
	ok(all_of(cuda_accept(&r, WAIT_MS), cuda_drain(&r, 2, WAIT_MS), cuda_resume(&r, 2, NULL)),
	   "another agent can drain it: %s", text);
	ends(&r);
}

/* The driver's checkpoint carries memory of which no descriptor can be kept. */
static void not_kept(void)
{
	struct cuda_rank r;

	struct gck_cuda_state before, after;

	start(&r, "cuMemExportToShareableHandle:2+=1", "vmm few");
	before = cuda_state(&r);
	is_int(cuda_tell(&r, "vmm make"), 0,
	       "the program makes memory that has no descriptor in the vault");
	after = cuda_state(&r);
	is_int((long long)(after.device_bytes - before.device_bytes), UNIT,
	       "it counts as device memory");
	is_int((long long)(after.memory->bytes - before.memory->bytes), 0,
	       "it does not count as memory whose copy may stay on the device");
	is_int(cuda_tell(&r, "vmm drop"), 0, "the program frees it");
	is_int((long long)cuda_state(&r).device_bytes, (long long)before.device_bytes,
	       "it counts no longer");
	for (uint64_t seq = 1; seq < 3; seq++) {
		ok(all_of(cuda_drain(&r, seq, WAIT_MS), cuda_resume(&r, seq, NULL)),
		   "drained and resumed: %s", text);
		is_int(cuda_tell(&r, "vmm look") | cuda_tell(&r, SOME), 0,
		       "all mappings and contents are unchanged");
	}
	ends(&r);
}

/* A driver that maps parts of memory; 580 does not. */
static void in_parts(bool keep)
{
	struct cuda_rank r;
	struct cuda_data d;

	setenv("FAKE_CUDA_PARTS", "1", 1);
	start(&r, NULL, "vmm parts");
	unsetenv("FAKE_CUDA_PARTS");
	r.cuda.keep = keep;
	ok(cuda_drain(&r, 1, WAIT_MS), "a rank with halves of memory mapped apart is drained: %s",
	   text);
	if (keep) {
		ok(serve(&r, 1, &d), "its copy on the device is read: %s%s", text, d.why);
		cuda_data_free(&d);
	} else {
		ok(cuda_resume(&r, 1, NULL), "resumed: %s", text);
	}
	is_int(cuda_tell(&r, "vmm parts end"), 0, "each half has its contents");
	ends(&r);
}

static void exported(void)
{
	struct cuda_rank r;

	start(&r, NULL, SOME);
	is_int(cuda_tell(&r, "vmm make") | cuda_tell(&r, "vmm export"), 0,
	       "the program exports memory");
	ok(strstr(cuda_look(&r), "cuMemExportToShareableHandle"), "able names the export");
	ok(all_of(!cuda_drain(&r, 1, WAIT_MS), value == EBUSY), "a drain is refused: %s", text);
	is_int(cuda_tell(&r, "vmm drop"), 0, "the program frees it");
	is_str(cuda_look(&r), "", "there is no obstacle any more");
	is_int(cuda_tell(&r, "vmm make"), 0, "the program makes memory again");
	ok(all_of(cuda_drain(&r, 2, WAIT_MS), cuda_resume(&r, 2, NULL)),
	   "the rank can be drained: %s", text);
	is_int(cuda_tell(&r, "vmm export"), 0, "memory that was drained can be exported");
	cuda_rank_end(&r);
}

/* The nth call of a drain fails. Outcomes: '-', nothing; R, the drain is refused and the next one
 * succeeds; L, the GPU is lost and the rank reports it. */
static char one(const char *name, int nth)
{
	struct cuda_rank r;
	char rule[100], outcome = '-';
	bool good;

	snprintf(rule, sizeof rule, "%s:%d=%d", name, nth, ERROR);
	cuda_rank_start(&r, rule);
	r.cuda.keep = 1;
	good = cuda_tell(&r, "vmm") == 0 && cuda_tell(&r, "vmm few") == 0;
	if (!cuda_drain(&r, 1, WAIT_MS)) {
		outcome = 'R';
		good = good && value && cuda_tell(&r, "vmm look") == 0 &&
		       cuda_drain(&r, 2, WAIT_MS);
	}
	if (!cuda_resume(&r, 1, NULL)) {
		ok(all_of(good, value), "%s: lost: %s", rule, text);
		kill(r.rank.pid, SIGKILL);
		cuda_rank_end(&r);
		return 'L';
	}
	good = good && cuda_tell(&r, "vmm look") == 0;
	ok(all_of(good, cuda_tell(&r, "vmm ends") == 0), "%s: no data is lost: %s", rule, text);
	is_int(cuda_rank_end(&r), 0, "the rank ends well");
	return outcome;
}

/* Fail the calls of a drain one after the other, from the first one on. */
static void sweep(const char *name, int from, const char *wanted)
{
	char outcomes[32] = "";

	for (int i = 0; wanted[i]; i++)
		outcomes[i] = one(name, from + i);
	is_str(outcomes, wanted, name);
}

int main(void)
{
	setenv("GPUCKPT_CUDA_LIBRARY", GCK_TEST_DRIVER, 1);
	setenv("FAKE_CUDA_MEMORY", "2048", 1);
	at_random(false);
	at_random(true);
	threads();
	agent_gone();
	not_kept();
	in_parts(false);
	in_parts(true);
	exported();
	/* If blocks of the copy cannot be made on the device, the copy is in host memory. */
	sweep("cuMemMap", 5, "RR-LLL");
	sweep("cuMemSetAccess", 6, "RR-LL");
	sweep("cuMemUnmap", 2, "RRRRRR");
	sweep("cuMemRelease", 1, "RRRRR");
	sweep("cuMemImportFromShareableHandle", 1, "LLLL");
	return tap_done();
}
