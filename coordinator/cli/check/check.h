/* SPDX-License-Identifier: Apache-2.0
 * What `gpuckpt check` looks at, on this node and as this user. Nothing is changed. */
#ifndef CHECK_H
#define CHECK_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "common/base/conf.h"

struct checks {
	const struct gck_conf *conf;
	const char *conf_path;
	const struct gck_error *conf_error; /* code 0: gpuckpt.conf is valid */
	const json_t *status;               /* of gpuckptd; NULL: it gave none */
	const struct gck_error *status_error;
	double clock_s;                     /* our clock minus gpuckptd's, at the answer */
	char slurm[32768];                  /* set by check_slurm: the configuration; "": none */
	const char *name;                   /* of the check that runs */
	char node[256];
	json_t *findings;
};

/* Run all checks. Returns a new array [{"node", "check", "state": "ok"|"warning"|"error", "text",
 * "remedy"}]; an entry that is ok has no remedy. The caller sets the members up to clock_s. */
json_t *checks_run(struct checks *c);

/* ---- findings.c ----------------------------------------------------------------------------- */

/* Report a finding of the check that runs. */
void check_ok(struct checks *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void check_warn(struct checks *c, const char *remedy, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void check_error(struct checks *c, const char *remedy, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* ---- program.c ------------------------------------------------------------------------------ */

/* Start a program with these arguments, and setting (NAME=VALUE; NULL: none) in its environment.
 * Returns a descriptor to read what it prints to both outputs from, or -1; the caller closes it.
 * The program ends with this process. */
int program_start(const char *const argv[], const char *setting, pid_t *pid);

/* Wait for its end. Returns its exit status; -1: it could not be executed, or was killed. */
int program_end(pid_t pid);

/* Run a program for at most PROGRAM_S seconds; text gets what it prints, as far as there is room.
 * Returns as program_end. */
#define PROGRAM_S 20
int program_run(const char *const argv[], const char *setting, char *text, size_t size);

/* ---- node.c --------------------------------------------------------------------------------- */

void check_ptrace(struct checks *c);    /* kernel.yama.ptrace_scope */
void check_kernel(struct checks *c);    /* the system calls that a checkpoint needs */
void check_libraries(struct checks *c); /* the agent, and what is preloaded into ranks */
void check_driver(struct checks *c);    /* NVIDIA's, if this node has it */
void check_mpi(struct checks *c);       /* the MPI library in PATH */

/* ---- site.c --------------------------------------------------------------------------------- */

void check_configuration(struct checks *c);
void check_munge(struct checks *c);
void check_coordinator(struct checks *c);
void check_clock(struct checks *c);
void check_store(struct checks *c);
void check_s3(struct checks *c); /* the object store answers this node */

/* A directory that users write to; command makes it. */
void check_directory(struct checks *c, const char *dir, const char *command);

/* ---- limits.c ------------------------------------------------------------------------------- */

void check_limits(struct checks *c); /* of processes */
void check_stage(struct checks *c);  /* the directory of DefaultStage */
void check_log(struct checks *c);    /* the directory of AgentLog */

/* ---- slurm.c -------------------------------------------------------------------------------- */

void check_slurm(struct checks *c);  /* slurmctld answers; its timeouts and defaults */
void check_plugin(struct checks *c); /* srun has --gpu-ckpt; if not, why */
void check_pmix(struct checks *c);


#endif
