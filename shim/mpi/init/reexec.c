/* SPDX-License-Identifier: Apache-2.0
 * This library is preloaded, so its MPI functions precede those of every other library in the
 * process (except where the preload loads it at run time, for a descendant of a rank, whose
 * libraries find it by name). It therefore examines the process as soon as it is loaded, before the
 * program runs:
 *
 * - A library needs Open MPI's libmpi.so.40 (or a libmpi_*.so.40): this library stays. If a tool
 *   that wraps MPI functions would come after it (the tool was linked before libmpi, or preloaded),
 *   the program is executed again with the tool preloaded before this library.
 * - That libmpi.so.40 is another release of Open MPI or lacks a function: the program is executed
 *   again without this library or, with mpi=openmpi, ends with the reason.
 * - The process has another MPI (MPICH and relatives): the program is executed again without this
 *   library.
 * - The process has no MPI (a shell, Python): a library loaded later finds this one if it needs
 *   libmpi.so.40, and does not see it if it needs another MPI. */
#define _GNU_SOURCE

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shim/inside/library.h"
#include "shim/inside/path.h"
#include "shim/inside/rank.h"
#include "shim/mpi/base/library.h"
#include "shim/mpi/handles/bind.h"

#define REASON ", but gpuckpt supports only Open MPI 4.1"

struct file {
	const char *path;
	const char *bytes;
	size_t size;
	const char **names; /* symbols that it defines, sorted */
	size_t nnames;
	char version[32];   /* "4.1.4"; "" if unknown */
};

/* Data of the file; NULL if they lie outside it. */
static const void *bytes_at(const struct file *f, uint64_t offset, uint64_t size)
{
	return offset <= f->size && size <= f->size - offset ? f->bytes + offset : NULL;
}

static const char *text_at(const struct file *f, uint64_t offset)
{
	return offset < f->size && memchr(f->bytes + offset, '\0', f->size - offset) ?
		       f->bytes + offset : NULL;
}

/* ---- the symbols that a file defines -------------------------------------------------------- */

static const Elf64_Shdr *section_at(const struct file *f, uint64_t i)
{
	const Elf64_Ehdr *head = bytes_at(f, 0, sizeof *head);

	if (i >= head->e_shnum)
		return NULL;
	return bytes_at(f, head->e_shoff + i * sizeof(Elf64_Shdr), sizeof(Elf64_Shdr));
}

static void read_version(struct file *f, uint64_t address)
{
	const Elf64_Ehdr *head = bytes_at(f, 0, sizeof *head);
	const Elf64_Phdr *p;

	for (uint64_t i = 0; i < head->e_phnum; i++) {
		const char *text;

		p = bytes_at(f, head->e_phoff + i * sizeof *p, sizeof *p);
		if (!p || p->p_type != PT_LOAD || address - p->p_vaddr >= p->p_filesz)
			continue;
		text = text_at(f, p->p_offset + (address - p->p_vaddr));
		snprintf(f->version, sizeof f->version, "%s", text ? text : "");
	}
}

