/* SPDX-License-Identifier: Apache-2.0
 * Another process keeps the device busy, so that the copies of a drain do not end. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "shim/cuda/test/link_agent.h"
#include "test/support/tap.h"

#define SUM (3 << 20)
#define LIMIT_MS 800

static char file[] = "/tmp/gpuckpt-busy-XXXXXX";

/* The copy goes to the device, or to host memory. */
static void busy(bool keep, const char *name)
{
	struct cuda_rank r;

	cuda_rank_start(&r, NULL);
	r.cuda.keep = keep;
	is_int(cuda_tell(&r, "more"), 0, name);
	close(open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	ok(all_of(!cuda_drain(&r, 1, LIMIT_MS), value == ETIMEDOUT),
	   "a copy that does not end fails in time: %s", text);
	ok(all_of(strstr(text, "memory: device 0"), strstr(text, "hold=")),
	   "the error names the device and what to do: %s", text);
	cuda_begin(&r, "free");
	is_int(cuda_answer(&r, 200), -1000,
	       "the program waits while the copy still reads its memory");
	unlink(file);
	ok(cuda_answer(&r, WAIT_MS) > 0, "it goes on when the copy has ended");
	is_int(cuda_tell(&r, "sum"), SUM, "with its data");
	ok(cuda_drain(&r, 2, WAIT_MS),
	   "that drain is not answered again, and the next one succeeds: %s", text);
	cuda_link_say(&r.cuda, GCK_LINK_CUDA_RESUME, 2);
	is_int(cuda_hear(&r, WAIT_MS), GCK_LINK_CUDA_RESUMED, "it resumes");
	is_int(cuda_tell(&r, "sum"), SUM, "the program has its data");
	is_int(cuda_rank_end(&r), 0, "the program ends well");
}

int main(void)
{
	int fd = mkstemp(file);

	if (fd < 0)
		return 99;
	close(fd);
	unlink(file);
	setenv("GPUCKPT_CUDA_LIBRARY", GCK_TEST_DRIVER, 1);
	setenv("FAKE_CUDA_BUSY", file, 1);
	busy(true, "a program is drained to its device");
	busy(false, "a program is drained to host memory");
	return tap_done();
}
