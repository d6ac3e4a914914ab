/* SPDX-License-Identifier: Apache-2.0
 * Images of modules: PTX, which ends as a text does, cubins, which are ELF files, and fatbins of
 * both. The driver has loaded them, so they are whole. */
#include "shim/cuda/records/records.h"

#include <elf.h>
#include <string.h>

#include "shim/kernels/ptx/fatbin.h"

#define MANAGED 0x4 /* in a symbol's st_other */

/* A fatbin begins with a letter, and no other. */
static bool is_text(const char *image)
{
	for (int i = 0; i < 2 && image[i]; i++)
		if ((image[i] < ' ' || image[i] > '~') && image[i] != '\n' && image[i] != '\t' &&
		    image[i] != '\r')
			return false;
	return *image;
}

static const Elf64_Shdr *sections_of(const char *image)
{
	const Elf64_Ehdr *head = (const void *)image;

	return (const void *)(image + head->e_shoff);
}

/* The end of what comes last. */
static size_t elf_size(const char *image)
{
	const Elf64_Ehdr *head = (const void *)image;
	const Elf64_Shdr *s = sections_of(image);
	size_t size = head->e_shoff + head->e_shnum * sizeof *s;
	size_t programs = head->e_phoff + (size_t)head->e_phnum * head->e_phentsize;

	size = programs > size ? programs : size;
	for (unsigned i = 0; i < head->e_shnum; i++)
		if (s[i].sh_type != SHT_NOBITS && s[i].sh_offset + s[i].sh_size > size)
			size = s[i].sh_offset + s[i].sh_size;
	return size;
}

bool gck_record_is_cubin(const char *image)
{
	return !memcmp(image, ELFMAG, SELFMAG) && image[EI_CLASS] == ELFCLASS64;
}

bool gck_record_is_fatbin(const char *image)
{
	return gck_fatbin_is(image, SIZE_MAX);
}

const void *gck_record_image(const char *image, size_t *size)
{
	struct gck_error err;

	*size = SIZE_MAX;
	if (gck_record_is_fatbin(image))
		return gck_fatbin_find(image, size, &err);
	*size = gck_record_is_cubin(image) ? elf_size(image) : strlen(image) + 1;
	return gck_record_is_cubin(image) || is_text(image) ? image : NULL;
}

/* Shared memory has such symbols, too. */
static bool holds_variables(const char *section)
{
	return !strncmp(section, ".nv.global", 10) || !strncmp(section, ".nv.constant", 12);
}

/* A module's kernels call the driver's own allocator by this name. */
static bool allocates(const Elf64_Sym *v, const char *name)
{
	return !v->st_shndx && !strcmp(name, "malloc");
}

const char *gck_record_cubin_variables(const char *image,
				       void (*found)(void *arg, const char *name, size_t n),
				       void *arg)
{
	const Elf64_Ehdr *head = (const void *)image;
	const Elf64_Shdr *s = sections_of(image);
	const char *sections = image + s[head->e_shstrndx].sh_offset;

	for (unsigned i = 0; i < head->e_shnum; i++) {
		const Elf64_Sym *symbols = (const void *)(image + s[i].sh_offset);
		const char *names = image + s[s[i].sh_link].sh_offset;

		if (s[i].sh_type != SHT_SYMTAB)
			continue;
		for (size_t k = 0; k < s[i].sh_size / sizeof *symbols; k++) {
			const Elf64_Sym *v = &symbols[k];

			if (allocates(v, names + v->st_name))
				return GCK_RECORD_ALLOCATES;
			if (ELF64_ST_TYPE(v->st_info) != STT_OBJECT || !v->st_shndx ||
			    v->st_shndx >= head->e_shnum ||
			    !holds_variables(sections + s[v->st_shndx].sh_name))
				continue;
			if (v->st_other & MANAGED)
				return GCK_RECORD_MANAGED;
			found(arg, names + v->st_name, strlen(names + v->st_name));
		}
	}
	return NULL;
}
