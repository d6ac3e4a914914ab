/* SPDX-License-Identifier: Apache-2.0
 * The preload in a process whose program takes none: its file is mapped there as it is, without
 * libc and unrelocated, since a helper needs neither. From then on the process has a state and a
 * helper as all others. Its program goes on calling the kernel itself, so that a restart must give
 * it its old numbers. */
#include "config.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/prctl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "shim/process/proc/maps.h"
#include "shim/process/proc/pages.h"
#include "shim/process/threads/borrow.h"
#include "shim/process/threads/stub.h"

#define STACK 65536 /* of a helper */
#define AREA_FROM 0x310000000000ull
#define AREA_CLEAR 0x1000000ull /* free space around it */
#define PATH_AT GCK_BORROW_FRAME /* in the scratch */
#define PATH_SIZE 4096
#define MAX_SEGMENTS 4

_Static_assert(PATH_AT + PATH_SIZE <= GCK_SHIM_SCRATCH && STACK > GCK_SHIM_SUMMON_AT, "room");

/* The preload's file, as the rank has mapped it. */
struct preload {
	char path[PATH_SIZE];
	uint64_t device, inode, base;
	Elf64_Phdr segments[MAX_SEGMENTS];
	size_t n;
	uint64_t size;          /* of the area, up to the helper's stack */
};

static uint64_t up(uint64_t n)
{
	return (n + GCK_PAGE - 1) & ~(GCK_PAGE - 1ull);
}

static uint64_t down(uint64_t n)
{
	return n & ~(GCK_PAGE - 1ull);
}

static int read_segments(const struct gck_target *rank, struct preload *p, struct gck_error *err)
{
	Elf64_Ehdr head;
	Elf64_Phdr x;

	if (gck_memory_read(rank->pid, p->base, &head, sizeof head, err))
		return -1;
	for (size_t i = 0; i < head.e_phnum; i++) {
		if (gck_memory_read(rank->pid, p->base + head.e_phoff + i * sizeof x, &x, sizeof x,
				    err))
			return -1;
		if (x.p_type != PT_LOAD)
			continue;
		if (p->n == MAX_SEGMENTS)
			return gck_fail(err, EPROTO, "%s has too many segments", p->path);
		p->segments[p->n++] = x;
		p->size = up(x.p_vaddr + x.p_memsz);
	}
	return 0;
}

static int find_preload(const struct gck_target *rank, struct preload *p, struct gck_error *err)
{
	const struct gck_vma *v;
	struct gck_maps maps;

	*p = (struct preload){.n = 0};
	if (gck_maps_read(rank->proc, &maps, err))
		return -1;
	v = gck_maps_file(&maps, rank->address);
	if (v) {
		snprintf(p->path, sizeof p->path, "%s", v->name);
		p->device = v->device;
		p->inode = v->inode;
		p->base = v->start;
	}
	gck_maps_free(&maps);
	if (!v || gck_path_deleted(p->path))
		return gck_fail(err, ENOTSUP, "a static program can be checkpointed only while the "
				"preload with which the rank began is there: was gpuckpt updated?");
	return read_segments(rank, p, err);
}

/* ---- mapping it ---------------------------------------------------------------------------- */

static int make_area(struct gck_target *t, struct gck_held_thread *x, uint64_t base,
		     uint64_t size, struct gck_error *err)
{
	const struct gck_borrowed_call call = {
		SYS_mmap, {base, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS |
			   MAP_NORESERVE | MAP_FIXED_NOREPLACE, (uint64_t)-1, 0}, 0};
	struct gck_maps maps;
	const struct gck_vma *v;
	bool made;

	if (gck_borrow(t, x, 0, &call, 1, NULL, err) || gck_maps_read(t->proc, &maps, err))
		return -1;
	v = gck_maps_find(&maps, base);
	made = v && v->end >= base + size;
	gck_maps_free(&maps);
	return made ? 0 : gck_fail(err, ENOMEM, "process %d: no memory can be mapped in it: raise "
				   "its limit of address space", (int)t->pid);
}

static int map_file(struct gck_target *t, struct gck_held_thread *x,
		    const struct preload *p, uint64_t base, uint64_t scratch, struct gck_error *err)
{
	struct gck_borrowed_call calls[MAX_SEGMENTS + 2] = {
		{SYS_open, {scratch + PATH_AT, O_RDONLY | O_CLOEXEC}, GCK_BORROW_KEEP}};
	size_t n = 1;

	for (size_t i = 0; i < p->n; i++) {
		const Elf64_Phdr *s = &p->segments[i];
		uint64_t from = down(s->p_vaddr), prot = (s->p_flags & PF_R ? PROT_READ : 0) |
							 (s->p_flags & PF_W ? PROT_WRITE : 0) |
							 (s->p_flags & PF_X ? PROT_EXEC : 0);

		calls[n++] = (struct gck_borrowed_call){
			SYS_mmap, {base + from, up(s->p_vaddr + s->p_filesz) - from, prot,
				   MAP_PRIVATE | MAP_FIXED, 0, down(s->p_offset)},
			GCK_BORROW_FIFTH};
	}
	calls[n++] = (struct gck_borrowed_call){SYS_close, {0}, GCK_BORROW_FIRST};
	return gck_stub_put(t, scratch + PATH_AT, p->path, strlen(p->path) + 1, err) ||
	       gck_borrow(t, x, scratch, calls, n, NULL, err) ? -1 : 0;
}

