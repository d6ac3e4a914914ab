/* SPDX-License-Identifier: Apache-2.0
 * The SPANK plugin: Slurm's hooks, and the state of a step between them. Order and identities
 * of the hooks in slurmstepd (real/effective uid):
 *
 *   init                              in srun, sbatch and salloc: the option from the environment;
 *                                     in sbatch and salloc: removes inherited variables
 *   init, the option          0/0     once per step and node
 *   init_post_opt                     in srun: sets variables for the launch of the step
 *   local_user_init           user    in srun: says that a launcher's ranks are not checkpointed,
 *                                     and that a requeue would empty the job's output
 *   user_init                 0/user  makes sockets, owned by the user
 *   task_init_privileged      0/0     in each task: clocks
 *   task_post_fork            0/0     in slurmstepd, for all tasks before the first exec
 *   task_init                 user    in each task: the first starts the agent; environment
 *   task_exit                 0/0     in slurmstepd
 *   exit                      0/0
 *
 * All symbols but the hooks are hidden: symbols of srun with the same names would replace them. */
#pragma GCC visibility push(default)
#include <slurm/spank.h>

SPANK_PLUGIN(gpuckpt, 1)
#pragma GCC visibility pop

#include "config.h"

#include <errno.h>
#include <slurm/slurm.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "spank/agent.h"
#include "spank/environment.h"
#include "spank/input.h"
#include "spank/launcher.h"
#include "spank/option.h"
#include "spank/standins.h"
#include "spank/task.h"

#define FINISH_MS (GCK_REQUEUE_WAIT_MS + 2000)

static struct {
	bool on;            /* the step has the option */
	bool failed;        /* the plugin could not do its part on this node */
	bool *called_off;   /* shared: slurmstepd failed after it had forked the tasks */
	bool must;          /* the step must not run if the plugin fails */
	unsigned restarts;
	struct gck_standins standins;
	uint32_t tasks, exited; /* of this node */
	struct gck_conf conf;
	struct gck_options options;
	struct gck_clock clock;
	struct gck_agent agent;
} step = { .agent = GCK_AGENT_NONE };

/* Report that the plugin cannot work. A job that starts for the first time runs without
 * checkpoints. A requeued job must not start from the beginning, since its work may be in a
 * checkpoint; nor may a job that requires checkpoints. Their tasks end before their program
 * (task_init). If a hook failed instead, the step would end only where plugstack.conf has
 * "required", and srun would exit with status 0. */
static void fail(const struct gck_error *err)
{
	char host[64] = "?";

	step.failed = true;
	if (step.called_off)
		*step.called_off = true;
	gethostname(host, sizeof host - 1);
	if (step.must)
		slurm_error("gpuckpt: %s: %s; the step is not started, because %s", host, err->text,
			    step.options.require ? "require=yes was given" :
			    "its job was restarted and may have a checkpoint to go on from");
	else
		slurm_spank_log("gpuckpt: %s: %s; the step runs without checkpoints", host,
				err->text);
}

