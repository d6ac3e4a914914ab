/* SPDX-License-Identifier: Apache-2.0
 * A CUDA program on the fake driver is drained, captured, killed and restored in new processes,
 * where its CUDA thread restores the GPU; another one goes on after its image was taken. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/options.h"
#include "shim/cuda/base/state.h"
#include "shim/cuda/test/commands.h"
#include "shim/process/process.h"
#include "test/support/cuda_data.h"
#include "test/support/cuda_link.h"
#include "test/support/tap.h"

#define RESTARTS 4

static struct lineage l;
static struct cuda_link cuda = {.fd = -1};
static char program[] = "./cuda_work";

/* The vaults' threads of the image end, since they have no descriptors. */
static bool has_one_vault(void)
{
	for (int ms = 0; ms < WAIT_MS && cuda_threads(l.pid, "gpuckpt-hold", NULL) != 1; ms += 20)
		pause_ms(20);
	return cuda_threads(l.pid, "gpuckpt-hold", NULL) == 1;
}

/* The process in which it is restored has the number of a thread that it had, and has no more. It
 * is captured by the next test. Only in a PID namespace of its own (restart.sh) is that number
 * surely free. */
static void has_number_of_thread(uint64_t seq)
{
	pid_t thread = 0;
	bool restored = all_of(cuda_threads(l.pid, "gpuckpt-hold", &thread) == 1,
			       cuda_link_drain(&cuda, seq), lineage_checkpoint(&l) == 0);

	lineage_kill(&l);
	l.number = getppid() ? 0 : thread;
	ok(all_of(restored, lineage_restore(&l, l.seq) == 0, cuda_link_join(&cuda, &l.agent, true),
		  cuda_link_hear(&cuda, GCK_LINK_CUDA_RESUMED)), "it is restored");
	if (l.number)
		is_int(l.pid, thread, "its number is that of a former thread");
	else
		skip("its number is that of a former thread", "no PID namespace of its own");
	l.number = 0;
}

/* The original goes on after its first image; later ones are killed and restored. */
static void lineage(void)
{
	ok(all_of(cuda_link_drain(&cuda, 1), lineage_checkpoint(&l) == 0),
	   "a rank is drained and captured");
	ok(cuda_link_resume(&cuda, 1), "the original goes on");
	for (uint32_t i = 1; i <= RESTARTS; i++) {
		pause_ms(150); /* the program computes */
		ok(all_of(cuda_link_drain(&cuda, i + 1), lineage_checkpoint(&l) == 0),
		   "it is captured again");
		lineage_kill(&l);
		ok(lineage_restore(&l, l.seq) == 0, "it is restored in a new process");
		ok(cuda_link_join(&cuda, &l.agent, true),
		   "its CUDA thread reports that it was restored");
		ok(cuda_link_hear(&cuda, GCK_LINK_CUDA_RESUMED),
		   "its CUDA thread reports that CUDA is back");
		ok(has_one_vault(), "it has one thread that holds descriptors");
	}
}

/* Whether able notes that managed memory may need a longer hold=. */
static bool notes_hold(bool hold_auto)
{
	struct gck_options options;
	json_t *items, *item;
	bool found = false;
	size_t i;

	gck_options_init(&options);
	options.hold_auto = hold_auto;
	options.hold_ms = 1000;
	items = gck_process_able(l.pid, &l.hello, &options, NULL);
	json_array_foreach(items, i, item)
		found |= json_is_false(json_object_get(item, "refuse")) &&
			 !strcmp(json_string_value(json_object_get(item, "object")),
				 "managed memory") &&
			 strstr(json_string_value(json_object_get(item, "remedy")), "hold=2s");
	json_decref(items);
	return found;
}

/* Take an image, read its device data while the rank goes on, then kill the rank. */
static void capture_beside(struct cuda_data *d, uint64_t seq)
{
	cuda.keep = 1;
	ok(all_of(cuda_link_drain(&cuda, seq), cuda.m.round, lineage_checkpoint(&l) == 0),
	   "a rank is captured with its copy on the device");
	cuda_data_open(d);
	cuda_data_give(d, &cuda, GCK_LINK_CUDA_RESUME, seq);
	ok(cuda_link_hear(&cuda, GCK_LINK_CUDA_RESUMED), "the original goes on");
	ok(all_of(cuda_data_list(d), cuda_data_bytes(d), cuda_data_read(d)),
	   "its copy is read");
	cuda_data_close(d);
	pause_ms(50); /* the program computes, which the next restore takes back */
	lineage_kill(&l);
}

