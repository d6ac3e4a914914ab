/* SPDX-License-Identifier: Apache-2.0
 * Keys that gpuckptd has unwrapped for this agent. */
#include "coordinator/agent/worker/key_cache.h"

#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>

#include "coordinator/agent/base/packet.h"

#define KEYS 8 /* of the commits that are kept, and the one that wraps by now */

static struct {
	json_t *ask, *answer;
} known[KEYS];

const json_t *known_answer(const json_t *ask)
{
	const char *wrapped = packet_text(ask, "key", "");

	for (size_t i = 0; i < KEYS && *wrapped; i++)
		if (known[i].ask && !strcmp(packet_text(known[i].ask, "key", ""), wrapped))
			return known[i].answer;
	return NULL;
}

void known_keep(const json_t *ask, const json_t *answer)
{
	static size_t next;
	size_t i = next % KEYS;

	if (!json_object_get(answer, "data") || known_answer(ask))
		return;
	prctl(PR_SET_DUMPABLE, 0); /* a rank is a process of the same user */
	json_decref(known[i].ask);
	json_decref(known[i].answer);
	known[i].ask = json_copy((json_t *)ask);
	known[i].answer = json_copy((json_t *)answer);
	next++;
}
