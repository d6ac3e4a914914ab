/* SPDX-License-Identifier: Apache-2.0
 * Restore: the kernel's vdso. libc keeps pointers into it, so it must be at its old address. If the
 * kernel is the same, its vdso is moved there. Under another kernel the old code is put there as
 * plain memory, and each of its functions jumps to the function of that name in this kernel's vdso,
 * which lies elsewhere. No thread of an image is inside the old code, unless its call could not be
 * finished (capture/vdso_calls.c). For such a thread the data page is all zeros, which makes most
 * functions ask the kernel. */
#include "config.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "shim/process/memory/memory.h"

#define MAX_PARTS 8
#define MAX_VDSO (64u * 1024)

struct part {
	uint64_t start, size;
	bool code;
};

struct parts {
	struct part v[MAX_PARTS];
	size_t n;
};

static void add_part(struct parts *p, uint64_t start, uint64_t end, bool code)
{
	if (p->n < MAX_PARTS)
		p->v[p->n++] = (struct part){start, end - start, code};
}

static int parts_now(const struct gck_restore *r, struct parts *p, struct gck_error *err)
{
	struct gck_maps now = {0};

	p->n = 0;
	if (gck_maps_read(r->proc, &now, err))
		return -1;
	for (size_t i = 0; i < now.n; i++)
		if (!strcmp(now.v[i].name, "[vdso]") || !strncmp(now.v[i].name, "[vvar", 5))
			add_part(p, now.v[i].start, now.v[i].end, now.v[i].name[2] == 'd');
	gck_maps_free(&now);
	return 0;
}

static void parts_image(const struct gck_restore *r, struct parts *p)
{
	p->n = 0;
	for (size_t i = 0; i < r->img->nmaps; i++) {
		const struct gck_map *m = &r->img->maps[i];

		if (m->kind == GCK_MAP_VDSO || m->kind == GCK_MAP_VVAR)
			add_part(p, m->start, m->end, m->kind == GCK_MAP_VDSO);
	}
}

static const struct part *code_of(const struct parts *p)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->v[i].code)
			return &p->v[i];
	return NULL;
}

/* Move all parts of the vdso. */
static int move_all(struct gck_restore *r, const struct parts *p, const uint64_t to[MAX_PARTS],
		    struct gck_error *err)
{
	for (size_t i = 0; i < p->n; i++) {
		int64_t at = gck_remote_call(&r->remote, r->remote.pid, err, SYS_mremap,
					     p->v[i].start, p->v[i].size, p->v[i].size,
					     MREMAP_MAYMOVE | MREMAP_FIXED, to[i]);

		if (at == -ESRCH)
			return -1;
		if (at != (int64_t)to[i])
			return gck_fail(err, (int)-at,
					"the kernel's vdso at %#llx cannot be moved to "
					"%#llx: %s",
					(unsigned long long)p->v[i].start,
					(unsigned long long)to[i], strerror((int)-at));
	}
	return 0;
}

/* Move the parts to a range that is free now and in the image, in the same order and distance. */
static int move_aside(struct gck_restore *r, struct parts *p, struct gck_error *err)
{
	uint64_t to[MAX_PARTS], base, first = p->n ? p->v[0].start : 0, end = first;

	for (size_t i = 0; i < p->n; i++)
		end = p->v[i].start + p->v[i].size;
	if (gck_restore_free_range(r, end - first, &base, err))
		return -1;
	for (size_t i = 0; i < p->n; i++)
		to[i] = base + (p->v[i].start - first);
	if (move_all(r, p, to, err))
		return -1;
	for (size_t i = 0; i < p->n; i++)
		p->v[i].start = to[i];
	return 0;
}

static bool same_layout(const struct parts *a, const struct parts *b)
{
	bool same = a->n == b->n;

	for (size_t i = 0; same && i < a->n; i++)
		same = a->v[i].size == b->v[i].size && a->v[i].code == b->v[i].code;
	return same;
}

