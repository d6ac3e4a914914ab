/* SPDX-License-Identifier: Apache-2.0
 * The request is that of NVIDIA's open kernel modules (nv-ioctl-numbers.h, nvos.h,
 * ctrl0000unix.h), the same since driver 465. */
#include "shim/cuda/memory/device_instance.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/ioctl.h>

#include "shim/cuda/dispatch/dispatch.h"
#include "shim/cuda/dispatch/load.h"

/* Control of an object. */
struct control {
	uint32_t client, object, command, flags;
	uint64_t arguments;
	uint32_t size, status;
};
#define CONTROL _IOWR('F', 0x2a, struct control)

/* Which device a descriptor of memory is of. */
#define EXPORT_OBJECT_INFO 0x3d08
struct export_object_info {
	int32_t fd;
	uint32_t instance;
	/* and more */
};

static atomic_int translated[GCK_CUDA_INSTANCES]; /* what to tell, + 1; 0: what was said */
static __thread int said __attribute__((tls_model("initial-exec"))) = -1;

static void translate(struct export_object_info *answer)
{
	int told;

	if (answer->instance >= GCK_CUDA_INSTANCES)
		return; /* it is of no device */
	said = (int)answer->instance;
	told = translated[said];
	if (told)
		answer->instance = (uint32_t)told - 1;
}

static int hooked_ioctl(int fd, unsigned long request, ...)
{
	const struct control *c;
	va_list list;
	void *arg;
	int rc;

	va_start(list, request);
	arg = va_arg(list, void *);
	va_end(list);
	rc = ioctl(fd, request, arg);
	c = arg;
	if (request == CONTROL && rc == 0 && c->command == EXPORT_OBJECT_INFO && c->status == 0)
		translate((void *)(uintptr_t)c->arguments);
	return rc;
}

void gck_cuda_instance_begin(void)
{
	void *driver = gck_cuda_handle();

	if (driver)
		gck_cuda_got_hook(driver, "ioctl", (void *)hooked_ioctl);
}

void gck_cuda_instance_translate(int here, int told)
{
	translated[here] = told + 1;
}

void gck_cuda_instance_reset(void)
{
	for (int i = 0; i < GCK_CUDA_INSTANCES; i++)
		translated[i] = 0;
	said = -1;
}

int gck_cuda_instance_said(void)
{
	return said;
}
