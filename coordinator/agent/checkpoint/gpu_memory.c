/* SPDX-License-Identifier: Apache-2.0
 * How much of its memory each device has for the copies of each process that uses it. */
#include "config.h"

#include "coordinator/agent/checkpoint/gpu_memory.h"

#include <stdlib.h>
#include <string.h>

#include "coordinator/agent/base/packet.h"
#include "shim/process/image/image.h"

/* A device: the bytes of all processes' data there, the least free bytes that one has reported, and
 * how many processes have data there. */
struct device {
	const char *uuid;
	json_int_t bytes, free_bytes;
	size_t processes;
};

struct devices {
	struct device *v;
	size_t n;
};

/* Read a process's report on one device; false: it has no data there. */
static bool read_one(const json_t *said, struct device *d)
{
	*d = (struct device){ .uuid = packet_text(said, "uuid", ""),
			      .bytes = packet_int(said, "bytes", 0),
			      .free_bytes = packet_int(said, "room", 0), .processes = 1 };
	return d->bytes > 0;
}

static struct device *find(const struct devices *all, const char *uuid)
{
	for (size_t i = 0; i < all->n; i++)
		if (!strcmp(all->v[i].uuid, uuid))
			return &all->v[i];
	return NULL;
}

static int add(struct devices *all, const struct device *one, struct gck_error *err)
{
	struct device *d = find(all, one->uuid);

	if (d) {
		d->free_bytes = d->free_bytes < one->free_bytes ? d->free_bytes : one->free_bytes;
		d->bytes += one->bytes;
		d->processes++;
		return 0;
	}
	d = gck_grow(&all->v, &all->n, sizeof *d, err);
	if (!d)
		return -1;
	*d = *one;
	return 0;
}

/* What `prepare` said of the processes that use CUDA. */
static const json_t *said_gpus(const struct rank_checkpoint *m)
{
	return m->carried ? NULL : json_object_get(m->answer[PHASE_PREPARE], "gpus");
}

static int count(const struct transaction *t, struct devices *all, struct gck_error *err)
{
	const json_t *gpu, *said;
	struct device one;
	size_t k, d;

	for (size_t i = 0; i < t->n; i++)
		json_array_foreach(said_gpus(&t->ranks[i]), k, gpu)
			json_array_foreach(json_object_get(gpu, "devices"), d, said)
				if (read_one(said, &one) && add(all, &one, err) < 0)
					return -1;
	return 0;
}

static void share(struct gpu_process *g, const json_t *gpu, const struct devices *all)
{
	struct device one;
	const json_t *said;
	size_t i;

	json_array_foreach(json_object_get(gpu, "devices"), i, said) {
		const struct device *d;

		if (i >= GCK_LINK_CUDA_DEVICES || !read_one(said, &one))
			continue;
		d = find(all, one.uuid);
		if (d->bytes > d->free_bytes)
			one.bytes = (json_int_t)((double)one.bytes / (double)d->bytes *
						 (double)d->free_bytes);
		g->device_copy_max[i] = d->processes > 1 ? (uint64_t)one.bytes : UINT64_MAX;
		g->fits_device += one.bytes;
	}
}

static int share_with(struct rank_checkpoint *m, const struct devices *all, struct gck_error *err)
{
	const json_t *gpu;
	size_t i;

	json_array_foreach(said_gpus(m), i, gpu) {
		pid_t number = (pid_t)packet_int(gpu, "pid", 0);
		struct gpu_process *g = rank_checkpoint_add_gpu(m, number, err);

		if (!g)
			return -1;
		memset(g->device_copy_max, 0, sizeof g->device_copy_max);
		g->fits_device = 0;
		g->bytes = packet_int(gpu, "device", 0);
		share(g, gpu, all);
	}
	return 0;
}

int gpu_share_memory(struct transaction *t, struct gck_error *err)
{
	struct devices all = { .v = NULL };
	int rc = count(t, &all, err);

	for (size_t i = 0; i < t->n && rc == 0; i++)
		rc = share_with(&t->ranks[i], &all, err);
	free(all.v);
	return rc;
}