static bool restore(void)
{
	return lineage_restore(&l, l.seq) == 0 && cuda_link_join(&cuda, &l.agent, true) &&
	       cuda.hello.data_missing;
}

/* Give the rank its device data; stop after `most` pieces. */
static bool fill(const struct cuda_data *from, unsigned most)
{
	struct cuda_data over;
	bool whole;

	cuda_data_open(&over);
	cuda_data_give(&over, &cuda, GCK_LINK_CUDA_RESTORE, 0);
	whole = cuda_data_fill(from, &over, most);
	cuda_data_free(&over);
	return whole;
}

static bool says_hello(void)
{
	return cuda_link_receive(&cuda, WAIT_MS) == GCK_LINK_CUDA_HELLO &&
	       cuda.m.cuda_hello.data_missing;
}

static void filled(uint64_t seq)
{
	struct cuda_data d;

	capture_beside(&d, seq);
	ok(all_of(restore(), fill(&d, UINT_MAX)), "a rank is restored and its data is filled in");
	ok(cuda_link_hear(&cuda, GCK_LINK_CUDA_RESUMED), "it runs");
	cuda_data_free(&d);
	capture_beside(&d, seq + 1);
	ok(all_of(restore(), !fill(&d, 0), says_hello()),
	   "a rank whose filler dies asks for another");
	ok(all_of(fill(&d, UINT_MAX), cuda_link_hear(&cuda, GCK_LINK_CUDA_RESUMED)), "it runs");
	cuda_data_free(&d);
	capture_beside(&d, seq + 2);
	ok(all_of(restore(), (close(cuda.fd), cuda.fd = -1)), "the agent of a rank dies");
	ok(all_of(cuda_link_join(&cuda, &l.agent, true), cuda.hello.data_missing,
		  fill(&d, UINT_MAX), cuda_link_hear(&cuda, GCK_LINK_CUDA_RESUMED)),
	   "the rank waits for another agent, and runs");
	cuda_data_free(&d);
}

static void is_lost(void)
{
	uint32_t type = cuda_link_receive(&cuda, WAIT_MS);

	ok(all_of(type == GCK_LINK_CUDA_RESUMED, cuda.m.value),
	   "it reports that the GPU is lost: %.*s", (int)cuda.m.total, (const char *)cuda.m.data);
}

/* In another rank, which is lost at the end. */
static void never_filled(void)
{
	struct cuda_data d, none = {.n = 0};

	lineage_start(&l);
	cuda_link_join(&cuda, &l.agent, false);
	cuda_link_has_memory(&cuda, l.pid);
	capture_beside(&d, 1);
	ok(all_of(restore(), !fill(&none, UINT_MAX)),
	   "a rank is restored, and its data cannot be read");
	is_lost();
	lineage_kill(&l);
	ok(restore(), "it is restored again, and there is no data");
	cuda_link_say(&cuda, GCK_LINK_CUDA_RESTORE, 0);
	is_lost();
	lineage_kill(&l);
	cuda_data_free(&d);
}

/* The first of two failures is reported. */
static void failed_before(void)
{
	setenv("FAKE_CUDA_FAIL", "cuCtxSetLimit:3=2", 1); /* the first one of a resume */
	lineage_start(&l);
	unsetenv("FAKE_CUDA_FAIL");
	cuda_link_join(&cuda, &l.agent, false);
	cuda_link_has_memory(&cuda, l.pid);
	cuda.keep = 1;
	ok(all_of(cuda_link_drain(&cuda, 1), cuda.m.round, lineage_checkpoint(&l) == 0),
	   "captured");
	lineage_kill(&l);
	ok(restore(), "a rank is restored, a limit cannot be set, and there is no data");
	cuda_link_say(&cuda, GCK_LINK_CUDA_RESTORE, 0);
	is_lost();
	ok(strstr((const char *)cuda.m.data, "stack"), "the report names the first failure");
	lineage_kill(&l);
}

