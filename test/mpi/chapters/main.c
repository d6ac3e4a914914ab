/* SPDX-License-Identifier: Apache-2.0
 * mpi_chapters RESULTS SCRATCH [TURNS]: runs all claims TURNS times; each rank writes its results
 * to a file named after it in the folder RESULTS. */
#include "test/mpi/chapters/chapters.h"

#include <stdarg.h>
#include <unistd.h>

#define PAUSE_US 2000

int left, right;

static char result[8192];
static size_t used;
static const char *scratch_folder;

static const struct {
	const char *name;
	const struct claim *claims;
} chapters[] = {
	{"3 messages", messages},      {"4 datatypes", types},
	{"5 collectives", collectives}, {"6 communicators", communicators},
	{"7 topologies", topologies},  {"8 and 9 environment", environment},
	{"11 windows", windows},       {"12 and 14 external interfaces", external},
	{"13 files", files},
};

void put(const char *format, ...)
{
	va_list ap;
	int n;

	va_start(ap, format);
	n = vsnprintf(result + used, sizeof(result) - used, format, ap);
	va_end(ap);
	used += (size_t)n < sizeof(result) - used ? (size_t)n : sizeof(result) - used - 1;
}

void put_class(int rc)
{
	int class = -1;

	MPI_Error_class(rc, &class);
	put(" class %d", class);
}

void put_ints(int n, const int *v)
{
	for (int i = 0; i < n; i++)
		put(" %d", v[i]);
}

void pending(void)
{
	usleep(PAUSE_US);
	cycle();
}

const char *scratch(const char *name)
{
	static char path[512];

	snprintf(path, sizeof(path), "%s/%s", scratch_folder, name);
	return path;
}

static void run_all(FILE *f)
{
	for (size_t i = 0; i < sizeof(chapters) / sizeof(*chapters); i++)
		for (const struct claim *c = chapters[i].claims; c->text; c++) {
			used = 0;
			result[0] = '\0';
			c->run();
			MPI_Barrier(MPI_COMM_WORLD);
			fprintf(f, "%s: %s:%s\n", chapters[i].name, c->text, result);
			fflush(f);
		}
}

int main(int argc, char **argv)
{
	int turns = argc > 3 ? atoi(argv[3]) : 1;
	char path[512];
	FILE *f;

	setenv("OMPI_MCA_osc", "pt2pt,sm", 0); /* doc/limits.md: osc/rdma crashes within a node */
	MPI_Init(&argc, &argv);
	begin();
	left = (rank + size - 1) % size;
	right = (rank + 1) % size;
	scratch_folder = argc > 2 ? argv[2] : ".";
	snprintf(path, sizeof(path), "%s/%d", argc > 1 ? argv[1] : ".", rank);
	f = fopen(path, "w");
	if (!f)
		MPI_Abort(MPI_COMM_WORLD, 1);
	while (turns-- > 0)
		run_all(f);
	fclose(f);
	MPI_Finalize();
	return 0;
}
