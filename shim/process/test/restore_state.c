/* SPDX-License-Identifier: Apache-2.0
 * The kernel's state of a process is the same after restarts: state_program describes each kind
 * before and after two of them. `test_restore_state [GROUP]`. */
#include "config.h"

#include <linux/capability.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "test/support/lineage.h"
#include "test/support/tap.h"

#define RESTARTS 2

static bool wait_ready(const struct lineage *l)
{
	char path[300];

	snprintf(path, sizeof path, "%s/hurry.ready", l->directory);
	for (int left = WAIT_MS / 10; access(path, F_OK) && left > 0; left--)
		pause_ms(10);
	return !access(path, F_OK);
}

/* Compare each line's two texts. */
static void compare(const struct lineage *l)
{
	char path[300], line[1000];
	FILE *f;

	snprintf(path, sizeof path, "%s/out", l->directory);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof line, f)) {
		char *name = line, *before = strchr(name, '\t');
		char *after = before ? strchr(before + 1, '\t') : NULL;

		if (!after)
			continue;
		*before++ = *after++ = '\0';
		after[strcspn(after, "\n")] = '\0';
		if (*before)
			is_str(after, before, name);
		else
			skip(name, "this kernel does not have it");
	}
	if (f)
		fclose(f);
}

static void test_group(const char *group)
{
	char *argv[] = {(char *)GCK_TEST_PROGRAM, (char *)group, NULL};
	struct lineage l;
	int restarts = 0;

	if (lineage_begin(&l, "/tmp", argv) || lineage_start(&l) || !wait_ready(&l))
		exit(1);
	while (restarts < RESTARTS && !lineage_checkpoint(&l)) {
		lineage_kill(&l);
		if (lineage_restore(&l, l.seq))
			break;
		restarts++;
	}
	ok(restarts == RESTARTS, "%s: checkpoints and restarts", group);
	is_int(restarts == RESTARTS ? lineage_wait(&l) : -1, 0, "it ends well");
	compare(&l);
	lineage_end(&l);
}

/* Whether a process that waits for its restore takes the last image. */
static bool takes_image(struct lineage *l, struct gck_error *err)
{
	json_t *manifest = lineage_manifest(l, l->seq);
	struct gck_reader *reader = gck_reader_open(l->store, manifest, err);
	struct gck_restore *r = lineage_hold(l) ? NULL
						: gck_restore_open(l->pid, l->agent.name, err);
	bool taken = r && reader && !gck_restore_image(r, manifest, reader, err);

	gck_restore_close(r);
	if (reader)
		gck_reader_close(reader);
	json_decref(manifest);
	return taken;
}

/* Children have no CAP_IPC_LOCK from here on. The limits of this process stay low. */
static void test_limit(void)
{
	char *argv[] = {(char *)GCK_TEST_PROGRAM, (char *)"locks", NULL};
	struct rlimit limit = {4096, 1 << 20};
	struct gck_error err = {0};
	struct lineage l;

	if (lineage_begin(&l, "/tmp", argv) || lineage_start(&l) || !wait_ready(&l) ||
	    lineage_checkpoint(&l))
		exit(1);
	lineage_kill(&l);
	prctl(PR_CAPBSET_DROP, CAP_IPC_LOCK);
	must(setrlimit(RLIMIT_MEMLOCK, &limit));
	ok(!lineage_restore(&l, l.seq), "locked memory above the soft limit is restored");
	lineage_kill(&l);
	limit.rlim_max = 4096;
	must(setrlimit(RLIMIT_MEMLOCK, &limit));
	ok(!takes_image(&l, &err) && strstr(err.text, "48 KiB of its memory are locked"),
	   "above the hard limit it is refused before anything is built: %s", err.text);
	lineage_end(&l);
}

int main(int argc, char **argv)
{
	static const char *const groups[] = {"process", "merge", "mdwe", "memory", "guards",
					       "locks", "mlockall", "onfault"};

	for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++)
		if (argc < 2 || !strcmp(argv[1], groups[i]))
			test_group(groups[i]);
	if (argc < 2 || !strcmp(argv[1], "limit"))
		test_limit();
	return tap_done();
}
