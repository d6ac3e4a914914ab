/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "shim/mpi/init/compatibility.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shim/mpi/handles/bind.h"
#include "shim/namespace/loader.h"

#define REASON ", and gpuckpt stands in for Open MPI 4.1 only"

struct file {
	const char *path;
	const char *bytes;
	size_t size;
	const char **names; /* that it defines, sorted */
	size_t nnames;
	char version[32];   /* "4.1.4"; "": it does not tell */
};

/* Data of the file; NULL: they are not in it. */
static const void *at(const struct file *f, uint64_t offset, uint64_t size)
{
	return offset <= f->size && size <= f->size - offset ? f->bytes + offset : NULL;
}

static const char *text_at(const struct file *f, uint64_t offset)
{
	return offset < f->size && memchr(f->bytes + offset, '\0', f->size - offset) ?
		       f->bytes + offset : NULL;
}

/* ---- what it defines ------------------------------------------------------------------------ */

static const Elf64_Shdr *section(const struct file *f, uint64_t i)
{
	const Elf64_Ehdr *head = at(f, 0, sizeof *head);

	return i < head->e_shnum ? at(f, head->e_shoff + i * sizeof(Elf64_Shdr), sizeof(Elf64_Shdr))
				 : NULL;
}

static void note_version(struct file *f, uint64_t address)
{
	const Elf64_Ehdr *head = at(f, 0, sizeof *head);
	const Elf64_Phdr *p;

	for (uint64_t i = 0; i < head->e_phnum; i++) {
		const char *text;

		p = at(f, head->e_phoff + i * sizeof *p, sizeof *p);
		if (!p || p->p_type != PT_LOAD || address - p->p_vaddr >= p->p_filesz)
			continue;
		text = text_at(f, p->p_offset + (address - p->p_vaddr));
		snprintf(f->version, sizeof f->version, "%s", text ? text : "");
	}
}

static int note_names(struct file *f, const Elf64_Shdr *symbols, const Elf64_Shdr *strings)
{
	uint64_t n = symbols->sh_size / sizeof(Elf64_Sym);
	const Elf64_Sym *s = at(f, symbols->sh_offset, symbols->sh_size);

	f->names = s && strings ? calloc(n + 1, sizeof *f->names) : NULL;
	for (uint64_t i = 0; f->names && i < n; i++) {
		const char *name = text_at(f, strings->sh_offset + s[i].st_name);

		if (!name || s[i].st_shndx == SHN_UNDEF)
			continue;
		f->names[f->nnames++] = name;
		if (!strcmp(name, "ompi_version_string"))
			note_version(f, s[i].st_value);
	}
	return f->names ? 0 : -1;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int read_names(struct file *f)
{
	const Elf64_Ehdr *head = at(f, 0, sizeof *head);
	const Elf64_Shdr *s;

	if (!head || memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 ||
	    head->e_ident[EI_CLASS] != ELFCLASS64)
		return -1;
	for (uint64_t i = 0; (s = section(f, i)); i++) {
		if (s->sh_type != SHT_DYNSYM || note_names(f, s, section(f, s->sh_link)))
			continue;
		qsort(f->names, f->nnames, sizeof *f->names, by_text);
		return 0;
	}
	return -1;
}

static bool defines(const struct file *f, const char *name)
{
	return bsearch(&name, f->names, f->nnames, sizeof *f->names, by_text);
}

/* ---- is that Open MPI 4.1? ------------------------------------------------------------------ */

static int judge(const struct file *f, struct gck_error *err)
{
	if (*f->version && strncmp(f->version, "4.", 2) != 0)
		return gck_fail(err, ENOTSUP, "%s is Open MPI %s" REASON, f->path, f->version);
	if (defines(f, "MPI_Session_init"))
		return gck_fail(err, ENOTSUP, "%s is Open MPI 5 or later" REASON, f->path);
	for (const struct gck_mpi_slot *s = gck_mpi_slots; s->name; s++)
		if (!gck_mpi_is_optional(s->name) && !defines(f, s->name))
			return gck_fail(err, ENOTSUP, "%s has no %s" REASON, f->path, s->name);
	return 0;
}

static int judge_file(const char *path, struct gck_error *err)
{
	struct file f = {.path = path, .bytes = MAP_FAILED};
	int fd = open(path, O_RDONLY | O_CLOEXEC), rc = 0;
	struct stat st;

	if (fd < 0)
		return 0; /* the load says so */
	if (fstat(fd, &st) == 0 && st.st_size > 0) {
		f.size = (size_t)st.st_size;
		f.bytes = mmap(NULL, f.size, PROT_READ, MAP_PRIVATE, fd, 0);
	}
	close(fd);
	if (f.bytes == MAP_FAILED)
		return 0;
	if (read_names(&f) == 0)
		rc = judge(&f, err);
	free(f.names);
	munmap((void *)f.bytes, f.size);
	return rc;
}

/* ---- which file ----------------------------------------------------------------------------- */

static bool is_there(const char *folder, char *path, size_t size)
{
	int n = snprintf(path, size, "%s/" GCK_MPI_LIBRARY, folder);

	return n > 0 && (size_t)n < size && access(path, R_OK) == 0 && !gck_mpi_ns_is_own(path);
}

/* In the folders where the loader looks in the end. */
static bool find_default(char *path, size_t size)
{
	void *self = dlopen(NULL, RTLD_LAZY | RTLD_NOLOAD);
	Dl_serinfo head, *all = NULL;
	bool found = false;

	if (!self)
		return false;
	if (dlinfo(self, RTLD_DI_SERINFOSIZE, &head) == 0)
		all = malloc(head.dls_size);
	if (all && dlinfo(self, RTLD_DI_SERINFOSIZE, all) == 0 &&
	    dlinfo(self, RTLD_DI_SERINFO, all) == 0)
		for (unsigned i = 0; i < all->dls_cnt && !found; i++)
			found = is_there(all->dls_serpath[i].dls_name, path, size);
	free(all);
	dlclose(self);
	return found;
}

int gck_mpi_suits(struct gck_error *err)
{
	char path[PATH_MAX];

	if (gck_mpi_ns_find(path, sizeof path, err))
		return -1;
	if (!strchr(path, '/') && !find_default(path, sizeof path))
		return 0;
	return judge_file(path, err);
}
