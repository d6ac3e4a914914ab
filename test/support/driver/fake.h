/* SPDX-License-Identifier: Apache-2.0
 * A driver for machines without a GPU: a small implementation of what the stand-in uses. Device
 * memory is memory of the process at the same address; a stream is a thread; a kernel is a function
 * of the program. It refuses and loses what driver 580 refuses and loses (doc/cuda.md), and any
 * call can be made to fail. Environment:
 *
 *   FAKE_CUDA_DEVICES=N     number of devices, 1
 *   FAKE_CUDA_NODE=FILE     the devices instead, read at the start and at each restore: a line
 *                           "LETTER NAME" for each device; its UUID is 16 times the letter.
 *                           "LETTER NAME | KEY=N ...": what it has otherwise than an H100 of 1 GiB:
 *                           arch (90), multiprocessors (132), shared (bytes for a block), l2
 *                           (bytes), memory (MiB)
 *   FAKE_CUDA_MEMORY=MIB    memory of each device, 1024
 *   FAKE_CUDA_GRANULE=KIB   granularity of memory of cuMemCreate, 2048
 *   FAKE_CUDA_SHARED=DIR    all processes with the same directory share that memory. Without it,
 *                           memory that the process has released counts as free even if a
 *                           descriptor of it is open
 *   FAKE_CUDA_TAKEN=FILE    the MiB of each device that others use, read at the start and at each
 *                           restore
 *   FAKE_CUDA_FAIL=RULE,... RULE is NAME=CODE (each call of that function returns CODE),
 *                           NAME:N=CODE (only its Nth call) or NAME:N+=CODE (the Nth and all later
 *                           calls)
 *   FAKE_CUDA_FAULT=FILE    when FILE appears with "NAME N CODE", the Nth call of that function
 *                           from then on returns CODE and removes FILE
 *   FAKE_CUDA_CALLS=FILE    while FILE exists, each call appends its name as a line
 *   FAKE_CUDA_SLOW=NAME=MS[@FILE],...  each call of that function returns MS milliseconds after its
 *                           work is done; with FILE only while that exists
 *   FAKE_CUDA_BUSY=FILE     no copy ends while FILE exists
 *   FAKE_CUDA_CONCURRENT=0  CPU and GPU may not use managed memory at the same time
 *   FAKE_CUDA_MANAGED=there managed memory is mapped at any free address
 *   FAKE_CUDA_LATE=MS       exported memory is free MS milliseconds after its release
 *   FAKE_CUDA_PARTS=1       cuMemMap maps parts of memory, which driver 580 refuses
 *   FAKE_CUDA_PTX=FILE      the last text that was loaded or linked is written there
 *
 * libcuda-fake-older.so is the same driver in an older version (version.c). A program that is
 * restored gets the one that has the library's path then.
 *
 * A module that begins with ".version" or "//" is text of PTX, not taken if it gives the kernel
 * `refused` points; its .global and .const variables without sizes are of 8 bytes each, at
 * addresses by the order of modules. Another module's variables and all kernels are the program's.
 *
 * A kernel NAME is `void NAME(void **params, const struct fake_grid *grid)`, exported by the
 * program (-rdynamic, default visibility), with `const int NAME_params`, its number of parameters
 * of 8 bytes each. */
#ifndef FAKE_FAKE_H
#define FAKE_FAKE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "test/support/driver/entry.h"

#define FAKE_MAX_DEVICES 16
#define FAKE_BLOCKS 1024 /* of a kernel that fills its device */
#define FAKE_SHARED_MOST (1 << 20) /* a kernel that needs more fails, and its context too */
#define FAKE_GRANULARITY fake.granularity

struct fake_grid {
	unsigned int grid[3], block[3], shared;
};

/* ---- the version (version.c) ----------------------------------------------------------------- */

#define FAKE_LATER_SLOTS 2 /* of a private table, at most */

