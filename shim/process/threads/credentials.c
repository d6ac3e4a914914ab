/* SPDX-License-Identifier: Apache-2.0
 * Credentials: user and group ids, capabilities, seccomp filters, tracing. A restored process has
 * those of the new step's task, in all threads alike. Those that a rank has changed are refused. */
#include "config.h"

#include <errno.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shim/cuda/base/state.h"
#include "shim/process/proc/procfs.h"
#include "shim/process/threads/threads.h"

void gck_check_credentials(struct gck_scan *s, const char *status)
{
	const char *uid = gck_proc_field(status, "Uid:");
	uint64_t tracer = gck_proc_number(status, "TracerPid:", 10, 0);
	unsigned real = 0, effective = 0, saved = 0;

	if (gck_proc_number(status, "Seccomp:", 10, 0))
		gck_obstacle_add(s->f, true, "process", "run it without",
				 "it has a seccomp filter");
	if (tracer && tracer != (uint64_t)getpid())
		gck_obstacle_add(s->f, true, "process", "end the debugger",
				 "it is traced by process %llu", (unsigned long long)tracer);
	if (uid && (sscanf(uid, "%u %u %u", &real, &effective, &saved) != 3 ||
		    real != effective || real != saved))
		gck_obstacle_add(s->f, true, "process", "run it without a set-user-id program",
			 "its user ids differ: %u %u %u", real, effective, saved);
	if (real && gck_proc_number(status, "CapPrm:", 16, 0))
		gck_obstacle_add(s->f, true, "process", "run it without", "it has capabilities");
}

/* Lines of /proc/PID/status. The first CREDENTIALS of the shim's helper are those that the process
 * had at its start. */
static const char *const lines[] = {
	"Uid:", "Gid:", "Groups:", "CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:",
	"NoNewPrivs:", "Seccomp:", "Speculation_Store_Bypass:", "SpeculationIndirectBranch:",
};
#define CREDENTIALS 8
#define NLINES (sizeof(lines) / sizeof(lines[0]))

/* The first of n lines that two threads differ in, or NULL. */
static const char *difference(const char *a, const char *b, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const char *x = gck_proc_field(a, lines[i]), *y = gck_proc_field(b, lines[i]);

		if (x && y && (strcspn(x, "\n") != strcspn(y, "\n") ||
			       strncmp(x, y, strcspn(x, "\n"))))
			return lines[i];
	}
	return NULL;
}

static char *status_of(const struct gck_scan *s, int tid)
{
	char file[48];

	snprintf(file, sizeof(file), "task/%d/status", tid);
	return gck_proc_read(s->t->proc, file, NULL, NULL);
}

static bool is_of_vault(const char *status)
{
	static const char name[] = GCK_CUDA_VAULT_THREAD "\n";
	const char *is = status ? gck_proc_field(status, "Name:") : NULL;

	return is && !strncmp(is, name, sizeof(name) - 1);
}

#define EXITING 4 /* the kernel's PF_EXITING */

/* Whether the thread has ended, or has given up its resources to end. */
static bool is_ending(const struct gck_scan *s, int tid)
{
	char file[48], *stat;
	const char *after;
	unsigned long flags = EXITING;

	snprintf(file, sizeof(file), "task/%d/stat", tid);
	stat = gck_proc_read(s->t->proc, file, NULL, NULL);
	after = stat ? strrchr(stat, ')') : NULL; /* the name may hold anything */
	if (after)
		(void)!sscanf(after + 1, " %*c %*d %*d %*d %*d %*d %lu", &flags);
	free(stat);
	return flags & EXITING;
}

static bool differs(const struct gck_scan *s, int tid, int kind)
{
	return syscall(SYS_kcmp, s->t->pid, tid, kind, 0, 0) > 0 && !is_ending(s, tid);
}

/* unshare(2) in a thread of the program's. */
static const char *unshared(const struct gck_scan *s, int tid, const char *status)
{
	if (!is_of_vault(status) && differs(s, tid, KCMP_FILES))
		return "table of descriptors";
	return differs(s, tid, KCMP_FS) ? "working directory" : NULL;
}

static void check_thread(struct gck_scan *s, int tid, const char *main_status)
{
	char *status = status_of(s, tid), object[32];
	const char *line = status ? difference(main_status, status, NLINES) : NULL;
	const char *own = unshared(s, tid, status);

	snprintf(object, sizeof(object), "thread %d", tid);
	if (line)
		gck_obstacle_add(s->f, true, object, "set that in the main thread first",
				 "it differs from the main thread in %.*s of /proc",
				 (int)strcspn(line, ":"), line);
	if (own)
		gck_obstacle_add(s->f, true, object, "run it without unshare",
				 "it has its own %s", own);
	free(status);
}

int gck_scan_credentials(struct gck_scan *s)
{
	char *status = gck_proc_read(s->t->proc, "status", NULL, s->err);
	int helper = s->t->shim->helper_tid, *tids;
	char *first = helper ? status_of(s, helper) : NULL;
	const char *line = status && first ? difference(status, first, CREDENTIALS) : NULL;
	size_t n;

	if (line)
		gck_obstacle_add(s->f, true, "process", "run it with the rights of its user",
				 "it has changed its rights since its start: %.*s of /proc",
				 (int)strcspn(line, ":"), line);
	free(first);
	if (!status || gck_proc_list(s->t->proc, "task", &tids, &n, s->err)) {
		free(status);
		return -1;
	}
	for (size_t i = 0; i < n; i++)
		if (tids[i] != s->t->pid && tids[i] != helper)
			check_thread(s, tids[i], status);
	free(tids);
	free(status);
	return 0;
}
