/* SPDX-License-Identifier: Apache-2.0
 * A rank of which one image is taken, and any number of processes restored from that image, one
 * after the other, on the device that the test chooses. Some of its device data is in the image,
 * the rest is filled in by the test. */
#ifndef GCK_CUDA_TEST_RESTORED_RANK_H
#define GCK_CUDA_TEST_RESTORED_RANK_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/cuda/test/commands.h"
#include "shim/cuda/test/faults.h"
#include "test/support/cuda_data.h"
#include "test/support/cuda_link.h"
#include "test/support/tap.h"

#define SAME_DEVICE "a H100\n"  /* lines of FAKE_CUDA_NODE */
#define OTHER_DEVICE "b H100\n"

extern struct lineage lineage;
extern struct cuda_link cuda; /* the CUDA thread's link */

enum phase { RESTORE, DRAIN, BACK }; /* BACK: resume, and read the copy on the device */
extern const char *const phases[];

struct outcome {
	bool failed, lost; /* lost: the rank cannot go on */
	char text[400];    /* the error's */
	bool on_device;    /* the copy stayed on the device and was read from there */
	bool missed;       /* the fault was not hit */
};

struct place {
	enum phase in;
	const char *device; /* SAME_DEVICE or OTHER_DEVICE */
	int code;           /* that the call returns; 0: CUDA_ERROR_UNKNOWN */
};

/* Start the program, take its image and read its device data. The test ends if that fails. */
void restored_begin(void);
void restored_end(void);

/* Restore a process and run it through the phases up to at->in, with the fault in that one. */
void restored_run(const struct fault *f, const struct place *at, struct outcome *o);
void restored_run_without_fault(enum phase in, const char *device, struct outcome *o);

/* One phase. restored_resume gives the rank a reader of its copy, which read_all uses up. */
void restored_drain(struct outcome *o);
void restored_resume(struct cuda_data *d, struct outcome *o);
void restored_read_all(struct cuda_data *d, struct outcome *o);
void restored_back(struct outcome *o);

/* Is the program's memory what it was? */
bool restored_has_its_data(void);

/* ---- claims ---------------------------------------------------------------------------------- */

/* The program has its data, and the next checkpoint succeeds or is refused. */
static inline void restored_goes_on(bool refused)
{
	struct outcome o;

	ok(restored_has_its_data(), "the program has its data");
	restored_drain(&o);
	ok(all_of(o.failed == refused, !o.lost), "the next checkpoint is %s: %s",
	   refused ? "refused" : "good", o.text);
	if (refused)
		return;
	restored_back(&o);
	ok(all_of(!o.failed, restored_has_its_data()), "the program still has its data: %s",
	   o.text);
}

#endif
