/* SPDX-License-Identifier: Apache-2.0
 * A program's file that says which loader it needs, and has no code. The kernel refuses to execute
 * a static one (ENOEXEC). */
#ifndef GCK_ELF_FILE_H
#define GCK_ELF_FILE_H

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* loader: NULL: none, it is static. */
static void elf_file(const char *path, const char *loader, mode_t mode)
{
	struct {
		Elf64_Ehdr head;
		Elf64_Phdr x[2];
		char loader[64];
	} data = { .head = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64 }, .e_type = ET_EXEC,
			     .e_machine = EM_X86_64, .e_phoff = sizeof data.head,
			     .e_phentsize = sizeof data.x[0], .e_phnum = loader ? 2 : 0 },
		   .x = { { .p_type = PT_LOAD }, { .p_type = PT_NULL } } };
	FILE *f = fopen(path, "w");

	if (loader) {
		snprintf(data.loader, sizeof data.loader, "%s", loader);
		data.x[1] = (Elf64_Phdr){ .p_type = PT_INTERP,
					  .p_offset = sizeof data.head + sizeof data.x,
					  .p_filesz = strlen(data.loader) + 1 };
	}
	if (!f || fwrite(&data, sizeof data, 1, f) != 1 || fclose(f) || chmod(path, mode))
		exit(99);
}

#endif
