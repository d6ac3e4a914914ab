/* SPDX-License-Identifier: Apache-2.0
 * The step that this agent serves: its environment and configuration. */
#include "coordinator/agent/base/step.h"

#include <ctype.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/base/control.h"
#include "coordinator/agent/base/packet.h"

static int number(const char *name, uint32_t *out, struct gck_error *err)
{
	const char *text = getenv(name);
	unsigned long v;
	char *end;

	if (!text)
		return gck_fail(err, EINVAL, "%s is not set: the agent is started by the SPANK "
				"plugin, not by hand", name);
	errno = 0;
	v = strtoul(text, &end, 10);
	if (errno || end == text || *end || v > UINT32_MAX)
		return gck_fail(err, EINVAL, "%s=%s is not a number", name, text);
	*out = (uint32_t)v;
	return 0;
}

static int numbers(struct step *s, struct gck_error *err)
{
	const struct { const char *name; uint32_t *out; } all[] = {
		{ "GPUCKPT_JOB", &s->job }, { "GPUCKPT_STEP", &s->step },
		{ "GPUCKPT_RESTARTS", &s->restarts }, { "GPUCKPT_NODEID", &s->node_id },
		{ "GPUCKPT_NNODES", &s->nnodes }, { "GPUCKPT_NTASKS", &s->ntasks },
		{ "GPUCKPT_LOCAL_NTASKS", &s->local_ntasks },
	};

	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (number(all[i].name, all[i].out, err) < 0)
			return -1;
	return 0;
}

static int copy_text(char *to, size_t size, const char *from, const char *what,
		     struct gck_error *err)
{
	if (strlen(from) >= size)
		return gck_fail(err, ENAMETOOLONG, "%s is too long (%zu bytes)", what,
				strlen(from));
	strcpy(to, from);
	return 0;
}

static int listener_name(char name[108], struct gck_error *err)
{
	struct sockaddr_un a;
	socklen_t len = sizeof a;
	size_t n;

	if (getsockname(GCK_AGENT_LISTEN_FD, (struct sockaddr *)&a, &len) < 0)
		return gck_fail(err, errno, "fd %d is not the listening socket: %s",
				GCK_AGENT_LISTEN_FD, strerror(errno));
	n = len - offsetof(struct sockaddr_un, sun_path);
	if (a.sun_family != AF_UNIX || n < 2 || a.sun_path[0])
		return gck_fail(err, EINVAL, "fd %d is not a socket with an abstract name",
				GCK_AGENT_LISTEN_FD);
	memcpy(name, a.sun_path + 1, n - 1);
	name[n - 1] = '\0';
	return 0;
}

/* Uses the slurm.conf beside gpuckpt.conf, where Slurm's own commands of this cluster look. */
static void slurm_conf(const char *conf_path)
{
	const char *slash = strrchr(conf_path, '/');
	char path[PATH_MAX];

	if (getenv("SLURM_CONF") || !slash)
		return;
	snprintf(path, sizeof path, "%.*s/slurm.conf", (int)(slash - conf_path), conf_path);
	if (access(path, R_OK) == 0)
		setenv("SLURM_CONF", path, 1);
}

/* ClusterName of slurm.conf, in lower case as Slurm has it. */
static int slurm_cluster(char *name, size_t size)
{
	const char *path = getenv("SLURM_CONF");
	char line[1024], value[256] = "";
	FILE *f = fopen(path ? path : "/etc/slurm/slurm.conf", "re");

	if (!f)
		return -1;
	while (!*value && fgets(line, sizeof line, f)) {
		char *p = line + strspn(line, " \t");

		if (!strncasecmp(p, "ClusterName", 11))
			sscanf(p + 11, " = %255[^ \t\r\n#]", value);
	}
	fclose(f);
	for (char *p = value; *p; p++)
		*p = (char)tolower((unsigned char)*p);
	return *value && (size_t)snprintf(name, size, "%s", value) < size ? 0 : -1;
}