static int read_symbols(struct file *f, const Elf64_Shdr *symbols, const Elf64_Shdr *strings)
{
	uint64_t n = symbols->sh_size / sizeof(Elf64_Sym);
	const Elf64_Sym *s = bytes_at(f, symbols->sh_offset, symbols->sh_size);

	f->names = s && strings ? calloc(n + 1, sizeof *f->names) : NULL;
	for (uint64_t i = 0; f->names && i < n; i++) {
		const char *name = text_at(f, strings->sh_offset + s[i].st_name);

		if (!name || s[i].st_shndx == SHN_UNDEF)
			continue;
		f->names[f->nnames++] = name;
		if (!strcmp(name, "ompi_version_string"))
			read_version(f, s[i].st_value);
	}
	return f->names ? 0 : -1;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int read_names(struct file *f)
{
	const Elf64_Ehdr *head = bytes_at(f, 0, sizeof *head);
	const Elf64_Shdr *s;

	if (!head || memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 ||
	    head->e_ident[EI_CLASS] != ELFCLASS64)
		return -1;
	for (uint64_t i = 0; (s = section_at(f, i)); i++) {
		if (s->sh_type != SHT_DYNSYM || read_symbols(f, s, section_at(f, s->sh_link)))
			continue;
		if (f->nnames)
			qsort(f->names, f->nnames, sizeof *f->names, by_text);
		return 0;
	}
	return -1;
}

static bool defines(const struct file *f, const char *name)
{
	return f->nnames && bsearch(&name, f->names, f->nnames, sizeof *f->names, by_text);
}

/* ---- is that Open MPI 4.1? ------------------------------------------------------------------ */

static int check_version(const struct file *f, struct gck_error *err)
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

static int check_file(const char *path, struct gck_error *err)
{
	struct file f = {.path = path, .bytes = MAP_FAILED};
	int fd = open(path, O_RDONLY | O_CLOEXEC), rc = 0;
	struct stat st;

	if (fd < 0)
		return 0; /* the load reports it */
	if (fstat(fd, &st) == 0 && st.st_size > 0) {
		f.size = (size_t)st.st_size;
		f.bytes = mmap(NULL, f.size, PROT_READ, MAP_PRIVATE, fd, 0);
	}
	close(fd);
	if (f.bytes == MAP_FAILED)
		return 0;
	if (read_names(&f) == 0)
		rc = check_version(&f, err);
	free(f.names);
	munmap((void *)f.bytes, f.size);
	return rc;
}

/* ---- the file that would be loaded ---------------------------------------------------------- */

static bool find_in(const char *folder, char *path, size_t size)
{
	int n = snprintf(path, size, "%s/" GCK_MPI_LIBRARY, folder);

	return n > 0 && (size_t)n < size && access(path, R_OK) == 0 && !gck_inside_is_own(path);
}

/* Searches the loader's default folders. */
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
			found = find_in(all->dls_serpath[i].dls_name, path, size);
	free(all);
	dlclose(self);
	return found;
}

static int check_library(struct gck_error *err)
{
	char path[PATH_MAX];

	if (gck_mpi_library.find(path, sizeof path, err))
		return -1;
	if (!strchr(path, '/') && !find_default(path, sizeof path))
		return 0;
	return check_file(path, err);
}

#define OURS "libgpuckpt-mpi"

static const char *file_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static bool is_ours(const struct link_map *map)
{
	return !strncmp(file_of(map->l_name), OURS, strlen(OURS));
}

/* ---- the MPI that the program uses ---------------------------------------------------------- */

static bool is_open_mpi(const char *library)
{
	const char *name = file_of(library), *end = strstr(name, ".so.40");

	return !strncmp(name, "libmpi", 6) && end && !end[6];
}

static bool needs_open_mpi(const struct link_map *map)
{
	const char *library;

	for (size_t i = 0; (library = gck_path_needed(map, i)); i++)
		if (is_open_mpi(library))
			return true;
	return false;
}

/* True if the object itself defines the function. */
static bool itself_defines(const struct link_map *map, const char *function)
{
	void *handle = strchr(map->l_name, '/') ?
			       dlopen(map->l_name, RTLD_LAZY | RTLD_NOLOAD) : NULL;
	void *found = handle ? dlsym(handle, function) : NULL;
	struct link_map *owner = NULL;
	Dl_info info;

	if (found && !dladdr1(found, &info, (void **)&owner, RTLD_DL_LINKMAP))
		owner = NULL;
	if (handle)
		dlclose(handle);
	return owner == map;
}

static bool has_mpi(const struct link_map *map)
{
	return itself_defines(map, "PMPI_Init");
}

/* True if the object only wraps MPI functions. Every tool wraps one of these, to know when to begin
 * or what to report. */
static bool is_tool(const struct link_map *map)
{
	static const char *const wrapped[] = { "MPI_Init", "MPI_Init_thread", "MPI_Finalize",
					       "MPI_File_open", NULL };
	bool is = false;

	for (const char *const *w = wrapped; *w && !is; w++)
		is = itself_defines(map, *w);
	return is && !has_mpi(map);
}

/* True if the tool would precede libmpi without this library: it was preloaded, or it is needed
 * earlier. The loader lists objects in the order in which they are needed. */
static bool comes_first(const struct link_map *tool, const struct link_map *first)
{
	const char *preload = getenv("LD_PRELOAD"), *library;

	if (preload && strstr(preload, tool->l_name))
		return true;
	for (; first; first = first->l_next)
		for (size_t i = 0; (library = gck_path_needed(first, i)); i++) {
			if (!strcmp(file_of(library), GCK_MPI_LIBRARY))
				return false;
			if (!strcmp(file_of(library), file_of(tool->l_name)))
				return true;
		}
	return false;
}

