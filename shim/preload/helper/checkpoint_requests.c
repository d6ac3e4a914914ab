/* SPDX-License-Identifier: Apache-2.0
 * Waiting calls of gck_checkpoint(): the helper reports them to the agent, and the agent's answer
 * wakes them. All data is in the rank's state, and so in the image: in a restored process the calls
 * still wait, and are woken there. */
#include "config.h"

#include "shim/preload/helper/helper.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "shim/preload/helper/raw.h"

/* An agent that crashed is back within a second or two; without its supervisor none comes back. */
#define AWAY_MS 15000

static unsigned away_ms;

static uint32_t get(const uint32_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static bool waits(int kind)
{
	const struct gck_shim_requests *a = &gck_state.requests[kind];
	uint32_t asked = get(&a->asked);

	return asked > get(&a->committed) && asked > get(&a->failed) &&
	       (kind != GCK_REQUEST_ALL || asked > get(&gck_state.all_restored));
}

static bool any_waits(void)
{
	return waits(GCK_REQUEST_ONE) || waits(GCK_REQUEST_ALL);
}

void gck_ask_send(void)
{
	struct gck_link_msg m;
	int fd = gck_state.link_fd;

	if (!get(&gck_state.linked) || !any_waits() || !gck_link_is_ours(fd))
		return;
	for (int i = 0; i < GCK_REQUEST_KINDS; i++)
		m.ask.asked[i] = get(&gck_state.requests[i].asked);
	gck_link_send(fd, &m, GCK_LINK_ASK, 0);
}

void gck_ask_again(void)
{
	int unread = 0;

	if (!any_waits() || gck_raw(SYS_ioctl, gck_state.link_fd, SIOCOUTQ, &unread) < 0 || unread)
		return;
	gck_ask_send();
}

void gck_ask_wake(void)
{
	__atomic_add_fetch(&gck_state.ask_word, 1, __ATOMIC_SEQ_CST);
	gck_raw(SYS_futex, &gck_state.ask_word, FUTEX_WAKE_PRIVATE, INT_MAX);
}

void gck_ask_outcome(const struct gck_link_outcome *t)
{
	struct gck_shim_requests *a;

	if (t->kind >= GCK_REQUEST_KINDS)
		return;
	a = &gck_state.requests[t->kind];
	if (t->failed > get(&a->failed)) {
		a->code = t->code ? t->code : EIO;
		for (unsigned i = 0; i < sizeof a->why - 1; i++)
			a->why[i] = t->why[i];
		__atomic_store_n(&a->failed, t->failed, __ATOMIC_RELEASE);
	}
	if (t->committed > get(&a->committed))
		__atomic_store_n(&a->committed, t->committed, __ATOMIC_RELEASE);
	gck_ask_wake();
}

void gck_ask_linked(void)
{
	away_ms = 0;
	__atomic_store_n(&gck_state.linked, 1, __ATOMIC_RELEASE);
	gck_ask_send();
}

/* No agent answers any more: fail the calls. */
static void give_up(void)
{
	static const char why[] = "no agent of gpuckpt answers on this node: see its log there";
	struct gck_link_outcome t;

	t.code = ENOTCONN;
	t.committed = 0;
	for (unsigned i = 0; i < sizeof t.why; i++)
		t.why[i] = i < sizeof why ? why[i] : '\0';
	for (t.kind = 0; t.kind < GCK_REQUEST_KINDS; t.kind++) {
		t.failed = get(&gck_state.requests[t.kind].asked);
		if (waits((int)t.kind))
			gck_ask_outcome(&t);
	}
}

void gck_ask_away(unsigned ms)
{
	away_ms += ms;
	if (away_ms >= AWAY_MS)
		give_up();
}