static int cluster_name(struct step *s, struct gck_error *err)
{
	const char *env = getenv("GPUCKPT_CLUSTER");

	if (*s->conf.cluster)
		return copy_text(s->cluster, sizeof s->cluster, s->conf.cluster, "ClusterName",
				 err);
	if (env && *env)
		return copy_text(s->cluster, sizeof s->cluster, env, "GPUCKPT_CLUSTER", err);
	if (slurm_cluster(s->cluster, sizeof s->cluster) == 0)
		return 0;
	return gck_fail(err, ENOENT, "the name of the cluster is not known: set ClusterName in "
			"gpuckpt.conf");
}

static int configuration(struct step *s, struct gck_error *err)
{
	const char *path = getenv("GPUCKPT_CONF");
	const char *options = getenv("GPUCKPT_OPTIONS");

	if (!path)
		path = GCK_CONF_PATH;
	gck_conf_init(&s->conf);
	if (gck_conf_load(&s->conf, path, err) < 0)
		return -1;
	slurm_conf(path);
	s->options = s->conf.defaults;
	if (gck_options_parse(&s->options, options, err) < 0)
		return gck_fail_in(err, "GPUCKPT_OPTIONS");
	if (gck_options_format(&s->options, s->options_text, sizeof s->options_text, err) < 0)
		return -1;
	return cluster_name(s, err);
}

int step_load(struct step *s, int argc, char *argv[], struct gck_error *err)
{
	const char *node = getenv("GPUCKPT_NODE");
	const char *cwd = getenv("GPUCKPT_CWD"), *mark = getenv("GPUCKPT_MARK");

	memset(s, 0, sizeof *s);
	if (argc < 3 || strcmp(argv[1], "--"))
		return gck_fail(err, EINVAL, "usage: gpuckpt-agent -- PROGRAM [ARGUMENT...] (it is "
				"started by the SPANK plugin, not by hand)");
	s->argv = argv + 2;
	s->cwd = cwd ? cwd : "";
	s->mark = mark ? mark : "";
	s->supervisor = getpid();
	if (numbers(s, err) < 0 || listener_name(s->link_name, err) < 0 ||
	    copy_text(s->node, sizeof s->node, node ? node : "", "GPUCKPT_NODE", err) < 0)
		return -1;
	return configuration(s, err);
}

bool step_is_restart(const struct step *s)
{
	if (s->options.restart == GCK_RESTART_NEVER)
		return false;
	return s->restarts || s->options.restart == GCK_RESTART_FROM;
}

json_t *step_fingerprint(const struct step *s)
{
	json_t *args = json_array();

	for (char *const *a = s->argv + 1; *a; a++)
		json_array_append_new(args, packet_string(*a));
	return json_pack("{s:o, s:o, s:o, s:I, s:o}", "program", packet_string(s->argv[0]),
			 "args", args, "cwd", packet_string(s->cwd), "ntasks",
			 (json_int_t)s->ntasks, "mark", packet_string(s->mark));
}

static int expand(const struct step *s, char c, char *out, size_t size)
{
	switch (c) {
	case 'j': return snprintf(out, size, "%u", s->job);
	case 's': return snprintf(out, size, "%u", s->step);
	case 'n': return snprintf(out, size, "%s", s->node);
	case 'u': return snprintf(out, size, "%u", (unsigned)getuid());
	case '%': return snprintf(out, size, "%%");
	default: return -1;
	}
}

int step_log_path(const struct step *s, char *path, size_t size, struct gck_error *err)
{
	size_t used = 0;

	for (const char *p = s->conf.agent_log; *p; p++) {
		int n = 1;

		if (*p == '%')
			n = expand(s, *++p, path + used, size - used);
		else if (used < size)
			path[used] = *p;
		if (n < 0)
			return gck_fail(err, EINVAL, "AgentLog: %%%c is not one of %%j %%s %%n %%u",
					*p ? *p : ' ');
		used += (size_t)n;
		if (used >= size)
			return gck_fail(err, ENAMETOOLONG, "AgentLog is too long");
	}
	path[used] = '\0';
	return 0;
}

double step_progress_s(const struct step *s)
{
	double fair = s->nnodes / 200.;

	return fair < 0.5 ? 0.5 : fair > 10 ? 10 : fair;
}