static bool same_place(const struct parts *a, const struct parts *b)
{
	bool same = true;

	for (size_t i = 0; same && i < a->n; i++)
		same = a->v[i].start == b->v[i].start;
	return same;
}

static int move_home(struct gck_restore *r, struct parts *now, const struct parts *was,
		     struct gck_error *err)
{
	uint64_t to[MAX_PARTS];

	if (same_place(now, was))
		return 0;
	for (size_t i = 0; i < was->n; i++)
		to[i] = was->v[i].start;
	return move_aside(r, now, err) || move_all(r, now, to, err) ? -1 : 0;
}

/* Map plain memory where the old kernel's vdso was. */
static int map_old(struct gck_restore *r, const struct parts *was, struct gck_error *err)
{
	struct gck_batch b;

	b.n = 0;
	for (size_t i = 0; i < was->n; i++)
		gck_batch_add(&b, SYS_mmap, was->v[i].start, was->v[i].size,
			      PROT_READ | (was->v[i].code ? PROT_WRITE : 0),
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, (uint64_t)-1, 0);
	if (gck_remote_run(&r->remote, r->remote.pid, &b, err))
		return -1;
	for (unsigned i = 0; i < b.n; i++)
		if (b.calls[i].result != (int64_t)b.calls[i].args[0])
			return gck_fail(err, ENOMEM, "no place for the old kernel's vdso at %#llx",
					(unsigned long long)b.calls[i].args[0]);
	return 0;
}

int gck_restore_same_vdso(struct gck_restore *r, bool *same, struct gck_error *err)
{
	struct parts now, was;
	const struct part *code;
	unsigned char *bytes;
	int failed;

	if (parts_now(r, &now, err))
		return -1;
	parts_image(r, &was);
	code = code_of(&now);
	if (!code || code->size > MAX_VDSO || !(bytes = malloc(code->size)))
		return gck_fail(err, ENOEXEC,
				"this node's kernel provides no vdso, which the image needs");
	failed = gck_remote_read(&r->remote, code->start, bytes, code->size, err);
	if (!failed) {
		struct gck_hash h = gck_hash_bytes(bytes, code->size);

		*same = gck_hash_same(h, r->img->vdso) && same_layout(&now, &was);
	}
	free(bytes);
	return failed;
}

int gck_restore_vdso(struct gck_restore *r, struct gck_error *err)
{
	struct parts now, was;
	bool same;

	if (gck_restore_same_vdso(r, &same, err) || parts_now(r, &now, err))
		return -1;
	parts_image(r, &was);
	r->vdso_now = 0;
	if (same)
		return move_home(r, &now, &was, err);
	if (move_aside(r, &now, err) || map_old(r, &was, err))
		return -1;
	r->vdso_now = code_of(&now)->start;
	return 0;
}

/* ---- another kernel: each old function jumps to the new one of its name -------------------- */

struct symbols {
	const Elf64_Sym *sym;
	size_t n;
	const char *names;
	size_t size;
};

static const void *within(const unsigned char *elf, size_t size, uint64_t offset, uint64_t want)
{
	return offset <= size && want <= size - offset ? elf + offset : NULL;
}

/* The dynamic symbols of a vdso, found through DT_*, since it may have no section headers.
 * (Addresses are file offsets in a vdso.) DT_STRTAB lies after DT_SYMTAB, which gives the count. */
