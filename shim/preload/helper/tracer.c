/* SPDX-License-Identifier: Apache-2.0
 * Who may trace this process where Yama lets only its ancestors (kernel.yama.ptrace_scope 1). The
 * kernel keeps the permission over exec; a child has none of its own. */
#include "config.h"

#include <fcntl.h>
#include <sys/prctl.h>

#include "shim/preload/helper/helper.h"
#include "shim/preload/helper/raw.h"

#ifdef GCK_FAULTS
#define PATH 512

const char *gck_fault_dir;

static char *put(char *to, const char *end, const char *text)
{
	while (*text && to < end)
		*to++ = *text++;
	*to = '\0';
	return to;
}

static char *put_number(char *to, const char *end, uint32_t n)
{
	char digits[11], *at = digits + sizeof digits - 1;

	*at = '\0';
	do
		*--at = (char)('0' + n % 10);
	while (n /= 10);
	return put(to, end, at);
}

/* The fault YAMA of common/base/fault.h. */
static void note(int32_t tracer)
{
	char path[PATH], space[64] = "", *end = path + sizeof path - 1, *to;
	long fd;

	if (!gck_fault_dir || *gck_fault_dir != '/')
		return;
	to = put(path, end, gck_fault_dir);
	put(to, end, "/on.YAMA");
	if (gck_raw(SYS_access, path, 0))
		return;
	gck_raw(SYS_readlink, "/proc/self/ns/pid", space, sizeof space - 1);
	to = put(put(put(to, end, "/tracer."), end, space), end, ".");
	put_number(to, end, (uint32_t)gck_raw(SYS_getpid));
	fd = gck_raw(SYS_open, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	gck_raw(SYS_write, fd, &tracer, sizeof tracer);
	gck_raw(SYS_close, fd);
}
#else
#define note(tracer) ((void)0)
#endif

GCK_EACH void gck_tracer_allow(int32_t tracer)
{
	if (gck_state.tracer != tracer)
		gck_state.tracer = tracer;
	gck_raw(SYS_prctl, PR_SET_PTRACER, tracer); /* fails without Yama, and is not needed then */
	note(tracer);
}