/* ---- cuda=replay --------------------------------------------------------------------------- */

static char replay[] = "replay", more[32], *replay_argv[] = {program, replay, more, NULL};
static char replay_alone[300];

static bool start_by(const char *way, char **argv)
{
	bool good;

	l.argv = argv;
	setenv("GPUCKPT_CUDA", way, 1);
	good = lineage_start(&l) == 0 && cuda_link_join(&cuda, &l.agent, false) &&
	       cuda_link_has_memory(&cuda, l.pid);
	unsetenv("GPUCKPT_CUDA");
	cuda.keep = 0;
	return good;
}

/* what: besides (restart_kept.c) */
static bool start_replay(const char *what)
{
	strcpy(more, what);
	return start_by("replay", replay_argv);
}

/* The driver is not in the image: a fresh one is loaded in each restored process. */
static void replayed(char **argv, bool fills)
{
	l.argv = argv;
	is_int(lineage_alone(&l), 0, "the program runs alone");
	strcpy(replay_alone, lineage_output(&l));
	ok(start_by("replay", argv), "it starts with cuda=replay");
	ok(all_of(cuda_link_drain(&cuda, 1), lineage_checkpoint(&l) == 0),
	   "it is drained and captured");
	ok(cuda_link_resume(&cuda, 1), "the original goes on");
	pause_ms(150);
	ok(all_of(cuda_link_drain(&cuda, 2), lineage_checkpoint(&l) == 0), "it is captured again");
	lineage_kill(&l);
	ok(all_of(lineage_restore(&l, l.seq) == 0, cuda_link_join(&cuda, &l.agent, true),
		  cuda_link_hear(&cuda, GCK_LINK_CUDA_RESUMED)),
	   "it is restored with a fresh driver");
	if (fills)
		filled(3);
	is_int(lineage_wait(&l), 0, "the program ends well");
	is_str(lineage_output(&l), replay_alone, "its answer is that of a run alone");
}

/* The file of the driver's library, of one version or the other. */
static char driver[300];

static void driver_is(const char *library)
{
	unlink(driver);
	if (symlink(library, driver))
		abort();
}

/* A checkpoint, and the end of the process. */
static bool ends(uint64_t seq)
{
	bool good;

	pause_ms(100); /* the program computes */
	good = cuda_link_drain(&cuda, seq) && lineage_checkpoint(&l) == 0;
	lineage_kill(&l);
	return good;
}

static bool comes_back(void)
{
	return lineage_restore(&l, l.seq) == 0 && cuda_link_join(&cuda, &l.agent, true) &&
	       cuda_link_hear(&cuda, GCK_LINK_CUDA_RESUMED);
}

static void other_versions(void)
{
	snprintf(driver, sizeof driver, "%s/libcuda.so.1", l.directory);
	setenv("GPUCKPT_CUDA_LIBRARY", driver, 1);
	driver_is(GCK_TEST_OLDER_DRIVER);
	ok(all_of(start_replay(""), ends(1)), "a program runs on an older driver");
	driver_is(GCK_TEST_DRIVER);
	ok(all_of(comes_back(), ends(2)), "it is restored on a newer one");
	driver_is(GCK_TEST_OLDER_DRIVER);
	ok(all_of(comes_back(), ends(3)), "and on the older one");
	driver_is(GCK_TEST_DRIVER);
	ok(comes_back(), "and again on the newer one");
	is_int(lineage_wait(&l), 0, "the program ends well");
	is_str(lineage_output(&l), replay_alone, "its answer is that of a run alone");
}

