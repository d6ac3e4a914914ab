/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "shim/mpi/test/lists.h"

#include <dirent.h>
#include <elf.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/namespace/namespace.h"

static struct possessions now;

void lists_prepare(void)
{
	mallopt(M_ARENA_MAX, 1);
	mallopt(M_MMAP_THRESHOLD, 1 << 30);
	mallopt(M_TRIM_THRESHOLD, 1 << 30);
}

/* ---- the process's possessions -------------------------------------------------------------- */

static size_t numbers(const char *folder, int *to, int except)
{
	DIR *d = opendir(folder);
	size_t n = 0;

	for (struct dirent *e; d && (e = readdir(d));) {
		int number = atoi(e->d_name);

		if (e->d_name[0] != '.' && n < MAX_NUMBERS && number != (except ? dirfd(d) : -1))
			to[n++] = number;
	}
	if (d)
		closedir(d);
	return n;
}

void lists_take(struct possessions *p)
{
	char line[sizeof p->mappings->what];
	FILE *f;

	p->nfds = numbers("/proc/self/fd", p->fds, 1);
	p->ntids = numbers("/proc/self/task", p->tids, 0);
	p->nmappings = 0;
	f = fopen("/proc/self/maps", "r");
	while (f && fgets(line, sizeof line, f)) {
		struct mapping *m = &p->mappings[p->nmappings];

		line[strcspn(line, "\n")] = '\0';
		if (p->nmappings < MAX_MAPPINGS &&
		    sscanf(line, "%lx-%lx", &m->start, &m->end) == 2) {
			memcpy(m->what, line, sizeof line);
			p->nmappings++;
		}
	}
	if (f)
		fclose(f);
}

/* ---- numbers -------------------------------------------------------------------------------- */

static bool has(const int *numbers_, size_t n, int number)
{
	for (size_t i = 0; i < n; i++) {
		if (numbers_[i] == number)
			return true;
	}
	return false;
}

static int compare(const char *what, const int *before, size_t nbefore, const int *after,
		   size_t nafter, const int32_t *listed, size_t nlisted, int none)
{
	int faults = 0;

	for (size_t i = 0; i < nafter; i++) {
		if (!has(before, nbefore, after[i]) && !has(listed, nlisted, after[i])) {
			printf("# %s %d is new and not listed\n", what, after[i]);
			faults++;
		}
	}
	for (size_t i = 0; i < nlisted; i++) {
		if (listed[i] != none && (!has(after, nafter, listed[i]) ||
					  has(before, nbefore, listed[i]))) {
			printf("# %s %d is listed, but not the copy's\n", what, listed[i]);
			faults++;
		}
	}
	return faults;
}

int lists_compare_fds(const struct possessions *before, const struct gck_ns_exclusions *owned)
{
	lists_take(&now);
	return compare("descriptor", before->fds, before->nfds, now.fds, now.nfds,
		       (const int32_t *)(uintptr_t)owned->fds, owned->nfds, -1);
}

int lists_compare_threads(const struct possessions *before, const struct gck_ns_exclusions *owned)
{
	lists_take(&now);
	return compare("thread", before->tids, before->ntids, now.tids, now.ntids,
		       (const int32_t *)(uintptr_t)owned->threads, owned->nthreads, 0);
}

/* ---- ranges --------------------------------------------------------------------------------- */

static struct gck_ns_range known[65536];
static size_t nknown;

static void know(uint64_t start, uint64_t end)
{
	if (nknown < sizeof known / sizeof *known && end > start)
		known[nknown++] = (struct gck_ns_range){ start, end - start };
}

/* From the first segment to the last: gaps between them are the loader's too. */
static void know_libraries(void)
{
	for (struct link_map *m = gck_namespace_objects(); m; m = m->l_next) {
		const ElfW(Ehdr) *e = (const ElfW(Ehdr) *)m->l_addr;
		const ElfW(Phdr) *p = (const ElfW(Phdr) *)(m->l_addr + e->e_phoff);
		uint64_t end = 0;

		for (int i = 0; !gck_namespace_is_loader(m) && i < e->e_phnum; i++) {
			if (p[i].p_type == PT_LOAD)
				end = p[i].p_vaddr + p[i].p_memsz;
		}
		know(m->l_addr, (m->l_addr + end + 4095) & ~4095ul);
	}
}

static void know_stacks(void)
{
	for (uint32_t i = 0; i < gck_namespace.root->nthreads; i++) {
		struct gck_ns_root_thread *t = &gck_namespace.root->threads[i];
		size_t size, guard;
		pthread_attr_t attr;
		void *stack;

		if (t->life == GCK_NS_ROOT_FREE || pthread_getattr_np(t->self, &attr))
			continue;
		pthread_attr_getstack(&attr, &stack, &size);
		pthread_attr_getguardsize(&attr, &guard);
		know((uintptr_t)stack - guard, (uintptr_t)stack + size);
		pthread_attr_destroy(&attr);
	}
}

/* The first address of the mapping that is in no known range; its end if there is none. */
static uint64_t unknown(const struct mapping *m)
{
	uint64_t at = m->start;
	bool found = true;

	while (at < m->end && found) {
		found = false;
		for (size_t i = 0; i < nknown && !found; i++) {
			if (at - known[i].start < known[i].length) {
				at = known[i].start + known[i].length;
				found = true;
			}
		}
	}
	return at < m->end ? at : m->end;
}

static int compare_listed(const struct possessions *before, const struct gck_ns_range *listed,
			  size_t n)
{
	int faults = 0;

	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; k < before->nmappings; k++) {
			const struct mapping *m = &before->mappings[k];

			if (listed[i].start < m->end &&
			    m->start < listed[i].start + listed[i].length) {
				printf("# listed, but the program's: %s\n", m->what);
				faults++;
			}
		}
	}
	return faults;
}

int lists_compare_ranges(const struct possessions *before, const struct gck_ns_exclusions *owned)
{
	const struct gck_ns_range *listed = (const struct gck_ns_range *)(uintptr_t)owned->ranges;
	int faults = compare_listed(before, listed, owned->nranges);

	lists_take(&now);
	nknown = 0;
	for (size_t i = 0; i < before->nmappings; i++)
		know(before->mappings[i].start, before->mappings[i].end);
	for (size_t i = 0; i < owned->nranges; i++)
		know(listed[i].start, listed[i].start + listed[i].length);
	know_libraries();
	know_stacks();
	for (size_t i = 0; i < now.nmappings; i++) {
		const struct mapping *m = &now.mappings[i];

		if (unknown(m) != m->end && !strstr(m->what, "[heap]") &&
		    !strstr(m->what, "[stack]")) {
			printf("# new from %lx, and not listed: %s\n", (long)unknown(m), m->what);
			faults++;
		}
	}
	return faults;
}
