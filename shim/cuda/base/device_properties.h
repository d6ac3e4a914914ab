/* SPDX-License-Identifier: Apache-2.0
 * What a program may have asked of its device and goes by, so that another device must have it: the
 * attribute of CUDA, a rule, and what it is, for messages.
 *
 *   EQUAL  the same
 *   LEAST  as much or more
 *   MOST   as much or less
 *   TOLD   a restart tells the user what it is now */
#ifndef GCK_CUDA_DEVICE_PROPERTIES_H
#define GCK_CUDA_DEVICE_PROPERTIES_H

#define GCK_CUDA_PROPERTIES(X) \
	X(WARP_SIZE, EQUAL, "threads in a warp") \
	X(MULTIPROCESSOR_COUNT, LEAST, "multiprocessors") \
	X(MAX_THREADS_PER_BLOCK, LEAST, "threads in a block") \
	X(MAX_BLOCK_DIM_X, LEAST, "threads in x of a block") \
	X(MAX_BLOCK_DIM_Y, LEAST, "threads in y of a block") \
	X(MAX_BLOCK_DIM_Z, LEAST, "threads in z of a block") \
	X(MAX_GRID_DIM_X, LEAST, "blocks in x of a grid") \
	X(MAX_GRID_DIM_Y, LEAST, "blocks in y of a grid") \
	X(MAX_GRID_DIM_Z, LEAST, "blocks in z of a grid") \
	X(MAX_THREADS_PER_MULTIPROCESSOR, LEAST, "threads on a multiprocessor") \
	X(MAX_BLOCKS_PER_MULTIPROCESSOR, LEAST, "blocks on a multiprocessor") \
	X(MAX_SHARED_MEMORY_PER_BLOCK, LEAST, "bytes of shared memory for a block") \
	X(MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, LEAST, "bytes of shared memory for a block, at most") \
	X(MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, LEAST, \
	  "bytes of shared memory on a multiprocessor") \
	X(MAX_REGISTERS_PER_BLOCK, LEAST, "registers for a block") \
	X(MAX_REGISTERS_PER_MULTIPROCESSOR, LEAST, "registers on a multiprocessor") \
	X(TOTAL_CONSTANT_MEMORY, LEAST, "bytes of constant memory") \
	X(TEXTURE_ALIGNMENT, MOST, "bytes that textures are aligned to") \
	X(TEXTURE_PITCH_ALIGNMENT, MOST, "bytes that rows of textures are aligned to") \
	X(SURFACE_ALIGNMENT, MOST, "bytes that surfaces are aligned to") \
	X(COOPERATIVE_LAUNCH, LEAST, "cooperative launches") \
	X(CLUSTER_LAUNCH, LEAST, "launches of clusters") \
	X(TENSOR_MAP_ACCESS_SUPPORTED, LEAST, "tensor maps") \
	X(MEMORY_POOLS_SUPPORTED, LEAST, "pools of memory") \
	X(VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, LEAST, "virtual memory management") \
	X(CAN_MAP_HOST_MEMORY, LEAST, "mapped host memory") \
	X(MANAGED_MEMORY, LEAST, "managed memory") \
	X(CONCURRENT_MANAGED_ACCESS, LEAST, "managed memory for CPU and GPU at once") \
	X(PAGEABLE_MEMORY_ACCESS, LEAST, "access to pageable memory") \
	X(HOST_NATIVE_ATOMIC_SUPPORTED, LEAST, "atomics in host memory") \
	X(COMPUTE_CAPABILITY_MAJOR, TOLD, "compute capability, major") \
	X(COMPUTE_CAPABILITY_MINOR, TOLD, "compute capability, minor") \
	X(L2_CACHE_SIZE, TOLD, "bytes of L2 cache")

#define GCK_CUDA_PROPERTY(attribute, rule, text) GCK_CUDA_##attribute,
enum { GCK_CUDA_PROPERTIES(GCK_CUDA_PROPERTY) GCK_CUDA_NPROPERTIES };
#undef GCK_CUDA_PROPERTY

#endif
