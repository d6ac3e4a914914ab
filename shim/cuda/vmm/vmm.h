/* SPDX-License-Identifier: Apache-2.0
 * The program's own virtual memory: what it made by cuMemCreate, and where it mapped it. The
 * program knows memory by a number of ours, which stays the same when the driver's handle
 * changes at a checkpoint. Memory lives as long as the program has its handle or a mapping of
 * it. */
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
	CUmemGenericAllocationHandle id;   /* the program's handle */
	uint64_t size;
	CUmemAllocationProp prop;          /* as the program asked for it */
	struct gck_cuda_physical memory;   /* without a descriptor in the vault: the driver
					    * carries it */
	unsigned named;                    /* how often the program may release it */
	unsigned uses;                     /* names, mappings, and calls under way */
	/* during a drain: the address where its contents can be read and written; 0: not drained */
	uint64_t view;
	bool own, shown;                   /* view is at addresses of ours; it is mapped there */
};

struct gck_cuda_mapping {
	uint64_t base, size, offset;
	uint64_t number;                   /* CU_POINTER_ATTRIBUTE_BUFFER_ID */
	struct gck_cuda_handle *of;
	uint64_t readable, writable;       /* a bit for each device */
	bool mapped;
	struct gck_cuda_mapping *next;     /* next of those that were taken off the list together */
};

/* All mappings, in the order of their addresses. For the CUDA thread while the gate is closed. */
struct gck_cuda_mappings {
	struct gck_cuda_mapping **v;
	size_t n, capacity;
	size_t off;                        /* not in the list, but with a place reserved in it */
};
extern struct gck_cuda_mappings gck_cuda_mappings;

/* ---- handles (handle.c) --------------------------------------------------------------------- */

/* Whether it is a number of ours. All others are the driver's. */
bool gck_cuda_handle_is_ours(CUmemGenericAllocationHandle id) GCK_MUST_CHECK;

/* Make a handle without memory, named and used once. NULL: no memory. */
struct gck_cuda_handle *gck_cuda_handle_new(uint64_t size, const CUmemAllocationProp *prop)
	GCK_MUST_CHECK;

/* Hold the handle of that number until let_go; NULL: the program has no such name. */
struct gck_cuda_handle *gck_cuda_handle_hold(CUmemGenericAllocationHandle id) GCK_MUST_CHECK;
void gck_cuda_handle_hold_too(struct gck_cuda_handle *h); /* h is held already */
void gck_cuda_handle_let_go(struct gck_cuda_handle *h);

/* The memory that a drain finds has changed by so many bytes (free_bytes.h). Takes the slabs'
 * lock. */
void gck_cuda_handle_count(const struct gck_cuda_handle *h, int64_t bytes);

/* The program has the name once more, or once less. -1: it does not have it. */
void gck_cuda_handle_name(struct gck_cuda_handle *h);
int gck_cuda_handle_release(CUmemGenericAllocationHandle id) GCK_MUST_CHECK;

/* In a child: unlock, since the lock's holder is not there. */
void gck_cuda_handles_forked(void);

/* Visit all handles, from *at = 0 on; NULL: the end. For the CUDA thread while the gate is
 * closed. */
struct gck_cuda_handle *gck_cuda_handle_next(size_t *at);

/* ---- mappings (vmm_mapping.c) --------------------------------------------------------------- */

/* Make a mapping that is off the list. It takes over the caller's hold of h. NULL: no memory. */
struct gck_cuda_mapping *gck_cuda_mapping_new(uint64_t base, uint64_t size, uint64_t offset,
					      struct gck_cuda_handle *h) GCK_MUST_CHECK;

/* Take all mappings of a range off the list; put them on it again; or end them. */
struct gck_cuda_mapping *gck_cuda_mappings_take_off(uint64_t base, uint64_t size) GCK_MUST_CHECK;
void gck_cuda_mappings_put_on(struct gck_cuda_mapping *all);
void gck_cuda_mappings_end(struct gck_cuda_mapping *all);

/* Note which devices may access the mappings of a range. */
void gck_cuda_mappings_allow(uint64_t base, uint64_t size, const CUmemAccessDesc *access, size_t n);

/* The memory mapped at an address, held, and the mapping's number (unless NULL). NULL: none of
 * ours. */
struct gck_cuda_handle *gck_cuda_mappings_hold(uint64_t address, uint64_t *number) GCK_MUST_CHECK;

void gck_cuda_mappings_forked(void);

/* ---- at a checkpoint, with the gate closed (vmm_drain.c) ------------------------------------ */

/* Whether the vault still has every descriptor, so that the driver can forget the memory. */
bool gck_cuda_vmm_is_in_vault(void) GCK_MUST_CHECK;

/* Give all memory an address where it can be read and written. */
int gck_cuda_vmm_show(struct gck_error *err) GCK_MUST_CHECK;
/* Call `one` for each such range. Returns -1 as soon as it does. */
int gck_cuda_vmm_each(int (*one)(void *arg, CUdevice device, uint64_t address, uint64_t size),
		      void *arg) GCK_MUST_CHECK;

CUresult gck_cuda_vmm_forget(void) GCK_MUST_CHECK;
/* The driver is gone, and all memory that has a view with it. */
void gck_cuda_vmm_lost(void);
/* Map the memory again: recalled with its contents, or new and empty with its view. */
CUresult gck_cuda_vmm_recall(void) GCK_MUST_CHECK;
CUresult gck_cuda_vmm_renew(struct gck_cuda_renewed *r) GCK_MUST_CHECK;
/* Unmap views that are at addresses of ours. */
void gck_cuda_vmm_hide(void);

#endif
