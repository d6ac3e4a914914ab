// SPDX-License-Identifier: Apache-2.0
/* The sources of reexec.sh, chosen by macro: another MPI library (OTHER), a later Open MPI (OTHER
 * and LATER), a tool that wraps Open MPI's functions (TOOL), a program or module that uses MPI
 * (none), a program that loads the module (LOADER). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int MPI_Init(int *argc, char ***argv);
int PMPI_Init(int *argc, char ***argv);
int MPI_Finalize(void);

#if defined OTHER
#ifdef LATER
extern const char ompi_version_string[];
const char ompi_version_string[] = "5.0.3";
#endif

int PMPI_Init(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	puts("another MPI");
	return 0;
}

int MPI_Init(int *argc, char ***argv)
{
	return PMPI_Init(argc, argv);
}

int MPI_Finalize(void)
{
	return 0;
}
#elif defined TOOL
int MPI_Init(int *argc, char ***argv)
{
	puts("a tool");
	return PMPI_Init(argc, argv);
}
#elif defined LOADER
int main(int argc, char **argv)
{
	void *module = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
	int (*run)(int, char **) = module ? (int (*)(int, char **))dlsym(module, "run") : NULL;

	if (!run)
		puts(dlerror());
	return run ? run(argc, argv) : 1;
}
#else
static const char *file_of(void *function)
{
	Dl_info info;

	return dladdr(function, &info) ? strrchr(info.dli_fname, '/') + 1 : "?";
}

int run(int argc, char **argv);
int run(int argc, char **argv)
{
	MPI_Init(NULL, NULL);
	if (getenv("ASIDE_SECONDS"))
		sleep((unsigned)atoi(getenv("ASIDE_SECONDS")));
	MPI_Finalize();
	printf("%s", file_of((void *)MPI_Finalize));
	for (int i = 1; i < argc; i++)
		printf(" <%s>", argv[i]);
	printf("\n%s\n", getenv("LD_PRELOAD"));
	if (getenv("GPUCKPT_MPI_ASIDE"))
		puts(getenv("GPUCKPT_MPI_ASIDE"));
	return 0;
}

int main(int argc, char **argv)
{
	return run(argc, argv);
}
#endif
