/* SPDX-License-Identifier: Apache-2.0
 * System V semaphores, message queues and shared memory. They belong to the node, and no process
 * has a list of those that it uses: found are those that the rank made or used last. Attached
 * shared memory is found with the mappings. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sem.h>
#include <time.h>
#include <unistd.h>

#include "shim/process/ipc/ipc.h"
#include "shim/process/proc/procfs.h"

#define CLOCK_SLACK 2 /* seconds */

/* CLOCK_REALTIME of the process's start, in seconds. Older objects name another process by this
 * PID. */
static int started(const struct gck_scan *s, int64_t *seconds)
{
	uint64_t v[GCK_STAT_FIELDS];
	struct timespec boot;
	char state;

	if (gck_proc_stat(s->t->proc, &state, v, s->err))
		return -1;
	clock_gettime(CLOCK_BOOTTIME, &boot);
	*seconds = time(NULL) - (boot.tv_sec - (int64_t)v[22] / sysconf(_SC_CLK_TCK)) - CLOCK_SLACK;
	return 0;
}

static bool used_semaphores(int id, int n, pid_t pid)
{
	for (int i = 0; i < n; i++)
		if (semctl(id, i, GETPID) == pid)
			return true;
	return false;
}

/* One line of a file in /proc/sysvipc. Times are of the last use or change. */
static bool of_semaphores(const char *line, pid_t pid, int64_t since, int *id)
{
	long long used, changed;
	int n;

	return sscanf(line, "%*d %d %*o %d %*u %*u %*u %*u %lld %lld", id, &n, &used,
		      &changed) == 4 &&
	       (used >= since || changed >= since) && used_semaphores(*id, n, pid);
}

static bool of_queue(const char *line, pid_t pid, int64_t since, int *id)
{
	long long sent, received;
	int sender, receiver;

	return sscanf(line, "%*d %d %*o %*u %*u %d %d %*u %*u %*u %*u %lld %lld", id, &sender,
		      &receiver, &sent, &received) == 5 &&
	       ((sender == pid && sent >= since) || (receiver == pid && received >= since));
}

static bool of_memory(const char *line, pid_t pid, int64_t since, int *id)
{
	long long changed;
	int maker;

	return sscanf(line, "%*d %d %*o %*u %d %*d %*u %*u %*u %*u %*u %*u %*u %lld", id, &maker,
		      &changed) == 3 && maker == pid && changed >= since;
}

int gck_scan_sysv(struct gck_scan *s)
{
	static const struct {
		const char *file, *what, *remedy;
		bool (*is_of)(const char *line, pid_t pid, int64_t since, int *id);
	} kinds[] = {
		{"/proc/sysvipc/sem", "System V semaphores", "use POSIX semaphores", of_semaphores},
		{"/proc/sysvipc/msg", "a System V message queue", "use pipes", of_queue},
		{"/proc/sysvipc/shm", "System V shared memory", "use POSIX shared memory",
		 of_memory},
	};
	int64_t since;
	int id;

	if (started(s, &since))
		return -1;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		FILE *f = fopen(kinds[i].file, "re");
		char line[300];

		while (f && fgets(line, sizeof(line), f))
			if (kinds[i].is_of(line, s->t->pid, since, &id))
				gck_obstacle_add(s->f, true, "process", kinds[i].remedy,
						 "it uses %s (ipcs: id %d)", kinds[i].what, id);
		if (f)
			fclose(f);
	}
	return 0;
}
