/* SPDX-License-Identifier: Apache-2.0
 * A rank with much kernel state, for test_restore_state: `state_program GROUP`. It makes the states
 * of a group and describes each as text; then it makes $GPUCKPT_TEST_HURRY.ready, and waits until
 * $GPUCKPT_TEST_HURRY exists. It describes them again, and prints "NAME<tab>BEFORE<tab>AFTER" for
 * each. An empty text: this kernel does not have it. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#ifndef MAP_DROPPABLE
#define MAP_DROPPABLE 8
#endif
#ifndef SYS_mseal
#define SYS_mseal 462
#endif
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif

#define PAGE 4096ul
#define TEXT 300

struct state {
	const char *group, *name;
	bool (*make)(struct state *s);             /* false: this kernel does not have it */
	void (*describe)(struct state *s, char text[TEXT]);
	int argument;                              /* of make and describe */
	char *at;                                  /* a mapping that make has made */
	bool made;
	char before[TEXT];
};

/* ---- mappings ------------------------------------------------------------------------------ */

static bool map_as(struct state *s, int prot, int flags)
{
	s->at = mmap(NULL, 4 * PAGE, prot, flags | MAP_ANONYMOUS, -1, 0);
	return s->at != MAP_FAILED;
}

/* smaps' line of flags. */
static void flags_of(const void *address, char text[TEXT])
{
	unsigned long start, end;
	bool here = false;
	char line[TEXT];
	FILE *f = fopen("/proc/self/smaps", "re");

	while (f && fgets(line, sizeof line, f)) {
		if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
			here = start <= (unsigned long)address && (unsigned long)address < end;
		else if (here && !strncmp(line, "VmFlags:", 8))
			snprintf(text, TEXT, "%.*s", (int)strcspn(line + 9, "\n"), line + 9);
	}
	if (f)
		fclose(f);
}

static void describe_flags(struct state *s, char text[TEXT])
{
	flags_of(s->at, text);
}

/* Made with these flags. */
static bool make_map(struct state *s)
{
	return map_as(s, PROT_READ | PROT_WRITE, s->argument);
}

static bool make_advised(struct state *s)
{
	return map_as(s, PROT_READ | PROT_WRITE, MAP_PRIVATE) &&
	       !madvise(s->at, 4 * PAGE, s->argument);
}

static bool make_sealed(struct state *s)
{
	return map_as(s, PROT_READ | PROT_WRITE, MAP_PRIVATE) &&
	       !syscall(SYS_mseal, s->at, 4 * PAGE, 0);
}

/* Pages with 1, a guard, 2 and 3. */
static bool make_guarded(struct state *s)
{
	if (!map_as(s, PROT_READ | PROT_WRITE, MAP_PRIVATE) ||
	    (s->argument && madvise(s->at, 4 * PAGE, s->argument)))
		return false;
	s->at[0] = 1;
	s->at[PAGE] = 9;
	s->at[2 * PAGE] = 2;
	s->at[3 * PAGE] = 3;
	return !madvise(s->at + PAGE, PAGE, MADV_GUARD_INSTALL);
}

/* Which of its pages can be read, and what they hold. */
static void describe_pages(struct state *s, char text[TEXT])
{
	char byte;

	flags_of(s->at, text);
	for (size_t i = 0; i < 4; i++) {
		struct iovec here = {&byte, 1}, there = {s->at + i * PAGE, 1};
		bool read = process_vm_readv(getpid(), &here, 1, &there, 1, 0) == 1;

		sprintf(text + strlen(text), read ? "%d " : "guard ", byte);
	}
}

static bool make_locked(struct state *s)
{
	if (!map_as(s, PROT_READ | PROT_WRITE, MAP_PRIVATE))
		return false;
	memset(s->at, 7, 4 * PAGE);
	return !mlock2(s->at, 4 * PAGE, (unsigned)s->argument);
}

/* It cannot be brought into memory. */
static bool make_none(struct state *s)
{
	return map_as(s, PROT_NONE, MAP_PRIVATE);
}

static bool make_shared_locked(struct state *s)
{
	return map_as(s, PROT_READ | PROT_WRITE, MAP_SHARED) && !mlock(s->at, 4 * PAGE);
}

/* Of all memory: comes last in its group. */
static bool make_all_locked(struct state *s)
{
	return !mlockall(s->argument);
}

/* How a mapping made now is locked, and whether it is in memory. It does not merge with others. */
static void describe_next(struct state *s, char text[TEXT])
{
	unsigned char resident = 0;

	if (!map_as(s, PROT_READ | PROT_EXEC, MAP_PRIVATE) ||
	    mincore(s->at, PAGE, &resident))
		return;
	flags_of(s->at, text);
	strcat(text, resident & 1 ? "in memory" : "");
	munmap(s->at, 4 * PAGE);
}

