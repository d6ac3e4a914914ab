/* SPDX-License-Identifier: Apache-2.0
 * Objects of the program that no restart could bring back. While there is one, `able` names its
 * kind, and a checkpoint is refused before anything is touched. */
#ifndef GCK_CUDA_OBSTACLES_H
#define GCK_CUDA_OBSTACLES_H

#include <stdint.h>

/* X(KIND, object, reason, remedy) */
#define GCK_CUDA_KINDS(X) \
	X(IMPORT, "memory imported from another process (cuMemImportFromShareableHandle)", \
	  "the driver loses a process that has it", \
	  "it counts for good: do without from the start; NCCL: NCCL_P2P_DISABLE=1") \
	X(IPC_MEMORY, "memory of another process (cuIpcOpenMemHandle)", \
	  "the driver loses a process that has it", \
	  "close it before a checkpoint; NCCL: NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1") \
	X(IPC_EVENT, "an event of another process (cuIpcOpenEventHandle)", \
	  "it does not exist after a restart", "destroy it before a checkpoint") \
	X(POOL_IMPORT, "a memory pool of another process (cuMemPoolImportFromShareableHandle)", \
	  "the driver loses a process that has it", "destroy it before a checkpoint") \
	X(EXTERNAL_MEMORY, "memory of another interface (cuImportExternalMemory)", \
	  "what it belongs to is not carried", "destroy it before a checkpoint") \
	X(EXTERNAL_SEMAPHORE, "a semaphore of another interface (cuImportExternalSemaphore)", \
	  "what it belongs to is not carried", "destroy it before a checkpoint") \
	X(MULTICAST, "a multicast object (cuMulticastCreate)", "the driver does not carry it", \
	  "it counts for good: do without from the start; NCCL: NCCL_NVLS_ENABLE=0") \
	X(HOST_MEMORY, "memory of the host made by cuMemCreate", \
	  "the driver loses a process that has it", \
	  "it counts for good: use cuMemAllocHost or cuMemHostRegister from the start") \
	X(EXPORT, "device memory that another process may have (cuMemExportToShareableHandle)", \
	  "a restart could not give it back to both", \
	  "free it before a checkpoint; NCCL: NCCL_P2P_DISABLE=1") \
	X(HOST_ACCESS, "access of the host to memory made by cuMemCreate (cuMemSetAccess)", \
	  "it is not brought back", "unmap it before a checkpoint") \
	X(UNFREED_COPY, \
	  "a copy of device memory that a checkpoint left, and the driver did not take back", \
	  "the driver would lose the process", \
	  "requeue the job: it restarts from its last commit") \
	X(MANAGED_VARIABLE, "a __managed__ variable", "the driver does not carry it", \
	  "make it __device__ memory of a cudaMalloc") \
	X(MANAGED, \
	  "managed memory (cuMemAllocManaged) where CPU and GPU cannot use it at a time, or " \
	  "where " \
	  "the driver does not map it as driver 580 does", \
	  "it is not carried", "use cuMemAlloc, or free it before a checkpoint")

/* A single use counts for good. X(kind as in functions.tbl, object, reason, remedy) */
#define GCK_CUDA_RAW_KINDS(X) \
	X(opengl, "OpenGL with CUDA", "its state is not carried", "none") \
	X(debugger, "a debugger of CUDA programs", "its session is not carried", "end it") \
	X(undocumented, "cuMemGetAttribute", "what it does is not documented", "none") \
	X(egl, "EGL with CUDA", "its state is not carried", "none") \
	X(vdpau, "VDPAU with CUDA", "its state is not carried", "none")

enum gck_cuda_kind {
#define GCK_CUDA_KIND_(kind, object, reason, remedy) GCK_CUDA_##kind,
	GCK_CUDA_KINDS(GCK_CUDA_KIND_)
#undef GCK_CUDA_KIND_
	GCK_CUDA_NKINDS
};

/* Count an object, by the handle that the program knows it by. An object that is added more than
 * once counts until it was removed as often. Removing an unknown one does nothing. */
void gck_cuda_obstacle_add(enum gck_cuda_kind kind, uint64_t handle);
void gck_cuda_obstacle_remove(enum gck_cuda_kind kind, uint64_t handle);
/* Count an object once, however often it is added. */
void gck_cuda_obstacle_add_once(enum gck_cuda_kind kind, uint64_t handle);

/* In a child: unlock, since the lock's holder is not there. */
void gck_cuda_obstacles_forked(void);

#endif
