/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "coordinator/agent/restart/common_restore.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "coordinator/agent/base/packet.h"
#include "coordinator/agent/base/rank_list.h"
#include "coordinator/agent/restart/stages.h"
#include "coordinator/agent/worker/child.h"
#include "shim/process/image/image.h"

static int fail_apart(const json_t *body, uint32_t rank, struct gck_error *err)
{
	const char *name = packet_text(body, "name", "");

	return gck_fail(err, EXDEV, "ranks %s share memory (%s, %lld KiB) and must be on one node "
			"as at the checkpoint, but rank %u is not on this one: start the step with "
			"the same --ntasks-per-node and --distribution",
			packet_text(body, "ranks", ""),
			*name ? name : "without a name, as windows of MPI_Win_allocate_shared",
			(long long)packet_int(body, "size", 0) >> 10, rank);
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

static int make(const json_t *body, struct gck_error *err)
{
	bool sealable = packet_int(body, "seals", 0) != F_SEAL_SEAL;
	int fd = memfd_create(packet_text(body, "name", ""),
			      MFD_CLOEXEC | (sealable ? MFD_ALLOW_SEALING : 0));

	return fd >= 0 ? fd : gck_fail(err, errno, "shared memory %s cannot be made: %s",
				       packet_text(body, "name", ""), strerror(errno));
}

/* The first restorer that asks has it made. -1 on failure. */
static int find(struct restart *r, uint32_t lowest, const json_t *body, struct gck_error *err)
{
	uint32_t number = (uint32_t)packet_int(body, "number", 0);
	struct common_restore *x;
	int fd;

	for (size_t i = 0; i < r->ncommon; i++)
		if (r->common[i].lowest == lowest && r->common[i].number == number)
			return r->common[i].fd;
	fd = make(body, err);
	x = fd < 0 ? NULL : gck_grow(&r->common, &r->ncommon, sizeof *x, err);
	if (!x) {
		if (fd >= 0)
			close(fd);
		return -1;
	}
	*x = (struct common_restore){ lowest, number, fd };
	return fd;
}

void common_restore_share(struct rank_restart *one, const json_t *body)
{
	json_t *answer = json_pack("{s:s}", "op", "share");
	struct gck_error err = { 0 };
	uint32_t lowest;
	int fd = -1;

	if (check_ranks(one, body, &lowest, &err) < 0 ||
	    (!packet_bool(body, "path") && (fd = find(one->r, lowest, body, &err)) < 0)) {
		json_decref(answer);
		restart_fail(one->r, one->task, &err);
	} else if (one->child && fd >= 0) {
		child_give(one->child, answer, fd);
	} else if (one->child) {
		child_tell(one->child, answer);
	}
}

void common_restore_forget(struct restart *r)
{
	for (size_t i = 0; i < r->ncommon; i++)
		close(r->common[i].fd);
	free(r->common);
	r->common = NULL;
	r->ncommon = 0;
}
