/* SPDX-License-Identifier: Apache-2.0
 * The function behind gck_checkpoint(3) in a rank: it waits for a checkpoint of the step. The
 * helper answers it. An image holds the call while it waits; in the restored process it waits on,
 * and returns. */
#include "config.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdbool.h>
#include <stdio.h>

#include "shim/preload/helper/helper.h"
#include "shim/preload/helper/raw.h"
#include "shim/preload/preload.h"

/* A child of a rank's is none. */
static bool is_rank(void)
{
	return gck_state.helper_tid && gck_raw(SYS_getpid) == gck_state.rpid;
}

static uint32_t get(const uint32_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/* Out of which image, as the caller must see it: each rank of a call that all make has to see the
 * same, though some were not in it yet when the image was taken. */
static bool restored(int asker, uint32_t call, uint32_t restarts)
{
	return asker == GCK_ASKER_ALL ? call <= get(&gck_state.all_restored)
				      : get(&gck_state.restarts) != restarts;
}

/* Is the call answered? Its result is then in *result. */
static bool answered(int asker, uint32_t call, uint32_t restarts, int *result)
{
	const struct gck_shim_asker *a = &gck_state.askers[asker];

	if (asker == GCK_ASKER_ALL && call <= get(&a->committed))
		*result = 0;
	else if (restored(asker, call, restarts))
		*result = (int)get(&gck_state.restarts);
	else if (call <= get(&a->committed))
		*result = 0;
	else if (call <= get(&a->failed))
		*result = -(int)a->code;
	else
		return false;
	return true;
}

/* word: the futex's, from before the call was first looked at. */
static void wait_for_answer(int asker, uint32_t call, uint32_t restarts, uint32_t word, int *result)
{
	while (!answered(asker, call, restarts, result)) {
		gck_raw(SYS_futex, &gck_state.ask_word, FUTEX_WAIT_PRIVATE, word, 0);
		word = get(&gck_state.ask_word);
	}
}

/* Of a call that was not in the image: nothing more is asked for it. */
static void settle(int asker, uint32_t call)
{
	uint32_t *committed = &gck_state.askers[asker].committed;
	uint32_t was = get(committed);

	while (was < call && !__atomic_compare_exchange_n(committed, &was, call, false,
							  __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		;
}

/* The program's own number of restarts is taken before the call has a number: an image that was
 * taken in between has no such call, and the process that comes out of it needs no other
 * checkpoint. */
__attribute__((visibility("default"))) int gck_preload_checkpoint(int all, char *why, size_t size)
{
	int asker = all ? GCK_ASKER_ALL : GCK_ASKER_ONE;
	uint32_t restarts = get(&gck_state.restarts);
	uint32_t call, word;
	int result = 0;

	if (!is_rank()) {
		snprintf(why, size, "this process is no rank of a step that runs with --gpu-ckpt");
		return -ENOSYS;
	}
	call = __atomic_add_fetch(&gck_state.askers[asker].asked, 1, __ATOMIC_SEQ_CST);
	word = get(&gck_state.ask_word);
	if (!answered(asker, call, restarts, &result)) {
		gck_ask_send();
		wait_for_answer(asker, call, restarts, word, &result);
	}
	if (result > 0)
		settle(asker, call);
	if (result < 0)
		snprintf(why, size, "%s", gck_state.askers[asker].why);
	return result;
}