static int share(struct gck_error *err)
{
	void *p = mmap(NULL, sizeof *step.called_off, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return gck_fail(err, errno, "no memory to share with the tasks: %s",
				strerror(errno));
	step.called_off = p;
	return 0;
}

static bool is_regular_step(spank_t spank)
{
	uint32_t id;

	return spank_context() == S_CTX_REMOTE &&
	       spank_get_item(spank, S_JOB_STEPID, &id) == ESPANK_SUCCESS &&
	       id < SLURM_MAX_NORMAL_STEP_ID;
}

static int choose_standins(struct gck_error *err)
{
	if (gck_standins_choose(&step.standins, &step.conf, gck_option_conf_path(),
				&step.options, err))
		return -1;
	if (step.standins.mpi_left_out.code)
		slurm_info("gpuckpt: mpi=auto: programs with MPI run and cannot be checkpointed: "
			   "%s",
			   step.standins.mpi_left_out.text);
	return 0;
}

/* NULL: unknown */
static const char *program_of(spank_t spank)
{
	char **argv;
	int n;

	return spank_get_item(spank, S_JOB_ARGV, &n, &argv) == ESPANK_SUCCESS && n > 0 ? argv[0]
										       : NULL;
}

static bool is_launcher(const char *program)
{
	return program && gck_launcher_is(program);
}

static int configure(spank_t spank, struct gck_error *err)
{
	bool het = gck_environment_heterogeneous(spank);
	int rc = gck_option_read(&step.conf, &step.options, err);

	step.must = step.options.require || (step.restarts > 0 && !het &&
					     step.options.restart != GCK_RESTART_NEVER);
	if (rc)
		return -1;
	if (het)
		return gck_fail(err, ENOTSUP,
				"heterogeneous jobs are not carried: their components are jobs "
				"and steps of their own; use one component, or several jobs");
	if (!*step.options.store)
		return gck_fail(err, EINVAL,
				"store: give store=file:/path, or have DefaultStore set in %s",
				gck_option_conf_path());
	if (gck_conf_allows(&step.conf, step.options.store, err))
		return -1;
	if (gck_standins_check_access(step.conf.agent, X_OK, "AgentPath", gck_option_conf_path(),
				      err))
		return -1;
	if (gck_standins_check_access(step.conf.preload, R_OK, "PreloadPath",
				      gck_option_conf_path(), err))
		return -1;
	return choose_standins(err);
}

static int make_agent(spank_t spank, struct gck_error *err)
{
	if (spank_get_item(spank, S_JOB_LOCAL_TASK_COUNT, &step.tasks) != ESPANK_SUCCESS)
		return gck_fail(err, EINVAL, "Slurm does not tell how many tasks the step has "
				"here");
	return gck_agent_prepare(&step.agent, err);
}

/* Start the agent, in the first task of the node. */
static int start_agent(spank_t spank, struct gck_error *err)
{
	char **envp = gck_environment_agent(spank, gck_option_conf_path(), step.agent.link,
					    &step.options, step.restarts, err);
	char **argv = gck_environment_arguments(spank, err);

	if (!envp || !argv)
		return -1;
	return gck_agent_start(&step.agent, step.conf.agent, argv, envp, err);
}

/* The first task of the node starts the agent and reports a failure; the others wait for it. So all
 * tasks of the node have the agent, or none has. */
static bool agent_is_up(spank_t spank)
{
	struct gck_error err = { 0 };
	int task = -1;
	bool up;

	spank_get_item(spank, S_TASK_ID, &task);
	if (task != 0)
		return gck_agent_is_up(&step.agent);
	up = start_agent(spank, &err) == 0;
	gck_agent_announce(&step.agent, up, step.tasks);
	if (!up)
		fail(&err);
	return up;
}

static int join_agent(spank_t spank)
{
	struct gck_error err = { 0 };

	if (!agent_is_up(spank))
		return -1;
	if (gck_environment_rank(spank, step.standins.preload, step.agent.link, step.restarts,
				 &err) ||
	    gck_environment_mpi(spank, step.options.mpi == GCK_MPI_OPENMPI,
				step.standins.mpi_left_out.text, &err) ||
	    gck_environment_cuda(spank, step.standins.cuda_engine, step.options.kernels, &err) ||
	    gck_input_relay(step.conf.agent, &err)) {
		fail(&err);
		return -1;
	}
	gck_environment_parent(spank, step.conf.agent);
	return 0;
}

/* ---- hooks ---------------------------------------------------------------------------------- */

int slurm_spank_init(spank_t spank, int ac, char *argv[])
{
	struct gck_error err = { 0 };
	spank_context_t context = spank_context();

	if (context != S_CTX_LOCAL && context != S_CTX_ALLOCATOR && context != S_CTX_REMOTE)
		return 0;
	if (gck_option_register(spank, ac, argv, &err)) {
		slurm_error("gpuckpt: %s", err.text);
		return -1;
	}
	if (context == S_CTX_REMOTE)
		return 0;
	if (gck_option_environment()) {
		slurm_error("gpuckpt: no memory for the environment");
		return -1;
	}
	if (context == S_CTX_ALLOCATOR)
		gck_environment_submit();
	else
		gck_environment_keep_output();
	return 0;
}

int slurm_spank_init_post_opt(spank_t spank, int ac, char *argv[])
{
	struct gck_error err = { 0 };

	(void)spank;
	(void)ac;
	(void)argv;
	if (spank_context() != S_CTX_LOCAL)
		return 0;
	gck_environment_kept_output();
	if (!gck_option_given())
		return 0;
	gck_option_read(&step.conf, &step.options, NULL); /* a failure was already reported */
	if (step.options.mpi != GCK_MPI_NONE && gck_environment_launch(&err))
		slurm_spank_log("gpuckpt: %s", err.text);
	return 0;
}

/* Once a job, in its first step. */
static void say_output_is_emptied(spank_t spank)
{
	uint32_t id;

	if (gck_option_given() && !step.options.quiet &&
	    spank_get_item(spank, S_JOB_STEPID, &id) == ESPANK_SUCCESS && id == 0 &&
	    gck_environment_output_is_emptied())
		gck_launcher_tell("gpuckpt: if this job is requeued, Slurm empties its output "
				  "file: submit it with sbatch --open-mode=append");
}

/* A launcher's step is left alone. With require=yes it does not start. Nor does one whose program
 * is --gpu-ckpt's text: srun takes only what follows "=". */
int slurm_spank_local_user_init(spank_t spank, int ac, char *argv[])
{
	const char *program = gck_option_given() ? program_of(spank) : NULL;
	char text[PATH_MAX + 128];

	(void)ac;
	(void)argv;
	if (program && gck_option_misplaced(program)) {
		slurm_error("gpuckpt: %s is taken for the program: write --gpu-ckpt=%s, without a "
			    "blank", program, program);
		return -1;
	}
	if (!is_launcher(program)) {
		say_output_is_emptied(spank);
		return 0;
	}
	snprintf(text, sizeof text, "gpuckpt: ranks that %.*s starts are not checkpointed: start "
		 "them with srun --mpi=pmix", PATH_MAX, program);
	gck_launcher_tell(text);
	return step.options.require ? -1 : 0;
}

int slurm_spank_user_init(spank_t spank, int ac, char *argv[])
{
	struct gck_error err = { 0 };

	(void)ac;
	(void)argv;
	if (!gck_option_given() || !is_regular_step(spank) || is_launcher(program_of(spank)))
		return 0;
	step.on = true;
	step.restarts = gck_environment_restarts(spank);
	gck_clock_measure(&step.clock);
	if (configure(spank, &err) || share(&err) || make_agent(spank, &err))
		fail(&err);
	return 0;
}

int slurm_spank_task_init_privileged(spank_t spank, int ac, char *argv[])
{
	struct gck_error err = { 0 };
	int task = -1;

	(void)ac;
	(void)argv;
	spank_get_item(spank, S_TASK_ID, &task);
	if (step.on && !step.failed && gck_clock_enter(&step.clock, &err) && task == 0)
		slurm_info("gpuckpt: %s", err.text);
	return 0;
}

int slurm_spank_task_post_fork(spank_t spank, int ac, char *argv[])
{
	struct gck_error err = { 0 };
	uint32_t rank;
	pid_t pid;
	int rc;

	(void)ac;
	(void)argv;
	if (!step.on || step.failed)
		return 0;
	gck_agent_forked(&step.agent);
	if (spank_get_item(spank, S_TASK_GLOBAL_ID, &rank) != ESPANK_SUCCESS ||
	    spank_get_item(spank, S_TASK_PID, &pid) != ESPANK_SUCCESS)
		rc = gck_fail(&err, EINVAL, "Slurm does not tell a task's pid");
	else
		rc = gck_agent_tell(&step.agent, GCK_CONTROL_TASK, rank, pid, 0, &err);
	if (rc)
		fail(&err);
	return 0;
}

int slurm_spank_task_init(spank_t spank, int ac, char *argv[])
{
	(void)ac;
	(void)argv;
	if (!step.on)
		return 0;
	gck_task_close_listeners();
	if ((step.failed || *step.called_off || join_agent(spank)) && step.must)
		_exit(1);
	return 0;
}

int slurm_spank_task_exit(spank_t spank, int ac, char *argv[])
{
	struct gck_error err = { 0 };
	uint32_t rank = 0;
	pid_t pid = 0;
	int status = 0;

	(void)ac;
	(void)argv;
	if (!step.on || step.agent.control < 0)
		return 0;
	spank_get_item(spank, S_TASK_GLOBAL_ID, &rank);
	spank_get_item(spank, S_TASK_PID, &pid);
	spank_get_item(spank, S_TASK_EXIT_STATUS, &status);
	if (gck_agent_tell(&step.agent, GCK_CONTROL_EXIT, rank, pid, status, &err))
		slurm_verbose("gpuckpt: %s", err.text);
	if (++step.exited == step.tasks)
		gck_agent_finish(&step.agent, FINISH_MS);
	return 0;
}

int slurm_spank_exit(spank_t spank, int ac, char *argv[])
{
	(void)spank;
	(void)ac;
	(void)argv;
	gck_agent_finish(&step.agent, 0);
	return 0;
}
