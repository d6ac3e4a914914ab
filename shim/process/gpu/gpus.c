/* SPDX-License-Identifier: Apache-2.0
 * GPUs of a task: which ones the driver shows, and which of them a restored rank gets. */
#include "config.h"

#include "shim/process/gpu/gpu.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/environ_slots.h"
#include "shim/cuda/base/state.h"
#include "shim/process/gpu/gpu_type.h"
#include "shim/process/ptrace/rebuild.h"
#include "shim/process/ptrace/restore_note.h"

#define PROGRAM "gpuckpt-gpus"
#define LIMIT_MS 60000 /* without its persistence daemon the driver takes seconds for each GPU */

extern char **environ;

/* The path of gpuckpt-gpus: beside this program's file. */
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

/* The environment without LD_PRELOAD, which would make the program a rank. Its pointers point into
 * text. */
static char **without_preload(const char *text, size_t size)
{
	size_t n = 0, capacity = 1, at = 0;
	const char *entry;
	char **list;

	while (gck_slots_next(text, size, &at, NULL))
		capacity++;
	list = malloc(capacity * sizeof *list);
	if (!list)
		return NULL;
	for (at = 0; (entry = gck_slots_next(text, size, &at, NULL));)
		if (strncmp(entry, "LD_PRELOAD=", 11))
			list[n++] = (char *)entry;
	list[n] = NULL;
	return list;
}

static void become(const char *path, char *const *argv, char **list, int out)
{
	dup2(out, STDOUT_FILENO);
	execve(path, argv, list);
	dprintf(STDOUT_FILENO, "%s: %s: check the installation", path, strerror(errno));
	_exit(1);
}

/* Read the program's output, up to size bytes or a time limit. Returns the bytes read. */
static size_t read_output(int fd, void *buffer, size_t size)
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

/* Start the program. Returns the reading end of its output. */
static int start(char *const *argv, char **list, pid_t *pid, struct gck_error *err)
{
	char path[PATH_MAX];
	int ends[2];

	if (program(path, err))
		return -1;
	if (pipe2(ends, O_CLOEXEC))
		return gck_fail(err, errno, "pipe: %s", strerror(errno));
	*pid = fork();
	if (*pid == 0)
		become(path, argv, list, ends[1]);
	close(ends[1]);
	if (*pid > 0)
		return ends[0];
	gck_fail(err, errno, "fork: %s", strerror(errno));
	close(ends[0]);
	return -1;
}

/* Check a list, which comes from an image or from a program of another release. */
static bool is_list_sound(const struct gck_cuda_devices *l)
{
	if (l->all > GCK_CUDA_DEVICES_MAX || l->n > l->all ||
	    !memchr(l->driver, '\0', sizeof l->driver))
		return false;
	for (uint32_t i = 0; i < l->all; i++)
		if (!memchr(l->v[i].name, '\0', sizeof l->v[i].name))
			return false;
	return true;
}

/* The program's arguments. functions: names that end with NUL. Its pointers point into both. */
static char **arguments(const char *library, const char *functions, size_t size)
{
	size_t n = 0;
	char **argv;

	for (size_t at = 0; at < size; at++)
		n += !functions[at];
	argv = malloc((n + 3) * sizeof *argv);
	if (!argv)
		return NULL;
	argv[0] = (char *)PROGRAM;
	argv[1] = (char *)library;
	n = 2;
	for (size_t at = 0; at < size; at += strlen(functions + at) + 1)
		argv[n++] = (char *)functions + at;
	argv[n] = NULL;
	return argv;
}

static int read_answer(int fd, struct gck_cuda_here *out, struct gck_error *err)
{
	struct {
		struct gck_cuda_here here; /* or a text */
		char end[8];
	} answer = {.end = ""};
	size_t got = read_output(fd, &answer, sizeof answer.here);

	if (got != sizeof answer.here)
		return gck_fail(err, ENODEV, "it needs GPUs: %.200s",
				got ? (const char *)&answer
				    : "the driver does not answer");
	if (!is_list_sound(&answer.here.devices) ||
	    !memchr(answer.here.lacks, '\0', sizeof answer.here.lacks))
		return gck_fail(err, EBADMSG,
				PROGRAM " gave an invalid answer: is it of another release?");
	*out = answer.here;
	return 0;
}

