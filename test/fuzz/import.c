/* SPDX-License-Identifier: Apache-2.0
 * Images in files: whatever its headers say, a member lies within the file, and reading is refused
 * or has the size that was asked for. The headers' sums are set right, which no fuzzer finds. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "storage/archive/archive.h"
#include "storage/archive/tar.h"
#include "storage/store/store.h"

/* In place of store.c, which has all backends. */
void gck_store_limit(struct gck_store *s, unsigned cpus, size_t memory)
{
	s->cpus = cpus;
	s->memory = memory;
}

void gck_store_close(struct gck_store *s)
{
	s->b->ops->close(s->b);
	free(s);
}

static void set_sum(uint8_t *block)
{
	unsigned sum = 0;

	memset(block + 148, ' ', 8);
	for (size_t i = 0; i < GCK_TAR_BLOCK; i++)
		sum += block[i];
	snprintf((char *)block + 148, 8, "%06o", sum);
}

static void read_members(struct gck_store *s)
{
	uint64_t bytes, size;
	json_t *directories = gck_image_directories(s, &bytes);
	char name[GCK_NAME_MAX], data[1];

	gck_name_commit(name, ((struct gck_archive *)s->b)->seq);
	if (!directories || s->b->ops->size(s->b, name, &size, NULL))
		abort(); /* it was opened, so it has a commit */
	if (size && s->b->ops->get(s->b, name, size - 1, data, 1, NULL) == 0 &&
	    s->b->ops->get(s->b, name, size, data, 1, NULL) == 0)
		abort();
	json_decref(directories);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct gck_image_id id;
	struct gck_store *s;
	uint8_t *copy = malloc(size + 1);
	int fd = memfd_create("image", MFD_CLOEXEC);
	char path[32];

	memcpy(copy, data, size);
	for (size_t at = 0; at + GCK_TAR_BLOCK <= size; at += GCK_TAR_BLOCK)
		if (!memcmp(copy + at + 257, "ustar", 5))
			set_sum(copy + at);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	if (fd < 0 || write(fd, copy, size) != (ssize_t)size)
		abort();
	s = gck_image_open(path, &id, NULL);
	if (s) {
		read_members(s);
		gck_store_close(s);
	}
	close(fd);
	free(copy);
	return 0;
}
