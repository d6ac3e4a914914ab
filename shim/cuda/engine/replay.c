/* SPDX-License-Identifier: Apache-2.0
 * The driver's library is in a link namespace of its own and never in an image. Hooks record what
 * the program, and the stand-in itself, hold in it; a checkpoint leaves it up, and a restart makes
 * that again in a fresh one. Device memory of slabs and of cuMemCreate, and managed memory, are the
 * stand-in's own: participants/ makes and fills them. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "shim/cuda/apart/apart.h"
#include "shim/cuda/base/state.h"
#include "shim/cuda/base/visible_devices.h"
#include "shim/cuda/dispatch/dispatch.h"
#include "shim/cuda/dispatch/function.h"
#include "shim/cuda/dispatch/function_table.h"
#include "shim/cuda/engine/engine.h"
#include "shim/cuda/gate/driver_checkpoint.h"
#include "shim/cuda/gate/idle.h"
#include "shim/cuda/records/records.h"
#include "shim/inside/gate.h"
#include "shim/namespace/namespace.h"

#define HOLD_MS 1000

/* ---- the library ---------------------------------------------------------------------------- */

static const struct gck_records_maps maps = {
	.maps_for = gck_cuda_apart_maps_for, .ended = gck_cuda_apart_object_ended,
};

static void enter_private(void)
{
	gck_gate_enter("a private function of the driver", 0);
}

static const struct gck_records_gate gate = {.enter = enter_private, .leave = gck_gate_leave};

static void *open_apart(const char *path, struct gck_error *err)
{
	gck_cuda_records_gate_by(&gate);
	gck_cuda_records_maps_by(&maps);
	return gck_cuda_apart_load(path, &gck_cuda_state.exclusions, err);
}

/* Not recorded: physical memory and its mappings, which the stand-in makes again itself; and the
 * driver's checkpoint, which leaves nothing behind. */
static const char *const own[] = {
	"cuMemCreate", "cuMemRelease", "cuMemMap", "cuMemUnmap", "cuMemSetAccess", "cuMemGetAccess",
	"cuMemGetAllocationPropertiesFromHandle", "cuMemRetainAllocationHandle",
	"cuMemImportFromShareableHandle",
	"cuCheckpointProcessGetRestoreThreadId", "cuCheckpointProcessGetState",
	"cuCheckpointProcessLock", "cuCheckpointProcessCheckpoint", "cuCheckpointProcessRestore",
	"cuCheckpointProcessUnlock",
};

/* Nor are arenas of managed memory. Of all these only this one needs a current context. */
static CUresult allocate_managed(CUdeviceptr *address, size_t size, unsigned int flags)
{
	gck_record_enter();
	return gck_cuda_driver.cuMemAllocManaged(address, size, flags);
}

static CUresult (*recorded_init)(unsigned int flags);
static CUresult (*recorded_pool)(void *out, CUmemoryPool pool, CUmemAllocationHandleType type,
				 unsigned long long flags);
static CUresult (*recorded_range)(void *out, CUdeviceptr at, size_t size,
				  CUmemRangeHandleType type, unsigned long long flags);

