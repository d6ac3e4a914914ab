/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/environ_slots.h"

#include <stdlib.h>

#include "test/support/tap.h"

static const char first[] = "PATH=/bin\0SLURM_NODELIST=n[1-2]\0\0TMPDIR=/tmp/1\0PMIX_RANK=3";

static void walk(void)
{
	size_t at = 0, capacity = 0;

	is_str(gck_slots_next(first, sizeof first, &at, &capacity), "PATH=/bin", "the first entry");
	is_int((long long)capacity, 10, "its slot ends at the next entry");
	is_str(gck_slots_next(first, sizeof first, &at, &capacity), "SLURM_NODELIST=n[1-2]",
	       "the next");
	is_int((long long)capacity, 23, "an empty entry belongs to the slot before it");
	gck_slots_next(first, sizeof first, &at, NULL);
	is_str(gck_slots_next(first, sizeof first, &at, NULL), "PMIX_RANK=3", "the last");
	ok(!gck_slots_next(first, sizeof first, &at, NULL), "there is no entry after the last");
	is_str(gck_slots_find(first, sizeof first, "TMPDIR=/else"), "TMPDIR=/tmp/1",
	       "an entry is found by its name");
	ok(!gck_slots_find(first, sizeof first, "TMP=x"), "but not by a part of its name");
	ok(!gck_slots_find(first, sizeof first - 1, "PMIX_RANK="), "nor an entry that is cut off");
}

static struct gck_slots make(void)
{
	struct gck_slots s = {.capacity = gck_slots_capacity(first, sizeof first)};

	s.text = calloc(1, s.capacity);
	return s;
}

static void fill(void)
{
	static const char second[] = "SLURM_NODELIST=n[1-12]\0PMIX_RANK=11\0TMPDIR=/t\0SLURM_NEW=1";
	static const char less[] = "SLURM_NODELIST=n1\0PMIX_RANK=1\0SLURM_NEW=1";
	struct gck_slots s = make();
	const char *nodes, *rank;
	char *more;

	ok(all_of(s.text, gck_slots_fill(&s, first, sizeof first) == 0),
	   "the launcher's variables are written");
	ok(!gck_slots_find(s.text, s.used, "PATH="), "other variables are not");
	nodes = gck_slots_find(s.text, s.used, "SLURM_NODELIST=");
	rank = gck_slots_find(s.text, s.used, "PMIX_RANK=");
	ok(gck_slots_fill(&s, second, sizeof second) == 0, "another start's variables are written");
	is_str(nodes, "SLURM_NODELIST=n[1-12]", "a longer value is in the same place");
	is_str(rank, "PMIX_RANK=11", "so is each value");
	is_str(gck_slots_find(s.text, s.used, "TMPDIR="), "TMPDIR=/t", "and a shorter value");
	is_str(gck_slots_find(s.text, s.used, "SLURM_NEW="), "SLURM_NEW=1",
	       "a new variable follows them");
	ok(gck_slots_fill(&s, less, sizeof less) < 0,
	   "a variable that is missing in a start is an error");
	free(s.text);

	s = make();
	ok(gck_slots_fill(&s, first, sizeof first) == 0, "slots for another test");
	more = calloc(1, 4096);
	memcpy(more, first, sizeof first);
	memset(more + sizeof first - 2, '9', 100); /* PMIX_RANK */
	ok(gck_slots_fill(&s, more, 4096) < 0, "so is a value that is longer than its slot");
	free(s.text);

	s = make();
	ok(gck_slots_fill(&s, first, sizeof first) == 0, "and for a third");
	memcpy(more, first, sizeof first);
	strcpy(more + sizeof first, "SLURM_X=");
	memset(more + sizeof first + 8, 'x', 2000);
	ok(gck_slots_fill(&s, more, 4096) < 0, "and a new variable for which no slot is left");
	free(s.text);
	free(more);
}

int main(void)
{
	walk();
	fill();
	return tap_done();
}
