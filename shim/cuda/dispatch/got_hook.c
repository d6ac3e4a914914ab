/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "shim/cuda/dispatch/dispatch.h"

#include <dlfcn.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE ((uintptr_t)4096)

/* Contents of a library's dynamic section. */
struct tables {
	uintptr_t base;
	const ElfW(Sym) *symbols;
	const char *strings;
	const ElfW(Rela) *v[2]; /* relocations of procedures; others */
	size_t n[2];
};

/* glibc has replaced the section's offsets by addresses. */
static void read_tables(const struct link_map *map, struct tables *t)
{
	*t = (struct tables){.base = map->l_addr};
	for (const ElfW(Dyn) *d = map->l_ld; d->d_tag != DT_NULL; d++) {
		switch (d->d_tag) {
		case DT_SYMTAB:
			t->symbols = (const void *)d->d_un.d_ptr;
			break;
		case DT_STRTAB:
			t->strings = (const void *)d->d_un.d_ptr;
			break;
		case DT_JMPREL:
			t->v[0] = (const void *)d->d_un.d_ptr;
			break;
		case DT_PLTRELSZ:
			t->n[0] = d->d_un.d_val / sizeof(ElfW(Rela));
			break;
		case DT_RELA:
			t->v[1] = (const void *)d->d_un.d_ptr;
			break;
		case DT_RELASZ:
			t->n[1] = d->d_un.d_val / sizeof(ElfW(Rela));
			break;
		default:
			break;
		}
	}
}

static bool is_of(const struct tables *t, const ElfW(Rela) *r, const char *name)
{
	unsigned type = ELF64_R_TYPE(r->r_info);

	return (type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT || type == R_X86_64_64) &&
	       !strcmp(t->strings + t->symbols[ELF64_R_SYM(r->r_info)].st_name, name);
}

/* The part of a library that is read-only once it is loaded (RELRO). */
struct closed {
	uintptr_t from, to;
};

/* dl_iterate_phdr would only find libraries of this one's link namespace. */
static struct closed find_closed(const struct link_map *map)
{
	struct closed c = {0};
	const ElfW(Ehdr) *head;
	const ElfW(Phdr) *p;
	Dl_info info;

	if (!dladdr(map->l_ld, &info))
		return c;
	head = info.dli_fbase;
	p = (const void *)((const char *)head + head->e_phoff);
	for (int i = 0; i < head->e_phnum; i++) {
		if (p[i].p_type == PT_GNU_RELRO) {
			c.from = (map->l_addr + p[i].p_vaddr) & -PAGE;
			c.to = (map->l_addr + p[i].p_vaddr + p[i].p_memsz) & -PAGE;
		}
	}
	return c;
}

static int put(const struct closed *c, void **slot, void *ours)
{
	uintptr_t page = (uintptr_t)slot & -PAGE;
	bool closed = page >= c->from && page < c->to;

	if (closed && mprotect((void *)page, PAGE, PROT_READ | PROT_WRITE))
		return 0;
	__atomic_store_n(slot, ours, __ATOMIC_RELEASE);
	if (closed)
		mprotect((void *)page, PAGE, PROT_READ);
	return 1;
}

/* The sum of what the visits of all places return. */
static int each_place(const struct link_map *map, const char *name,
		      int (*visit)(void **slot, void *arg), void *arg)
{
	struct tables t;
	int n = 0;

	read_tables(map, &t);
	if (!t.symbols || !t.strings)
		return 0;
	for (int k = 0; k < 2; k++) {
		for (size_t i = 0; t.v[k] && i < t.n[k]; i++) {
			if (is_of(&t, &t.v[k][i], name))
				n += visit((void **)(t.base + t.v[k][i].r_offset), arg);
		}
	}
	return n;
}

struct hook {
	struct closed closed;
	void *ours;
};

static int put_hook(void **slot, void *arg)
{
	const struct hook *h = arg;

	return put(&h->closed, slot, h->ours);
}

int gck_cuda_got_hook(void *handle, const char *name, void *ours)
{
	struct link_map *map;
	struct hook h = {.ours = ours};

	if (dlinfo(handle, RTLD_DI_LINKMAP, &map))
		return 0;
	h.closed = find_closed(map);
	return each_place(map, name, put_hook, &h);
}

static int get(void **slot, void *arg)
{
	*(void **)arg = *slot;
	return 1;
}

void *gck_cuda_got_find(void *handle, const char *name)
{
	struct link_map *map;
	void *found = NULL;

	if (!dlinfo(handle, RTLD_DI_LINKMAP, &map))
		each_place(map, name, get, &found);
	return found;
}
