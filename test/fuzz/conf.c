/* SPDX-License-Identifier: Apache-2.0
 * gpuckpt.conf: all or nothing, and an error names file and line. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/base/conf.h"

/* A file of size bytes; the same at each call. */
static const char *file_of(const uint8_t *data, size_t size)
{
	static char path[64];
	static int fd = -1;

	if (fd < 0)
		fd = memfd_create("gpuckpt.conf", 0);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	if (fd < 0 || ftruncate(fd, 0) || pwrite(fd, data, size, 0) != (ssize_t)size)
		abort();
	return path;
}

/* A text that was too long would run into the next field. */
static void check_ends(const struct gck_conf *c)
{
#define ENDS(field) (strnlen(c->field, sizeof c->field) < sizeof c->field)
	if (!ENDS(cluster) || !ENDS(host) || !ENDS(listen) || !ENDS(user) || !ENDS(state_dir) ||
	    !ENDS(munge_socket) || !ENDS(agent) || !ENDS(preload) || !ENDS(agent_log) ||
	    !ENDS(defaults.store) || !ENDS(defaults.stage))
		abort();
#undef ENDS
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct gck_conf c, before;
	struct gck_error err = { 0 };
	const char *path = file_of(data, size);

	gck_conf_init(&c);
	before = c;
	if (gck_conf_load(&c, path, &err) == 0) {
		check_ends(&c);
		return 0;
	}
	if (memcmp(&c, &before, sizeof c) != 0 || !err.code || strchr(err.text, '\n') ||
	    strncmp(err.text, path, strlen(path)) != 0 || err.text[strlen(path)] != ':')
		abort();
	return 0;
}
