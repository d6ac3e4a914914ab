/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "shim/process/gpu/visible_gpus.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/environ_slots.h"

#define PROGRAM "gpuckpt-gpus"
#define LIMIT_MS 60000 /* a driver that is not kept up by its daemon takes seconds for each GPU */

extern char **environ;

/* The folder of this program's file. */
static int program(char path[PATH_MAX], struct gck_error *err)
{
	ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - sizeof PROGRAM);
	char *name;

	path[n > 0 ? n : 0] = '\0';
	name = strrchr(path, '/');
	if (!name)
		return gck_fail(err, errno, "/proc/self/exe: %s", strerror(errno));
	strcpy(name + 1, PROGRAM);
	return 0;
}

/* All but what would make a rank of it. Pointers into text. */
static char **without_preload(const char *text, size_t size)
{
	size_t n = 0, room = 1, at = 0;
	const char *entry;
	char **list;

	while (gck_slots_next(text, size, &at, NULL))
		room++;
	list = malloc(room * sizeof *list);
	if (!list)
		return NULL;
	for (at = 0; (entry = gck_slots_next(text, size, &at, NULL));)
		if (strncmp(entry, "LD_PRELOAD=", 11))
			list[n++] = (char *)entry;
	list[n] = NULL;
	return list;
}

static void become(const char *path, const char *library, char **list, int out)
{
	char *const argv[] = {(char *)PROGRAM, (char *)library, NULL};

	dup2(out, STDOUT_FILENO);
	execve(path, argv, list);
	dprintf(STDOUT_FILENO, "%s: %s: check the installation", path, strerror(errno));
	_exit(1);
}

/* All that it says, up to size; what it got. Its end may not come. */
static size_t hear(int fd, void *buffer, size_t size)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	size_t got = 0;
	ssize_t n = 1;

	while (n > 0 && got < size && poll(&p, 1, LIMIT_MS) > 0) {
		n = read(fd, (char *)buffer + got, size - got);
		got += n > 0 ? (size_t)n : 0;
	}
	return got;
}

/* Start it; its output's end. */
static int start(const char *library, char **list, pid_t *pid, struct gck_error *err)
{
	char path[PATH_MAX];
	int ends[2];

	if (program(path, err))
		return -1;
	if (pipe2(ends, O_CLOEXEC))
		return gck_fail(err, errno, "pipe: %s", strerror(errno));
	*pid = fork();
	if (*pid == 0)
		become(path, library, list, ends[1]);
	close(ends[1]);
	if (*pid > 0)
		return ends[0];
	gck_fail(err, errno, "fork: %s", strerror(errno));
	close(ends[0]);
	return -1;
}

bool gck_gpus_sound(const struct gck_cuda_devices *l)
{
	if (l->all > GCK_CUDA_DEVICES_MAX || l->n > l->all || !memchr(l->driver, '\0', sizeof l->driver))
		return false;
	for (uint32_t i = 0; i < l->all; i++)
		if (!memchr(l->v[i].name, '\0', sizeof l->v[i].name))
			return false;
	return true;
}

int gck_ask_gpus(const char *library, const char *environment, size_t size, struct gck_cuda_devices *out,
		 struct gck_error *err)
{
	struct {
		struct gck_cuda_devices devices; /* or a text */
		char end[8];
	} said = {.end = ""};
	char **list = environment ? without_preload(environment, size) : environ;
	int fd, status = -1;
	size_t got;
	pid_t pid = -1;

	if (!list)
		return gck_fail(err, ENOMEM, "no memory for an environment");
	fd = start(library, list, &pid, err);
	if (list != environ)
		free(list);
	if (fd < 0)
		return -1;
	got = hear(fd, &said, sizeof said.devices);
	close(fd);
	kill(pid, SIGKILL); /* it has said all, or is stuck */
	waitpid(pid, &status, 0);
	if (got != sizeof said.devices)
		return gck_fail(err, ENODEV, "it needs GPUs: %.200s", got ? (const char *)&said : "the driver "
				"does not answer");
	if (!gck_gpus_sound(&said.devices))
		return gck_fail(err, EBADMSG, PROGRAM " says what makes no sense: is it of another release?");
	*out = said.devices;
	return 0;
}
