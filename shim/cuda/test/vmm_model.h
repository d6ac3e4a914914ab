/* SPDX-License-Identifier: Apache-2.0
 * The program's own virtual memory management at random: memory is made, released, mapped,
 * unmapped, mapped twice, given access and written; every answer and all contents are compared with
 * a plain list. */
#ifndef GCK_CUDA_TEST_VMM_MODEL_H
#define GCK_CUDA_TEST_VMM_MODEL_H

/* Each returns what was wrong, or NULL. A context must be current. */
const char *vmm_begin(unsigned int seed);
const char *vmm_steps(int n);
/* In place of steps: make memory that is mapped and released, memory that is not mapped, and memory
 * without access. */
const char *vmm_few(void);
/* Make one more memory; export a descriptor of it; free it. */
const char *vmm_make(void);
const char *vmm_export(void);
const char *vmm_drop(void);
/* Map the halves of one memory apart; check their contents and free them. */
const char *vmm_parts(void);
const char *vmm_parts_end(void);
/* Check everything, without a step. */
const char *vmm_look(void);
/* Run several threads, each with memory of its own, for that many rounds. */
const char *vmm_threads(int rounds);
const char *vmm_end(void); /* also checks that as much is free as at the beginning */

#endif
