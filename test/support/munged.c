/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "test/support/munged.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const files[] = { "private/key", "private/log", "private/seed", "pid", "sock",
				     "sock.lock" };
static char dir[64];
static char paths[6][128];
static pid_t munged;

static int make_key(void)
{
	unsigned char key[128];
	int fd = open(paths[0], O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	int rc = fd < 0 || getrandom(key, sizeof key, 0) != sizeof key ||
		 write(fd, key, sizeof key) != sizeof key;

	if (fd >= 0)
		close(fd);
	return rc ? -1 : 0;
}

/* munged needs its socket where all users can reach it, and its key where no other user can. */
static int make_dir(void)
{
	char private[96];

	snprintf(dir, sizeof dir, "/tmp/gck-munged-XXXXXX");
	if (!mkdtemp(dir) || chmod(dir, 0755))
		return -1;
	snprintf(private, sizeof private, "%s/private", dir);
	for (int i = 0; i < 6; i++)
		snprintf(paths[i], sizeof paths[i], "%s/%s", dir, files[i]);
	return mkdir(private, 0700) || make_key();
}

static void run(const char *program)
{
	static const char *const names[] = { "--key-file", "--log-file", "--seed-file",
					     "--pid-file", "--socket" };
	char *option[5];
	int null = open("/dev/null", O_RDWR);

	for (int i = 0; i < 5; i++)
		if (asprintf(&option[i], "%s=%s", names[i], paths[i]) < 0)
			_exit(127);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(null, 0);
	dup2(null, 1);
	dup2(null, 2);
	execlp(program, "munged", "--foreground", "--num-threads=1", option[0], option[1],
	       option[2], option[3], option[4], (char *)NULL);
	_exit(127);
}

const char *test_munged_start(const char **why)
{
	const char *program = access("/usr/sbin/munged", X_OK) ? "munged" : "/usr/sbin/munged";

	*why = "no directory for munged could be made in /tmp";
	if (make_dir())
		return NULL;
	munged = fork();
	if (munged == 0)
		run(program);
	*why = "munged does not start (Debian's package munge)";
	for (int i = 0; i < 1200; i++) {
		if (access(paths[4], F_OK) == 0)
			return paths[4];
		if (waitpid(munged, NULL, WNOHANG) == munged) {
			munged = 0;
			break;
		}
		usleep(50000);
	}
	return NULL;
}

void test_munged_stop(void)
{
	char private[96];

	if (munged > 0) {
		kill(munged, SIGTERM);
		waitpid(munged, NULL, 0);
	}
	for (int i = 0; i < 6; i++)
		unlink(paths[i]);
	snprintf(private, sizeof private, "%s/private", dir);
	rmdir(private);
	rmdir(dir);
}
