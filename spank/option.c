/* SPDX-License-Identifier: Apache-2.0
 * The option's text. Slurm transports it: srun passes it to slurmstepd; sbatch and salloc put it
 * into the environment, and each srun in the job uses it as its own option. The callback runs more
 * than once in a process; the last text counts. */
#include "spank/option.h"

#include <stdio.h>
#include <string.h>

static char conf_path[PATH_MAX] = GCK_CONF_PATH;
static char text[PATH_MAX + 1024];
static bool given;

/* An option without "=..." is NULL in srun, and "(null)" or "" from the environment. */
static const char *argument(const char *optarg)
{
	return !optarg || strcmp(optarg, "(null)") == 0 ? "" : optarg;
}

bool gck_option_given(void)
{
	return given;
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

static int take(int val, const char *optarg, int remote)
{
	struct gck_error err = { 0 };

	(void)val;
	optarg = argument(optarg);
	given = true;
	if ((size_t)snprintf(text, sizeof text, "%s", optarg) >= sizeof text) {
		slurm_error("gpuckpt: --gpu-ckpt: its %zu bytes are too many", strlen(optarg));
		return -1;
	}
	if (remote || check(&err) == 0)
		return 0;
	slurm_error("gpuckpt: --gpu-ckpt: %s", err.text);
	return -1;
}

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
