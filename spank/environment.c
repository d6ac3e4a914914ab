/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "spank/environment.h"

#include <errno.h>
#include <limits.h>
#include <slurm/slurm.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/control.h"
#include "common/program/program.h"
#include "spank/option.h"
#include "spank/parent.h"

#define MAX_VALUE 65536
#define MAX_VARIABLES 24
#define STDIO_LEN 102 /* for the preload's text: shim/preload/pid/task_variables.c */

/* Read a variable of the job; "": it is not set. */
static int get(spank_t spank, const char *name, char *value, size_t size, struct gck_error *err)
{
	spank_err_t e = spank_getenv(spank, name, value, (int)size);

	if (e == ESPANK_SUCCESS)
		return 0;
	if (e == ESPANK_NOSPACE)
		return gck_fail(err, ENAMETOOLONG,
				"%s in the job's environment is longer than %zu bytes", name,
				size - 1);
	if (e != ESPANK_ENV_NOEXIST)
		return gck_fail(err, EINVAL, "%s cannot be read from the job's environment: %s",
				name, spank_strerror(e));
	*value = '\0';
	return 0;
}

static int set(spank_t spank, const char *name, const char *value, struct gck_error *err)
{
	spank_err_t e = spank_setenv(spank, name, value, 1);

	if (e == ESPANK_SUCCESS)
		return 0;
	return gck_fail(err, EINVAL, "%s cannot be set in the job's environment: %s", name,
			spank_strerror(e));
}

unsigned gck_environment_restarts(spank_t spank)
{
	char value[16];
	uint64_t n = 0;

	if (get(spank, "SLURM_RESTART_COUNT", value, sizeof value, NULL) ||
	    gck_parse_number(value, 0, UINT32_MAX, &n, NULL))
		return 0;
	return (unsigned)n;
}

/* Slurm sets the variable only if the count is not 0, so a job that a requeued job submits would
 * inherit that job's count. */
void gck_environment_submit(void)
{
	unsetenv("SLURM_RESTART_COUNT");
}

bool gck_environment_heterogeneous(spank_t spank)
{
	char value[16];

	return get(spank, "SLURM_HET_SIZE", value, sizeof value, NULL) == 0 && *value;
}

/* ---- output --------------------------------------------------------------------------------- */

#define OPEN_MODE "SLURM_OPEN_MODE"

static bool open_mode_is_ours;

/* Whether srun was given the option, which it has not parsed yet: by itself, perhaps abbreviated,
 * or by its environment. */
static bool is_requested(void)
{
	static const char option[] = "--gpu-c";
	char *argument = NULL;
	size_t size = 0;
	FILE *f = fopen("/proc/self/cmdline", "r");
	bool found = gck_option_inherited();

	while (!found && f && getdelim(&argument, &size, '\0', f) > 0)
		found = strncmp(argument, option, sizeof option - 1) == 0;
	free(argument);
	if (f)
		fclose(f);
	return found;
}

/* srun and slurmstepd empty the files of -o and -e when they open them, before anybody knows
 * whether the step had finished or continues. */
void gck_environment_keep_output(void)
{
	const char *restarts = getenv("SLURM_RESTART_COUNT");

	if (restarts && strcmp(restarts, "0") != 0 && !getenv(OPEN_MODE) && is_requested())
		open_mode_is_ours = setenv(OPEN_MODE, "append", 0) == 0;
}

void gck_environment_kept_output(void)
{
	if (open_mode_is_ours)
		unsetenv(OPEN_MODE);
}

/* JobFileAppend in slurm.conf; true if slurmctld does not answer. */
static bool slurm_appends(void)
{
	slurm_conf_t *conf = NULL;
	bool appends = slurm_load_ctl_conf(0, &conf) || conf->job_file_append;

	if (conf)
		slurm_free_ctl_conf(conf);
	return appends;
}

bool gck_environment_output_is_emptied(void)
{
	const char *environment = getenv("ENVIRONMENT"), *mode = getenv(OPEN_MODE);

	return environment && !strcmp(environment, "BATCH") &&
	       (mode ? *mode == 't' : !slurm_appends());
}

/* ---- step ----------------------------------------------------------------------------------- */

/* Open MPI's MPI_Init ends with a fence without data, which prevents messages to a rank that is not
 * initialised: they crash it. For such a fence Slurm's PMIx uses a tree by default, in which a node
 * does not wait for all others; in a ring it does. The ranks of a restart send messages directly
 * after MPI_Init, so the ring is requested, unless the user has set the variable. srun has put the
 * value of --mpi or MpiDefault into SLURM_MPI_TYPE by now. */
