/* SPDX-License-Identifier: Apache-2.0
 * What waits in a pseudo-terminal stays there when the process that copies it is killed at any
 * moment. */
#include "config.h"

#include <asm/termbits.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shim/process/terminal/terminal.h"
#include "test/support/tap.h"

#define KILLS 100

static int master, peer;
static struct termios2 settings;

static bool open_terminal(void)
{
	static const char input[] = "one\ntwo\4three\nunfinished";
	int locked = 0;

	master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (master < 0 || ioctl(master, TIOCSPTLCK, &locked))
		return false;
	peer = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_NONBLOCK);
	if (peer < 0 || ioctl(master, TCGETS2, &settings))
		return false;
	settings.c_lflag &= ~(tcflag_t)ECHO;
	return !ioctl(master, TCSETS2, &settings) &&
	       write(master, input, strlen(input)) == (ssize_t)strlen(input) &&
	       write(peer, "out\n", 4) == 4;
}

/* Copies all the time. */
static pid_t start_copier(void)
{
	pid_t pid = fork();

	while (!pid) {
		struct gck_terminal t = {0};

		memcpy(t.settings, &settings, sizeof settings);
		if (gck_terminal_copy(master, peer, &t, NULL))
			_exit(1);
		free(t.input);
		free(t.output);
	}
	return pid;
}

static bool reads(int fd, const char *want)
{
	char got[64];
	ssize_t n = read(fd, got, sizeof got);

	return n == (ssize_t)strlen(want) && !memcmp(got, want, (size_t)n);
}

static bool is_whole(void)
{
	struct termios2 now;
	bool same = !ioctl(master, TCGETS2, &now) && !memcmp(&now, &settings, sizeof now) &&
		    reads(peer, "one\n") && reads(peer, "two") && reads(peer, "three\n") &&
		    read(peer, &now, 1) < 0 && errno == EAGAIN;

	now = settings;
	now.c_lflag &= ~(tcflag_t)ICANON;
	return same && !ioctl(master, TCSETS2, &now) && reads(peer, "unfinished") &&
	       reads(master, "out\r\n");
}

/* The pipe ends with the last process that copies. */
static bool survives(void)
{
	bool good = open_terminal();
	int life[2], status = 0;
	char byte;
	pid_t pid;

	if (!good || pipe(life))
		return false;
	pid = start_copier();
	close(life[1]);
	usleep((unsigned)(rand() % 2000));
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	good = read(life[0], &byte, 1) == 0 && WIFSIGNALED(status) && is_whole();
	close(life[0]);
	close(peer);
	close(master);
	return good;
}

int main(void)
{
	int kept = 0;

	while (kept < KILLS && survives())
		kept++;
	is_int(kept, KILLS, "kills of a process that copied a terminal: nothing is lost");
	return tap_done();
}
