/* SPDX-License-Identifier: Apache-2.0
 * The program's physical memory at a checkpoint. The driver unmaps and forgets all that has a
 * descriptor, and carries the rest. Contents are read and written through a view: the program's
 * own mapping, or, if there is none that may read and write all of it, one at addresses of ours. */
#include <errno.h>

#include "shim/cuda/base/fd_vault.h"
#include "shim/cuda/base/retry.h"
#include "shim/cuda/gate/context.h"
#include "shim/cuda/memory/slab.h"
#include "shim/cuda/real.h"
#include "shim/cuda/vmm/vmm.h"

bool gck_cuda_vmm_is_in_vault(void)
{
	const struct gck_cuda_handle *h;

	for (size_t at = 0; (h = gck_cuda_handle_next(&at));) {
		if (h->memory.vault_name && !gck_cuda_vault_has(h->memory.vault_name))
			return false;
	}
	return true;
}

/* ---- views ---------------------------------------------------------------------------------- */

static bool is_view(const struct gck_cuda_mapping *m)
{
	uint64_t bit = 1ull << m->of->prop.location.id;

	return m->offset == 0 && m->size == m->of->size && m->readable & m->writable & bit;
}

static CUresult show(struct gck_cuda_handle *h)
{
	CUmemAccessDesc access = {.location = h->prop.location,
				  .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUresult rc = gck_cuda_real.cuMemMap(h->view, h->size, 0, h->memory.handle, 0);

	if (rc)
		return rc;
	rc = gck_cuda_real.cuMemSetAccess(h->view, h->size, &access, 1);
	h->shown = rc == CUDA_SUCCESS;
	if (rc)
		gck_cuda_real.cuMemUnmap(h->view, h->size);
	return rc;
}

static int show_at_ours(struct gck_cuda_handle *h, struct gck_error *err)
{
	CUresult rc;

	h->view = gck_cuda_region_take(h->size);
	if (!h->view)
		return gck_fail(err, ENOMEM,
				"no addresses for memory that the program has made by cuMemCreate "
				"and "
				"not mapped: map it, or release it");
	h->own = true;
	rc = show(h);
	return rc ? gck_cuda_fail(err, "mapping memory of cuMemCreate for its copy", rc) : 0;
}

int gck_cuda_vmm_show(struct gck_error *err)
{
	struct gck_cuda_handle *h;

	for (size_t i = 0; i < gck_cuda_mappings.n; i++) {
		const struct gck_cuda_mapping *m = gck_cuda_mappings.v[i];

		if (m->of->memory.vault_name && !m->of->view && is_view(m))
			m->of->view = m->base;
	}
	for (size_t at = 0; (h = gck_cuda_handle_next(&at));) {
		if (h->memory.vault_name && !h->view && show_at_ours(h, err))
			return -1;
	}
	return 0;
}

int gck_cuda_vmm_each(int (*one)(void *arg, CUdevice device, uint64_t address, uint64_t size),
		      void *arg)
{
	const struct gck_cuda_handle *h;
	int failed = 0;

	for (size_t i = 0; !failed && i < gck_cuda_mappings.n; i++) {
		const struct gck_cuda_mapping *m = gck_cuda_mappings.v[i];

		if (m->of->view == m->base)
			failed = one(arg, m->of->prop.location.id, m->base, m->size);
	}
	for (size_t at = 0; !failed && (h = gck_cuda_handle_next(&at));) {
		if (h->own)
			failed = one(arg, h->prop.location.id, h->view, h->size);
	}
	return failed;
}

static CUresult hide(struct gck_cuda_handle *h)
{
	CUresult rc = h->shown ? gck_cuda_real.cuMemUnmap(h->view, h->size) : CUDA_SUCCESS;

	if (!rc)
		h->shown = false;
	return rc;
}

/* Do not reuse addresses that could not be unmapped. */
void gck_cuda_vmm_hide(void)
{
	struct gck_cuda_handle *h;

	for (size_t at = 0; (h = gck_cuda_handle_next(&at));) {
		if (h->own && hide(h) == CUDA_SUCCESS)
			gck_cuda_region_give(h->view);
		h->own = h->shown = false;
		h->view = 0;
	}
}

/* ---- away and back -------------------------------------------------------------------------- */

static CUresult unmap(struct gck_cuda_mapping *m)
{
	CUresult rc = gck_cuda_real.cuMemUnmap(m->base, m->size);

	if (!rc)
		m->mapped = false;
	return rc;
}

CUresult gck_cuda_vmm_forget(void)
{
	struct gck_cuda_handle *h;
	CUresult rc = CUDA_SUCCESS;

	for (size_t i = 0; !rc && i < gck_cuda_mappings.n; i++) {
		if (gck_cuda_mappings.v[i]->of->view)
			rc = unmap(gck_cuda_mappings.v[i]);
	}
	for (size_t at = 0; !rc && (h = gck_cuda_handle_next(&at));) {
		if (h->own)
			rc = hide(h);
		if (h->view && !rc)
			rc = gck_cuda_physical_forget(&h->memory);
	}
	return rc;
}

void gck_cuda_vmm_lost(void)
{
	struct gck_cuda_handle *h;

	for (size_t i = 0; i < gck_cuda_mappings.n; i++)
		gck_cuda_mappings.v[i]->mapped = false;
	for (size_t at = 0; (h = gck_cuda_handle_next(&at));) {
		h->shown = false;
		gck_cuda_physical_lost(&h->memory);
	}
}

static CUresult set_rights(const struct gck_cuda_mapping *m)
{
	CUmemAccessDesc access[GCK_CUDA_DEVICES_MAX];
	size_t n = 0;

	for (int d = 0; d < GCK_CUDA_DEVICES_MAX; d++) {
		if (m->readable >> d & 1)
			access[n++] = (CUmemAccessDesc){
				.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = d},
				.flags = m->writable >> d & 1 ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
							      : CU_MEM_ACCESS_FLAGS_PROT_READ};
	}
	return n ? gck_cuda_real.cuMemSetAccess(m->base, m->size, access, n) : CUDA_SUCCESS;
}

