/* SPDX-License-Identifier: Apache-2.0
 * Faults to order in one phase of a rank's life on the fake driver, and which there can be: the calls that a pass
 * without any made in that phase. */
#ifndef GCK_CUDA_TEST_FAULTS_H
#define GCK_CUDA_TEST_FAULTS_H

#include <stdbool.h>

#define FAULT_FIRST 2 /* calls of each name that fail; and the last one, which another time may be another one */

struct fault {
	const char *name; /* NULL: none, the calls are written down */
	int nth;          /* call of that name in the phase */
	int code;         /* that it answers; 0: CUDA_ERROR_UNKNOWN */
};

/* The files by which a rank on the fake driver is told, in this directory; for all ranks to come. */
void faults_begin(const char *directory);

/* From here on; is it still to go off? Till here: did it? */
void faults_arm(const struct fault *f);
bool faults_armed(void);
bool faults_disarm(void);

/* Of what was written down last: call `one` with each fault that there can be, of each name the first ones and the
 * last one; but for names that an earlier phase has had. */
void faults_each(void (*one)(const struct fault *f, void *arg), void *arg);
void faults_begin_anew(void); /* none has had any */
int faults_times(const char *name); /* so often was it called */

#endif
