/* SPDX-License-Identifier: Apache-2.0 */
#include "spank/launcher.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/support/tap.h"

/* Have a child with standard error in /dev/null tell the user, whose standard error is a pipe. */
static void test_tell(void)
{
	char text[64] = "";
	int p[2], own = dup(2);

	if (pipe(p) || own < 0)
		exit(99);
	dup2(p[1], 2);
	if (fork() == 0) {
		dup2(open("/dev/null", O_WRONLY), 2);
		gck_launcher_tell("a line");
		_exit(0);
	}
	wait(NULL);
	dup2(own, 2);
	close(p[1]);
	(void)!read(p[0], text, sizeof text - 1);
	is_str(text, "a line\n", "behind /dev/null the line goes to the launcher's error output");
}

int main(void)
{
	ok(gck_launcher_is("orted"), "mpirun's daemon is a launcher");
	ok(gck_launcher_is("/opt/mpi/bin/hydra_pmi_proxy"), "so is hydra's, by its path");
	ok(!gck_launcher_is("./ring"), "a program is not");
	ok(!gck_launcher_is("mpirunner"), "nor is one whose name begins so");
	test_tell();
	return tap_done();
}