/* ---- the table ----------------------------------------------------------------------------- */

static struct state states[] = {
	{.group = "memory", "MADV_SEQUENTIAL", make_advised, describe_flags, MADV_SEQUENTIAL},
	{.group = "memory", "MADV_RANDOM", make_advised, describe_flags, MADV_RANDOM},
	{.group = "memory", "MADV_MERGEABLE", make_advised, describe_flags, MADV_MERGEABLE},
	{.group = "memory", "MADV_HUGEPAGE", make_advised, describe_flags, MADV_HUGEPAGE},
	{.group = "memory", "MADV_NOHUGEPAGE", make_advised, describe_flags, MADV_NOHUGEPAGE},
	{.group = "memory", "MADV_DONTFORK", make_advised, describe_flags, MADV_DONTFORK},
	{.group = "memory", "MADV_WIPEONFORK", make_advised, describe_flags, MADV_WIPEONFORK},
	{.group = "memory", "MADV_DONTDUMP", make_advised, describe_flags, MADV_DONTDUMP},
	{.group = "memory", "MAP_PRIVATE", make_map, describe_flags, MAP_PRIVATE},
	{.group = "memory", "MAP_NORESERVE", make_map, describe_flags,
	 MAP_PRIVATE | MAP_NORESERVE},
	{.group = "memory", "MAP_SHARED", make_map, describe_flags, MAP_SHARED},
	{.group = "memory", "MAP_SHARED, MAP_NORESERVE", make_map, describe_flags,
	 MAP_SHARED | MAP_NORESERVE},
	{.group = "memory", "MAP_GROWSDOWN", make_map, describe_flags,
	 MAP_PRIVATE | MAP_GROWSDOWN},
	{.group = "memory", "MAP_DROPPABLE", make_map, describe_flags, MAP_DROPPABLE},
	{.group = "memory", "mseal", make_sealed, describe_flags},
	{.group = "memory", "PROT_NONE", make_none, describe_flags},
	{.group = "guards", "MADV_GUARD_INSTALL", make_guarded, describe_pages},
	{.group = "guards", "MADV_GUARD_INSTALL, MADV_DONTFORK", make_guarded, describe_pages,
	 MADV_DONTFORK},
	{.group = "guards", "MADV_GUARD_INSTALL, MADV_WIPEONFORK", make_guarded, describe_pages,
	 MADV_WIPEONFORK},
	{.group = "locks", "mlock", make_locked, describe_flags, 0},
	{.group = "locks", "mlock2 MLOCK_ONFAULT", make_locked, describe_flags, MLOCK_ONFAULT},
	{.group = "locks", "mlock of shared memory", make_shared_locked, describe_flags},
	{.group = "locks", "nothing locked to come", NULL, describe_next},
	{.group = "mlockall", "mlockall of PROT_NONE", make_none, describe_flags},
	{.group = "mlockall", "mlockall of MADV_GUARD_INSTALL", make_guarded, describe_pages},
	{.group = "mlockall", "mlockall MCL_CURRENT, MCL_FUTURE", make_all_locked, describe_next,
	 MCL_CURRENT | MCL_FUTURE},
	{.group = "onfault", "mlockall MCL_FUTURE, MCL_ONFAULT", make_all_locked, describe_next,
	 MCL_FUTURE | MCL_ONFAULT},
};
#define NSTATES (sizeof states / sizeof states[0])

static void wait_for(const char *path)
{
	struct timespec t = {0, 1000000};

	while (access(path, F_OK))
		nanosleep(&t, NULL);
}

int main(int argc, char **argv)
{
	const char *hurry = getenv("GPUCKPT_TEST_HURRY");
	char path[TEXT];

	if (argc != 2 || !hurry)
		return 2;
	for (struct state *s = states; s < states + NSTATES; s++)
		s->made = !strcmp(s->group, argv[1]) && (!s->make || s->make(s));
	for (struct state *s = states; s < states + NSTATES; s++)
		if (s->made)
			s->describe(s, s->before);
	snprintf(path, sizeof path, "%s.ready", hurry);
	close(open(path, O_WRONLY | O_CREAT, 0600));
	wait_for(hurry);
	for (struct state *s = states; s < states + NSTATES; s++) {
		char after[TEXT] = "";

		if (strcmp(s->group, argv[1]))
			continue;
		if (s->made)
			s->describe(s, after);
		printf("%s\t%s\t%s\n", s->name, s->before, after);
	}
	return 0;
}