static CUresult map(struct gck_cuda_mapping *m)
{
	CUresult rc = gck_cuda_real.cuMemMap(m->base, m->size, m->offset, m->of->memory.handle, 0);

	if (rc)
		return rc;
	rc = set_rights(m);
	m->mapped = rc == CUDA_SUCCESS;
	if (rc)
		gck_cuda_real.cuMemUnmap(m->base, m->size);
	return rc;
}

static CUresult map_all(void)
{
	CUresult rc = CUDA_SUCCESS;

	for (size_t i = 0; !rc && i < gck_cuda_mappings.n; i++) {
		if (!gck_cuda_mappings.v[i]->mapped)
			rc = map(gck_cuda_mappings.v[i]);
	}
	return rc;
}

CUresult gck_cuda_vmm_recall(void)
{
	struct gck_cuda_handle *h;
	CUresult rc = CUDA_SUCCESS;

	for (size_t at = 0; !rc && (h = gck_cuda_handle_next(&at));) {
		if (h->view)
			rc = gck_cuda_physical_recall(&h->memory, GCK_CUDA_RETRIES);
	}
	return rc ? rc : map_all();
}

/* Without a descriptor the driver carries it from now on. */
static CUresult renew(struct gck_cuda_handle *h, struct gck_cuda_renewed *r)
{
	CUresult rc;

	r->device = h->prop.location.id;
	gck_cuda_handle_count(h, -(int64_t)h->size);
	gck_cuda_physical_drop(&h->memory);
	rc = gck_cuda_physical_make(&h->memory, h->size, &h->prop);
	if (rc)
		return rc;
	gck_cuda_physical_keep(&h->memory, h->prop.location.id);
	gck_cuda_handle_count(h, (int64_t)h->size);
	r->n++;
	return CUDA_SUCCESS;
}

CUresult gck_cuda_vmm_renew(struct gck_cuda_renewed *r)
{
	struct gck_cuda_handle *h;
	CUresult rc = CUDA_SUCCESS;

	for (size_t at = 0; !rc && (h = gck_cuda_handle_next(&at));) {
		if (h->view && !h->memory.handle)
			rc = renew(h, r);
		if (h->own && !h->shown && !rc && r->n) /* else nothing is copied to it */
			rc = show(h);
	}
	return rc ? rc : map_all();
}
