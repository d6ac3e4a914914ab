/* SPDX-License-Identifier: Apache-2.0
 * gpuckpt: a program asks for a checkpoint of the step that it is a rank of. gck_checkpoint(3).
 *
 * Linked with -lgpuckpt, which needs nothing but libc and does nothing where the program does not
 * run under srun --gpu-ckpt. Any thread may call these; not from a signal handler. */
#ifndef GPUCKPT_H
#define GPUCKPT_H

#ifdef __cplusplus
extern "C" {
#endif

/* Take a checkpoint of the whole step, of the state that this process is in now; return when it is
 * committed, or will not be. What the step's other ranks do does not matter, they run on.
 *    0   committed, and this is the process that called;
 *   >0   this process came out of that checkpoint, in a restart: its number of restarts;
 *   <0   no checkpoint: minus an errno value, gck_checkpoint_error() says why. The program is unharmed. */
int gck_checkpoint(void);

/* The same, made by every rank of the step, each time by all and by one thread each: the n-th
 * calls of all ranks are one checkpoint, taken as soon as the first has called, and return the
 * same. It is no barrier: a rank that comes late returns at once. */
int gck_checkpoint_all(void);

/* Why the last call of this thread's returned less than 0; "" otherwise. Valid until its next
 * call. */
const char *gck_checkpoint_error(void);

#ifdef __cplusplus
}
#endif

#endif
