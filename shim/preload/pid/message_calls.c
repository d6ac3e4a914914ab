/* SPDX-License-Identifier: Apache-2.0
 * Credentials of unix sockets, interposed: the PID of a socket's peer, and those that come with
 * messages or go with them. The libc functions that are cancellation points stay ones. */
#include "config.h"

#include <alloca.h>
#include <limits.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shim/preload/pid/pid.h"
#include "shim/preload/pid/virtual_ids.h"

/* The kernel takes up to 253 descriptors with a message: with a header each they are less. */
#define CONTROL_MAX 8192

/* ---- one message --------------------------------------------------------------------------- */

/* Where the PID is, if these are credentials; it may be all that had space. */
static unsigned char *pid_in(struct cmsghdr *c)
{
	bool is = c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_CREDENTIALS &&
		  c->cmsg_len >= CMSG_LEN(sizeof(int32_t));

	return is ? CMSG_DATA(c) : NULL;
}

static void convert(struct msghdr *m, int32_t (*to)(int32_t))
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		unsigned char *at = pid_in(c);
		int32_t pid;

		if (!at)
			continue;
		memcpy(&pid, at, sizeof pid);
		pid = to(pid);
		memcpy(at, &pid, sizeof pid);
	}
}

static bool has_credentials(const struct msghdr *m)
{
	struct msghdr *all = (struct msghdr *)m;
	bool has = false;

	if (!gck_is_memory(m, sizeof *m) || !m->msg_controllen ||
	    m->msg_controllen > CONTROL_MAX || !gck_is_memory(m->msg_control, m->msg_controllen))
		return false;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(all); c && !has; c = CMSG_NXTHDR(all, c))
		has = pid_in(c);
	return has;
}

static bool any_has_credentials(const struct mmsghdr *v, unsigned n)
{
	bool has = false;

	for (unsigned i = 0; i < n && i < IOV_MAX && !has; i++)
		has = has_credentials(&v[i].msg_hdr);
	return has;
}

static void received(struct mmsghdr *v, long n)
{
	for (long i = 0; i < n; i++)
		convert(&v[i].msg_hdr, gck_id_to_program);
}

/* ---- system calls -------------------------------------------------------------------------- */

static bool is_peer(int level, int option)
{
	return level == SOL_SOCKET && option == SO_PEERCRED;
}

static long peer(uint32_t start, long fd, long option, void *value, socklen_t *n)
{
	long r = gck_call_in(start, SYS_getsockopt, fd, SOL_SOCKET, option, value, n);
	int32_t pid;

	if (r || *n < sizeof pid)
		return r;
	memcpy(&pid, value, sizeof pid);
	pid = gck_id_to_program(pid);
	memcpy(value, &pid, sizeof pid);
	return gck_start() == start ? r : GCK_STALE;
}

static long send_one(uint32_t start, long fd, const struct msghdr *m, long flags)
{
	struct msghdr kernel;

	if (!has_credentials(m))
		return gck_call_in(start, SYS_sendmsg, fd, m, flags);
	kernel = *m;
	kernel.msg_control = memcpy(alloca(m->msg_controllen), m->msg_control, m->msg_controllen);
	convert(&kernel, gck_id_to_kernel);
	return gck_call_in(start, SYS_sendmsg, fd, &kernel, flags);
}

/* Each by a call of its own, which may come in another start. */
static long send_each(int fd, struct mmsghdr *v, unsigned n, int flags)
{
	n = n < IOV_MAX ? n : IOV_MAX;
	for (unsigned i = 0; i < n; i++) {
		long r = gck_call(SYS_sendmsg, fd, &v[i].msg_hdr, flags);

		if (r < 0)
			return i ? (long)i : r;
		v[i].msg_len = (unsigned)r;
	}
	return n;
}

/* What is received cannot be received again. In the moment between the call and the conversion its
 * numbers are those of before, if a restart comes then. */
long gck_message_call(uint32_t start, long nr, long a, long b, long c, long d, long e)
{
	long r;

	if (nr == SYS_getsockopt && is_peer(b, c))
		return peer(start, a, c, (void *)d, (socklen_t *)e);
	if (nr == SYS_sendmsg)
		return send_one(start, a, (const struct msghdr *)b, c);
	if (nr == SYS_sendmmsg && any_has_credentials((const struct mmsghdr *)b, c))
		return send_each(a, (struct mmsghdr *)b, c, d);
	r = gck_call_in(start, nr, a, b, c, d, e);
	if (nr == SYS_recvmsg && r >= 0)
		convert((struct msghdr *)b, gck_id_to_program);
	if (nr == SYS_recvmmsg)
		received((struct mmsghdr *)b, r);
	return r;
}

/* ---- libc's functions ---------------------------------------------------------------------- */

GCK_EXPORT int getsockopt(int fd, int level, int option, void *value, socklen_t *n)
{
	if (!is_peer(level, option))
		return GCK_NEXT(getsockopt, int (*)(int, int, int, void *, socklen_t *))(
			fd, level, option, value, n);
	return gck_result(gck_call(SYS_getsockopt, fd, level, option, value, n));
}

GCK_EXPORT ssize_t recvmsg(int fd, struct msghdr *m, int flags)
{
	ssize_t n = GCK_NEXT(recvmsg, ssize_t (*)(int, struct msghdr *, int))(fd, m, flags);

	if (n >= 0 && !gck_is_original())
		convert(m, gck_id_to_program);
	return n;
}

GCK_EXPORT int recvmmsg(int fd, struct mmsghdr *v, unsigned n, int flags, struct timespec *timeout)
{
	int got = GCK_NEXT(recvmmsg, int (*)(int, struct mmsghdr *, unsigned, int,
					     struct timespec *))(fd, v, n, flags, timeout);

	if (!gck_is_original())
		received(v, got);
	return got;
}

/* Also before the first restart, which may come while it waits. */
GCK_EXPORT ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
	if (!has_credentials(m))
		return GCK_NEXT(sendmsg, ssize_t (*)(int, const struct msghdr *, int))(fd, m,
										       flags);
	pthread_testcancel();
	return gck_result(gck_call(SYS_sendmsg, fd, m, flags));
}

GCK_EXPORT int sendmmsg(int fd, struct mmsghdr *v, unsigned n, int flags)
{
	if (!any_has_credentials(v, n))
		return GCK_NEXT(sendmmsg, int (*)(int, struct mmsghdr *, unsigned, int))(fd, v, n,
											 flags);
	pthread_testcancel();
	return gck_result(send_each(fd, v, n, flags));
}
