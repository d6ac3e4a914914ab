/* SPDX-License-Identifier: Apache-2.0
 * The program's own virtual memory management at random: memory made, released, mapped, unmapped,
 * mapped twice, allowed, written; every answer and every content compared with a plain list. */
#ifndef GCK_CUDA_TEST_VMM_MODEL_H
#define GCK_CUDA_TEST_VMM_MODEL_H

/* What was wrong, NULL: nothing. A context is current. */
const char *vmm_begin(unsigned int seed);
const char *vmm_steps(int n);
/* In place of steps: one that is mapped and released, one that is mapped nowhere, one that nobody
 * may use. */
const char *vmm_few(void);
/* One more; somebody has a descriptor of it; it is gone. */
const char *vmm_make(void);
const char *vmm_export(void);
const char *vmm_drop(void);
/* The halves of one memory, mapped apart; they have what they had, and are gone. */
const char *vmm_parts(void);
const char *vmm_parts_end(void);
/* All of it, without a step in between. */
const char *vmm_look(void);
/* Several threads beside each other, each with memory of its own, so many rounds. */
const char *vmm_threads(int rounds);
const char *vmm_end(void); /* the device has as much free as at the begin */

#endif