/* Run gpuckpt-gpus. environment: the task's, entries that end with NUL; NULL: this process's. */
static int ask_gpus(char *const *argv, const char *environment, size_t size,
		    struct gck_cuda_here *out, struct gck_error *err)
{
	char **list = environment ? without_preload(environment, size) : environ;
	int fd, failed;
	pid_t pid = -1;

	if (!list)
		return gck_fail(err, ENOMEM, "no memory for an environment");
	fd = start(argv, list, &pid, err);
	if (list != environ)
		free(list);
	if (fd < 0)
		return -1;
	failed = read_answer(fd, out, err);
	close(fd);
	kill(pid, SIGKILL); /* its output is complete, or it hangs */
	waitpid(pid, NULL, 0);
	return failed;
}

/* ---- choose -------------------------------------------------------------------------------- */

/* The GPU's index in the list, or -1. */
static int place_of(const struct gck_cuda_devices *l, const unsigned char uuid[16])
{
	for (uint32_t i = 0; i < l->n; i++)
		if (!memcmp(l->v[i].uuid, uuid, 16))
			return (int)i;
	return -1;
}

static bool sees_all(const struct gck_cuda_devices *here, const struct gck_cuda_devices *wanted)
{
	for (uint32_t i = 0; i < wanted->n; i++)
		if (place_of(here, wanted->v[i].uuid) < 0)
			return false;
	return true;
}

/* A fresh driver shows the same devices by the same numbers. */
static bool is_same(const struct gck_cuda_devices *here, const struct gck_cuda_devices *wanted)
{
	for (uint32_t i = 0; i < wanted->n; i++)
		if (place_of(here, wanted->v[i].uuid) != (int)i)
			return false;
	return here->n == wanted->n;
}

static void places_by_uuid(const struct gck_cuda_devices *was, const struct gck_cuda_devices *here,
			   uint32_t place[])
{
	for (uint32_t i = 0; i < was->n; i++)
		place[i] = (uint32_t)place_of(here, was->v[i].uuid);
}

/* The indexes of n devices in CUDA_VISIBLE_DEVICES, such as "2,3", if the list has n entries that
 * exist here; else 0, 1, ... A launcher that binds no task to GPUs shows all of them to each, and a
 * script around the program selects the rank's own. */
static void places_of(const char *visible, uint32_t n, uint32_t here, uint32_t place[])
{
	char *end;

	for (uint32_t i = 0; i < n; i++) {
		unsigned long one = strtoul(visible, &end, 10);

		place[i] = (uint32_t)one;
		if (end == visible || one >= here || *end != (i + 1 < n ? ',' : '\0'))
			break;
		if (i + 1 == n)
			return;
		visible = end + 1;
	}
	for (uint32_t i = 0; i < n; i++)
		place[i] = i;
}

/* Also assign the devices that the program does not see: each gets one of those that are left. */
static int place_hidden(const struct gck_cuda_devices *was, const struct gck_cuda_devices *here,
			uint32_t place[], struct gck_error *err)
{
	bool taken[GCK_CUDA_DEVICES_MAX] = {false};
	uint32_t next = 0;

	if (here->all < was->all)
		return gck_fail(err, ENOTSUP,
				"the image's rank could open %u GPUs, the one here can open %u, "
				"and the driver needs one for each: restart it where as many can "
				"be opened",
				was->all, here->all);
	for (uint32_t i = 0; i < was->n; i++)
		taken[place[i]] = true;
	for (uint32_t i = was->n; i < was->all; i++) {
		while (taken[next])
			next++;
		taken[next] = true;
		place[i] = next;
	}
	return 0;
}

/* The driver's state is in the image, or a fresh driver must have the program's functions. */
static int driver_suits(const struct gck_cuda_state *s, const struct gck_cuda_here *here,
			struct gck_error *err)
{
	const char *was = s->devices.driver, *is = here->devices.driver;

	if (!s->replays && strcmp(was, is))
		return gck_fail(err, ENOTSUP,
				"the image is of the NVIDIA driver %s, the one here is %s, which "
				"cannot restore it: restart it on nodes with that driver",
				was, is);
	if (*here->lacks)
		return gck_fail(err, ENOTSUP,
				"the image is of the NVIDIA driver %s, the one here is %s and "
				"lacks functions that the program has: %s: restart it on nodes "
				"with that driver or a later one",
				was, is, here->lacks);
	return 0;
}