static int read_symbols(const unsigned char *elf, size_t size, struct symbols *s)
{
	const Elf64_Ehdr *h = within(elf, size, 0, sizeof *h);
	const Elf64_Phdr *p = h ? within(elf, size, h->e_phoff, h->e_phnum * sizeof *p) : NULL;
	uint64_t symtab = 0, strtab = 0, strsz = 0;

	if (!p || memcmp(h->e_ident, ELFMAG, SELFMAG))
		return -1;
	for (int i = 0; i < h->e_phnum; i++) {
		const Elf64_Dyn *d = within(elf, size, p[i].p_offset, p[i].p_filesz);

		if (p[i].p_type != PT_DYNAMIC || !d)
			continue;
		for (size_t k = 0; k < p[i].p_filesz / sizeof *d && d[k].d_tag; k++) {
			symtab = d[k].d_tag == DT_SYMTAB ? d[k].d_un.d_ptr : symtab;
			strtab = d[k].d_tag == DT_STRTAB ? d[k].d_un.d_ptr : strtab;
			strsz = d[k].d_tag == DT_STRSZ ? d[k].d_un.d_val : strsz;
		}
	}
	if (!symtab || strtab <= symtab || !within(elf, size, strtab, strsz) || !strsz)
		return -1;
	s->sym = within(elf, size, symtab, strtab - symtab);
	s->n = (strtab - symtab) / sizeof *s->sym;
	s->names = (const char *)elf + strtab;
	s->size = strsz;
	return s->sym && !s->names[strsz - 1] ? 0 : -1;
}

static uint64_t find_symbol(const struct symbols *s, const char *name)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->sym[i].st_name < s->size && ELF64_ST_TYPE(s->sym[i].st_info) == STT_FUNC &&
		    !strcmp(s->names + s->sym[i].st_name, name))
			return s->sym[i].st_value;
	return 0;
}

/* movabs $to, %rax; jmp *%rax */
static int write_jump(unsigned char *code, size_t size, uint64_t at, uint64_t to)
{
	unsigned char jump[12] = {0x48, 0xb8, [10] = 0xff, [11] = 0xe0};

	if (at > size || size - at < sizeof jump)
		return -1;
	memcpy(jump + 2, &to, sizeof to);
	memcpy(code + at, jump, sizeof jump);
	return 0;
}

static int patch(unsigned char *old, size_t old_size, const unsigned char *now, size_t now_size,
		 uint64_t now_at, struct gck_error *err)
{
	struct symbols a, b;

	if (read_symbols(old, old_size, &a) || read_symbols(now, now_size, &b))
		return gck_fail(err, ENOEXEC,
				"the vdso of the image's kernel, or of this node's, "
				"cannot be read");
	for (size_t i = 0; i < a.n; i++) {
		const char *name = a.sym[i].st_name < a.size ? a.names + a.sym[i].st_name : "";
		uint64_t to;

		if (strncmp(name, "__vdso_", 7) || !a.sym[i].st_value)
			continue;
		to = find_symbol(&b, name);
		if (!to || write_jump(old, old_size, a.sym[i].st_value, now_at + to))
			return gck_fail(err, ENOEXEC,
					"the vdso of this node's kernel has no %s, which "
					"the image's has: restart on nodes with the same kernel",
					name);
	}
	return 0;
}

/* The old code is filled in by now. Patch it if this node's vdso is another one. */
int gck_restore_vdso_patch(struct gck_restore *r, struct gck_error *err)
{
	struct parts now, was;
	const struct part *old, *new;
	unsigned char *a, *b;
	int failed = -1;

	if (!r->vdso_now)
		return 0;
	if (parts_now(r, &now, err))
		return -1;
	parts_image(r, &was);
	old = code_of(&was);
	new = code_of(&now);
	a = old ? malloc(old->size) : NULL;
	b = new ? malloc(new->size) : NULL;
	if (!a || !b)
		gck_fail(err, ENOMEM, "no memory for the vdso");
	else if (!gck_remote_read(&r->remote, old->start, a, old->size, err) &&
		 !gck_remote_read(&r->remote, new->start, b, new->size, err) &&
		 !patch(a, old->size, b, new->size, r->vdso_now, err) &&
		 !gck_remote_write(&r->remote, old->start, a, old->size, err))
		failed = gck_remote_call(&r->remote, r->remote.pid, err, SYS_mprotect, old->start,
					 old->size, PROT_READ | PROT_EXEC)
				 ? -1
				 : 0;
	free(a);
	free(b);
	return failed;
}
