/* SPDX-License-Identifier: Apache-2.0
 * The function behind gck_checkpoint(3) in a rank: it waits for a checkpoint of the step, and the
 * helper delivers the answer. An image contains the waiting call; in the restored process it goes
 * on waiting, and returns. */
#include "config.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdbool.h>
#include <stdio.h>

#include "shim/preload/helper/helper.h"
#include "shim/preload/helper/raw.h"
#include "shim/preload/pid/virtual_ids.h"
#include "shim/preload/preload.h"

/* A child of a rank is not a rank. */
static bool is_rank(void)
{
	return gck_state.helper_tid && gck_is_rank();
}

static uint32_t get(const uint32_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/* Whether the caller must see that it was restored. All ranks of a collective call must see the
 * same, also those that had not made the call when the image was taken. */
static bool restored(int kind, uint32_t call, uint32_t restarts)
{
	return kind == GCK_REQUEST_ALL ? call <= get(&gck_state.all_restored)
				      : get(&gck_state.restarts) != restarts;
}

/* Whether the call is answered; *result then has its result. */
static bool answered(int kind, uint32_t call, uint32_t restarts, int *result)
{
	const struct gck_shim_requests *a = &gck_state.requests[kind];

	if (kind == GCK_REQUEST_ALL && call <= get(&a->committed))
		*result = 0;
	else if (restored(kind, call, restarts))
		*result = (int)get(&gck_state.restarts);
	else if (call <= get(&a->committed))
		*result = 0;
	else if (call <= get(&a->failed))
		*result = -(int)a->code;
	else
		return false;
	return true;
}

/* word: the futex's value from before the first check of the call. */
static void wait_for_answer(int kind, uint32_t call, uint32_t restarts, uint32_t word, int *result)
{
	while (!answered(kind, call, restarts, result)) {
		gck_raw(SYS_futex, &gck_state.ask_word, FUTEX_WAIT_PRIVATE, word, 0);
		word = get(&gck_state.ask_word);
	}
}

/* For a call that was not in the image: do not ask for it any more. */
static void drop_request(int kind, uint32_t call)
{
	uint32_t *committed = &gck_state.requests[kind].committed;
	uint32_t was = get(committed);

	while (was < call && !__atomic_compare_exchange_n(committed, &was, call, false,
							  __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		;
}

/* The number of restarts is read before the call gets its number. If an image is taken in between,
 * it does not have the call, and the restored process needs no other checkpoint. */
__attribute__((visibility("default"))) int gck_preload_checkpoint(int all, char *why, size_t size)
{
	int kind = all ? GCK_REQUEST_ALL : GCK_REQUEST_ONE;
	uint32_t restarts = get(&gck_state.restarts);
	uint32_t call, word;
	int result = 0;

	if (!is_rank()) {
		snprintf(why, size,
			 "this process is not a rank of a step that runs with --gpu-ckpt");
		return -ENOSYS;
	}
	call = __atomic_add_fetch(&gck_state.requests[kind].asked, 1, __ATOMIC_SEQ_CST);
	word = get(&gck_state.ask_word);
	if (!answered(kind, call, restarts, &result)) {
		gck_ask_send();
		wait_for_answer(kind, call, restarts, word, &result);
	}
	if (result > 0)
		drop_request(kind, call);
	if (result < 0)
		snprintf(why, size, "%s", gck_state.requests[kind].why);
	return result;
}
