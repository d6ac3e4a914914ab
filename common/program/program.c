/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "common/program/program.h"

#include <elf.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SCRIPTS 5 /* the kernel follows no more of them, each the interpreter of the one before */
#define FIRST_LINE 256 /* what the kernel reads of one */
#define BLANKS " \t"

static bool read_at(int fd, void *data, size_t size, uint64_t at)
{
	return pread(fd, data, size, (off_t)at) == (ssize_t)size;
}

int gck_program_loader(int fd, char *path, size_t size)
{
	Elf64_Ehdr head;
	Elf64_Phdr x;

	if (!read_at(fd, &head, sizeof head, 0) || memcmp(head.e_ident, ELFMAG, SELFMAG) ||
	    head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_machine != EM_X86_64 ||
	    (head.e_type != ET_EXEC && head.e_type != ET_DYN) || head.e_phentsize != sizeof x)
		return -1;
	path[0] = '\0';
	for (unsigned i = 0; i < head.e_phnum; i++) {
		if (!read_at(fd, &x, sizeof x, head.e_phoff + i * sizeof x))
			return -1;
		if (x.p_type != PT_INTERP)
			continue;
		if (x.p_filesz > size || !read_at(fd, path, x.p_filesz, x.p_offset))
			return -1;
		path[x.p_filesz ? x.p_filesz - 1 : 0] = '\0';
		return 0;
	}
	return 0;
}

bool gck_program_takes_no_preload(const char *loader)
{
	return !*loader || strstr(loader, "/ld-musl");
}

/* ---- finding it ---------------------------------------------------------------------------- */

static bool is_program(const char *path)
{
	struct stat st;

	return !access(path, X_OK) && !stat(path, &st) && S_ISREG(st.st_mode);
}

static int join(const char *directory, size_t n, const char *name, char *path, size_t size)
{
	size_t length = strlen(name) + 1;

	if (n + 1 + length > size)
		return -1;
	memcpy(path, directory, n);
	if (n)
		path[n++] = '/';
	memcpy(path + n, name, length);
	return 0;
}

int gck_program_find(const char *name, const char *list, char *path, size_t size)
{
	if (strchr(name, '/'))
		return join("", 0, name, path, size);
	while (list && *list) {
		size_t n = strcspn(list, ":");

		if (!join(list, n, name, path, size) && is_program(path))
			return 0;
		list += n + (list[n] == ':');
	}
	return -1;
}

/* ---- what it takes ------------------------------------------------------------------------- */

/* Whether it is a script; path gets its interpreter. */
static bool is_script(int fd, char *path, size_t size)
{
	char line[FIRST_LINE];
	ssize_t got = pread(fd, line, sizeof line - 1, 0);
	size_t n;
	char *at;

	if (got < 3 || line[0] != '#' || line[1] != '!')
		return false;
	line[got] = '\0';
	at = line + 2 + strspn(line + 2, BLANKS);
	n = strcspn(at, BLANKS "\n");
	if (!at[n] || n >= size)
		return false;
	memcpy(path, at, n);
	path[n] = '\0';
	return true;
}

/* 1, 0, or -1 for a script: then path has its interpreter. */
static int look(int fd, char *path, size_t size)
{
	char loader[64];
	struct stat st;

	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_mode & (S_ISUID | S_ISGID))
		return 0;
	if (is_script(fd, path, size))
		return -1;
	return !gck_program_loader(fd, loader, sizeof loader) &&
	       gck_program_takes_no_preload(loader);
}

bool gck_program_file_takes_no_preload(const char *path)
{
	char next[FIRST_LINE];
	int found = -1;

	for (int i = 0; i < SCRIPTS && found < 0; i++) {
		const char *file = i ? next : path;
		int fd = access(file, X_OK) ? -1 : open(file, O_RDONLY | O_CLOEXEC);

		found = fd < 0 ? 0 : look(fd, next, sizeof next);
		if (fd >= 0)
			close(fd);
	}
	return found > 0;
}