struct fake_version {
	int cuda;             /* cuDriverGetVersion's answer. Later functions are not exported */
	bool is_older;
	unsigned later_slots; /* of each private table, behind the functions that all have */
	unsigned cache_words; /* of the table of a cache, which has less in an older version */
	size_t callbacks;     /* words that the runtime reads */
	size_t modules;       /* bytes of addresses for modules' variables */
};

extern const struct fake_version fake_version;

/* ---- devices (node.c) ------------------------------------------------------------------------ */

struct fake_node {
	int n;
	struct fake_device {
		CUuuid uuid;
		char name[64];
		int arch, multiprocessors, shared, l2;
		size_t memory;
	} v[FAKE_MAX_DEVICES];
};

/* Read the devices of this machine, or those that CUDA_VISIBLE_DEVICES names, in its order. */
void fake_node_read(struct fake_node *node);
void fake_node_see(struct fake_node *seen);

/* In a restore: move to other devices, as the driver does. With the lock. */
CUresult fake_node_move(const CUcheckpointRestoreArgs *args);
/* The number of the device that had this number of the kernel's when the process started; -1:
 * none had. And the kernel's number of a device now. */
CUdevice fake_node_first(unsigned instance);
unsigned fake_node_instance(CUdevice device);

/* ---- all of it (fake.c) --------------------------------------------------------------------- */

struct fake_state {
	pthread_mutex_t lock;    /* of everything */
	pthread_cond_t changed;  /* of anything */
	bool inited;
	bool forked;             /* in a child: its calls fail, without the lock */
	_Atomic bool over;       /* the process is in exit(): all calls fail */
	size_t granularity;      /* of memory of cuMemCreate */
	size_t used[FAKE_MAX_DEVICES];
	struct fake_node seen;   /* the devices, by number */
	struct fake_node first;  /* the devices at cuInit */
	CUprocessState process;
	unsigned inside;         /* calls that are under way */
	bool lost;               /* restore will fail */
	bool host_memory;        /* made by cuMemCreate */
	uint64_t ids;            /* the last id of memory */
};

extern struct fake_state fake;
extern const int fake_only FAKE_SHOWN, cuFakeNumber FAKE_SHOWN; /* not functions of CUDA */
CUresult cuFakeFuture(int *value); /* a function of a later version of CUDA */

void fake_lock(void);
void fake_unlock(void);
void fake_changed(void);
void fake_wait(void);                         /* until fake_changed */
bool fake_wait_until(const struct timespec *end); /* false: the time is over */

CUresult fake_ordered(const char *name); /* fault_file.c: the result that FAKE_CUDA_FAULT orders */

/* Whether the call is a `_ptsz` variant. */
bool fake_per_thread(void);

/* ---- contexts (context.c) ------------------------------------------------------------------- */

struct CUctx_st {
	struct CUctx_st *next;
	CUdevice device;
	bool primary, alive;
	unsigned int flags, uses;
	size_t limits[CU_LIMIT_MAX];
	struct CUstream_st *legacy;
	CUresult broken;
};

extern __thread CUstreamCaptureMode fake_capture_mode; /* of the calling thread */

CUcontext fake_current(void); /* NULL: none */
bool fake_is_alive(CUcontext c);
CUcontext fake_primary(CUdevice device); /* with the lock */
void fake_context_storage_end(CUcontext context); /* tables.c; it calls the program */
void fake_tables_anew(void);
CUresult fake_device(CUdevice device);

/* ---- streams (stream.c) --------------------------------------------------------------------- */

/* An operation of a stream. The stream's thread calls `run` without the lock. */
struct fake_op {
	struct fake_op *next;
	void (*run)(struct fake_op *op);
	int node;                         /* in a capture: a CUgraphNodeType and 1; 0: none */
	struct CUstream_st *stream;
	uint64_t args[12];
	struct fake_grid grid;
	void *block;                      /* freed with it */
	size_t block_size;
};

#define FAKE_LAST 16

