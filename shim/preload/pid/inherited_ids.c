/* SPDX-License-Identifier: Apache-2.0
 * The numbers of processes in the environment of a program that a restored process executes, or a
 * child of one: GPUCKPT_IDS=WRITER:V:R,V:R,…;KIND:V:R:KEY,… has the kernel's number of the process
 * that wrote it, and the program's and the kernel's of each process whose numbers differ; then the
 * same of System V objects, with their kinds and keys. */
#include "config.h"

#include <pthread.h>
#include <string.h>

#include "shim/preload/pid/pid.h"
#include "shim/preload/pid/virtual_ids.h"

#define PAIR_MAX sizeof "2147483647:2147483647,"
#define IPC_MAX sizeof "2:2147483647:2147483647:4294967295,"

/* ---- writing ------------------------------------------------------------------------------- */

static char *put(char *to, int32_t number, char end)
{
	char digits[GCK_DIGITS_MAX], *begin;
	size_t length = gck_write_digits(digits, (uint32_t)number, &begin);

	memcpy(to, begin, length);
	to[length] = end;
	return to + length + 1;
}

/* Whether it is a process, and no thread. The table is another's in a child by vfork(), which may
 * have a number that was another process's. */
static bool is_process(const struct gck_shim_tid *x, int32_t own)
{
	if (!x->vtid || x->rtid == own)
		return x->vtid && own == gck_state.rpid;
	return x->rtid == gck_state.rpid ||
	       (gck_raw(SYS_tgkill, gck_state.rpid, x->rtid, 0) < 0 &&
		gck_raw(SYS_kill, x->rtid, 0) != -ESRCH);
}

size_t gck_ids_size(void)
{
	return sizeof GCK_IDS + (gck_state.ntids + 1) * PAIR_MAX + gck_state.nipc * IPC_MAX + 1;
}

static char *put_ipc(char *at)
{
	for (uint32_t i = 0; i < gck_state.nipc; i++) {
		const struct gck_shim_ipc *x = &gck_state.ipc[i];

		at = put(put(at, x->kind, ':'), x->vid, ':');
		at = put(put(at, x->id, ':'), x->key, ',');
	}
	return at;
}

void gck_ids_write(char *variable)
{
	uint32_t n = gck_state.ntids;
	int32_t own = gck_raw(SYS_getpid);
	char *at;

	memcpy(variable, GCK_IDS, sizeof GCK_IDS);
	at = put(variable + sizeof GCK_IDS - 1, own, ':');
	for (uint32_t i = 0; i < n; i++) {
		struct gck_shim_tid x = gck_state.tids[i];

		if (is_process(&x, own))
			at = put(put(at, x.vtid, ':'), x.rtid, ',');
	}
	*at++ = ';';
	*put_ipc(at) = '\0';
}

/* ---- reading ------------------------------------------------------------------------------- */

static bool read_number(const char **text, char end, int32_t *number)
{
	uint32_t n = 0;

	for (; **text >= '0' && **text <= '9'; (*text)++)
		n = n * 10 + (uint32_t)(**text - '0');
	*number = (int32_t)n;
	return **text == end && (*text)++;
}

static int32_t get(const char **text, char end)
{
	int32_t number;

	return read_number(text, end, &number) ? number : 0;
}

static void inherit_ipc(const char *text)
{
	struct gck_shim_ipc x;
	uint32_t n = 0;

	if (*text++ != ';')
		return;
	while (n < GCK_SHIM_IPC && read_number(&text, ':', &x.kind) &&
	       read_number(&text, ':', &x.vid) && read_number(&text, ':', &x.id) &&
	       read_number(&text, ',', &x.key))
		gck_state.ipc[n++] = x;
	gck_state.nipc = n;
}

static void be(int32_t vpid)
{
	gck_state.vpid = vpid;
	if (gck_state.tid_offset)
		*gck_tid_of(pthread_self()) = vpid;
}

/* They are of this start if this process wrote them, or its parent as it spawned it. A process that
 * had a spawned child's number has ended. */
void gck_ids_inherit(const char *text)
{
	int32_t own = gck_state.rpid, writer = get(&text, ':');
	bool executed = writer == own;
	uint32_t n = 0;

	if (!executed && writer != gck_raw(SYS_getppid))
		return;
	while (n < GCK_SHIM_MAX_TIDS) {
		int32_t vpid = get(&text, ':'), rpid = vpid ? get(&text, ',') : 0;

		if (vpid <= 0 || rpid <= 0)
			break;
		if (rpid == own && !executed)
			continue;
		gck_state.tids[n++] = (struct gck_shim_tid){ .vtid = vpid, .rtid = rpid };
		if (rpid == own)
			be(vpid);
	}
	gck_state.ntids = n;
	inherit_ipc(text);
	gck_state.restarts = n > 0;
}
