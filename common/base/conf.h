/* SPDX-License-Identifier: Apache-2.0
 * gpuckpt.conf: Key=Value lines like slurm.conf, '#' starts a comment, keys in any case. An unknown
 * key or a bad value is an error with file and line. Plain libc (read by the plugin too). */
#ifndef GCK_CONF_H
#define GCK_CONF_H

#include <sys/types.h>

#include "common/base/options.h"
#include "common/base/s3_url.h"

struct gck_conf {
	char cluster[256];          /* ClusterName: "" is "ask slurm.conf" (daemon) */
	char host[256];             /* CoordinatorHost, where agents and the CLI connect */
	unsigned port;              /* CoordinatorPort, 6821 */
	char listen[256];           /* ListenAddress, "" is any */
	char user[64];              /* CoordinatorUser: whose word agents take; "root" */
	char state_dir[PATH_MAX];   /* StateDir: journal, lock; /var/lib/gpuckpt */
	char munge_socket[PATH_MAX]; /* MungeSocket, "" is munge's default */
	char agent[PATH_MAX];       /* AgentPath */
	char preload[PATH_MAX];     /* PreloadPath */
	char mpi[PATH_MAX];         /* MpiPath: the stand-in for Open MPI's library */
	char cuda[PATH_MAX];        /* CudaPath: the stand-in for the CUDA driver's */
	char agent_log[PATH_MAX];   /* AgentLog: "" is none; a path with %j %s %n %u */
	char cut_off[8];            /* CutOff: what ranks do on a node that is, "stop" or "run" */
	unsigned poll_s;            /* NodePoll: seconds between looks at node states; 5 */
	unsigned keep_age_s;        /* KeepAge: older images are removed; 0: they are not */
	uint64_t quota;             /* Quota: bytes of a user's images; 0: any */
	unsigned max_connections;   /* MaxConnections, 65536 */
	unsigned user_connections;  /* MaxUserConnections, 16384: the agents of a user count */
	unsigned user_rate;         /* MaxUserRate: messages a second from one user, 200 */
	char encryption_key_file[PATH_MAX]; /* EncryptionKeyFile: gpuckptd's alone; "" is its credential */
	char s3_store[GCK_S3_URL_MAX]; /* S3Store: what store=s3://... must be or lie below; "" none */
	char s3_endpoint[256];      /* S3Endpoint: https://host[:port]; "" is AWS's of the region */
	char s3_region[64];         /* S3Region, us-east-1 */
	char s3_addressing[8];      /* S3Addressing: "path" or "virtual" */
	char s3_key_file[PATH_MAX]; /* S3KeyFile: gpuckptd's alone; "" is its systemd credential */
	char s3_ca_file[PATH_MAX];  /* S3CAFile: "" is the system's */
	unsigned s3_timeout_s;      /* S3Timeout: a request without a byte for so long is given up; 30 */
	struct gck_options defaults; /* Default<Key>=..., e.g. DefaultStore=file:/scratch/gpuckpt */
};

void gck_conf_init(struct gck_conf *c);

/* Read a file over the defaults. c is unchanged on failure. */
int gck_conf_load(struct gck_conf *c, const char *path, struct gck_error *err);

/* Is this store= one that the site has? s3: only at or below S3Store. */
int gck_conf_allows(const struct gck_conf *c, const char *store, struct gck_error *err);

#endif