static int choose(struct gck_cuda_state *s, const char *code, const struct gck_cuda_devices *here,
		  struct gck_error *err)
{
	const struct gck_cuda_devices *was = &s->devices;
	uint32_t place[GCK_CUDA_DEVICES_MAX];

	if (s->replays ? is_same(here, was) : sees_all(here, was)) {
		s->nonto = 0;
		return 0;
	}
	if (here->n < was->n)
		return gck_fail(err, ENOTSUP,
				"the image has %u GPUs (%s), the task here %u: restart it with as "
				"many GPUs for each task",
				was->n, was->v[0].name, here->n);
	if (sees_all(here, was))
		places_by_uuid(was, here, place);
	else
		places_of(here->n > was->n ? s->visible : "", was->n, here->n, place);
	for (uint32_t i = 0; i < was->n; i++)
		if (gck_gpu_type_suits(s, code, i, &here->v[place[i]], err))
			return -1;
	if (!s->replays && place_hidden(was, here, place, err))
		return -1;
	s->nonto = s->replays ? was->n : was->all;
	for (uint32_t i = 0; i < s->nonto; i++)
		memcpy(s->onto[i], here->v[place[i]].uuid, sizeof s->onto[i]);
	return 0;
}

/* What is otherwise on other GPUs. */
static int tell(struct gck_restore *r, const struct gck_cuda_state *s,
		const struct gck_cuda_devices *here, struct gck_error *err)
{
	char text[GCK_GPU_TYPE_TEXT];

	for (uint32_t i = 0; i < s->nonto && i < s->devices.n; i++) {
		int place = place_of(here, s->onto[i]);

		if (place >= 0 &&
		    gck_gpu_type_differs(&s->devices.v[i], &here->v[place], text) &&
		    gck_restore_note(r, err, "GPU %u is %s", i, text))
			return -1;
	}
	return 0;
}

/* ---- in a restore -------------------------------------------------------------------------- */

static bool is_sound(const struct gck_cuda_state *s)
{
	return is_list_sound(&s->devices) && memchr(s->library, '\0', sizeof s->library) &&
	       memchr(s->visible, '\0', sizeof s->visible) &&
	       s->functions_size <= GCK_CUDA_FUNCTIONS_SIZE && s->code_size <= GCK_CUDA_CODE_SIZE;
}

/* A list of texts that the image has: they end with NUL. */
static int read_list(struct gck_restore *r, uint64_t address, char *list, size_t size,
		     struct gck_error *err)
{
	if (size && gck_remote_read(&r->remote, address, list, size, err))
		return -1;
	if (size && list[size - 1])
		return gck_fail(err, EBADMSG, "the image's list of what it needs of the CUDA "
				"driver is invalid: restart from another commit");
	return 0;
}

/* What the task has here. */
static int look(struct gck_restore *r, const struct gck_cuda_state *s, struct gck_cuda_here *here,
		struct gck_error *err)
{
	char functions[GCK_CUDA_FUNCTIONS_SIZE], **argv;
	int failed;

	if (read_list(r, s->functions, functions, s->functions_size, err))
		return -1;
	argv = arguments(s->library, functions, s->functions_size);
	if (!argv)
		return gck_fail(err, ENOMEM, "no memory for a list of functions");
	failed = ask_gpus(argv, r->environment, r->environment_size, here, err);
	free(argv);
	return failed;
}

int gck_restore_gpus(struct gck_restore *r, uint64_t address, struct gck_error *err)
{
	char code[GCK_CUDA_CODE_SIZE];
	struct gck_cuda_here here;
	struct gck_cuda_state s;

	if (gck_remote_read(&r->remote, address, &s, sizeof s, err))
		return -1;
	if (s.magic != GCK_CUDA_STATE_MAGIC || s.version != GCK_CUDA_STATE_VERSION ||
	    s.size != sizeof s)
		return gck_fail(err, ENOTSUP,
				"the image was taken with another version of gpuckpt's stand-in "
				"for the CUDA driver: restart with that version");
	if (s.devices.n == 0)
		return 0;
	if (!is_sound(&s))
		return gck_fail(err, EBADMSG,
				"the image's list of GPUs is invalid: restart from "
				"another commit");
	if (read_list(r, s.code, code, s.code_size, err) || look(r, &s, &here, err) ||
	    driver_suits(&s, &here, err) || choose(&s, code, &here.devices, err) ||
	    tell(r, &s, &here.devices, err))
		return -1;
	return gck_remote_write(&r->remote, address, &s, sizeof s, err);
}
