/* SPDX-License-Identifier: Apache-2.0
 * The external mappings (external_mapping.h) through which a rank that was restored on another GPU
 * copies its device memory at a checkpoint: copies larger than one mapping, when the mappings are
 * closed, and who may have their memory: the program, or another rank of the node. Those that
 * cannot be closed yet: unclosed_mappings.c. */
#include <stdio.h>
#include <string.h>

#include "shim/cuda/test/restored_rank.h"
#include "test/support/tap.h"

#define BUSY_MS 1500 /* longer than an allocation waits for streams before it takes the copy
		      * (PATIENCE_MS) */

/* ---- copies larger than one mapping ---------------------------------------------------------- */

static bool has_hashes_of(struct cuda_data *d, struct cuda_piece *p)
{
	bool good = cuda_data_read_piece(d, p);

	for (uint64_t at = 0; good && at < p->size; at += GCK_LINK_DATA_HASH_MAX) {
		uint64_t left = p->size - at;

		good = cuda_data_hashes_as(d, p, at,
					   left < GCK_LINK_DATA_HASH_MAX ? left
								       : GCK_LINK_DATA_HASH_MAX);
	}
	return good;
}

/* Make a checkpoint with hashes: not the first one of a process. */
static bool hashes_are_right(void)
{
	struct cuda_data d;
	struct outcome o;
	bool good;

	restored_drain(&o);
	if (o.failed)
		return false;
	restored_resume(&d, &o);
	good = !o.failed && cuda_data_list(&d) && d.n;
	for (size_t i = 0; good && i < d.n; i++)
		good = has_hashes_of(&d, &d.v[i]);
	if (!good)
		printf("# %s%s\n", o.text, d.why);
	cuda_data_free(&d);
	return good;
}

static void many_mappings(void)
{
	struct outcome o;

	restored_run_without_fault(RESTORE, OTHER_DEVICE, &o);
	is_int(told("take 300"), 0, "a restored rank allocates more than one mapping can have");
	restored_drain(&o);
	if (ok(!o.failed, "it is drained: %s", o.text))
		restored_back(&o);
	ok(all_of(!o.failed, o.on_device, restored_has_its_data()),
	   "its copy is read through several mappings: %s", o.text);
	ok(all_of(hashes_are_right(), restored_has_its_data()),
	   "hashes of the next copy are those of the store");
	lineage_kill(&lineage);
}

/* ---- when mappings are closed ---------------------------------------------------------------- */

static void close_after_the_reader(void)
{
	struct cuda_data d;

	restored_after_a_checkpoint(&d);
	ok(all_of(cuda_data_list(&d), cuda_data_read(&d)), "the copy is read: %s", d.why);
	cuda_data_free(&d);
	for (int ms = 0; ms < 5000 && restored_has_mappings(); ms += 10)
		pause_ms(10);
	ok(!restored_has_mappings(), "the mappings are closed after their reader's end");
	restored_goes_on(false);
	lineage_kill(&lineage);
}

/* The program's stream is busy for ms. */
static void give_way_to_the_program(int ms)
{
	char word[32];
	struct cuda_data d;
	int before = restored_after_a_checkpoint(&d);

	snprintf(word, sizeof word, "busy %d", ms);
	told(word);
	snprintf(word, sizeof word, "huge %d", before - 40);
	ok(told(word) == 0, "a program gets the mappings' memory while its GPU is busy for %d ms",
	   ms);
	ok(all_of(!cuda_data_list(&d), strstr(d.why, "needed")),
	   "the reader of the copy is told why it ends: %s", d.why);
	cuda_data_free(&d);
	restored_goes_on(false);
	lineage_kill(&lineage);
}

/* Its gate stays closed while its mappings are open. */
static void stay_with_a_lost_rank(void)
{
	const struct fault no_memory = {"cuMemCreate", 1, 999};
	struct outcome o;

	restored_run(&no_memory, &(struct place){BACK, OTHER_DEVICE, 0}, &o);
	ok(o.lost, "a rank loses its GPU: %s", o.text);
	ok(!restored_yields(), "another rank gets none of its memory");
	told_begin("free");
	is_int(told_answer(300), -1000, "its program does not go on");
	lineage_kill(&lineage);
}

static void give_way_to_others(void)
{
	struct cuda_data d;

	restored_after_a_checkpoint(&d);
	ok(restored_yields(), "another rank gets the mappings' memory");
	pause_ms(400); /* the driver may return memory late */
	ok(!restored_yields(), "but only once");
	ok(all_of(!cuda_data_list(&d), strstr(d.why, "another rank")),
	   "the reader of the copy is told why it ends: %s", d.why);
	cuda_data_free(&d);
	restored_goes_on(false);
	lineage_kill(&lineage);
}

int main(void)
{
	restored_begin();
	many_mappings();
	close_after_the_reader();
	give_way_to_the_program(0);
	give_way_to_the_program(BUSY_MS);
	give_way_to_others();
	stay_with_a_lost_rank();
	restored_end();
	return tap_done();
}
