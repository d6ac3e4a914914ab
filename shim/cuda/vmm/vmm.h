/* SPDX-License-Identifier: Apache-2.0
 * The program's own virtual memory management: what it has made by cuMemCreate, and where it is mapped. The
 * program knows memory by a number of ours, which stays when the driver's handle is another one after a
 * checkpoint. Memory lives as long as the program has its handle or has it mapped. */
#ifndef GCK_CUDA_VMM_H
#define GCK_CUDA_VMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "shim/cuda/base/cuda_api.h"
#include "shim/cuda/base/state.h"
#include "shim/cuda/memory/physical.h"

struct gck_cuda_handle {
	CUmemGenericAllocationHandle id;   /* the program's */
	uint64_t size;
	CUmemAllocationProp prop;          /* as it was asked for */
	struct gck_cuda_physical memory;   /* not kept: the driver carries it */
	unsigned named;                    /* times that the program may release it */
	unsigned uses;                     /* these, mappings, and calls that are under way */
	/* Of a drain: where its contents can be read and written; 0: it is not drained. */
	uint64_t view;
	bool own, shown;                   /* the window is in addresses of ours; it is mapped there */
};

struct gck_cuda_mapping {
	uint64_t base, size, offset;
	uint64_t number;                   /* CU_POINTER_ATTRIBUTE_BUFFER_ID */
	struct gck_cuda_handle *of;
	uint64_t readable, writable;       /* a bit for each device */
	bool mapped;
	struct gck_cuda_mapping *next;     /* of those that are taken off the list together */
};

/* Those of all memory, in the order of their addresses. For the CUDA thread while the gate is closed. */
struct gck_cuda_mappings {
	struct gck_cuda_mapping **v;
	size_t n, capacity;
	size_t off;                        /* not in the list: there is room for them */
};
extern struct gck_cuda_mappings gck_cuda_mappings;

/* ---- handles (handle.c) --------------------------------------------------------------------- */

/* Is it a number of ours? All others are the driver's. */
bool gck_cuda_handle_is_ours(CUmemGenericAllocationHandle id);

/* A new one, without memory yet; NULL: there is no room for it. It is named and used once. */
struct gck_cuda_handle *gck_cuda_handle_new(uint64_t size, const CUmemAllocationProp *prop);

/* The one of that number, which lives until it is let go; NULL: none is named so. */
struct gck_cuda_handle *gck_cuda_handle_hold(CUmemGenericAllocationHandle id);
void gck_cuda_handle_hold_too(struct gck_cuda_handle *h); /* of one that is held */
void gck_cuda_handle_let_go(struct gck_cuda_handle *h);

/* What a drain will find of it has become so many bytes more or less (room.h). Takes the slabs' lock. */
void gck_cuda_handle_count(const struct gck_cuda_handle *h, int64_t bytes);

/* Once more, or once less, named; the latter with what keeps it alive. -1: it is not. */
void gck_cuda_handle_name(struct gck_cuda_handle *h);
int gck_cuda_handle_release(CUmemGenericAllocationHandle id);

/* In a child: whoever held the lock is not there. */
void gck_cuda_handles_forked(void);

/* One after the other, from *at = 0 on; NULL: that was all. For the CUDA thread while the gate is closed. */
struct gck_cuda_handle *gck_cuda_handle_next(size_t *at);

/* ---- mappings (mapping.c) ------------------------------------------------------------------- */

/* One that is off the list; the caller's hold on the memory becomes its. NULL: there is no room. */
struct gck_cuda_mapping *gck_cuda_mapping_new(uint64_t base, uint64_t size, uint64_t offset,
					      struct gck_cuda_handle *h);

/* All that lie in a range are off the list; and on it, or gone. */
struct gck_cuda_mapping *gck_cuda_mappings_take_off(uint64_t base, uint64_t size);
void gck_cuda_mappings_put_on(struct gck_cuda_mapping *all);
void gck_cuda_mappings_end(struct gck_cuda_mapping *all);

/* What may use those in a range. */
void gck_cuda_mappings_allow(uint64_t base, uint64_t size, const CUmemAccessDesc *access, size_t n);

/* The memory at an address, held, and, if number is not NULL, the mapping's. NULL: none of ours. */
struct gck_cuda_handle *gck_cuda_mappings_hold(uint64_t address, uint64_t *number);

void gck_cuda_mappings_forked(void);

/* ---- at a checkpoint, with the gate closed (vmm_drain.c) ------------------------------------ */

/* Nothing is lost when the driver forgets it. */
bool gck_cuda_vmm_is_kept(void);

/* All of it can be read and written at one place each. */
int gck_cuda_vmm_show(struct gck_error *err);
/* Each range of them; -1 as soon as that function says so. */
int gck_cuda_vmm_each(int (*one)(void *arg, CUdevice device, uint64_t address, uint64_t size), void *arg);

CUresult gck_cuda_vmm_forget(void);
/* Back: as it was, or new and empty, still shown. */
CUresult gck_cuda_vmm_recall(void);
CUresult gck_cuda_vmm_renew(struct gck_cuda_renewed *r);
/* Places that are not the program's go. */
void gck_cuda_vmm_hide(void);

#endif
