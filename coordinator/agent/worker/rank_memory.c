/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/agent/worker/rank_memory.h"

#include <stdio.h>
#include <stdlib.h>

#include "coordinator/agent/base/packet.h"

#define REPORTED_OF_PACKET 256

json_t *memory_pack(const struct gck_common_memory *x)
{
	return json_pack("[I, I, I, I, b, b, b, o]", (json_int_t)x->device, (json_int_t)x->inode,
			 (json_int_t)x->size, (json_int_t)x->bytes, x->whole, x->writes,
			 x->has_path, packet_string(x->name));
}

struct gck_common_memory memory_unpack(const json_t *packed)
{
	struct gck_common_memory x = { 0 };
	json_int_t v[4];
	int b[3];
	const char *name;

	if (json_unpack((json_t *)(uintptr_t)packed, "[I, I, I, I, b, b, b, s]", &v[0], &v[1],
			&v[2], &v[3], &b[0], &b[1], &b[2], &name))
		return x;
	x.device = (uint64_t)v[0];
	x.inode = (uint64_t)v[1];
	x.size = (uint64_t)v[2];
	x.bytes = (uint64_t)v[3];
	x.whole = b[0];
	x.writes = b[1];
	x.has_path = b[2];
	snprintf(x.name, sizeof x.name, "%s", name);
	return x;
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
			return gck_fail_in(err, "shared memory %s", x.name);
	}
	return 0;
}