/* A capture, and what a stream, or an event that it recorded, comes after. */
struct fake_captured {
	CUstreamCaptureMode mode;
	struct CUgraph_st *graph;
	unsigned long long id;
	bool is_origin, given;            /* it began here; into a graph of the program */
	CUgraphNode last[FAKE_LAST];
	CUgraphEdgeData data[FAKE_LAST];
	size_t n;
};

struct CUstream_st {
	struct CUstream_st *next;
	CUcontext context;
	unsigned int flags;
	int priority;
	bool destroyed;
	struct fake_op *first, **last;
	uint64_t given, done;             /* operations */
	CUstreamCaptureStatus capture;
	struct fake_captured captured;    /* if it captures */
};

/* The stream that a handle means (default streams too); NULL: none. With the lock. */
struct CUstream_st *fake_stream(CUstream handle);

/* Append a copy of *op to a stream, or record it if the stream is in capture. With the lock. */
CUresult fake_give(struct CUstream_st *s, const struct fake_op *op);

/* Make a stream of a context, with its thread. With the lock. */
struct CUstream_st *fake_stream_new(CUcontext context, unsigned int flags, int priority);

bool fake_all_idle(CUcontext context);        /* NULL: all contexts'. With the lock */
bool fake_stream_idle(const struct CUstream_st *s);
/* For calls that are forbidden while another thread captures: the error ends the capture. */
CUresult fake_not_in_capture(void);
struct CUstream_st *fake_streams(void);
/* graph/capturing.c: an operation, a graph, an event, or that the stream comes after another. */
CUresult fake_capture(struct CUstream_st *s, const struct fake_op *op);
CUresult fake_capture_graph(struct CUstream_st *s, CUgraph graph);
CUresult fake_capture_event(struct CUstream_st *s, CUevent event, bool wait);
CUresult fake_capture_join(struct CUstream_st *s, const struct fake_captured *from);
/* graph/executable.c: gives a graph's nodes to a stream. */
CUresult fake_run_graph(struct CUgraph_st *g, struct CUstream_st *s);
/* graph/user.c: calls the destructors of objects that have ended. Without the lock. */
void fake_users_tell(void);
/* event.c: records an event or waits for it, on a stream that does not capture. */
CUresult fake_give_event(CUevent event, struct CUstream_st *s, bool wait);
bool fake_is_event(CUevent event);
void fake_context_streams_end(CUcontext context);
void fake_mark_all(CUcontext context, struct fake_op *mark); /* behind all work of a context */
struct CUstream_st *fake_capturing(CUcontext context);

/* ---- memory (memory.c, vmm.c, shared.c) ------------------------------------------------------ */

enum fake_kind {
	FAKE_DEVICE,
	FAKE_VMM,
	FAKE_HOST,
	FAKE_REGISTERED,
	FAKE_MANAGED,
	FAKE_IMPORTED,
	FAKE_EXTERNAL
};

/* A mapping of memory. */
struct fake_block {
	struct fake_block *next;
	CUdeviceptr base;
	size_t size, mapped;      /* as requested, as mapped */
	uint64_t id;
	enum fake_kind kind;
	CUdevice device;
	CUcontext context;
	unsigned int flags;
	struct fake_memory *memory;
	void *saved;              /* contents, while checkpointed */
	size_t offset;
	uint64_t readable, writable; /* by cuMemSetAccess: a bit for each device */
	struct CUmemPoolHandle_st *pool; /* stream-ordered */
	bool graph, freed;        /* stream-ordered: it belongs to a graph; its free is under way */
	struct fake_page *pages;  /* managed: the advice */
};

/* Physical memory: a memfd. */
struct fake_memory {
	struct fake_memory *next;
	int fd;
	size_t size;
	CUdevice device;
	unsigned uses;            /* handles and mappings */
	bool imported, exported;
	CUmemAllocationProp prop;
};

extern struct fake_block *fake_blocks;

/* shared.c: bytes of a device that all processes use; a file of `size` more bytes, -1: there is no
 * free memory. */
