/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "shim/process/gpu/gpu_assignment.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "shim/process/gpu/visible_gpus.h"
#include "shim/process/ptrace/rebuild.h"

/* ---- choose ----------------------------------------------------------------------------------- */

/* Where it is in the list, or -1. */
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

/* "2,3" for two devices, if there are as many here: their places; else 0, 1, ... A launcher that binds no
 * task to GPUs shows all of them to each, and a script around the program names the rank's own. */
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

static int suits(const struct gck_cuda_device *was, const struct gck_cuda_device *is, uint32_t i,
		 struct gck_error *err)
{
	if (!strcmp(was->name, is->name))
		return 0;
	return gck_fail(err, ENOTSUP, "GPU %u of the image is a %s, the one for it here a %s: restart it on "
			"nodes with GPUs of that type", i, was->name, is->name);
}

/* Those that the program does not see, too: each has one of those that are left. */
static int place_hidden(const struct gck_cuda_devices *was, const struct gck_cuda_devices *here, uint32_t place[],
			struct gck_error *err)
{
	bool taken[GCK_CUDA_DEVICES_MAX] = {false};
	uint32_t next = 0;

	if (here->all < was->all)
		return gck_fail(err, ENOTSUP, "the image is of a node with %u GPUs, this one has %u, and the driver wants "
				"one for each: restart it on nodes with as many", was->all, here->all);
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

int gck_restore_gpus_choose(struct gck_cuda_state *s, const struct gck_cuda_devices *here,
			    struct gck_error *err)
{
	const struct gck_cuda_devices *was = &s->devices;
	uint32_t place[GCK_CUDA_DEVICES_MAX];

	if (strcmp(was->driver, here->driver))
		return gck_fail(err, ENOTSUP, "the image is of the NVIDIA driver %s, the one here is %s, which "
				"cannot restore it: restart it on nodes with that driver", was->driver,
				here->driver);
	if (sees_all(here, was)) {
		s->nonto = 0;
		return 0;
	}
	if (here->n < was->n)
		return gck_fail(err, ENOTSUP, "the image has %u GPUs (%s), the task here %u: restart it with as "
				"many GPUs for each task", was->n, was->v[0].name, here->n);
	places_of(here->n > was->n ? s->visible : "", was->n, here->n, place);
	for (uint32_t i = 0; i < was->n; i++)
		if (suits(&was->v[i], &here->v[place[i]], i, err))
			return -1;
	if (place_hidden(was, here, place, err))
		return -1;
	for (uint32_t i = 0; i < was->all; i++)
		memcpy(s->onto[i], here->v[place[i]].uuid, sizeof s->onto[i]);
	s->nonto = was->all;
	return 0;
}

/* ---- in a restore ----------------------------------------------------------------------------- */

static bool is_sound(const struct gck_cuda_state *s)
{
	return gck_gpus_sound(&s->devices) && memchr(s->library, '\0', sizeof s->library) &&
	       memchr(s->visible, '\0', sizeof s->visible);
}

int gck_restore_gpus(struct gck_restore *r, uint64_t address, struct gck_error *err)
{
	struct gck_cuda_devices here;
	struct gck_cuda_state s;

	if (gck_remote_read(&r->remote, address, &s, sizeof s, err))
		return -1;
	if (s.magic != GCK_CUDA_STATE_MAGIC || s.version != GCK_CUDA_STATE_VERSION || s.size != sizeof s)
		return gck_fail(err, ENOTSUP, "the image was taken with another version of gpuckpt's stand-in "
				"for the CUDA driver: restart with that version");
	if (s.devices.n == 0)
		return 0;
	if (!is_sound(&s))
		return gck_fail(err, EBADMSG, "what the image says of its GPUs makes no sense: restart from another "
				"commit");
	if (gck_ask_gpus(s.library, r->environment, r->environment_size, &here, err) ||
	    gck_restore_gpus_choose(&s, &here, err))
		return -1;
	return gck_remote_write(&r->remote, address, &s, sizeof s, err);
}
