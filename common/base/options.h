/* SPDX-License-Identifier: Apache-2.0
 * The options of --gpu-ckpt[=key=value,...], parsed in the same way by the SPANK plugin, for
 * gpuckpt.conf (as defaults) and by the agent. Plain libc: the plugin links it. */
#ifndef GCK_OPTIONS_H
#define GCK_OPTIONS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"

enum gck_compress { GCK_COMPRESS_NONE, GCK_COMPRESS_LZ4, GCK_COMPRESS_ZSTD };
enum gck_mpi { GCK_MPI_AUTO, GCK_MPI_OPENMPI, GCK_MPI_NONE };
/* IMAGE, REPLAY and NVIDIA: the stand-in must be there. IMAGE: the driver keeps its state in
 * images. REPLAY: it is loaded anew at a restart. With AUTO and NVIDIA gpuckpt chooses. */
enum gck_gpu { GCK_GPU_AUTO, GCK_GPU_NVIDIA, GCK_GPU_NONE, GCK_GPU_IMAGE, GCK_GPU_REPLAY };
enum gck_restart { GCK_RESTART_AUTO, GCK_RESTART_NEVER, GCK_RESTART_FROM };

#define GCK_HOLD_AUTO_MS 5000 /* hold=auto: at least */

struct gck_options {
	unsigned interval_s;     /* seconds between checkpoints; 0: "off"; "auto" is 1800 */
	char store[PATH_MAX];    /* "file:/path" or "s3://bucket/prefix"; "": not set */
	char stage[PATH_MAX];    /* a directory on a disk of the node; "": none */
	unsigned keep;           /* commits kept, 1 or more */
	enum gck_compress compress;
	int compress_level;      /* 0: the library's default */
	bool encrypt;            /* encrypt images with a key of the job */
	unsigned timeout_ms;     /* limit of the wait for running ranks and stalled writes */
	unsigned hold_ms;        /* how long a create may hold ranks */
	bool hold_auto;          /* as long as that, or longer if ranks are known to need it */
	unsigned restart_wait_s; /* how long a restart waits for the coordinator */
	enum gck_mpi mpi;
	enum gck_gpu cuda;
	uint64_t files;          /* bytes of file contents that an image may carry */
	enum gck_restart restart;
	uint32_t restart_job;    /* of GCK_RESTART_FROM; 0: this job */
	uint32_t restart_seq;
	bool skip_done;
	bool require;
	unsigned cpus;           /* cores that an agent's writers may use, 1 or more */
	bool quiet;              /* no lines about checkpoints in the step's output */
	char kernels[1024];      /* that get points when their PTX is loaded: names with commas
				  * between them, or "auto"; "": none */
};

/* The built-in defaults. */
void gck_options_init(struct gck_options *o);

/* The name of the i-th key, or NULL after the last. */
const char *gck_options_key(size_t i);


/* Set one key. -1: the key is unknown, or its value is invalid or has no effect in this version;
 * err names the key and o is unchanged. */
GCK_MUST_CHECK int gck_options_set(struct gck_options *o, const char *key, const char *value,
		    struct gck_error *err);

/* Set all keys of "key=value,key=value" ("" and NULL: none). o is unchanged on failure. */
GCK_MUST_CHECK int gck_options_parse(struct gck_options *o, const char *text,
				     struct gck_error *err);

/* Format the text from which gck_options_parse makes equal options. -1: size is too small. */
GCK_MUST_CHECK int gck_options_format(const struct gck_options *o, char *text, size_t size,
				      struct gck_error *err);

/* Parse "30m", "90" (seconds), "1h30m" or "500ms" as milliseconds; "1G", "64M" or "4096" as bytes;
 * a decimal number from min to max. On failure err has what is allowed. */
GCK_MUST_CHECK int gck_parse_time_ms(const char *text, uint64_t *ms, struct gck_error *err);
GCK_MUST_CHECK int gck_parse_size(const char *text, uint64_t *bytes, struct gck_error *err);
GCK_MUST_CHECK int gck_parse_number(const char *text, uint64_t min, uint64_t max,
				    uint64_t *number, struct gck_error *err);

/* ---- the table of keys (option_keys.c) ------------------------------------------------------ */

struct gck_option_key {
	const char *name;
	/* Set the value. On failure err has what is allowed; the caller adds the key. */
	int (*read)(struct gck_options *o, const char *value, struct gck_error *err);
	/* Format the value for `read`; "" leaves the key out. */
	void (*write)(const struct gck_options *o, char *value, size_t size);
};

extern const struct gck_option_key gck_option_keys[];
extern const size_t gck_option_nkeys;

#endif
