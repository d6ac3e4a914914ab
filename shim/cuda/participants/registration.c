/* SPDX-License-Identifier: Apache-2.0
 * The GPUs stay registered with the kernel's memory manager (UVM) during a checkpoint. The driver
 * takes its own registration back. If nobody else has one, the kernel takes down its state of the
 * GPU, and sets it up again at the restore: 0.13 s for one GPU, 0.4 s for two
 * (doc/cuda-driver.md). A failure here costs that time only. The requests are those of NVIDIA's
 * open kernel modules (uvm_ioctl.h, uvm_linux_ioctl.h), the same since driver 515. */
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "shim/cuda/base/fd_vault.h"
#include "shim/cuda/base/participant.h"

#define DEVICE "/dev/nvidia-uvm"
#define INITIALIZE 0x30000001ul
#define SHARED 2 /* the registration belongs to no process's memory */
#define REGISTER_GPU 37ul

struct initialize {
	uint64_t flags;
	uint32_t status;
};

struct register_gpu {
	unsigned char uuid[16];
	unsigned char numa_enabled; /* set by the kernel, as numa_node is */
	int32_t numa_node;
	int32_t control_fd;         /* -1: the whole GPU */
	uint32_t client, part;
	uint32_t status;
};

static uint64_t kept; /* the descriptor's name in the vault; 0: none */

static bool initialize(int fd)
{
	struct initialize request = {.flags = SHARED};

	return ioctl(fd, INITIALIZE, &request) == 0 && request.status == 0;
}

static bool register_gpu(int fd, const unsigned char uuid[16])
{
	struct register_gpu request = {.control_fd = -1};

	memcpy(request.uuid, uuid, sizeof request.uuid);
	return ioctl(fd, REGISTER_GPU, &request) == 0 && request.status == 0;
}

static bool register_all(int fd)
{
	const struct gck_cuda_devices *all = &gck_cuda_state.devices;
	bool done = initialize(fd);

	for (uint32_t i = 0; done && i < all->n; i++)
		done = register_gpu(fd, all->v[i].uuid);
	return done;
}

static void keep(const struct gck_cuda_order *order)
{
	int fd = kept ? -1 : open(DEVICE, O_RDWR | O_CLOEXEC);

	(void)order;
	if (fd < 0)
		return;
	if (register_all(fd))
		kept = gck_cuda_vault_put(fd);
	else
		close(fd);
}

/* The drain may come unprepared. */
static int drain(const struct gck_cuda_order *order, struct gck_error *err)
{
	(void)err;
	keep(order);
	return 0;
}

static int resume(const struct gck_cuda_order *order, bool restored, struct gck_error *err)
{
	(void)order;
	(void)err;
	if (restored)
		kept = 0;
	return 0;
}

static void release(void)
{
	if (kept)
		gck_cuda_vault_drop(kept);
	kept = 0;
}

const struct gck_cuda_participant gck_cuda_registration_participant = {
	.name = "registration",
	.image_only = true,
	.prepare = keep,
	.drain = drain,
	.resume = resume,
	.release = release,
};
