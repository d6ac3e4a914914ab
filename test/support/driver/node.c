/* SPDX-License-Identifier: Apache-2.0
 * The fake driver: the devices of the node, those that a process sees, and a restore on other
 * devices. */
#include "test/support/driver/bodies.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void add(struct fake_node *node, int letter, const char *name)
{
	struct fake_device *d = &node->v[node->n];

	if (node->n == FAKE_MAX_DEVICES)
		return;
	memset(&d->uuid, letter, sizeof d->uuid);
	snprintf(d->name, sizeof d->name, "%.63s", name);
	node->n++;
}

static void read_file(struct fake_node *node, const char *path)
{
	FILE *f = fopen(path, "re");
	char line[80];

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

void fake_node_see(struct fake_node *seen)
{
	const char *visible = getenv("CUDA_VISIBLE_DEVICES");
	struct fake_node all;
	char *end;

	fake_node_read(&all);
	if (!visible) {
		*seen = all;
		return;
	}
	for (seen->n = 0; seen->n < FAKE_MAX_DEVICES; visible = end + 1) {
		long i = strtol(visible, &end, 10);

		if (end == visible || i < 0 || i >= all.n)
			break; /* devices behind an invalid one are not seen */
		seen->v[seen->n++] = all.v[i];
		if (*end != ',')
			break;
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