size_t fake_used(CUdevice device);
int fake_memory_file(CUdevice device, size_t size);
CUdevice fake_memory_device(int fd);
struct fake_memory *fake_memory_new(size_t size, CUdevice device, CUresult *rc);
void fake_memory_drop(struct fake_memory *m);
/* Takes the descriptor. */
struct fake_memory *fake_memory_of(int fd, size_t size, CUdevice device);
/* Memory of another's descriptor; NULL: it is none. */
struct fake_memory *fake_memory_import(int fd);
/* The contents of a CUipcMemHandle: a descriptor of that process. */
struct fake_ipc {
	pid_t pid;
	int fd;
	size_t size;
};
struct fake_block *fake_find(CUdeviceptr address); /* with the lock; NULL: none */
struct fake_block *fake_block_new(struct fake_memory *m, CUdeviceptr at, size_t size,
				  enum fake_kind kind);
void fake_block_free(struct fake_block *b);
int fake_rights(const struct fake_block *b); /* of VMM: a device's access, as for mprotect */
void fake_unmap(struct fake_block *b);
void fake_pool_free(struct fake_block *b); /* pool.c: free its memory, which is not in use */
CUresult fake_allocate(CUdeviceptr *address, size_t size, enum fake_kind kind);
void *fake_map_managed(size_t size); /* managed.c */
void fake_unmap_managed(void *at, size_t size);

/* For the driver's checkpoint: copy contents to host memory and back. */
void fake_blocks_save(void);
void fake_blocks_restore(void);
bool fake_blocks_have(enum fake_kind kind);
void fake_context_blocks_end(CUcontext context);  /* with the lock */

/* ---- modules and libraries (module.c) -------------------------------------------------------- */

typedef void fake_code(void **params, const struct fake_grid *grid);

struct CUfunc_st {
	struct CUfunc_st *next; /* of its module */
	fake_code *run;
	int params;
};

/* A handle of a kernel means its function in the current context; NULL: it has none there. */
CUfunction fake_function(CUfunction f);
bool fake_is_function(CUfunction f); /* of a module that is loaded */
/* Whether a module's variables are there, in memory of this device. With the lock. */
bool fake_is_variable(uint64_t address, CUdevice *device);
/* What a node of a graph does. */
void fake_run_kernel(struct fake_op *op);
void fake_run_host(struct fake_op *op);
void fake_value(const CUstreamBatchMemOpParams *p); /* waits for it, or writes it */
void fake_copy_3d(const CUDA_MEMCPY3D *c);          /* array.c */
bool fake_is_array_on(CUarray array, CUdevice device);
bool fake_may_use(CUcontext context, uint64_t address); /* copy.c; with the lock */
void fake_context_modules_end(CUcontext context); /* with the lock */
void fake_context_arrays_end(CUcontext context);  /* array.c; with the lock */

/* ---- who is told of checkpoints (tables.c) --------------------------------------------------- */

enum fake_listened { FAKE_LOCK, FAKE_UNLOCK, FAKE_CHECKPOINT, FAKE_RESTORE };

/* What they are given: of a lock, of a restore; else nothing. */
struct fake_lock_request {
	uint64_t size;
	int64_t end_ns;
};
struct fake_gpu_now {
	unsigned char was[16];
	uint64_t unknown;
	uint32_t id, unknown_too;
};
struct fake_restore_request {
	uint64_t size;
	uint32_t n, none;
	const struct fake_gpu_now *gpus;
};
typedef int fake_listen(const void *request);

void fake_listeners_tell(enum fake_listened what);

/* ---- loaded anew (launch.c) ------------------------------------------------------------------ */

/* For tests: forgets everything, as if the driver were loaded anew. */
void fake_anew(void) FAKE_SHOWN;
/* Parts of it, with the lock. */
void fake_contexts_anew(void);
void fake_kernels_anew(void);
void fake_blocks_anew(void);
void fake_reservations_anew(void);
void fake_graphs_anew(void);
void fake_executables_anew(void);
void fake_events_anew(void);
void fake_pools_anew(void);
void fake_users_anew(void);

#endif
