/* SPDX-License-Identifier: Apache-2.0
 * Has the clone copy its pages out. */
#include "config.h"

#include "shim/process/memory/clone_pages.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shim/process/rank/helper_link.h"

int gck_clone_pages_open(struct gck_clone_pages *p, pid_t clone, int life, size_t size,
			 struct gck_error *err)
{
	struct gck_link_msg m = {.ncalls = 0};

	*p = (struct gck_clone_pages){.clone = clone, .life = life, .size = size};
	p->memfd = memfd_create("gpuckpt-pages", MFD_CLOEXEC);
	if (p->memfd < 0)
		return gck_fail(err, errno, "no memory to read the clone into: %s",
				strerror(errno));
	p->buffer = MAP_FAILED;
	if (ftruncate(p->memfd, (off_t)(2 * size)) == 0)
		p->buffer = mmap(NULL, 2 * size, PROT_READ | PROT_WRITE, MAP_SHARED, p->memfd, 0);
	if (p->buffer == MAP_FAILED)
		gck_fail(err, errno, "no memory to read the clone into: %s", strerror(errno));
	else if (gck_clone_ask(clone, life, &m, p->memfd, err) == 0 &&
		 gck_clone_answer(clone, life, &m, 0, err) == 0) {
		p->number = m.pid;
		if (p->number >= 0)
			return 0;
		gck_fail(err, EMFILE, "the clone, process %d, took no descriptor", (int)clone);
	}
	gck_clone_pages_close(p);
	return -1;
}

void gck_clone_pages_close(struct gck_clone_pages *p)
{
	if (!p->buffer)
		return;
	if (p->buffer != MAP_FAILED)
		munmap(p->buffer, 2 * p->size);
	close(p->memfd);
	p->buffer = NULL;
}

static size_t packet_of(size_t left)
{
	return left < GCK_LINK_MAX_CALLS ? left : GCK_LINK_MAX_CALLS;
}

int gck_clone_pages_ask(struct gck_clone_pages *p, int half, const struct gck_range *v, size_t n,
			struct gck_error *err)
{
	uint64_t to = half * p->size;

	for (size_t i = 0, some; i < n; i += some) {
		struct gck_link_msg m;

		m.ncalls = (uint32_t)(some = packet_of(n - i));
		for (size_t j = 0; j < some; j++) {
			uint64_t size = v[i + j].end - v[i + j].start;

			m.calls[j] = (struct gck_link_call){
				.nr = SYS_pwrite64,
				.args = {(uint64_t)p->number, v[i + j].start, size, to},
			};
			to += size;
		}
		if (gck_clone_ask(p->clone, p->life, &m, -1, err))
			return -1;
	}
	return 0;
}

char *gck_clone_pages_take(struct gck_clone_pages *p, int half, const struct gck_source *s,
			   const struct gck_range *v, size_t n, struct gck_error *err)
{
	char *start = p->buffer + half * p->size, *at = start;

	for (size_t i = 0, some; i < n; i += some) {
		struct gck_link_msg m;

		some = packet_of(n - i);
		if (gck_clone_answer(p->clone, p->life, &m, (uint32_t)some, err))
			return NULL;
		for (size_t j = 0; j < some; j++) {
			size_t size = v[i + j].end - v[i + j].start;

			if (m.calls[j].result != (int64_t)size &&
			    gck_source_read(s, &v[i + j], 1, at, err))
				return NULL;
			at += size;
		}
	}
	return start;
}

int gck_clone_pages_check(struct gck_clone_pages *p, struct gck_error *err)
{
	struct gck_link_msg m = {.ncalls = 0};

	if (gck_clone_ask(p->clone, p->life, &m, -1, err) ||
	    gck_clone_answer(p->clone, p->life, &m, 0, err))
		return gck_fail(err, ECHILD,
				"the clone, process %d, ended while it was read: out of memory?",
				(int)p->clone);
	return 0;
}
