/* SPDX-License-Identifier: Apache-2.0
 * Restore: what belongs to the process as a whole: the kernel's idea of its memory, directory,
 * umask, limits, flags. */
#include "config.h"

#include <errno.h>
#include <limits.h>
#include <linux/prctl.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "shim/process/ptrace/rebuild.h"

#define MAX_AUXV 1024

static int64_t call(struct gck_restore *r, struct gck_error *err, long nr, uint64_t a, uint64_t b,
		    uint64_t c, uint64_t d)
{
	return gck_remote_call(&r->remote, r->remote.pid, err, nr, a, b, c, d);
}

/* Before memory is filled: whether it may be huge pages. */
int gck_restore_prepare_process(struct gck_restore *r, struct gck_error *err)
{
	int64_t result =
		call(r, err, SYS_prctl, PR_SET_THP_DISABLE, (uint64_t)r->img->thp_disable, 0, 0);

	return !result ? 0
		       : gck_fail(err, (int)-result, "process %d: huge pages cannot be set: %s",
				  r->remote.pid, strerror((int)-result));
}

/* heap, arguments, environment, auxiliary vector: for brk() and /proc. Needs no privilege. */
static int set_mm(struct gck_restore *r, struct gck_error *err)
{
	const struct gck_image *m = r->img;
	uint64_t at = r->remote.scratch;
	struct prctl_mm_map map = {
		.start_code = m->start_code,
		.end_code = m->end_code,
		.start_data = m->start_data,
		.end_data = m->end_data,
		.start_brk = m->start_brk,
		.brk = m->brk,
		.start_stack = m->start_stack,
		.arg_start = m->arg_start,
		.arg_end = m->arg_end,
		.env_start = m->env_start,
		.env_end = m->env_end,
		.exe_fd = (uint32_t)-1,
		.auxv = (void *)(uintptr_t)(at + sizeof map),
		.auxv_size = (uint32_t)m->auxv_size,
	};
	int64_t result;

	if (m->auxv_size > MAX_AUXV)
		return gck_fail(err, EBADMSG, "the image's auxiliary vector is too long");
	if (gck_remote_write(&r->remote, at, &map, sizeof map, err) ||
	    (m->auxv_size &&
	     gck_remote_write(&r->remote, at + sizeof map, m->auxv, m->auxv_size, err)))
		return -1;
	result = call(r, err, SYS_prctl, PR_SET_MM, PR_SET_MM_MAP, at, sizeof map);
	return !result ? 0
		       : gck_fail(
				 err, (int)-result,
				 "process %d: its heap and stack cannot be told "
				 "to the kernel (PR_SET_MM_MAP): %s: is its data limit (ulimit -d) "
				 "too low?",
				 r->remote.pid, strerror((int)-result));
}

static int set_directory(struct gck_restore *r, struct gck_error *err)
{
	int64_t result;

	if (!r->img->cwd)
		return 0;
	if (strlen(r->img->cwd) >= PATH_MAX ||
	    gck_remote_write(&r->remote, r->remote.scratch, r->img->cwd, strlen(r->img->cwd) + 1,
			     err))
		return gck_fail(err, ENAMETOOLONG, "the working directory's name is too long");
	result = call(r, err, SYS_chdir, r->remote.scratch, 0, 0, 0);
	return !result ? 0
		       : gck_fail(err, (int)-result, "the working directory %s: %s", r->img->cwd,
				  strerror((int)-result));
}

int gck_restore_process(struct gck_restore *r, struct gck_error *err)
{
	if (set_mm(r, err) || set_directory(r, err))
		return -1;
	if (call(r, err, SYS_personality, r->img->personality, 0, 0, 0) == -ESRCH)
		return -1;
	return call(r, err, SYS_umask, r->img->umask, 0, 0, 0) == -ESRCH ? -1 : 0;
}

/* The soft limits that it had, as far as the new hard ones allow. */
static int set_limits(const struct gck_restore *r, struct gck_error *err)
{
	for (int i = 0; i < RLIM_NLIMITS; i++) {
		struct rlimit limit;

		if (prlimit(r->remote.pid, (enum __rlimit_resource)i, NULL, &limit))
			return gck_fail(err, errno, "process %d: reading its limits: %s",
					r->remote.pid, strerror(errno));
		limit.rlim_cur = r->img->limits[i][0] < limit.rlim_max ? r->img->limits[i][0]
								       : limit.rlim_max;
		if (prlimit(r->remote.pid, (enum __rlimit_resource)i, &limit, NULL))
			return gck_fail(err, errno, "process %d: setting its limits: %s",
					r->remote.pid, strerror(errno));
	}
	return 0;
}

/* After everything that these would hinder. */
int gck_restore_process_last(struct gck_restore *r, struct gck_error *err)
{
	if (set_limits(r, err))
		return -1;
	if (call(r, err, SYS_close_range, (uint64_t)r->high, UINT_MAX, 0, 0) == -ESRCH)
		return -1;
	if (r->img->nnp && call(r, err, SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0) == -ESRCH)
		return -1;
	return 0;
}
