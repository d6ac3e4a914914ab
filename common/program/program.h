/* SPDX-License-Identifier: Apache-2.0
 * A program's file: where it is, and whether LD_PRELOAD has an effect on it. All may be called
 * between fork() and an exec. */
#ifndef GCK_PROGRAM_H
#define GCK_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>

/* gpuckpt-parent (coordinator/parent): where it is, and the program that it starts. */
#define GCK_PARENT "gpuckpt-parent"
#define GCK_PARENT_VARIABLE "GPUCKPT_PARENT"
#define GCK_PROGRAM_VARIABLE "GPUCKPT_PROGRAM"

/* The path of the loader (PT_INTERP) that a program for x86-64 asks for; "": it is static. -1: it
 * is no such file, it cannot be read, or size is too small. */
int gck_program_loader(int fd, char *path, size_t size);

/* Whether that loader, or none, leaves out a preload that is linked with glibc: the program is a
 * static one, or one of musl's. */
bool gck_program_takes_no_preload(const char *loader);

/* Find it as execvp() does: in the directories of `list`, a PATH, unless its name has a slash. -1:
 * it is in none, or size is too small. */
int gck_program_find(const char *name, const char *list, char *path, size_t size);

/* Whether the file, or the interpreter that a script names, takes no preload. False also where
 * execution would fail, and for a set-uid program, which none but its owner may hold. */
bool gck_program_file_takes_no_preload(const char *path);

#endif
