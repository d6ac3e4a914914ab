/* SPDX-License-Identifier: Apache-2.0
 * A cubin as nvcc makes one, but without code: an ELF file whose symbols are a module's variables,
 * beside others; and a fatbin of PTX and it. For tests, and for the fake driver, which knows no
 * others. */
#ifndef GCK_TEST_CUBIN_H
#define GCK_TEST_CUBIN_H

#include <elf.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define TEST_MANAGED 0x4 /* in a symbol's st_other: __managed__ */

struct test_cubin {
	Elf64_Ehdr head;
	Elf64_Shdr sections[7]; /* none, the names, symbols, .nv.global, .nv.constant3,
				 * .nv.shared.k, .text.k */
	Elf64_Sym symbols[7];   /* none, undefined, shared, function, first to third */
	char names[160];
};

static inline Elf64_Word test_cubin_name(struct test_cubin *c, const char *name)
{
	size_t at = 1;

	while (c->names[at])
		at += strlen(c->names + at) + 1;
	strcpy(c->names + at, name);
	return (Elf64_Word)at;
}

/* Variables first, second and third, of which the second is a constant. other: of the first. */
static inline void test_cubin(struct test_cubin *c, unsigned char other)
{
	static const char *const sections[] = {NULL, ".strtab", ".symtab", ".nv.global",
					       ".nv.constant3", ".nv.shared.k", ".text.k"};
	static const struct {
		const char *name;
		unsigned char type, bind, section;
	} symbols[] = {{".nv.reservedSmem.offset0", STT_OBJECT, STB_WEAK, SHN_UNDEF},
		       {"held", STT_OBJECT, STB_LOCAL, 5}, {"k", STT_FUNC, STB_GLOBAL, 6},
		       {"first", STT_OBJECT, STB_LOCAL, 3}, {"second", STT_OBJECT, STB_LOCAL, 4},
		       {"third", STT_OBJECT, STB_GLOBAL, 3}};

	memset(c, 0, sizeof *c);
	c->head = (Elf64_Ehdr){.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB},
			       .e_type = ET_EXEC, .e_machine = EM_CUDA, .e_flags = 90,
			       .e_shoff = offsetof(struct test_cubin, sections),
			       .e_shentsize = sizeof c->sections[0], .e_shnum = 7, .e_shstrndx = 1};
	for (size_t i = 1; i < sizeof sections / sizeof *sections; i++)
		c->sections[i] = (Elf64_Shdr){.sh_name = test_cubin_name(c, sections[i]),
					      .sh_type = i > 2 ? SHT_NOBITS : SHT_STRTAB,
					      .sh_offset = offsetof(struct test_cubin, names),
					      .sh_size = i > 2 ? 1 << 20 : sizeof c->names};
	c->sections[2].sh_type = SHT_SYMTAB;
	c->sections[2].sh_offset = offsetof(struct test_cubin, symbols);
	c->sections[2].sh_size = sizeof c->symbols;
	c->sections[2].sh_link = 1;
	for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++)
		c->symbols[i + 1] = (Elf64_Sym){.st_name = test_cubin_name(c, symbols[i].name),
						.st_info = ELF64_ST_INFO(symbols[i].bind,
									 symbols[i].type),
						.st_shndx = symbols[i].section, .st_size = 8};
	c->symbols[4].st_other = other;
}

#define TEST_FATBIN 0xba55ed50

struct test_fatbin {
	struct {
		uint32_t magic;
		uint16_t version, size;
		uint64_t entries_size;
	} head;
	struct test_fatbin_entry {
		uint16_t kind, version;
		uint32_t size;
		uint64_t content_size;
		uint32_t unused[3], capability, unused2[2];
		uint64_t unused3[3];
	} of_ptx;
	char ptx[512];
	struct test_fatbin_entry of_cubin;
	struct test_cubin cubin;
};

static inline void test_fatbin(struct test_fatbin *f, const char *ptx)
{
	memset(f, 0, sizeof *f);
	f->head.magic = TEST_FATBIN;
	f->head.version = 1;
	f->head.size = sizeof f->head;
	f->head.entries_size = sizeof *f - sizeof f->head;
	f->of_ptx = (struct test_fatbin_entry){.kind = 1, .size = sizeof f->of_ptx,
					       .content_size = sizeof f->ptx, .capability = 70};
	strncpy(f->ptx, ptx, sizeof f->ptx - 1);
	f->of_cubin = (struct test_fatbin_entry){.kind = 2, .size = sizeof f->of_cubin,
						 .content_size = sizeof f->cubin,
						 .capability = 90};
	test_cubin(&f->cubin, 0);
}

#endif
