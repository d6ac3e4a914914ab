/* SPDX-License-Identifier: Apache-2.0
 * Random jobs are added and dropped: exactly the existing ones are found, and listed in order. */
#include "coordinator/core/model/state.h"

#include <string.h>

#include "test/support/tap.h"

#define IDS 300
#define ROUNDS 20000

static struct gck_state s;
static bool there[IDS];

static bool is_listed(void)
{
	const struct gck_job *j = s.jobs;
	size_t n = 0;

	for (unsigned id = 0; id < IDS; id++) {
		if (!there[id])
			continue;
		if (!j || j->id != id)
			return false;
		j = j->next;
		n++;
	}
	return !j && n == s.count;
}

static bool is_found(unsigned id)
{
	struct gck_job *j = gck_state_job(&s, id);

	return there[id] ? j && j->id == id : !j;
}

int main(void)
{
	unsigned random = 1, good = 0;

	for (unsigned i = 0; i < ROUNDS; i++) {
		unsigned id = (random = random * 1103515245 + 12345) >> 16 & 1023;
		bool add = random >> 28 & 1;

		if (id >= IDS) {
			good++;
			continue;
		}
		if (add)
			there[id] = gck_state_add_job(&s, id) != NULL;
		else if (there[id])
			gck_state_drop_job(&s, gck_state_job(&s, id));
		there[id] = add;
		good += is_found(id) && is_found((id + 7) % IDS) && is_listed();
	}
	is_int(good, ROUNDS, "the list is right after each change");
	gck_state_clear(&s);
	memset(there, 0, sizeof there);
	ok(all_of(is_listed(), !gck_state_job(&s, 5)), "no job is left");
	ok(all_of(gck_state_add_job(&s, 5), gck_state_job(&s, 5)), "the state can be used again");
	gck_state_clear(&s);
	return tap_done();
}
