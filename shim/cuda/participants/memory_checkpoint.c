/* SPDX-License-Identifier: Apache-2.0
 * Slabs and the program's own physical memory at a checkpoint. Their contents are copied
 * (snapshot.h). With cuda=replay they stay mapped; else the driver forgets them and the copies, so
 * that it has little to save. In
 * this process they are mapped again as they are, and the copy is read while the program runs
 * (transfer/). In a process made from the image there is new memory at their addresses, filled
 * from the image's pages and by the agent. Where the driver cannot recall memory (physical.h),
 * the copy, which is in host memory, fills new memory here as well. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "shim/cuda/base/fd_vault.h"
#include "shim/cuda/base/participant.h"
#include "shim/cuda/base/retry.h"
#include "shim/cuda/base/state.h"
#include "shim/cuda/dispatch/function.h"
#include "shim/cuda/memory/free_bytes.h"
#include "shim/cuda/memory/slab.h"
#include "shim/cuda/memory/slab_backing.h"
#include "shim/cuda/snapshot/device_copy.h"
#include "shim/cuda/snapshot/snapshot.h"
#include "shim/cuda/snapshot/staging.h"
#include "shim/cuda/transfer/transfer.h"
#include "shim/cuda/vmm/vmm.h"

/* The error of a system resource, as errno says. */
static int not_mapped(const char *what, CUresult rc, struct gck_error *err)
{
	return rc == CUDA_ERROR_OPERATING_SYSTEM
		       ? gck_fail(err, EIO, "%s: %s", what, strerror(errno))
		       : gck_cuda_fail(err, what, rc);
}

static int map_all(struct gck_error *err)
{
	CUresult rc = gck_cuda_vmm_recall();
	int failed = rc ? not_mapped("mapping memory of cuMemCreate again", rc, err) : 0;

	gck_cuda_vmm_hide();
	for (size_t i = 0; !failed && i < gck_cuda_slabs.n; i++) {
		struct gck_cuda_slab *s = gck_cuda_slabs.v[i];

		rc = s->mapped ? CUDA_SUCCESS : gck_cuda_slab_map(s, GCK_CUDA_RETRIES);
		failed = rc ? not_mapped("mapping device memory again", rc, err) : 0;
	}
	return failed;
}

/* The name of one descriptor in the vault; 0: there is none. */
static uint64_t one_vault_name(void)
{
	const struct gck_cuda_handle *h;

	if (gck_cuda_slabs.n)
		return gck_cuda_slabs.v[0]->memory.vault_name;
	for (size_t at = 0; (h = gck_cuda_handle_next(&at));) {
		if (h->memory.vault_name)
			return h->memory.vault_name;
	}
	return 0;
}

/* The way back needs one descriptor at a time. */
static int try_one(struct gck_error *err)
{
	uint64_t name = one_vault_name();
	int fd = name ? gck_cuda_vault_get(name) : -1;

	if (name && fd < 0)
		return gck_fail(err, errno,
				"device memory could not be recalled for lack of a descriptor: %s: "
				"raise the program's limit (ulimit -n)",
				strerror(errno));
	if (fd >= 0)
		close(fd);
	return 0;
}

/* Only the vault keeps the memory once it is unmapped. */
static int check_vault(struct gck_error *err)
{
	bool found = gck_cuda_vmm_is_in_vault();

	for (size_t i = 0; found && i < gck_cuda_slabs.n; i++)
		found = gck_cuda_vault_has(gck_cuda_slabs.v[i]->memory.vault_name);
	return found ? try_one(err)
		    : gck_fail(err, EBADF,
			       "the program has closed a socket of gpuckpt's that keeps device "
			       "memory: it should close only what it has opened");
}

/* There is a copy: free what cannot be recalled at once, since the driver has its memory free
 * only a while later. */
static CUresult leave(struct gck_cuda_slab *s)
{
	CUresult rc = gck_cuda_slab_unmap(s);

	if (!rc && !gck_cuda_physical_recalls())
		gck_cuda_physical_drop(&s->memory);
	return rc;
}