/* The program has what an older driver lacks. */
static void too_old(void)
{
	ok(all_of(start_replay("newer,cache"), ends(1)), "a program uses newer functions");
	driver_is(GCK_TEST_OLDER_DRIVER);
	ok(lineage_restore(&l, l.seq) < 0, "it is not restored on a driver that lacks them");
	ok(all_of(strstr(l.failure, "of CUDA 13.0, the one here is of CUDA 12.8"),
		  strstr(l.failure,
			 ": cuCtxSynchronize_v2, cuMemDiscardBatchAsync, cuFakeFuture:")),
	   "the driver and the functions are named: %s", l.failure);
	lineage_kill(&l);
	driver_is(GCK_TEST_DRIVER);
	ok(comes_back(), "it is where they are");
	lineage_kill(&l);
	ok(all_of(start_replay("cache"), ends(1)), "a program has a private table");
	driver_is(GCK_TEST_OLDER_DRIVER);
	ok(all_of(lineage_restore(&l, l.seq) == 0, cuda_link_join(&cuda, &l.agent, true)),
	   "it is restored on a driver whose table has less");
	is_lost();
	ok(strstr((const char *)cuda.m.data,
		  "the fresh driver's private table da9151d3 lacks function 4"),
	   "the table and the function are named");
	lineage_kill(&l);
	setenv("GPUCKPT_CUDA_LIBRARY", GCK_TEST_DRIVER, 1);
}

/* ---- both engines in one lineage ------------------------------------------------------------ */

static bool has_driver(void)
{
	struct gck_cuda_state state = {.replays = 0};

	agent_peek(l.pid, cuda.hello.state, &state, sizeof state);
	return state.drained_for && !state.replays;
}

/* The stream's capture, if there is one, would end with an error if data were copied. */
static void goes_by(uint64_t seq, bool with_driver, const char *name)
{
	ok(all_of(cuda_link_drain(&cuda, seq), has_driver() == with_driver,
		  lineage_checkpoint(&l) == 0), "%s", name);
	lineage_kill(&l);
	ok(comes_back(), "%s: it is restored", name);
	told_restored();
	if (!with_driver)
		is_int(told("sum"), 3 << 20, "it has its data");
}

/* The thread names its object first, then the reason. */
static bool notes(const char *reason)
{
	cuda_link_say(&cuda, GCK_LINK_CUDA_LIST_OBSTACLES, 0);
	return cuda_link_receive(&cuda, WAIT_MS) == GCK_LINK_CUDA_OBSTACLE && cuda.m.round &&
	       strstr((const char *)cuda.m.data, reason) &&
	       cuda_link_receive(&cuda, WAIT_MS) == GCK_LINK_CUDA_OBSTACLES_END;
}

/* A checkpoint has the driver in its image while there is something that could not be made again,
 * here a capture under way, or might not come out as it was, here an executable graph. */
static void mixed(void)
{
	static char reads[] = "./cuda_rank", *argv[] = {reads, NULL};

	l.argv = argv;
	cuda.keep = 0;
	setenv("GPUCKPT_CUDA", "auto", 1);
	ok(all_of(told_start(&l), told("init") == 0, cuda_link_join(&cuda, &l.agent, false),
		  told("more") == 0), "a rank may use either engine");
	unsetenv("GPUCKPT_CUDA");
	goes_by(1, false, "a first image without the driver");
	is_int(told("capture"), 0, "a capture begins");
	ok(notes("in a capture"), "able notes that the driver will be in the image");
	ok(all_of(cuda_link_drain(&cuda, 2), has_driver(), lineage_checkpoint(&l) == 0,
		  cuda_link_resume(&cuda, 2)), "an image has the driver, and the rank goes on");
	goes_by(3, true, "an image with the driver");
	goes_by(4, true, "a second one");
	is_int(told("captured"), 0, "the capture ends");
	is_int(told("sum"), 3 << 20, "it has its data");
	goes_by(5, false, "an image without the driver again");
	goes_by(6, false, "and another one");
	is_int(told("executable"), 0, "there is an executable graph");
	ok(notes("came back as they were"), "able notes that the driver will be in the image");
	goes_by(7, true, "an image with the driver, since that is safe");
	is_int(told("no executable"), 0, "it ends");
	goes_by(8, false, "an image without the driver");
	lineage_kill(&l);
}

/* All that this program has comes back by the driver's own checkpoint, in its namespace. */
static void carried(void)
{
	static char *argv[] = {program, NULL};
	char alone[300];

	l.argv = argv;
	is_int(lineage_alone(&l), 0, "the program runs alone");
	strcpy(alone, lineage_output(&l));
	ok(start_by("auto", argv), "it starts with either engine");
	for (uint32_t i = 1; i <= 2; i++) {
		ok(all_of(cuda_link_drain(&cuda, i), has_driver(), lineage_checkpoint(&l) == 0),
		   "it is captured, with the driver");
		lineage_kill(&l);
		ok(comes_back(), "it is restored");
		pause_ms(150);
	}
	filled(3);
	is_int(lineage_wait(&l), 0, "the program ends well");
	is_str(lineage_output(&l), alone, "its answer is that of a run alone");
}