int gck_environment_launch(struct gck_error *err)
{
	const char *type = getenv("SLURM_MPI_TYPE");

	if (type && strncmp(type, "pmix", 4))
		return 0;
	if (setenv("SLURM_PMIX_FENCE", "ring", 0))
		return gck_fail(err, errno, "SLURM_PMIX_FENCE cannot be set in the step's "
				"environment: %s", strerror(errno));
	return 0;
}

/* ---- rank ----------------------------------------------------------------------------------- */

/* Our libraries come first, so that their functions are found before those of the user's. A step
 * that a rank starts has inherited them. */
static int set_preload(spank_t spank, const char *preload, struct gck_error *err)
{
	size_t n = strlen(preload), size = MAX_VALUE + n + 2;
	char *value = malloc(size);
	char *rest = value ? value + n + 1 : NULL;
	int rc = -1;

	if (!value)
		return gck_fail(err, ENOMEM, "no memory for LD_PRELOAD");
	if (get(spank, "LD_PRELOAD", rest, MAX_VALUE, err) == 0) {
		memcpy(value, preload, n);
		value[n] = *rest ? ':' : '\0';
		if (strncmp(rest, preload, n) == 0 && (!rest[n] || strchr(": ", rest[n])))
			rc = 0;
		else
			rc = set(spank, "LD_PRELOAD", value, err);
	}
	free(value);
	return rc;
}

/* Those behind the preload are the stand-ins, which descendants load when they need one. */
static int set_stand_ins(spank_t spank, const char *preload, struct gck_error *err)
{
	const char *rest = strchr(preload, ':');

	return set(spank, "GPUCKPT_STANDINS", rest ? rest + 1 : "", err);
}

int gck_environment_rank(spank_t spank, const char *preload, const char *link, unsigned restarts,
			 struct gck_error *err)
{
	char pid[GCK_PID_DIGITS + 1], count[16], blank[STDIO_LEN + 1] = "";

	memset(blank, '.', STDIO_LEN);
	snprintf(pid, sizeof pid, "%0*d", GCK_PID_DIGITS, (int)getpid());
	snprintf(count, sizeof count, "%u", restarts);
	if (set(spank, "GPUCKPT_LINK", link, err) || set(spank, "GPUCKPT_PID", pid, err) ||
	    set(spank, "GPUCKPT_RESTARTS", count, err) || set(spank, "GPUCKPT_STDIO", blank, err))
		return -1;
	return set_stand_ins(spank, preload, err) || set_preload(spank, preload, err) ? -1 : 0;
}

int gck_environment_mpi(spank_t spank, bool must, const char *left_out, struct gck_error *err)
{
	spank_unsetenv(spank, "GPUCKPT_MPI_ASIDE"); /* inherited from a submitting shell */
	if (*left_out && set(spank, "GPUCKPT_MPI_ASIDE", left_out, err))
		return -1;
	return set(spank, "GPUCKPT_MPI", must ? "openmpi" : "auto", err);
}

/* A variable may be inherited from a submitting shell. */
static int set_or_unset(spank_t spank, const char *name, const char *value, struct gck_error *err)
{
	spank_unsetenv(spank, name);
	return *value ? set(spank, name, value, err) : 0;
}

int gck_environment_cuda(spank_t spank, const char *engine, const char *kernels,
			 struct gck_error *err)
{
	return set_or_unset(spank, "GPUCKPT_CUDA", engine ? engine : "", err) ||
	       set_or_unset(spank, "GPUCKPT_KERNELS", kernels, err) ? -1 : 0;
}

void gck_environment_parent(spank_t spank, const char *agent_path)
{
	char parent[PATH_MAX], program[PATH_MAX], list[PATH_MAX] = "", **argv, *own;
	int n;

	/* inherited from a submitting shell */
	spank_unsetenv(spank, GCK_PARENT_VARIABLE);
	spank_unsetenv(spank, GCK_PROGRAM_VARIABLE);
	spank_getenv(spank, "PATH", list, sizeof list);
	if (gck_parent_path(agent_path, parent) ||
	    spank_setenv(spank, GCK_PARENT_VARIABLE, parent, 1) != ESPANK_SUCCESS ||
	    spank_get_item(spank, S_JOB_ARGV, &n, &argv) != ESPANK_SUCCESS || n < 1 ||
	    gck_parent_needed(argv[0], list, program) ||
	    spank_setenv(spank, GCK_PROGRAM_VARIABLE, program, 1) != ESPANK_SUCCESS)
		return;
	own = strdup(parent);
	if (own)
		argv[0] = own;
}

/* ---- agent ---------------------------------------------------------------------------------- */

struct list {
	char *v[MAX_VARIABLES + 1];
	size_t n;
	bool failed;
};

__attribute__((format(printf, 2, 3)))
static void add(struct list *l, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	if (l->n == MAX_VARIABLES || vasprintf(&l->v[l->n], fmt, ap) < 0)
		l->failed = true;
	else
		l->v[++l->n] = NULL;
	va_end(ap);
}