/* The program may have changed its environment since it loaded the library. */
static CUresult init(unsigned int flags)
{
	struct gck_error err = {0};

	if (gck_namespace_take_environment(&err)) {
		fprintf(stderr, "gpuckpt: %s\n", err.text);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	return recorded_init(flags);
}

/* ---- descriptors that the library opens for its caller ---- */

static CUresult given(CUresult rc, const void *fd, bool is_descriptor)
{
	if (!rc && is_descriptor)
		gck_namespace_give_fd(*(const int *)fd);
	return rc;
}

/* Not recorded: the stand-in's own; the program's are named as long as their memory lives. */
static CUresult export(void *out, CUmemGenericAllocationHandle handle,
		       CUmemAllocationHandleType type, unsigned long long flags)
{
	return given(gck_cuda_driver.cuMemExportToShareableHandle(out, handle, type, flags), out,
		     type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
}

static CUresult export_pool(void *out, CUmemoryPool pool, CUmemAllocationHandleType type,
			    unsigned long long flags)
{
	return given(recorded_pool(out, pool, type, flags), out,
		     type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
}

static CUresult export_range(void *out, CUdeviceptr at, size_t size, CUmemRangeHandleType type,
			     unsigned long long flags)
{
	return given(recorded_range(out, at, size, type, flags), out,
		     type == CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD);
}

/* Records call functions that an older driver lacks. */
static CUresult no_function(void)
{
	return CUDA_ERROR_NOT_FOUND;
}

static void fill_gaps(struct gck_cuda_real *table)
{
	for (size_t i = 0; i < gck_cuda_nfunctions; i++) {
		void **member = gck_cuda_member(table, &gck_cuda_functions[i]);

		if (!*member)
			*member = (void *)no_function;
	}
}

static void hook(struct gck_cuda_real *table, const struct gck_cuda_real *found)
{
	static bool again;

	gck_cuda_driver = *found;
	gck_cuda_records_hook(table);
	if (!again)
		gck_cuda_records_shorten(&gck_cuda_real);
	again = true;
	fill_gaps(&gck_cuda_driver);
	recorded_init = table->cuInit;
	table->cuInit = init;
	for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
		const struct gck_cuda_function *f = gck_cuda_by_name(own[i]);

		*gck_cuda_member(table, f) = *gck_cuda_member(&gck_cuda_driver, f);
	}
	table->cuMemAllocManaged = allocate_managed;
	recorded_pool = table->cuMemPoolExportToShareableHandle;
	recorded_range = table->cuMemGetHandleForAddressRange;
	table->cuMemExportToShareableHandle = export;
	table->cuMemPoolExportToShareableHandle = export_pool;
	table->cuMemGetHandleForAddressRange = export_range;
}

const struct gck_cuda_loader gck_cuda_replay_loader = {
	.open = open_apart, .hook = hook, .loaded = gck_cuda_library_hooks,
	.admitted = gck_namespace_adopt,
};

/* ---- a checkpoint --------------------------------------------------------------------------- */

static void able(gck_cuda_obstacle_fn *tell, void *arg)
{
	const char *why = gck_cuda_records_unable();

	if (why)
		tell(arg, why, "it cannot be made again in a fresh driver",
		     "start the step with cuda=image");
}

static void doubt(gck_cuda_obstacle_fn *tell, void *arg)
{
	const char *why = gck_cuda_records_doubt();

	if (why)
		tell(arg, why, "a fresh driver may not have it as it was",
		     "start the step with cuda=replay to have it tried");
}

static char code[GCK_CUDA_CODE_SIZE]; /* gck_cuda_state.code */

static int down(int64_t end_ns, struct gck_error *err)
{
	int64_t left = (end_ns - gck_cuda_now_ns()) / 1000000;

	if (gck_cuda_records_save(err))
		return -1;
	gck_cuda_records_called(gck_cuda_needs_name);
	gck_cuda_needs_note();
	gck_cuda_state.code = (uintptr_t)code;
	gck_cuda_state.code_size = gck_cuda_records_code(code, sizeof code);
	if (gck_cuda_records_listeners_close(end_ns, err))
		return -1;
	if (gck_namespace_hold(left < HOLD_MS ? (int)left : HOLD_MS, err) == 0)
		return 0;
	gck_cuda_records_listeners_open();
	return -1;
}

/* ---- a restart ------------------------------------------------------------------------------ */

/* The devices of before, in their order. */
static int show_devices(struct gck_error *err)
{
	char list[GCK_CUDA_DEVICES_MAX * GCK_CUDA_UUID_TEXT] = "";
	struct gck_cuda_state *s = &gck_cuda_state;

	for (uint32_t i = 0; i < s->nonto && i < s->devices.n; i++) {
		if (i)
			strcat(list, ",");
		gck_cuda_uuid_text(s->onto[i], list + strlen(list));
	}
	s->nonto = 0;
	if (!*list || !gck_namespace.root->setenv("CUDA_VISIBLE_DEVICES", list, 1))
		return 0;
	return gck_fail(err, ENOMEM, "no memory for CUDA_VISIBLE_DEVICES");
}

static int begin_again(struct gck_error *err)
{
	CUresult rc;

	if (gck_cuda_apart_discard(err) || gck_cuda_records_keep(err) ||
	    gck_cuda_load_again(err) || show_devices(err))
		return -1;
	rc = gck_cuda_driver.cuInit(0);
	if (rc)
		return gck_cuda_fail(err, "cuInit of a fresh driver", rc);
	gck_cuda_devices_note();
	if (gck_cuda_records_replay(err))
		return -1;
	gck_cuda_records_listeners_open();
	return 0;
}

static int up(bool restored, struct gck_error *err)
{
	if (restored)
		return begin_again(err);
	gck_namespace_release();
	gck_cuda_records_listeners_open();
	return 0;
}

const struct gck_cuda_engine gck_cuda_replay_engine = {
	.able = able, .doubt = doubt, .down = down, .up = up,
	.complete = gck_cuda_records_complete, .release = gck_cuda_records_release,
};