/* ---- a program that reads commands -------------------------------------------------------- */

/* A drain comes while a copy to the reader is under way: that part of the snapshot stays until the
 * device is idle. */
static void copy_under_way(void)
{
	static char other[] = "./cuda_rank", *argv[] = {other, NULL};
	char busy[300];
	struct cuda_data d;
	int before;

	snprintf(busy, sizeof busy, "%s/busy", l.directory);
	setenv("FAKE_CUDA_BUSY", busy, 1);
	l.argv = argv;
	ok(all_of(told_start(&l), told("init") == 0, cuda_link_join(&cuda, &l.agent, false),
		  told("more") == 0), "a program has device memory");
	before = told("free");
	cuda.keep = 1;
	cuda_data_open(&d);
	ok(cuda_link_drain(&cuda, 1), "it is drained");
	cuda_data_give(&d, &cuda, GCK_LINK_CUDA_RESUME, 1);
	ok(all_of(cuda_link_hear(&cuda, GCK_LINK_CUDA_RESUMED), cuda_data_list(&d)),
	   "the device has a copy");
	close(open(busy, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	cuda_data_send(&d, GCK_LINK_DATA_GET, d.v[0].address, 4096, 0);
	cuda_data_send(&d, GCK_LINK_DATA_GET, d.v[0].address, 4096, 4096);
	ok(cuda_data_taken(&d), "a read of the copy is under way");
	cuda.keep = 0;
	cuda_link_ask_drain(&cuda, 2, WAIT_MS, WAIT_MS);
	/* the fake driver's stream has a thread of that name too */
	for (int ms = 0; ms < WAIT_MS && cuda_threads(l.pid, "gpuckpt-data", NULL) > 1; ms += 5)
		pause_ms(5);
	unlink(busy);
	ok(all_of(cuda_link_hear(&cuda, GCK_LINK_CUDA_DRAINED), lineage_checkpoint(&l) == 0),
	   "the rank is captured meanwhile");
	cuda_data_free(&d);
	lineage_kill(&l);
	ok(all_of(lineage_restore(&l, l.seq) == 0, cuda_link_join(&cuda, &l.agent, true),
		  cuda_link_hear(&cuda, GCK_LINK_CUDA_RESUMED)), "the rank is restored");
	is_int(told("free"), before, "as much memory is free as before");
	is_int(told("sum"), 3 << 20, "it has its data");
	lineage_kill(&l);
}

int main(void)
{
	static char *argv[] = {program, NULL}, model[] = "./cuda_managed", seed[] = "7",
		    times[] = "100", *managed_argv[] = {model, seed, times, NULL};
	char alone[300];

	setenv("GPUCKPT_CUDA_LIBRARY", GCK_TEST_DRIVER, 1);
	setenv("FAKE_CUDA_PARTS", "1", 1);
	setenv("GPUCKPT_TEST_LISTENER", "1", 1);
	if (lineage_begin(&l, "/dev/shm", argv))
		return 99;
	is_int(lineage_alone(&l), 0, "the program runs alone");
	strcpy(alone, lineage_output(&l));
	ok(all_of(lineage_start(&l) == 0, cuda_link_join(&cuda, &l.agent, false)),
	   "the program starts as a rank");
	ok(cuda_link_has_memory(&cuda, l.pid), "it has device memory");
	lineage();
	ok(notes_hold(false), "able names a hold= that may be too short for managed memory");
	ok(!notes_hold(true), "but not hold=auto");
	has_number_of_thread(RESTARTS + 2);
	filled(RESTARTS + 3);
	is_int(lineage_wait(&l), 0, "the program ends well");
	is_str(lineage_output(&l), alone, "its answer is that of a run alone");
	never_filled();
	failed_before();
	replayed(managed_argv, false);
	replayed(replay_argv, true);
	mixed();
	carried();
	other_versions();
	too_old();
	copy_under_way();
	lineage_end(&l);
	return tap_done();
}
