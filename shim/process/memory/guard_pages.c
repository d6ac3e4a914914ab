/* SPDX-License-Identifier: Apache-2.0
 * Guard pages inside mappings (MADV_GUARD_INSTALL, Linux 6.13), as below the stacks that newer
 * glibc makes. Scans of pages find them (proc/pages.h). */
#include "config.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "shim/process/memory/memory.h"

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif

/* ---- capture ------------------------------------------------------------------------------- */

static int add(struct gck_page_groups *w, uint64_t start, uint64_t end, struct gck_error *err)
{
	for (uint64_t at = start, next; at < end; at = next) {
		struct gck_page_group x = {.address = at / GCK_GROUP_BYTES * GCK_GROUP_BYTES};
		unsigned n;

		next = x.address + GCK_GROUP_BYTES < end ? x.address + GCK_GROUP_BYTES : end;
		n = (unsigned)((next - at) / GCK_PAGE);
		x.mask = (n == GCK_GROUP_PAGES ? ~0ull : (1ull << n) - 1)
			 << (at - x.address) / GCK_PAGE;
		if (gck_page_groups_add(w, &x, err))
			return -1;
	}
	return 0;
}

int gck_guards_add(struct gck_image *img, const struct gck_ranges *guards, struct gck_error *err)
{
	for (size_t i = 0; i < guards->n; i++)
		if (add(&img->guards, guards->v[i].start, guards->v[i].end, err))
			return -1;
	return 0;
}

/* ---- restore ------------------------------------------------------------------------------- */

int gck_restore_check_guards(struct gck_restore *r, struct gck_error *err)
{
	void *page;
	bool known;

	if (!r->img->guards.rows.n)
		return 0;
	page = mmap(NULL, GCK_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	known = page != MAP_FAILED && !madvise(page, GCK_PAGE, MADV_GUARD_INSTALL);
	if (page != MAP_FAILED)
		munmap(page, GCK_PAGE);
	if (known)
		return 0;
	return gck_fail(err, ENOTSUP, "its memory has guard pages (MADV_GUARD_INSTALL), which this "
			"node's kernel does not have: Linux 6.13 or newer is needed");
}

static int install(struct gck_restore *r, struct gck_batch *b, struct gck_error *err)
{
	if (gck_remote_run(&r->remote, r->remote.pid, b, err))
		return -1;
	for (unsigned i = 0; i < b->n; i++)
		if (gck_remote_check(b->calls[i].result, err, "a guard page at %#llx cannot be set",
				     (unsigned long long)b->calls[i].args[0]))
			return -1;
	b->n = 0;
	return 0;
}

int gck_restore_guards(struct gck_restore *r, struct gck_error *err)
{
	struct gck_batch b;

	b.n = 0;
	for (size_t i = 0; i < r->img->guards.rows.n; i++) {
		struct gck_page_group x = gck_page_groups_at(&r->img->guards, i);
		unsigned start;
		size_t n;

		if (b.n + GCK_GROUP_PAGES > GCK_REMOTE_CALLS && install(r, &b, err))
			return -1;
		for (unsigned from = 0; (n = gck_restore_run_length(x.mask, from, &start));
		     from = start + (unsigned)n)
			gck_batch_add(&b, SYS_madvise, x.address + (uint64_t)start * GCK_PAGE,
				      n * GCK_PAGE, MADV_GUARD_INSTALL);
	}
	return install(r, &b, err);
}