static int unmap_all(struct gck_error *err)
{
	CUresult rc = gck_cuda_snapshot_unmap();

	for (size_t i = 0; rc == CUDA_SUCCESS && i < gck_cuda_slabs.n; i++)
		rc = leave(gck_cuda_slabs.v[i]);
	if (rc == CUDA_SUCCESS)
		rc = gck_cuda_vmm_forget();
	return rc ? gck_cuda_fail(err, "unmapping device memory", rc) : 0;
}

/* After a restore the devices may be others. */
static void look(const struct gck_cuda_contexts *all)
{
	for (size_t i = 0; i < all->n; i++) {
		CUcontext context = all->v[i].context;

		if (gck_cuda_real.cuCtxPushCurrent_v2(context))
			continue;
		gck_cuda_free_bytes_update(all->v[i].device);
		gck_cuda_real.cuCtxPopCurrent_v2(&context);
	}
}

static int drain(const struct gck_cuda_order *order, struct gck_error *err)
{
	bool stays = gck_cuda_state.replays;

	gck_cuda_device_copy_tidy(&order->contexts);
	if ((!stays && check_vault(err)) || gck_cuda_vmm_show(err) ||
	    gck_cuda_snapshot_make(order, err) || gck_cuda_copy_out(order, err))
		return -1;
	gck_cuda_stage_end(); /* before an image is taken */
	return stays ? 0 : unmap_all(err);
}

/* Memory freed here or by another process is available only a while later. */
static bool comes_later(CUresult rc, int *naps)
{
	if (rc == CUDA_ERROR_OPERATING_SYSTEM)
		return gck_cuda_retry(errno, naps);
	return rc == CUDA_ERROR_OUT_OF_MEMORY && gck_cuda_retry(ENOMEM, naps);
}

static CUresult make_all(struct gck_cuda_renewed *r)
{
	int naps = GCK_CUDA_RETRIES;
	CUresult rc;

	do {
		size_t before = r->n;

		rc = gck_cuda_slabs_renew(r);
		rc = rc ? rc : gck_cuda_vmm_renew(r);
		if (r->n > before)
			naps = GCK_CUDA_RETRIES;
	} while (rc && comes_later(rc, &naps));
	return rc;
}

/* What was not away yet is unchanged. */
static int renew(struct gck_error *err)
{
	struct gck_cuda_renewed r = {.device = -1};
	CUresult rc = make_all(&r);

	if (rc)
		return gck_cuda_fail_memory(err, "device memory for what was copied", r.device, rc);
	if (r.device >= 0 && gck_cuda_copy_in(err))
		return -1;
	gck_cuda_vmm_hide();
	return 0;
}

static int restore(const struct gck_cuda_order *order, struct gck_error *err)
{
	struct gck_cuda_renewed r = {.device = -1};
	CUresult rc;

	if (gck_cuda_state.replays) {
		gck_cuda_slabs_lost();
		gck_cuda_vmm_lost();
	}
	gck_cuda_vault_forget();
	gck_cuda_physical_reset();
	rc = make_all(&r);
	if (rc)
		return gck_cuda_fail_memory(err, "device memory for what is in the image", r.device,
					    rc);
	if (gck_cuda_copy_in(err) || gck_cuda_device_restore(order, err))
		return -1;
	gck_cuda_vmm_hide();
	gck_cuda_snapshot_forget();
	look(&order->contexts);
	return 0;
}

/* From here on the program can take the snapshot's memory. */
static int resume(const struct gck_cuda_order *order, bool restored, struct gck_error *err)
{
	if (restored)
		return restore(order, err);
	if (gck_cuda_physical_recalls() ? map_all(err) : renew(err))
		return -1;
	gck_cuda_device_copy_begin();
	return 0;
}

/* Freeing much memory takes long, so it happens here. The copy on the devices stays until it is
 * read. */
static void release(void)
{
	gck_cuda_snapshot_drop_host();
	gck_cuda_stage_end();
}

const struct gck_cuda_participant gck_cuda_memory_participant = {
	.name = "memory",
	.prepare = gck_cuda_snapshot_prepare,
	.drain = drain,
	.resume = resume,
	.release = release,
};
