/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "coordinator/agent/restart/common_restore.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "coordinator/agent/base/packet.h"
#include "coordinator/agent/base/rank_list.h"
#include "coordinator/agent/restart/stages.h"
#include "coordinator/agent/worker/child.h"
#include "coordinator/agent/worker/rank_memory.h"
#include "shim/process/process.h"

static void describe(const json_t *body, char *text, size_t size)
{
	const json_t *ipc = json_object_get(body, "ipc");
	const char *name = packet_text(body, "name", ""), *boot;
	struct gck_ipc x;

	if (ipc && ipc_unpack(ipc, &x, &boot, NULL) == 0)
		gck_ipc_name(x.kind, x.id, text, size);
	else
		snprintf(text, size, "memory (%s, %lld KiB)", *name ? name :
			 "without a name, as windows of MPI_Win_allocate_shared",
			 (long long)packet_int(body, "size", 0) >> 10);
}

static int fail_apart(const json_t *body, uint32_t rank, struct gck_error *err)
{
	char what[256];

	describe(body, what, sizeof what);
	return gck_fail(err, EXDEV, "ranks %s share %s and must be on one node as at the "
			"checkpoint, but rank %u is not on this one: start the step with the same "
			"--ntasks-per-node and --distribution", packet_text(body, "ranks", ""),
			what, rank);
}

/* *lowest: with the number it stands for the memory. */
static int check_ranks(const struct rank_restart *one, const json_t *body, uint32_t *lowest,
		       struct gck_error *err)
{
	const struct tasks *here = &one->r->agent->tasks;
	const char *list = packet_text(body, "ranks", "");
	uint32_t first, last;

	*lowest = UINT32_MAX;
	while (rank_list_next(&list, &first, &last)) {
		*lowest = first < *lowest ? first : *lowest;
		for (uint32_t rank = first; rank <= last; rank++)
			if (!tasks_by_rank(here, rank))
				return fail_apart(body, rank, err);
	}
	return *list ? gck_fail(err, EBADMSG, "its list of ranks that share memory is damaged") : 0;
}

static int make_memory(struct common_restore *x, const json_t *body, struct gck_error *err)
{
	bool sealable = packet_int(body, "seals", 0) != F_SEAL_SEAL;

	x->fd = memfd_create(packet_text(body, "name", ""),
			     MFD_CLOEXEC | (sealable ? MFD_ALLOW_SEALING : 0));
	return x->fd >= 0 ? 0 : gck_fail(err, errno, "shared memory %s cannot be made: %s",
					 packet_text(body, "name", ""), strerror(errno));
}

static int make(struct common_restore *x, const json_t *body, struct gck_error *err)
{
	const json_t *ipc = json_object_get(body, "ipc");
	const char *boot;

	if (!ipc)
		return make_memory(x, body, err);
	return ipc_unpack(ipc, &x->ipc, &boot, err) || gck_ipc_make(&x->ipc, boot, err) ? -1 : 0;
}

static void drop(const struct common_restore *x)
{
	if (x->fd >= 0)
		close(x->fd);
	else
		gck_ipc_remove(x->ipc.kind, x->ipc.now);
}

/* The first restorer that asks has it made. NULL on failure. */
static const struct common_restore *find(struct restart *r, uint32_t lowest, const json_t *body,
					 struct gck_error *err)
{
	struct common_restore made = { lowest, (uint32_t)packet_int(body, "number", 0), .fd = -1 };
	struct common_restore *x;

	for (size_t i = 0; i < r->ncommon; i++)
		if (r->common[i].lowest == lowest && r->common[i].number == made.number)
			return &r->common[i];
	if (make(&made, body, err))
		return NULL;
	x = gck_grow(&r->common, &r->ncommon, sizeof *x, err);
	if (x)
		*x = made;
	else
		drop(&made);
	return x;
}

void common_restore_share(struct rank_restart *one, const json_t *body)
{
	const struct common_restore *x = NULL;
	struct gck_error err = { 0 };
	uint32_t lowest;

	if (check_ranks(one, body, &lowest, &err) < 0 ||
	    (!packet_bool(body, "path") && !(x = find(one->r, lowest, body, &err))))
		restart_fail(one->r, one->task, &err);
	else if (one->child && x && x->fd >= 0)
		child_give(one->child, json_pack("{s:s}", "op", "share"), x->fd);
	else if (one->child)
		child_tell(one->child, json_pack("{s:s, s:I, s:b}", "op", "share", "number",
			   (json_int_t)(x ? x->ipc.now : 0), "hidden", x && x->ipc.hidden));
}

void common_restore_forget(struct restart *r)
{
	bool used = r->stage == STAGE_REOPENING;

	for (size_t i = 0; i < r->ncommon; i++)
		if (!used || r->common[i].fd >= 0)
			drop(&r->common[i]);
	free(r->common);
	r->common = NULL;
	r->ncommon = 0;
}