static void add_item(struct list *l, spank_t spank, const char *name, spank_item_t item)
{
	uint32_t n;

	if (spank_get_item(spank, item, &n) == ESPANK_SUCCESS)
		add(l, "%s=%u", name, n);
	else
		l->failed = true;
}

/* Add a variable of the job under another name, if it is set. */
static int add_job(struct list *l, spank_t spank, const char *name, const char *from,
		   struct gck_error *err)
{
	char value[1024];

	if (get(spank, from, value, sizeof value, err))
		return -1;
	if (*value)
		add(l, "%s=%s", name, value);
	return 0;
}

static int add_options(struct list *l, const struct gck_options *o, struct gck_error *err)
{
	char text[2 * PATH_MAX];

	if (gck_options_format(o, text, sizeof text, err))
		return -1;
	add(l, "GPUCKPT_OPTIONS=%s", text);
	return 0;
}

static int add_cwd(struct list *l, struct gck_error *err)
{
	char cwd[PATH_MAX];

	if (!getcwd(cwd, sizeof cwd))
		return gck_fail(err, errno, "the task's working directory: %s", strerror(errno));
	add(l, "GPUCKPT_CWD=%s", cwd);
	return 0;
}

/* Add the SLURM_CONF of slurmstepd, not of the job, if it is set. */
static void add_slurm_conf(struct list *l)
{
	const char *path = getenv("SLURM_CONF");

	if (path)
		add(l, "SLURM_CONF=%s", path);
}

/* Add a PATH with Slurm's tools. The bin directory beside the sbin of this slurmstepd comes
 * first. */
static void add_path(struct list *l)
{
	char exe[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof exe);
	int prefix = 0;

	if (n > 0 && n < (ssize_t)sizeof exe) {
		const char *sbin = memrchr(exe, '/', (size_t)n);

		if (sbin > exe)
			sbin = memrchr(exe, '/', (size_t)(sbin - exe));
		prefix = sbin ? (int)(sbin - exe) : 0;
	}
	add(l, "PATH=%.*s/bin:/usr/local/bin:/usr/bin:/bin", prefix, exe);
}

/* Tests set it (common/base/fault.h). */
static int add_faults(struct list *l, spank_t spank, struct gck_error *err)
{
#ifdef GCK_FAULTS
	return add_job(l, spank, "GPUCKPT_FAULT", "GPUCKPT_FAULT", err);
#else
	(void)l, (void)spank, (void)err;
	return 0;
#endif
}

char **gck_environment_agent(spank_t spank, const char *conf_path, const char *link,
			     const struct gck_options *o, unsigned restarts, struct gck_error *err)
{
	static struct list l;

	l.n = 0;
	add(&l, "GPUCKPT_CONF=%s", conf_path);
	add(&l, "GPUCKPT_LINK=%s", link);
	add(&l, "GPUCKPT_RESTARTS=%u", restarts);
	add_item(&l, spank, "GPUCKPT_JOB", S_JOB_ID);
	add_item(&l, spank, "GPUCKPT_STEP", S_JOB_STEPID);
	add_item(&l, spank, "GPUCKPT_NODEID", S_JOB_NODEID);
	add_item(&l, spank, "GPUCKPT_NNODES", S_JOB_NNODES);
	add_item(&l, spank, "GPUCKPT_NTASKS", S_JOB_TOTAL_TASK_COUNT);
	add_item(&l, spank, "GPUCKPT_LOCAL_NTASKS", S_JOB_LOCAL_TASK_COUNT);
	add_slurm_conf(&l);
	add_path(&l);
	if (add_options(&l, o, err) || add_cwd(&l, err) ||
	    add_job(&l, spank, "GPUCKPT_NODE", "SLURMD_NODENAME", err) ||
	    add_job(&l, spank, "GPUCKPT_CLUSTER", "SLURM_CLUSTER_NAME", err) ||
	    add_job(&l, spank, "GPUCKPT_MARK", "GPUCKPT_MARK", err) || add_faults(&l, spank, err))
		return NULL;
	if (l.failed) {
		gck_fail(err, ENOMEM, "the agent's environment cannot be made");
		return NULL;
	}
	return l.v;
}

char **gck_environment_arguments(spank_t spank, struct gck_error *err)
{
	static char name[] = "gpuckpt-agent", dashes[] = "--";
	char **program, **v;
	int n;

	if (spank_get_item(spank, S_JOB_ARGV, &n, &program) != ESPANK_SUCCESS || n < 1 ||
	    !(v = calloc((size_t)n + 3, sizeof *v))) {
		gck_fail(err, EINVAL, "the step's program is not known");
		return NULL;
	}
	v[0] = name;
	v[1] = dashes;
	memcpy(v + 2, program, (size_t)n * sizeof *v);
	return v;
}
