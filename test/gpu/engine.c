/* SPDX-License-Identifier: Apache-2.0
 * Preloaded in place of the stand-in for the CUDA driver, with GPUCKPT_CUDA=replay: the same, and a
 * function by which a program that has no work under way is checkpointed and restarted where it is:
 * the driver's library ends as at a restart, and a fresh one is loaded. All copies are in host
 * memory, as no agent is there. */
#define _GNU_SOURCE
#include "config.h"

#include <stdio.h>
#include <time.h>

#include "shim/cuda/apart/apart.h"
#include "shim/cuda/base/state.h"
#include "shim/cuda/gate/driver_checkpoint.h"
#include "shim/cuda/participants/drain.h"
#include "shim/link.h"
#include "shim/namespace/namespace.h"

#define SHOWN __attribute__((visibility("default")))

/* Found by name. 0: done; -1: it was refused; -2: it failed, and there is no driver. A line says
 * why. */
SHOWN int gpu_engine_restart(void);

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void fails(void *arg, const struct gck_error *why)
{
	(void)arg;
	fprintf(stderr, "# fails: %s\n", why->text);
}

static int no_source(void *arg, bool again, int fds[2], struct gck_error *err)
{
	(void)arg;
	(void)again;
	(void)fds;
	return gck_fail(err, ENODATA, "a test has no source");
}

int gpu_engine_restart(void)
{
	const struct gck_link_cuda_drain order = {.limit_ms = 10000, .host_copy_max = 1ull << 40};
	struct gck_error err = {0};
	double start = now_ms(), saved, ended;
	bool lost;

	gck_cuda_devices_note();
	if (gck_cuda_drain(&order, fails, NULL, &lost, &err)) {
		fprintf(stderr, "# refused: %s\n", err.text);
		return -1;
	}
	saved = now_ms();
	if (gck_namespace_kill(&err))
		goto failed;
	ended = now_ms();
	if (gck_cuda_resume(no_source, NULL, &err))
		goto failed;
	fprintf(stderr, "# saved %.1f ended %.1f made %.1f ms\n", saved - start, ended - saved,
		now_ms() - ended);
	gck_cuda_release();
	return 0;
failed:
	fprintf(stderr, "# failed: %s\n", err.text);
	return -2;
}
