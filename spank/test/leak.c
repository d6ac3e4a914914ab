/* SPDX-License-Identifier: Apache-2.0 */
#include "spank/task.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "test/support/tap.h"

static int will_stay(int fd)
{
	return (fcntl(fd, F_GETFD) & FD_CLOEXEC) == 0;
}

int main(void)
{
	int listener = socket(AF_UNIX, SOCK_STREAM, 0), pair[2], null = open("/dev/null", O_RDONLY);
	int quiet = socket(AF_UNIX, SOCK_STREAM, 0);

	struct sockaddr any = {.sa_family = AF_UNIX};

	/* the kernel chooses the name */
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) ||
	    bind(listener, &any, sizeof any.sa_family) || listen(listener, 1))
		return 1;
	gck_task_close_listeners();
	ok(!will_stay(listener), "a listening socket is closed at exec");
	ok(all_of(will_stay(pair[0]), will_stay(pair[1])),
	   "connected sockets stay, such as PMI-2's");
	ok(all_of(will_stay(quiet), will_stay(null)), "so do other descriptors");
	close(listener);
	close(quiet);
	close(null);
	return tap_done();
}