/* A file of the same name may be another one there. */
static int check_file(const struct gck_target *t, const struct preload *p, uint64_t base,
		      struct gck_error *err)
{
	struct gck_maps maps;
	const struct gck_vma *v;
	bool same;

	if (gck_maps_read(t->proc, &maps, err))
		return -1;
	v = gck_maps_find(&maps, base);
	same = v && v->inode == p->inode && v->device == p->device;
	gck_maps_free(&maps);
	return same ? 0 : gck_fail(err, ENOTSUP, "process %d, a static program, does not see %s, "
				   "or has no descriptor left for it", (int)t->pid, p->path);
}

/* The end of a segment's last page of the file is not part of it. */
static int clear_ends(const struct gck_target *t, const struct preload *p, uint64_t base,
		      struct gck_error *err)
{
	static const char zeros[GCK_PAGE];

	for (size_t i = 0; i < p->n; i++) {
		const Elf64_Phdr *s = &p->segments[i];
		uint64_t end = s->p_vaddr + s->p_filesz;

		if (s->p_flags & PF_W && end < up(end) &&
		    gck_stub_put(t, base + end, zeros, up(end) - end, err))
			return -1;
	}
	return 0;
}

static int write_state(struct gck_target *t, const struct preload *p, uint64_t base,
		       uint64_t stack_top, struct gck_error *err)
{
	const struct gck_target *rank = t->rank;
	struct gck_shim_state *s = t->shim;

	s->magic = GCK_SHIM_MAGIC;
	s->version = GCK_LINK_VERSION;
	s->size = sizeof *s;
	s->vpid = t->vpid;
	s->rpid = t->pid;
	s->rank_pid = rank->pid;
	memcpy(s->link, rank->shim->link, sizeof s->link);
	s->helper_entry = base + (rank->shim->helper_entry - p->base);
	s->helper_stack_top = stack_top;
	s->scratch = stack_top;
	s->tracer = GCK_TRACER_ANY;
	t->address = base + (rank->address - p->base);
	/* the tables between are empty, and their pages need not be there */
	return gck_stub_put(t, t->address, s, offsetof(struct gck_shim_state, tids), err) ||
	       gck_stub_put(t, t->address + offsetof(struct gck_shim_state, overflow),
			    &s->overflow, sizeof *s - offsetof(struct gck_shim_state, overflow),
			    err) ? -1 : 0;
}

int gck_implant(struct gck_target *t, struct gck_held_thread *x, struct gck_error *err)
{
	struct gck_maps maps;
	struct preload p;
	uint64_t base, stack_top;

	if (find_preload(t->rank, &p, err) || gck_maps_read(t->proc, &maps, err))
		return -1;
	base = gck_maps_clear(&maps, AREA_FROM, p.size + STACK + GCK_SHIM_SCRATCH, AREA_CLEAR);
	gck_maps_free(&maps);
	stack_top = base + p.size + STACK;
	return make_area(t, x, base, p.size + STACK + GCK_SHIM_SCRATCH, err) ||
	       map_file(t, x, &p, base, stack_top, err) || check_file(t, &p, base, err) ||
	       clear_ends(t, &p, base, err) || write_state(t, &p, base, stack_top, err) ? -1 : 0;
}

/* ---- what only a thread itself can tell ---------------------------------------------------- */

struct answers {
	stack_t altstack;
	uint64_t tid_address;
	int32_t death;
};

/* Without its preload nothing else knows these. */
static int ask(struct gck_target *t, struct gck_held_thread *x, struct gck_error *err)
{
	uint64_t at = t->shim->scratch + GCK_BORROW_FRAME;
	const struct gck_borrowed_call calls[] = {
		{SYS_sigaltstack, {0, at + offsetof(struct answers, altstack)}, 0},
		{SYS_prctl, {PR_GET_TID_ADDRESS, at + offsetof(struct answers, tid_address)}, 0},
		{SYS_prctl, {PR_GET_PDEATHSIG, at + offsetof(struct answers, death)}, 0},
	};
	struct answers a = {.altstack.ss_flags = SS_DISABLE};

	if (gck_stub_put(t, at, &a, sizeof a, err) ||
	    gck_borrow(t, x, t->shim->scratch, calls, sizeof calls / sizeof calls[0],
		       NULL, err) ||
	    gck_memory_read(t->pid, at, &a, sizeof a, err))
		return -1;
	x->asked = true;
	x->altstack.sp = (uint64_t)(uintptr_t)a.altstack.ss_sp;
	x->altstack.size = a.altstack.ss_size;
	x->altstack.flags = (uint32_t)a.altstack.ss_flags & ~(uint32_t)SS_ONSTACK;
	x->tid_address = a.tid_address;
	x->death_signal = a.death;
	return 0;
}

int gck_implant_ask(struct gck_target *t, struct gck_held *h, struct gck_error *err)
{
	for (size_t i = 0; i < h->n; i++) {
		struct gck_held_thread *x = &h->v[i];

		if (ask(t, x, err))
			return -1;
		if (x->tid == t->pid)
			t->shim->features = (t->shim->features & ~GCK_SHIM_DEATH) |
					    (uint32_t)x->death_signal << GCK_SHIM_DEATH_SHIFT;
	}
	return gck_stub_put(t, t->address + offsetof(struct gck_shim_state, features),
			    &t->shim->features, sizeof t->shim->features, err);
}
