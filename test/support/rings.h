/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GCK_TEST_RINGS_H
#define GCK_TEST_RINGS_H

#include <errno.h>
#include <linux/io_uring.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Whether this kernel lets io_urings be made, and tells enough of them: Linux 6.8. */
static inline bool can_carry_rings(void)
{
	struct {
		uint32_t group, head, reserved[8];
	} buffers = {0};
	struct io_uring_params p = {0};
	int fd = (int)syscall(SYS_io_uring_setup, 1, &p);
	bool can = fd >= 0 && syscall(SYS_io_uring_register, fd, 26, &buffers, 1) < 0 &&
		   errno == ENOENT; /* IORING_REGISTER_PBUF_STATUS */

	if (fd >= 0)
		close(fd);
	return can;
}

#endif
