/* SPDX-License-Identifier: Apache-2.0
 * libgpuckpt: calls the preload, which the SPANK plugin loads into a rank. Does nothing without
 * it. */
#include "config.h"

#include "shim/user/gpuckpt.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#define SHOWN __attribute__((visibility("default")))

typedef int ask_fn(int all, char *why, size_t size); /* shim/preload/start/checkpoint_call.c */

static __thread char error[256];

static int ask(int all)
{
	ask_fn *preload = (ask_fn *)dlsym(RTLD_DEFAULT, "gck_preload_checkpoint");

	error[0] = '\0';
	if (preload)
		return preload(all, error, sizeof error);
	dlerror(); /* clears the error, which the program did not cause */
	strcpy(error, "this program does not run under srun --gpu-ckpt");
	return -ENOSYS;
}

SHOWN int gck_checkpoint(void)
{
	return ask(0);
}

SHOWN int gck_checkpoint_all(void)
{
	return ask(1);
}

SHOWN const char *gck_checkpoint_error(void)
{
	return error;
}
