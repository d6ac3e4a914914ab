/* SPDX-License-Identifier: Apache-2.0
 * What a library in a namespace owns: part of the state of a stand-in, which the agent and the
 * capture read by process_vm_readv while the rank is held. Part of every image. */
#ifndef GCK_NAMESPACE_STATE_H
#define GCK_NAMESPACE_STATE_H

#include <stdint.h>

struct gck_ns_range {
	uint64_t start, length; /* bytes, whole pages */
};

/* What the real library owns, which the image leaves out. The arrays are in the rank's memory. */
struct gck_ns_exclusions {
	uint64_t ranges, nranges;   /* struct gck_ns_range[] */
	uint64_t fds, nfds;         /* int32_t[] */
	uint64_t threads, nthreads; /* int32_t[], the kernel's TIDs */
	/* struct gck_ns_range[], while the copy is held: file mappings of which the image needs
	 * only the changed pages; the others may be zero after a restart */
	uint64_t changes_only, nchanges_only;
};

#endif
