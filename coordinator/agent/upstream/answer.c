/* SPDX-License-Identifier: Apache-2.0
 * Answers to the coordinator's commands. */
#include "coordinator/agent/upstream/upstream.h"

#include "common/base/error.h"
#include "coordinator/agent/base/packet.h"

static json_t *done(uint32_t seq, const char *phase, bool ok)
{
	return json_pack("{s:s, s:I, s:s, s:b}", "op", "done", "seq", (json_int_t)seq, "phase",
			 phase, "ok", ok);
}

json_t *answer_done(struct agent *a, uint32_t seq, const char *phase, json_t *data)
{
	json_t *body = done(seq, phase, true);

	if (data)
		json_object_set_new(body, "data", data);
	upstream_send(a, json_incref(body));
	return body;
}

void answer_plain(struct agent *a, uint32_t seq, const char *phase)
{
	upstream_send(a, done(seq, phase, true));
}

void answer_failed(struct agent *a, uint32_t seq, const char *phase, const struct gck_error *why,
		   const uint32_t *rank)
{
	json_t *body = done(seq, phase, false);

	json_object_set_new(body, "error", packet_string(why->text));
	json_object_set_new(body, "code", json_integer(why->code));
	if (rank)
		json_object_set_new(body, "rank", json_integer(*rank));
	upstream_send(a, body);
}
