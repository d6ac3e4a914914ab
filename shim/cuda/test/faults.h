/* SPDX-License-Identifier: Apache-2.0
 * Faults injected into one phase of a rank's life on the fake driver. A pass without a fault
 * records the calls of the driver in that phase; they are the faults that can be injected. */
#ifndef GCK_CUDA_TEST_FAULTS_H
#define GCK_CUDA_TEST_FAULTS_H

#include <stdbool.h>

#define FAULT_FIRST 2 /* GPUCKPT_LONG: this many first calls of a function fail, and the last one */

struct fault {
	const char *name; /* function of the driver; NULL: no fault, record the calls */
	int nth;          /* which call of that function in the phase */
	int code;         /* that the call returns; 0: CUDA_ERROR_UNKNOWN */
};

/* Set the environment of all ranks to come: the files that order faults and record calls, in this
 * directory. */
void faults_begin(const char *directory);

/* Inject a fault from now on. Has it not been hit yet? Stop: returns whether it was hit. */
void faults_arm(const struct fault *f);
bool faults_armed(void);
bool faults_disarm(void);

/* Call `one` with each fault of the last record: by default the first call of each function, with
 * GPUCKPT_LONG=1 (faults_every) its first calls and the last. Functions that had their turn in an
 * earlier phase are left out. */
void faults_each(void (*one)(const struct fault *f, void *arg), void *arg);
bool faults_every(void);
void faults_repeat(const char *const names[]); /* these have another turn; NULL: all of them */
int faults_times(const char *name);            /* how often the last record has it */

/* Is the name in a list that ends with NULL? */
bool faults_is_one_of(const char *name, const char *const names[]);

#endif
