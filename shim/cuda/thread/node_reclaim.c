/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/cuda/thread/node_reclaim.h"

#include <string.h>

#include "shim/cuda/dispatch/function.h"
#include "shim/cuda/snapshot/device_copy.h"
#include "shim/cuda/snapshot/snapshot.h"
#include "shim/cuda/thread/thread.h"
#include "shim/inside/rank.h"

#define ANSWER_MS 10000 /* the others may be draining or resuming */

/* ---- asking for memory --------------------------------------------------------------------- */

/* Uses a connection of its own: the CUDA thread may be waiting for this very call to end. */
static bool ask(const unsigned char uuid[16])
{
	const struct gck_thread_msg m = {.type = GCK_LINK_CUDA_RECLAIM};
	struct gck_inside_message answer = {.data = NULL};
	struct gck_inside_link link;
	bool given;

	if (gck_inside_link_connect(&link, gck_inside_agent(), NULL))
		return false;
	given = gck_inside_link_send(&link, &m, uuid, 16) == 0 &&
		gck_inside_link_receive(&link, &answer, ANSWER_MS) > 0 &&
		answer.head.type == GCK_LINK_CUDA_RECLAIMED && answer.head.round;
	gck_inside_link_drop(&answer);
	gck_inside_link_close(&link);
	return given;
}

bool gck_cuda_node_reclaim(CUdevice device)
{
	const struct gck_cuda_devices *all = &gck_cuda_state.devices;

	if (!gck_inside_has_agent() ||
	    (device == CU_DEVICE_INVALID && gck_cuda_real.cuCtxGetDevice(&device)))
		return false;
	return (uint32_t)device < all->n && ask(all->v[device].uuid);
}

/* ---- giving --------------------------------------------------------------------------------- */

bool gck_cuda_node_reclaim_serve(const struct gck_inside_link *link,
				 const struct gck_inside_message *m, bool drained)
{
	const struct gck_cuda_devices *all = &gck_cuda_state.devices;
	struct gck_thread_msg answer = {.type = GCK_LINK_CUDA_YIELDED, .seq = m->head.seq};
	uint32_t device = 0;

	while (device < all->n && (m->head.total != sizeof all->v->uuid ||
				   memcmp(all->v[device].uuid, m->data, sizeof all->v->uuid)))
		device++;
	if (device < all->n)
		answer.round = drained ? gck_cuda_physical_recalls() &&
						 gck_cuda_snapshot_give((CUdevice)device)
				       : gck_cuda_device_copy_give((CUdevice)device);
	gck_inside_link_send(link, &answer, NULL, 0);
	return answer.round;
}
