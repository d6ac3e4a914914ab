/* SPDX-License-Identifier: Apache-2.0
 * System calls during which threads are held. */
#include "config.h"

#include <stdlib.h>
#include <sys/syscall.h>

#include "shim/process/capture/capture.h"
#include "shim/process/test/capture_rank.h"
#include "storage/retention/retention.h"
#include "test/support/tap.h"

#define CLOCK_HOLDS 10
#define CLOCK_TRIES 1000

/* Whether a call is made again: its number in rax, the instruction next. */
static bool makes(const struct gck_image *img, const char *thread, uint64_t nr)
{
	for (size_t i = 0; i < img->nthreads; i++)
		if (!strcmp(img->threads[i].name, thread)) {
			if (img->threads[i].regs.rax != nr)
				printf("# rax is %lld\n", (long long)img->threads[i].regs.rax);
			return img->threads[i].regs.rax == nr;
		}
	return false;
}

/* At the second and third time the kernel shows restart_syscall. */
static void test_sleepers(void)
{
	struct gck_error err = {0};

	start();
	ok(tell("do", "sleepers"), "threads sleep in every call that continues as restart_syscall");
	for (int i = 0; i < 3; i++) {
		json_t *manifest = NULL;
		struct gck_image *img = checkpoint(&manifest, &err);

		if (!ok(img != NULL, "checkpoint %d in the same sleep", i + 1))
			break;
		ok(makes(img, "nanosleep", SYS_nanosleep) && makes(img, "poll", SYS_poll) &&
		   makes(img, "clock", SYS_clock_nanosleep) && makes(img, "futex", SYS_futex),
		   "each makes its own call again");
		ok(makes(img, "raw", SYS_clock_nanosleep), "also if the code does not show it");
		gck_image_free(img);
		json_decref(manifest);
	}
	is_int(stop(), 0, "the rank ends by itself");
}

/* From these the kernel returns EINTR after each stop. */
static void test_waits(void)
{
	struct gck_error err = {0};

	start();
	ok(tell("do", "waits"), "threads wait in calls that the kernel never restarts");
	for (int i = 0; i < 3; i++) {
		json_t *manifest = NULL;
		struct gck_image *img = checkpoint(&manifest, &err);

		if (!ok(img != NULL, "checkpoint %d in the same wait: %s", i + 1, err.text))
			break;
		ok(all_of(makes(img, "epoll_wait", SYS_epoll_wait),
			  makes(img, "epoll_pwait2", SYS_epoll_pwait2),
			  makes(img, "sigtimedwait", SYS_rt_sigtimedwait),
			  makes(img, "recv", SYS_recvfrom), makes(img, "read", SYS_read)),
		   "each makes its own call again");
		gck_image_free(img);
		json_decref(manifest);
	}
	ok(tell("undo", "waits"), "in the rank no call has been interrupted");
	is_int(stop(), 0, "the rank ends by itself");
}

/* Whether a thread is in the middle of a call of the vdso. */
static bool in_vdso(const struct gck_image *img)
{
	const struct gck_map *m = img->maps, *end = m + img->nmaps;
	bool found = false;

	while (m < end && m->kind != GCK_MAP_VDSO)
		m++;
	for (size_t i = 0; m < end && i < img->nthreads; i++)
		found = found ||
			(img->threads[i].regs.rip >= m->start && img->threads[i].regs.rip < m->end);
	return found;
}

/* A checkpoint. 1: a thread was in such a call when it was held. *after: it is in one in the image,
 * or pages that the clone wrote count as unwritten. -1: failed. */
static int hold_clock(uint32_t seq, bool *after, struct gck_error *err)
{
	const int tracker_fds[2] = {-1, -1};
	struct gck_capture *c = gck_capture_open(rank.pid, helper_link, &hello, &options, err);
	struct gck_writer *w = gck_writer_open(store, seq, "clock", &options, NULL, err);
	int before = -1;

	if (c)
		gck_capture_take_tracker(c, tracker_fds);
	if (c && w && !gck_capture_freeze(c, err) && !gck_capture_take(c, true, err))
		before = in_vdso(c->img);
	if (c)
		gck_capture_resume(c);
	if (before >= 0 && gck_capture_write(c, w, NULL, NULL, err))
		before = -1;
	*after = before > 0 && (in_vdso(c->img) || (c->dirty.uffd >= 0 && !c->dirty.nspoiled));
	gck_capture_close(c);
	gck_writer_close(w);
	must(gck_store_discard(store, seq, "clock", NULL));
	return before;
}

/* Hold the rank until it was in a call CLOCK_HOLDS times. Returns how often the image has a thread
 * in one. -1: failed. */
static int hold_clock_often(const char *what)
{
	struct gck_error err = {0};
	int held = 0, left = 0;

	for (uint32_t seq = 1; seq <= CLOCK_TRIES && held < CLOCK_HOLDS; seq++) {
		bool after;
		int before = hold_clock(1000 + seq, &after, &err);

		if (before < 0) {
			printf("# %s\n", err.text);
			return -1;
		}
		held += before;
		left += before && after;
		usleep((unsigned)rand() % 20000);
	}
	return ok(held == CLOCK_HOLDS, "%s: it is held during calls of the vdso", what) ? left : -1;
}

static void test_clock(void)
{
	start();
	tell("do", "clock");
	is_int(hold_clock_often("a thread that reads the clock"), 0, "no image has it in one");
	ok(tell("undo", "clock"), "it goes on");
	tell("do", "shared-clock");
	ok(hold_clock_often("into memory that the clone shares") >= 0, "images are taken");
	tell("undo", "shared-clock");
	is_int(atoi(rank_ask(&rank, "stale")), 0, "and the clone wrote nothing there");
	is_int(stop(), 0, "the rank ends by itself");
}

/* Whether this CPU and kernel have AMX tiles. */
static bool has_tiles(void)
{
	char line[8192];
	FILE *f = fopen("/proc/cpuinfo", "re");
	bool found = false;

	while (f && !found && fgets(line, sizeof(line), f))
		found = !strncmp(line, "flags", 5) && strstr(line, " amx_tile");
	if (f)
		fclose(f);
	return found;
}

static void test_tiles(void)
{
	struct gck_error err = {0};
	json_t *manifest = NULL;
	struct gck_image *img;

	if (!has_tiles()) {
		ok(true, "no AMX here: not tested");
		return;
	}
	start();
	tell("do", "tiles");
	ok(fails("AMX tiles in use"), "no checkpoint is taken that no node could restore");
	tell("undo", "tiles");
	img = checkpoint(&manifest, &err);
	ok(img != NULL, "once they are released it can be taken");
	gck_image_free(img);
	json_decref(manifest);
	is_int(stop(), 0, "the rank ends by itself");
}

int main(void)
{
	tests_begin();
	test_sleepers();
	test_waits();
	test_clock();
	test_tiles();
	tests_end();
	return tap_done();
}
