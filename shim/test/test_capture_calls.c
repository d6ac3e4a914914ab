/* SPDX-License-Identifier: Apache-2.0
 * System calls that threads are in when they are held. */
#include "config.h"

#include <stdlib.h>
#include <sys/syscall.h>

#include "common/test/tap.h"
#include "shim/test/capture_rank.h"

/* A call is to be made again: its number in rax, the instruction next. */
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

/* The second and third time the kernel shows restart_syscall. */
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
		ok(makes(img, "raw", SYS_clock_nanosleep), "also where the code does not show it");
		gck_image_free(img);
		json_decref(manifest);
	}
	is_int(stop(), 0, "the rank ends by itself");
}

/* This CPU and kernel have AMX tiles. */
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
	ok(fails("AMX tiles in use"), "no checkpoint that no node could restore");
	tell("undo", "tiles");
	img = checkpoint(&manifest, &err);
	ok(img != NULL, "after they are released it can be taken");
	gck_image_free(img);
	json_decref(manifest);
	is_int(stop(), 0, "the rank ends by itself");
}

int main(void)
{
	tests_begin();
	test_sleepers();
	test_tiles();
	tests_end();
	return tap_done();
}
