/* SPDX-License-Identifier: Apache-2.0
 * The option's text. Slurm transports it: srun passes it to slurmstepd; sbatch and salloc put it
 * into the environment, and each srun in the job uses it as its own option. The callback runs more
 * than once in a process; the last text counts. */
#include "config.h"

#include "spank/option.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Where srun, sbatch and salloc look for the option in their environment, and where the last two
 * put it for each srun of the job. */
#define STEPD_TRANSPORT "_SLURM_SPANK_OPTION_gpuckpt_gpu_ckpt" /* slurmstepd looks here */
#define TRANSPORT "SLURM_SPANK_" STEPD_TRANSPORT

static char conf_path[PATH_MAX] = GCK_CONF_PATH;
static char text[PATH_MAX + 1024];
static bool given;
static const char *variable, *value; /* that of this command, if it is set, and its text */

/* An option without "=..." is NULL in srun, and "(null)" or "" from the environment. */
static const char *argument(const char *arg)
{
	return !arg || strcmp(arg, "(null)") == 0 ? "" : arg;
}

bool gck_option_given(void)
{
	return given;
}

bool gck_option_misplaced(const char *program)
{
	struct gck_options o;

	gck_options_init(&o);
	return given && !*text && strchr(program, '=') && access(program, F_OK) &&
	       gck_options_parse(&o, program, NULL) == 0;
}

const char *gck_option_conf_path(void)
{
	return conf_path;
}

/* Without gpuckpt.conf the text is still parsed: its `require` counts. */
int gck_option_read(struct gck_conf *conf, struct gck_options *o, struct gck_error *err)
{
	gck_options_init(o);
	gck_conf_init(conf);
	if (gck_conf_load(conf, conf_path, err)) {
		(void)!gck_options_parse(o, text, NULL); /* the first failure is the one reported */
		return -1;
	}
	*o = conf->defaults;
	return gck_options_parse(o, text, err);
}

/* In srun, sbatch and salloc: refuse invalid options before anything is launched. A missing or
 * invalid gpuckpt.conf is not the user's fault; the nodes report it. */
static int check(struct gck_error *err)
{
	static struct gck_conf conf;
	struct gck_error site = { 0 };
	struct gck_options o;

	gck_options_init(&o);
	if (gck_options_parse(&o, text, err))
		return -1;
	if (gck_option_read(&conf, &o, &site)) {
		slurm_spank_log("gpuckpt: %s; --gpu-ckpt is checked by the nodes alone", site.text);
		return 0;
	}
	if (!*o.store)
		return gck_fail(err, EINVAL, "store: where to keep checkpoints is not known; give "
				"store=file:/path, or have DefaultStore set in %s", conf_path);
	return gck_conf_allows(&conf, o.store, err);
}

static int take(int val, const char *arg, int remote)
{
	struct gck_error err = { 0 };

	(void)val;
	arg = argument(arg);
	given = true;
	if ((size_t)snprintf(text, sizeof text, "%s", arg) >= sizeof text)
		gck_fail(&err, ENAMETOOLONG, "its %zu bytes are too many", strlen(arg));
	else if (remote || check(&err) == 0)
		return 0;
	slurm_error("gpuckpt: %s: %s", value && strcmp(arg, value) == 0 ? variable :
		    "--gpu-ckpt", err.text);
	return -1;
}

/* ---- the environment ------------------------------------------------------------------------ */

static const char *variable_of(spank_context_t context)
{
	if (context == S_CTX_LOCAL)
		return "SLURM_GPU_CKPT";
	return strcmp(program_invocation_short_name, "salloc") ? "SBATCH_GPU_CKPT" :
								 "SALLOC_GPU_CKPT";
}

/* Slurm reads its own variable next: it calls the callback as for an option of the command line,
 * which replaces this one. */
int gck_option_environment(void)
{
	variable = variable_of(spank_context());
	value = getenv(variable);
	if (!value)
		return 0;
	if (strcmp(value, "no") == 0) {
		value = NULL;
		return unsetenv(TRANSPORT) || unsetenv(STEPD_TRANSPORT) ? -1 : 0;
	}
	if (strcmp(value, "yes") == 0)
		value = "";
	return setenv(TRANSPORT, value, 1);
}

bool gck_option_inherited(void)
{
	return getenv(TRANSPORT);
}

/* ---- registration --------------------------------------------------------------------------- */

static int read_arguments(int ac, char *argv[], struct gck_error *err)
{
	for (int i = 0; i < ac; i++) {
		if (strncmp(argv[i], "conf=/", 6) != 0 || strlen(argv[i] + 5) >= sizeof conf_path)
			return gck_fail(err, EINVAL, "plugstack.conf: %.100s: the only argument is "
					"conf=/path/to/gpuckpt.conf", argv[i]);
		strcpy(conf_path, argv[i] + 5);
	}
	return 0;
}

int gck_option_register(spank_t spank, int ac, char *argv[], struct gck_error *err)
{
	static char name[] = "gpu-ckpt", info[] = "[key=value,...]";
	static char usage[] = "checkpoint the step while it runs, and restart it when its job is "
			      "requeued; keys: spank_gpuckpt(8)";
	struct spank_option option = {
		.name = name, .arginfo = info, .usage = usage, .has_arg = 2, .cb = take,
	};
	spank_err_t e;

	if (read_arguments(ac, argv, err))
		return -1;
	e = spank_option_register(spank, &option);
	if (e != ESPANK_SUCCESS)
		return gck_fail(err, EINVAL, "--gpu-ckpt could not be registered: %s",
				spank_strerror(e));
	return 0;
}
