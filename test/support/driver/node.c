/* SPDX-License-Identifier: Apache-2.0
 * The fake driver: the devices of the node, those that a process sees, and a restore on other
 * devices. */
#include "test/support/driver/bodies.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int number(const char *text, const char *key, int otherwise)
{
	const char *at = text ? strstr(text, key) : NULL;

	return at ? atoi(at + strlen(key)) : otherwise;
}

static void add(struct fake_node *node, int letter, const char *name)
{
	const char *mib = getenv("FAKE_CUDA_MEMORY"), *more = strstr(name, " | ");
	struct fake_device *d = &node->v[node->n];

	if (node->n == FAKE_MAX_DEVICES)
		return;
	memset(&d->uuid, letter, sizeof d->uuid);
	snprintf(d->name, sizeof d->name, "%.*s", more ? (int)(more - name) : 63, name);
	d->arch = number(more, "arch=", 90);
	d->multiprocessors = number(more, "multiprocessors=", 132);
	d->shared = number(more, "shared=", 232448);
	d->l2 = number(more, "l2=", 50 << 20);
	d->memory = (size_t)number(more, "memory=", mib && *mib ? atoi(mib) : 1024) << 20;
	node->n++;
}

static void read_file(struct fake_node *node, const char *path)
{
	FILE *f = fopen(path, "re");
	char line[160];

	while (f && fgets(line, sizeof line, f)) {
		line[strcspn(line, "\n")] = '\0';
		if (strlen(line) > 2)
			add(node, line[0], line + 2);
	}
	if (f)
		fclose(f);
}

void fake_node_read(struct fake_node *node)
{
	const char *path = getenv("FAKE_CUDA_NODE"), *n = getenv("FAKE_CUDA_DEVICES");

	node->n = 0;
	if (path) {
		read_file(node, path);
		return;
	}
	for (int i = 0; i < (n && *n ? atoi(n) : 1) && i < FAKE_MAX_DEVICES; i++) {
		add(node, 'f', "gpuckpt's fake device");
		node->v[i].uuid.bytes[15] = (char)i;
	}
}

/* The device of a UUID, as "GPU-61616161-6161-..."; -1: none. */
static int by_uuid(const struct fake_node *all, const char *text, size_t n)
{
	char own[48], *at;

	for (int i = 0; i < all->n; i++) {
		at = own + sprintf(own, "GPU");
		for (int b = 0; b < 16; b++)
			at += sprintf(at, "%s%02x", !b || b == 4 || b == 6 || b == 8 || b == 10
							    ? "-" : "",
				      (unsigned char)all->v[i].uuid.bytes[b]);
		if (n == strlen(own) && !memcmp(text, own, n))
			return i;
	}
	return -1;
}

/* Devices behind an invalid one are not seen. */
void fake_node_see(struct fake_node *seen)
{
	const char *visible = getenv("CUDA_VISIBLE_DEVICES");
	struct fake_node all;

	fake_node_read(&all);
	if (!visible) {
		*seen = all;
		return;
	}
	for (seen->n = 0; *visible && seen->n < FAKE_MAX_DEVICES;) {
		size_t n = strcspn(visible, ",");
		char *end;
		long i = strtol(visible, &end, 10);

		if (end != visible + n)
			i = by_uuid(&all, visible, n);
		if (i < 0 || i >= all.n)
			break;
		seen->v[seen->n++] = all.v[i];
		visible += n + (visible[n] == ',');
	}
}

static unsigned instance_of(const struct fake_device *d)
{
	const unsigned char *uuid = (const void *)d->uuid.bytes;

	return (uuid[0] % 16u + (uuid[15] == uuid[0] ? 0 : uuid[15])) % 32;
}

unsigned fake_node_instance(CUdevice device)
{
	return instance_of(&fake.seen.v[device]);
}

CUdevice fake_node_first(unsigned instance)
{
	for (int i = 0; i < fake.first.n; i++)
		if (instance_of(&fake.first.v[i]) == instance)
			return i;
	return -1;
}

static const struct fake_device *find(const struct fake_node *node, const CUuuid *uuid)
{
	for (int i = 0; i < node->n; i++)
		if (!memcmp(&node->v[i].uuid, uuid, sizeof *uuid))
			return &node->v[i];
	return NULL;
}

/* Every device that the process sees must be named once, and every new device at most once. */
static const CUuuid *new_of(const CUcheckpointRestoreArgs *args, const CUuuid *old)
{
	const CUuuid *found = NULL;

	for (unsigned int i = 0; i < args->gpuPairsCount; i++) {
		if (memcmp(&args->gpuPairs[i].oldUuid, old, sizeof *old))
			continue;
		if (found)
			return NULL;
		found = &args->gpuPairs[i].newUuid;
	}
	return found;
}

static CUresult paired(const CUcheckpointRestoreArgs *args, const CUuuid *to[])
{
	if (args->gpuPairsCount != (unsigned int)fake.seen.n)
		return CUDA_ERROR_INVALID_VALUE;
	for (int i = 0; i < fake.seen.n; i++) {
		to[i] = new_of(args, &fake.seen.v[i].uuid);
		for (int j = 0; to[i] && j < i; j++)
			if (!memcmp(to[i], to[j], sizeof *to[i]))
				to[i] = NULL;
		if (!to[i])
			return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

CUresult fake_node_move(const CUcheckpointRestoreArgs *args)
{
	const CUuuid *to[FAKE_MAX_DEVICES];
	struct fake_node here;
	CUresult rc = CUDA_SUCCESS;

	fake_node_read(&here);
	for (int i = 0; i < fake.seen.n; i++)
		to[i] = &fake.seen.v[i].uuid;
	if (args && args->gpuPairsCount)
		rc = paired(args, to);
	for (int i = 0; !rc && i < fake.seen.n; i++) {
		const struct fake_device *d = find(&here, to[i]);

		if (!d || strcmp(d->name, fake.seen.v[i].name))
			rc = CUDA_ERROR_NOT_SUPPORTED;
	}
	for (int i = 0; !rc && i < fake.seen.n; i++)
		fake.seen.v[i].uuid = *to[i];
	return rc;
}
