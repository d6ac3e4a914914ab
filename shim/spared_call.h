/* SPDX-License-Identifier: Apache-2.0
 * Calls that a tracer's stop would end. For whoever stops threads by ptrace: shim/process and
 * shim/cuda. */
#ifndef GCK_SPARED_CALL_H
#define GCK_SPARED_CALL_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/user.h>

#define GCK_ERESTARTNOHAND 514 /* the kernel's */

/* The kernel never restarts these, but for the transfers without a time limit (SO_RCVTIMEO). They
 * have done nothing if they return EINTR. */
static inline bool gck_call_never_restarts(uint64_t nr)
{
	static const uint16_t calls[] = {
		SYS_epoll_wait, SYS_epoll_pwait, SYS_epoll_pwait2, SYS_io_uring_enter,
		SYS_rt_sigtimedwait, SYS_semop, SYS_semtimedop, SYS_accept, SYS_accept4, SYS_read,
		SYS_readv, SYS_recvfrom, SYS_recvmsg, SYS_recvmmsg, SYS_write, SYS_writev,
		SYS_sendto, SYS_sendmsg, SYS_sendmmsg,
	};

	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
		if (calls[i] == nr)
			return true;
	return false;
}

/* Whether a stopped thread's registers, changed thus, have the kernel restart the call that the
 * stop has interrupted, unless a handler runs first, where it would return EINTR although there is
 * no handler. It does so also if the tracer dies. */
static inline bool gck_call_spared(struct user_regs_struct *r)
{
	if ((int64_t)r->orig_rax < 0 || (int64_t)r->rax != -EINTR ||
	    !gck_call_never_restarts(r->orig_rax))
		return false;
	r->rax = (uint64_t)-GCK_ERESTARTNOHAND;
	return true;
}

#endif