/* The first object, except this library's, for which is() holds; NULL: none. */
static const struct link_map *find_object(const struct link_map *from,
					  bool (*is)(const struct link_map *map))
{
	while (from && (is_ours(from) || !is(from)))
		from = from->l_next;
	return from;
}

/* ---- executing the program again ------------------------------------------------------------ */

static bool is_preloaded(void)
{
	const char *list = getenv("LD_PRELOAD");

	return list && strstr(list, OURS);
}

/* A copy of LD_PRELOAD without this library's files or, with `before`, that path in front of the
 * first of them. NULL: no memory, or the variable does not preload this library. */
static char *edit_preload(const char *before)
{
	const char *list = getenv("LD_PRELOAD");
	size_t capacity = (list ? strlen(list) : 0) + (before ? strlen(before) : 0) + 2;
	char *edited = list ? calloc(1, capacity) : NULL, *end = edited;
	bool found = false;

	while (edited && *list) {
		size_t n = strcspn(list, ": ");
		const char *slash = memrchr(list, '/', n), *name = slash ? slash + 1 : list;
		bool ours = !strncmp(name, OURS, strlen(OURS));

		if (ours && before && !found)
			end += sprintf(end, "%s%s", end == edited ? "" : ":", before);
		if (n && !(ours && !before))
			end += sprintf(end, "%s%.*s", end == edited ? "" : ":", (int)n, list);
		found |= ours;
		list += n + (list[n] != '\0');
	}
	if (found)
		return edited;
	errno = ENOENT;
	free(edited);
	return NULL;
}

/* Executes the program's path, not /proc/self/exe, because ps shows its name. */
static void execute_again(char **argv, const char *before)
{
	char path[PATH_MAX], *list = edit_preload(before);
	ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);

	path[n < 0 ? 0 : n] = '\0';
	if (list && !(*list ? setenv("LD_PRELOAD", list, 1) : unsetenv("LD_PRELOAD")))
		gck_inside_execute(path, argv, environ);
	free(list);
	fprintf(stderr, "gpuckpt: %s cannot be executed again with another LD_PRELOAD (%s): ", path,
		strerror(errno));
}

static void execute_without_us(char **argv, const char *why)
{
	if (why)
		setenv("GPUCKPT_MPI_ASIDE", why, 1);
	execute_again(argv, NULL);
	fprintf(stderr, "gpuckpt does not support its MPI library: submit it with mpi=none\n");
}

static void execute_with_tool(char **argv, const struct link_map *tool)
{
	execute_again(argv, tool->l_name);
	fprintf(stderr, "%s wraps MPI functions, but will not see the program's calls\n",
		tool->l_name);
}

/* The first tool that must be preloaded before this library to precede it; NULL: none. */
static const struct link_map *find_tool(const struct link_map *first)
{
	const struct link_map *m = first;

	while (m && !is_ours(m))
		m = m->l_next;
	while ((m = find_object(m, is_tool)) && !comes_first(m, first))
		m = m->l_next;
	return m;
}

/* With mpi=auto a program whose MPI library is not supported runs without this library. */
static void check_real(char **argv)
{
	const char *mode = getenv("GPUCKPT_MPI"), *named = getenv("GPUCKPT_MPI_LIBRARY");
	struct gck_error err = {0};

	if (!(mode && !strcmp(mode, "openmpi")) && !(named && *named) && check_library(&err))
		execute_without_us(argv, err.text);
}

__attribute__((constructor)) static void examine_process(int argc, char **argv)
{
	void *self = dlopen(NULL, RTLD_LAZY | RTLD_NOLOAD);
	const struct link_map *tool;
	struct link_map *first = NULL;

	(void)argc;
	if (!is_preloaded())
		return;
	if (!self || dlinfo(self, RTLD_DI_LINKMAP, &first))
		return;
	if (find_object(first, needs_open_mpi)) {
		tool = find_tool(first);
		check_real(argv);
		if (tool)
			execute_with_tool(argv, tool);
	} else if (find_object(first, has_mpi)) {
		execute_without_us(argv, NULL);
	} else {
		gck_ns_scope_withdraw(first, is_ours);
	}
}
