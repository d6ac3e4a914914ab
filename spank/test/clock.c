/* SPDX-License-Identifier: Apache-2.0
 * The time namespace: CLOCK_MONOTONIC reads as CLOCK_REALTIME before and after an exec. */
#include "config.h"

#include "spank/task.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "test/support/tap.h"

/* Are the clocks within a second of each other? */
static bool alike(void)
{
	struct timespec real, mono, boot;

	clock_gettime(CLOCK_REALTIME, &real);
	clock_gettime(CLOCK_MONOTONIC, &mono);
	clock_gettime(CLOCK_BOOTTIME, &boot);
	return labs(real.tv_sec - mono.tv_sec) <= 1 && labs(real.tv_sec - boot.tv_sec) <= 1;
}

static int child(const struct gck_clock *c, const char *self, struct gck_error *err)
{
	if (gck_clock_enter(c, err))
		return 2;
	if (!alike())
		return 3;
	execl(self, self, "again", (char *)NULL);
	return 4;
}

int main(int argc, char *argv[])
{
	struct gck_error err = { 0 };
	struct gck_clock c;
	int status = 0;
	pid_t pid;

	(void)argc;
	if (argc > 1)
		return !alike();
	ok(!alike(), "outside of the namespace the clocks differ");
	gck_clock_measure(&c);
	pid = fork();
	if (pid == 0) {
		status = child(&c, argv[0], &err);
		printf("# %s\n", err.text);
		fflush(stdout);
		_exit(status);
	}
	waitpid(pid, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 2)
		skip("in the namespace they agree",
		     "time namespaces need CAP_SYS_ADMIN and CAP_SYS_TIME");
	else
		is_int(status, 0, "in the namespace they agree, also after an exec");
	return tap_done();
}
