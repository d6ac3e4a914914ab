/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/agent/worker/rank_memory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "coordinator/agent/base/packet.h"

#define REPORTED_OF_PACKET 256

json_t *memory_pack(const struct gck_common_memory *x)
{
	return json_pack("[I, I, I, I, I, b, b, b, o]", (json_int_t)x->device,
			 (json_int_t)x->inode, (json_int_t)x->size, (json_int_t)x->bytes,
			 (json_int_t)x->attached, x->whole, x->writes, x->has_path,
			 packet_string(x->name));
}

struct gck_common_memory memory_unpack(const json_t *packed)
{
	struct gck_common_memory x = { 0 };
	json_int_t v[5];
	int b[3];
	const char *name;

	if (json_unpack((json_t *)(uintptr_t)packed, "[I, I, I, I, I, b, b, b, s]", &v[0], &v[1],
			&v[2], &v[3], &v[4], &b[0], &b[1], &b[2], &name))
		return x;
	x.device = (uint64_t)v[0];
	x.inode = (uint64_t)v[1];
	x.size = (uint64_t)v[2];
	x.bytes = (uint64_t)v[3];
	x.attached = (uint64_t)v[4];
	x.whole = b[0];
	x.writes = b[1];
	x.has_path = b[2];
	snprintf(x.name, sizeof x.name, "%s", name);
	return x;
}

json_t *ipc_pack(const struct gck_ipc *x, const char *boot)
{
	return json_pack("[I, I, I, I, I, I, o]", (json_int_t)x->kind, (json_int_t)x->id,
			 (json_int_t)x->number, (json_int_t)x->key, (json_int_t)x->mode,
			 (json_int_t)x->size, packet_string(boot ? boot : ""));
}

int ipc_unpack(const json_t *packed, struct gck_ipc *x, const char **boot, struct gck_error *err)
{
	json_int_t v[6];

	if (json_unpack((json_t *)(uintptr_t)packed, "[I, I, I, I, I, I, s]", &v[0], &v[1], &v[2],
			&v[3], &v[4], &v[5], boot) || v[0] < 0 || v[0] >= GCK_IPC_KINDS)
		return gck_fail(err, EBADMSG, "its System V objects are damaged");
	*x = (struct gck_ipc){ .kind = (int32_t)v[0], .id = (int32_t)v[1],
			       .number = (int32_t)v[2], .key = (uint32_t)v[3],
			       .mode = (uint32_t)v[4], .size = (uint64_t)v[5] };
	return 0;
}

static void report_all(const struct report *r, const struct gck_common_memory *v, size_t n)
{
	json_t *all = NULL;

	for (size_t i = 0; i < n; i++) {
		all = all ? all : json_array();
		json_array_append_new(all, memory_pack(&v[i]));
		if (i + 1 < n && json_array_size(all) < REPORTED_OF_PACKET)
			continue;
		packet_send(r->fd, json_pack("{s:s, s:o}", "op", "memory", "all", all), NULL);
		all = NULL;
	}
}

int memory_report(struct report *r, struct gck_capture *c, bool alone, struct gck_error *err)
{
	struct gck_common_memory *v = NULL;
	uint64_t bytes = 0;
	size_t n = 0;
	int rc = gck_capture_memory(c, &v, &n, err);

	for (size_t i = 0; i < n && alone; i++)
		bytes += v[i].bytes;
	if (rc == 0 && alone)
		rc = gck_capture_reserve(c, bytes, err);
	else if (rc == 0)
		report_all(r, v, n);
	free(v);
	return rc;
}

int memory_share(struct gck_capture *c, const json_t *body, struct gck_error *err)
{
	const json_t *one;
	size_t i;

	json_array_foreach(json_object_get(body, "all"), i, one) {
		struct gck_common_memory x = memory_unpack(json_object_get(one, "memory"));

		if (gck_capture_share(c, &x, packet_text(one, "ranks", ""),
				      (uint32_t)packet_int(one, "number", 0),
				      (uint64_t)packet_int(one, "from", 0),
				      (uint64_t)packet_int(one, "to", 0), err) < 0)
			return gck_fail_in(err, "%s%s", GCK_IS_IPC(x.device) ? "" :
					   "shared memory ", x.name);
	}
	return 0;
}
