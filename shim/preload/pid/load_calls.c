/* SPDX-License-Identifier: Apache-2.0
 * dlopen(). A descendant of a rank begins without the stand-ins. Before the first library that it
 * loads at run time (mpi4py, say) they are loaded, so that this library finds them by name. */
#include "config.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>

#include "shim/preload/pid/pid.h"

typedef void *open_fn(const char *, int);

/* The value of GPUCKPT_STANDINS when the process began. */
static const char *stand_ins GCK_AT_START;

GCK_EACH void gck_stand_ins_later(const char *paths)
{
	stand_ins = paths;
}

/* One that cannot be loaded is left out: a checkpoint refuses the real library's connections. */
static void load(const char *paths, open_fn *open)
{
	char path[PATH_MAX];

	while (*paths) {
		size_t n = strcspn(paths, ":");

		if (n < sizeof path) {
			memcpy(path, paths, n);
			path[n] = '\0';
			open(path, RTLD_NOW | RTLD_LOCAL);
		}
		paths += n + (paths[n] == ':');
	}
}

/* Returns libc's function. */
open_fn *gck_load_begin(void);
__attribute__((used)) open_fn *gck_load_begin(void)
{
	const char *paths = __atomic_exchange_n(&stand_ins, NULL, __ATOMIC_ACQ_REL);
	open_fn *open = GCK_NEXT(dlopen, open_fn *);

	if (paths)
		load(paths, open);
	return open;
}

/* A jump: libc's function searches the paths of the object to which it would return. */
__asm__(".pushsection .text\n"
	".globl dlopen\n"
	".type dlopen, @function\n"
	"dlopen:\n\t"
	"endbr64\n\t"
	"pushq %rdi\n\t"
	"pushq %rsi\n\t"
	"subq $8, %rsp\n\t"
	"call gck_load_begin\n\t"
	"addq $8, %rsp\n\t"
	"popq %rsi\n\t"
	"popq %rdi\n\t"
	"jmp *%rax\n"
	".size dlopen, .-dlopen\n"
	".popsection");
