/* SPDX-License-Identifier: Apache-2.0
 * gpuckpt: a rank requests a checkpoint of its step. See gck_checkpoint(3).
 *
 * Link with -lgpuckpt. It needs only libc and does nothing if the program does not run under
 * srun --gpu-ckpt. Any thread may call these functions, but not from a signal handler. */
#ifndef GPUCKPT_H
#define GPUCKPT_H

#ifdef __cplusplus
extern "C" {
#endif

/* Takes a checkpoint of the whole step with the present state of this process. Returns when it is
 * committed or has failed. The other ranks of the step need not call; they run on.
 *    0   committed, and this is the process that called;
 *   >0   this process was restarted from that checkpoint: its number of restarts;
 *   <0   no checkpoint: minus an errno value; gck_checkpoint_error() gives the reason. The program
 *        is unharmed. */
int gck_checkpoint(void);

/* The same, called by one thread of each rank of the step, each time by all ranks. The n-th calls
 * of all ranks are one checkpoint, which is taken when the first rank calls, and return the same
 * result. It is not a barrier: a rank that calls late returns at once. */
int gck_checkpoint_all(void);

/* The reason why this thread's last call returned less than 0; "" otherwise. Valid until the
 * thread's next call. */
const char *gck_checkpoint_error(void);

#ifdef __cplusplus
}
#endif

#endif
