/* SPDX-License-Identifier: Apache-2.0
 * gpuckpt.conf: Key=Value lines like slurm.conf, '#' starts a comment, keys in any case. An unknown
 * key or a bad value is an error with file and line. Plain libc (read by the plugin too). */
#ifndef GCK_CONF_H
#define GCK_CONF_H

#include <sys/types.h>

#include "common/base/options.h"
#include "common/base/s3_url.h"

#define GCK_S3_ENDPOINT_MAX 256

struct gck_conf {
	char cluster[256];          /* ClusterName; "": gpuckptd takes it from slurm.conf */
	char host[256];             /* CoordinatorHost: agents and the CLI connect to it */
	unsigned port;              /* CoordinatorPort, 6821 */
	char listen[256];           /* ListenAddress; "": any */
	char user[64];              /* CoordinatorUser: agents obey this user only; "root" */
	char state_dir[PATH_MAX];   /* StateDir: journal, lock; /var/lib/gpuckpt */
	char munge_socket[PATH_MAX]; /* MungeSocket; "": munge's default */
	char agent[PATH_MAX];       /* AgentPath */
	char preload[PATH_MAX];     /* PreloadPath */
	char mpi[PATH_MAX];         /* MpiPath: the stand-in for Open MPI's library */
	char cuda[PATH_MAX];        /* CudaPath: the stand-in for the CUDA driver's library */
	char agent_log[PATH_MAX];   /* AgentLog: a path with %j %s %n %u; "": none */
	char cut_off[8];            /* CutOff: ranks of a cut-off node "stop" or "run" */
	unsigned poll_s;            /* NodePoll: seconds between two polls of Slurm; 5 */
	unsigned restart_failures;  /* RestartFailures: then the commit before is used; 3 */
	/* RestartFailureTime: a step that ends within so many seconds of a restart failed; 60 */
	unsigned restart_failure_s;
	unsigned keep_age_s;        /* KeepAge: images older than this are removed; 0: never */
	uint64_t quota;             /* Quota: bytes of a user's images; 0: no limit */
	unsigned max_connections;   /* MaxConnections, 65536 */
	unsigned user_connections;  /* MaxUserConnections, 16384; a user's agents count */
	unsigned new_connections;   /* MaxNewConnections: of one address, user unknown; 256 */
	unsigned user_rate;         /* MaxUserRate: messages per second of one user, 200 */
	/* EncryptionKeyFile, read by gpuckptd only; "": its systemd credential */
	char encryption_key_file[PATH_MAX];
	/* S3Store: store=s3://... must name this store or one below it; "": the site has none */
	char s3_store[GCK_S3_URL_MAX];
	char s3_endpoint[GCK_S3_ENDPOINT_MAX]; /* https://host[:port]; "": AWS's in the region */
	char s3_region[64];         /* S3Region, us-east-1 */
	char s3_addressing[8];      /* S3Addressing: "path" or "virtual" */
	char s3_key_file[PATH_MAX]; /* S3KeyFile, read by gpuckptd only; "": its credential */
	char s3_ca_file[PATH_MAX];  /* S3CAFile; "": the system's certificates */
	unsigned s3_timeout_s;      /* S3Timeout: seconds without a byte before a retry; 30 */
	struct gck_options defaults; /* Default<Key>=..., e.g. DefaultStore=file:/scratch/gpuckpt */
};

void gck_conf_init(struct gck_conf *c);

/* Read a file; keys that it does not set have their defaults. c is unchanged on failure. */
GCK_MUST_CHECK int gck_conf_load(struct gck_conf *c, const char *path, struct gck_error *err);

/* Read a file as far as it is valid, and call problem for each line that is not. */
typedef void gck_conf_problem_fn(void *arg, const struct gck_error *problem);
void gck_conf_test(struct gck_conf *c, const char *path, gck_conf_problem_fn *problem, void *arg);

/* Write the path of a library of this file as LD_PRELOAD needs it. Programs that are not glibc's
 * must not load it: musl's loader ends them, because the library refers to functions of glibc. So
 * the path has $LIB, which only glibc's loader replaces; others find no such file, and ignore it.
 * `make install` puts links where $LIB leads (shim/Makemodule.am); without them the path is
 * unchanged. */
void gck_conf_preload(const char *path, char *text, size_t size);

/* The URL of the object store's server: S3Endpoint, or AWS's in the region. */
void gck_conf_s3_endpoint(const struct gck_conf *c, char url[GCK_S3_ENDPOINT_MAX]);

/* Check that the site allows this store=: an s3:// URL must be at or below S3Store. ENOTSUP: the
 * site has no object store; EACCES: it is another one. */
GCK_MUST_CHECK int gck_conf_allows(const struct gck_conf *c, const char *store,
				   struct gck_error *err);

#endif
