/* SPDX-License-Identifier: Apache-2.0
 * thread_agent init|tool: the MPI thread of a single rank, with this program as its agent. A call
 * of the real library, MPI_Init or (before it) MPI_T_init_thread, blocks because its settings file
 * is a pipe. The thread still handles the agent's messages, and notices an agent that is silent.
 * After MPI_Init it also names open files that were removed. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "shim/link.h"
#include "shim/preload/preload.h"
#include "test/support/tap.h"

#define SOON_MS 60000   /* however slow the machine is */
#define LONG_MS 3600000 /* never reached */

static struct gck_shim_state preload = {.helper_tid = 1};

/* Replaces the preload's function; this process has no preload. */
__attribute__((visibility("default"))) struct gck_shim_state *gck_preload_state(void)
{
	return &preload;
}

/* ---- the agent ------------------------------------------------------------------------------ */

static int listener, rank_fd;
static uint64_t seq;
static struct gck_thread_msg answer;

static void listen_for_rank(void)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int n = snprintf(at.sun_path + 1, sizeof at.sun_path - 1, "gpuckpt-test-keeper-%d",
			 (int)getpid());

	memcpy(preload.link, at.sun_path + 1, (size_t)n + 1);
	listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (bind(listener, (struct sockaddr *)&at,
		 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)) ||
	    listen(listener, 1))
		exit(2);
}

static void say(uint32_t type, uint32_t limit_ms, uint32_t watchdog_ms)
{
	struct gck_thread_msg m = {.type = type, .seq = seq};
	size_t n = offsetof(struct gck_thread_msg, data);

	if (type == GCK_LINK_MPI_QUIESCE) {
		m.seq = ++seq;
		m.quiesce = (struct gck_link_mpi_quiesce){limit_ms, watchdog_ms};
		m.total = sizeof m.quiesce;
		n += sizeof m.quiesce;
	}
	if (send(rank_fd, &m, n, MSG_NOSIGNAL) != (ssize_t)n)
		exit(2);
}

/* Receives the next message into `answer`. */
static bool hear_next(void)
{
	struct pollfd p = {.fd = rank_fd, .events = POLLIN};

	memset(&answer, 0, sizeof answer);
	return poll(&p, 1, SOON_MS) == 1 && recv(rank_fd, &answer, sizeof answer - 1, 0) > 0;
}

/* Receives messages up to the next one of the type. */
static bool hear(uint32_t type)
{
	while (hear_next())
		if (answer.type == type)
			return true;
	return false;
}

static void quiesced(uint32_t value, const char *why, const char *name)
{
	bool heard = hear(GCK_LINK_MPI_QUIESCED);

	ok(all_of(heard, answer.value == value, strstr((char *)answer.data, why)), "%s", name);
	if (heard)
		printf("# %s\n", (char *)answer.data);
}

/* ---- the program ---------------------------------------------------------------------------- */

static char settings[] = "/dev/shm/gpuckpt-keeper-XXXXXX", file[sizeof settings + 16];
static bool of_tool;

static void *call(void *unused)
{
	int provided;

	if (of_tool)
		MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
	else
		MPI_Init(NULL, NULL);
	return unused;
}

static void make_settings(void)
{
	if (!mkdtemp(settings))
		exit(2);
	snprintf(file, sizeof file, "%s/pipe", settings);
	if (mkfifo(file, 0600))
		exit(2);
	setenv("OMPI_MCA_mca_base_param_files", file, 1);
}

/* Waits until the call reads the pipe. */
static int wait_inside(void)
{
	struct timespec pause = {.tv_nsec = 1000000};
	int fd;

	while ((fd = open(file, O_WRONLY | O_NONBLOCK | O_CLOEXEC)) < 0)
		nanosleep(&pause, NULL);
	return fd;
}

/* Closes the pipe without data and replaces it by a plain file for later reads. */
static void let_go(int fd)
{
	unlink(file);
	close(open(file, O_CREAT | O_WRONLY, 0600));
	close(fd);
}

/* ---- files ----------------------------------------------------------------------------------- */

#define FILES 3

/* Each of the open files in turn is removed. The thread names those that are. */
static void removed_files(void)
{
	MPI_File open_files[FILES];
	char path[FILES][sizeof settings + 16];
	int named;

	for (int i = 0; i < FILES; i++) {
		snprintf(path[i], sizeof path[i], "%s/file%d", settings, i);
		MPI_File_open(MPI_COMM_SELF, path[i], MPI_MODE_CREATE | MPI_MODE_RDWR,
			      MPI_INFO_NULL, &open_files[i]);
	}
	for (int i = 0; i < FILES; i++) {
		unlink(path[i]);
		say(GCK_LINK_MPI_LIST_OBSTACLES, 0, 0);
		named = 0;
		while (hear_next() && answer.type != GCK_LINK_MPI_OBSTACLES_END)
			named += answer.type == GCK_LINK_MPI_OBSTACLE &&
				 strstr((char *)answer.data, settings);
		ok(all_of(answer.type == GCK_LINK_MPI_OBSTACLES_END, named == i + 1),
		   "the %d removed files of %d open ones are named", i + 1, FILES);
	}
	for (int i = 0; i < FILES; i++)
		MPI_File_close(&open_files[i]);
}

int main(int argc, char **argv)
{
	const char *where;
	pthread_t thread;
	int fd;

	of_tool = argc > 1 && !strcmp(argv[1], "tool");
	where = of_tool ? "MPI_T_init_thread" : "MPI_Init";
	listen_for_rank();
	make_settings();
	pthread_create(&thread, NULL, call, NULL);
	fd = wait_inside();
	rank_fd = accept(listener, NULL, NULL);
	ok(hear(GCK_LINK_MPI_HELLO), "the rank sends a hello");
	say(GCK_LINK_MPI_QUIESCE, LONG_MS, LONG_MS);
	say(GCK_LINK_MPI_RESUME, 0, 0);
	quiesced(ECANCELED, "called off", "a quiesce can be called off while a call does not end");
	say(GCK_LINK_MPI_QUIESCE, LONG_MS, 100);
	quiesced(ETIMEDOUT, "the agent was silent", "a quiesce ends when the agent is silent");
	say(GCK_LINK_MPI_QUIESCE, 100, LONG_MS);
	quiesced(ETIMEDOUT, where, "a quiesce ends at its limit and reports the call");
	let_go(fd);
	pthread_join(thread, NULL);
	say(GCK_LINK_MPI_QUIESCE, LONG_MS, LONG_MS);
	quiesced(0, "", "a quiesce succeeds when the call ends");
	say(GCK_LINK_MPI_RESUME, 0, 0);
	if (!of_tool)
		removed_files();
	if (of_tool)
		MPI_T_finalize();
	else
		MPI_Finalize();
	unlink(file);
	rmdir(settings);
	return tap_done();
}
