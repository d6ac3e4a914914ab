/* SPDX-License-Identifier: Apache-2.0
 * The keys of --gpu-ckpt[=key=value,...], parsed the same way by srun's plugin, gpuckpt.conf (as
 * defaults) and the agent. Plain libc: this is linked into the SPANK plugin. */
#ifndef GCK_OPTIONS_H
#define GCK_OPTIONS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"

enum gck_compress { GCK_COMPRESS_NONE, GCK_COMPRESS_LZ4, GCK_COMPRESS_ZSTD };
enum gck_mpi { GCK_MPI_AUTO, GCK_MPI_OPENMPI, GCK_MPI_NONE };
enum gck_gpu { GCK_GPU_AUTO, GCK_GPU_NVIDIA, GCK_GPU_NONE };
enum gck_restart { GCK_RESTART_AUTO, GCK_RESTART_NEVER, GCK_RESTART_FROM };

struct gck_options {
	unsigned interval_s;     /* between checkpoints, seconds; 0 is "off"; "auto" is 1800 */
	char store[PATH_MAX];    /* "file:/path" or "s3://bucket/prefix"; "" until one is given */
	char stage[PATH_MAX];    /* "": none; an absolute path: of a disk of the node */
	unsigned keep;           /* commits kept, 1 or more */
	enum gck_compress compress;
	int compress_level;      /* 0: the library's default */
	bool encrypt;            /* images, with a key of the job's */
	unsigned timeout_ms;     /* how long running ranks and stalled writes are waited for */
	unsigned hold_ms;        /* how long a create may hold a rank */
	unsigned restart_wait_s; /* how long a restart waits for the coordinator */
	enum gck_mpi mpi;
	enum gck_gpu cuda;
	uint64_t files;          /* bytes of file contents that an image may carry */
	enum gck_restart restart;
	uint32_t restart_job;    /* GCK_RESTART_FROM: 0 is the job's own */
	uint32_t restart_seq;
	bool skip_done;
	bool require;
	unsigned cpus;           /* cores an agent's writers may use on a node, 1 or more */
};

/* The built-in defaults. */
void gck_options_init(struct gck_options *o);

/* The name of the i-th key, or NULL after the last. */
const char *gck_options_key(size_t i);

/* Set one key. -1 with the key named and o unchanged if the key is unknown or the value bad; a
 * value that would do nothing in this version is bad too. */
int gck_options_set(struct gck_options *o, const char *key, const char *value,
		    struct gck_error *err);

/* Set every key of "key=value,key=value" ("" and NULL set none). All or nothing. */
int gck_options_parse(struct gck_options *o, const char *text, struct gck_error *err);

/* The text that gck_options_parse reads back into the same options. -1 if size is too small. */
int gck_options_format(const struct gck_options *o, char *text, size_t size,
		       struct gck_error *err);

/* "30m", "90" (seconds), "1h30m", "500ms" to milliseconds; "1G", "64M", "4096" to bytes; a decimal
 * number from min to max. The text of a failure says what is allowed. */
int gck_parse_time_ms(const char *text, uint64_t *ms, struct gck_error *err);
int gck_parse_size(const char *text, uint64_t *bytes, struct gck_error *err);
int gck_parse_number(const char *text, uint64_t min, uint64_t max, uint64_t *number,
		     struct gck_error *err);

/* ---- the table of keys (option_keys.c) ------------------------------------------------------ */

struct gck_option_key {
	const char *name;
	/* Set the value. On failure err says what is allowed; the caller names the key. */
	int (*read)(struct gck_options *o, const char *value, struct gck_error *err);
	/* The value as read takes it back, or "" to leave the key out. */
	void (*write)(const struct gck_options *o, char *value, size_t size);
};

extern const struct gck_option_key gck_option_keys[];
extern const size_t gck_option_nkeys;

#endif
