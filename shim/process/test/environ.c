/* SPDX-License-Identifier: Apache-2.0
 * getenv in a restored program, over a series of restarts. This process is the "restored process":
 * reads, writes and mappings of environ.c happen here. */
#include "config.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shim/process/objects/objects.h"
#include "test/support/tap.h"

static int maps;            /* how many were made */
static char **env;          /* the program's `environ` */
static struct gck_shim_state *state;
static struct gck_image img;

int gck_remote_read(const struct gck_remote *r, uint64_t address, void *data, size_t n,
		    struct gck_error *err)
{
	(void)r;
	(void)err;
	memcpy(data, (const void *)(uintptr_t)address, n);
	return 0;
}

int gck_remote_write(const struct gck_remote *r, uint64_t address, const void *data, size_t n,
		     struct gck_error *err)
{
	(void)r;
	(void)err;
	memcpy((void *)(uintptr_t)address, data, n);
	return 0;
}

int64_t gck_remote_call_(struct gck_remote *r, pid_t tid, struct gck_error *err, long nr,
			 const uint64_t a[6])
{
	(void)r;
	(void)tid;
	(void)err;
	maps++;
	return syscall(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* The first start: a list of pointers into the kernel's text, as main gets it. */
static void start(char *text, size_t size)
{
	static char *list[64];
	size_t n = 0;

	for (size_t at = 0; at < size; at += strlen(text + at) + 1)
		list[n++] = text + at;
	list[n] = NULL;
	env = list;
	maps = 0;
	img.env_start = (uintptr_t)text;
	img.env_end = img.env_start + size;
	free(state);
	state = calloc(1, sizeof *state);
	state->environ_at = (uintptr_t)&env;
}

static void restart(const char *text, size_t size)
{
	struct gck_restore r = {.img = &img, .environment = (char *)text, .environment_size = size};
	struct gck_error err = {0};

	if (gck_restore_environ(&r, state, &err))
		printf("# %s\n", err.text);
}

static const char *get(const char *name)
{
	size_t n = strlen(name);

	for (char **e = env; *e; e++)
		if (!strncmp(*e, name, n) && (*e)[n] == '=')
			return *e + n + 1;
	return NULL;
}

static void unset(const char *name)
{
	size_t n = strlen(name);
	char **to = env;

	for (char **e = env; *e; e++)
		if (strncmp(*e, name, n) != 0 || (*e)[n] != '=')
			*to++ = *e;
	*to = NULL;
}

static void replace(const char *name, char *entry)
{
	for (char **e = env; *e; e++)
		if (!strncmp(*e, name, strlen(name)))
			*e = entry;
}

static char first[] =
	"HOME=/home/a\0SLURM_NODEID=0\0SLURM_NODELIST=n1\0TMPDIR=/tmp/1\0HOSTNAME=n1\0"
	"SLURM_CPU_BIND=none\0OMPI_MCA_btl=tcp\0OMPI_MCA_osc=rdma";
static const char second[] =
	"HOME=/else\0SLURM_NODEID=1\0SLURM_NODELIST=n2\0TMPDIR=/tmp/2\0HOSTNAME=n2\0"
	"SLURM_CPU_BIND=none\0OMPI_MCA_btl=tcp\0OMPI_MCA_osc=rdma\0SLURM_RESTART_COUNT=1";
static const char third[] =
	"HOME=/else\0SLURM_NODEID=2\0SLURM_NODELIST=n3\0TMPDIR=/tmp/3\0HOSTNAME=n3\0"
	"SLURM_CPU_BIND=none\0OMPI_MCA_btl=self\0OMPI_MCA_osc=rdma\0SLURM_RESTART_COUNT=2";

static void values(void)
{
	static char chosen[] = "OMPI_MCA_osc=pt2pt", tmp[] = "TMPDIR=/scratch";

	start(first, sizeof first);
	restart(second, sizeof second);
	is_str(get("HOME"), "/home/a", "the program's variables stay");
	is_str(get("SLURM_NODELIST"), "n2", "the launcher's variables are the new task's");
	is_str(get("SLURM_RESTART_COUNT"), "1", "also new ones");
	is_str(get("HOSTNAME"), "n2", "also one that the program could have changed");
	replace("OMPI_MCA_osc", chosen);
	replace("TMPDIR", tmp);
	restart(third, sizeof third);
	is_str(get("OMPI_MCA_osc"), "pt2pt", "a variable that the program has changed stays");
	is_str(get("TMPDIR"), "/scratch", "with any value");
	is_str(get("OMPI_MCA_btl"), "self", "one that it has not changed does not");
	is_str(get("SLURM_NODEID"), "2", "a second restart does the same");
}

static void unsets(void)
{
	start(first, sizeof first);
	unset("SLURM_CPU_BIND");
	unset("OMPI_MCA_osc");
	restart(second, sizeof second);
	ok(!get("SLURM_CPU_BIND") && !get("OMPI_MCA_osc"),
	   "a variable that the program has unset stays unset");
	ok(get("OMPI_MCA_btl") && get("SLURM_RESTART_COUNT"), "all others are there");
	unset("TMPDIR");
	restart(third, sizeof third);
	ok(!get("SLURM_CPU_BIND") && !get("OMPI_MCA_osc"), "also after a second restart");
	ok(!get("TMPDIR"), "also one that it has unset since");
	is_str(get("SLURM_NODELIST"), "n3", "all others are the new task's");
}

static void lineage(void)
{
	char text[256];
	const char *held;
	int n = 0;

	start(first, sizeof first);
	restart(second, sizeof second);
	held = get("SLURM_NODELIST");
	for (int i = 2; i < 100; i++) {
		size_t size = (size_t)snprintf(
			text, sizeof text,
			"SLURM_NODEID=0%cSLURM_NODELIST=n%d%cTMPDIR=/tmp/%d%cHOSTNAME=n%d%c"
			"SLURM_CPU_BIND=none%cOMPI_MCA_btl=tcp%cOMPI_MCA_osc=rdma%c"
			"SLURM_RESTART_COUNT=%d",
			0, i, 0, i, 0, i, 0, 0, 0, 0, i);

		restart(text, size + 1);
		n += atoi(get("SLURM_RESTART_COUNT")) == i && atoi(get("SLURM_NODELIST") + 1) == i;
	}
	is_int(n, 98, "a hundred restarts, each with its own values");
	is_int(maps, 1, "use one mapping");
	is_str(held, "n99", "and an old pointer is still valid");
	restart(text, sizeof "SLURM_NODEID=0");
	is_int(maps, 2, "with other variables there is a new mapping");
	is_str(held, "n99", "and the old one stays");
	is_str(get("SLURM_NODEID"), "0", "with the variables of the task");
	ok(!get("SLURM_NODELIST"), "and no others");
}

int main(void)
{
	values();
	unsets();
	lineage();
	free(state);
	return tap_done();
}
