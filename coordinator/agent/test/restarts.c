/* SPDX-License-Identifier: Apache-2.0
 * Restarts of the real agent in trouble: no coordinator, commits that are damaged or in doubt, a
 * wrong count of restarts, ranks that had ended. */
#include "config.h"

#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "coordinator/agent/base/packet.h"
#include "coordinator/agent/test/plugin.h"
#include "test/support/clock.h"
#include "test/support/tap.h"

#define HURRY 4 /* times as fast as the machine's: the agent's clock */

static json_t *commit_members(unsigned seq, const char *hash)
{
	return json_pack("{s:I, s:s}", "seq", (json_int_t)seq, "hash", hash);
}

/* A cold start that leaves commit 1 behind. */
static void first_commit(struct plugin *p, char hash[40])
{
	plugin_begin(p, NULL, 0);
	json_decref(coord_welcome("cold", NULL));
	plugin_both_count(p);
	ok(coord_checkpoint(1, hash), "a checkpoint");
	plugin_stop(p);
}

static void restart_alone(struct plugin *p)
{
	char path[96], script[256];

	snprintf(path, sizeof path, "%s/requeued", p->dir);
	snprintf(script, sizeof script, "echo \"$@\" > %s", path);
	plugin_write_scontrol(p, script);
	coord_deaf(true);
	plugin_begin(p, "restart-wait=1s", 1);
	ok(plugin_said(p, "is requeued and held"),
	   "a restart without a coordinator: the user is told");
	ok(access(path, F_OK) == 0, "the job is requeued and held");
	ok(plugin_stays(p, 0, 100), "and the ranks wait for Slurm to end them");
	plugin_stop(p);

	plugin_write_scontrol(p,
			      "if [ $1 != requeuehold ]; then echo JobId=7 JobState=REQUEUE_HOLD "
			      "Restarts=1; exit; fi\n"
			      "echo Job is pending execution >&2; exit 1");
	plugin_begin(p, "restart-wait=1s", 1);
	ok(plugin_said(p, "is requeued and held") && plugin_stays(p, 0, 100),
	   "another node's agent has requeued the job: the ranks wait as well");
	plugin_stop(p);

	plugin_write_scontrol(p, "echo no such job >&2; exit 1");
	plugin_begin(p, "restart-wait=1s", 1);
	is_int(plugin_reap(p, 0, true), 256, "Slurm refuses to requeue: the ranks end");
	ok(plugin_said(p, "no such job"), "and the user is told why");
	plugin_stop(p);

	plugin_begin(p, "restart=never", 1);
	ok(plugin_both_count(p), "restart=never does not wait for a coordinator");
	plugin_stop(p);
	coord_deaf(false);
}

/* srun ran without SLURM_RESTART_COUNT in its environment. */
static void restart_unknown(struct plugin *p)
{
	char hash[40] = "";
	json_t *m;

	first_commit(p, hash);
	p->restarts = 0;
	coord_deaf(true);
	plugin_start(p);
	ok(plugin_stands(p, 0) && plugin_sound(p, 0),
	   "the store has a commit: no rank is let go, whatever the environment says");
	coord_deaf(false);
	m = coord_welcome("restore", json_pack("{s:i, s:s, s:i}", "seq", 1, "hash", hash,
					       "restarts", 3));
	is_str(packet_text(m, "state", ""), "new", "the coordinator is asked");
	is_int((long long)json_array_size(json_object_get(m, "commits")), 1,
	       "with the list of commits");
	json_decref(m);
	ok(coord_ask("build", 1, NULL, NULL) && coord_ask("files", 1, NULL, NULL) &&
	   coord_ask("run", 1, NULL, NULL) && plugin_both_count(p), "and the ranks are restored");
	ok(plugin_sound(p, 0) && plugin_sound(p, 1), "no line is missing or repeated");
	coord_drop();
	m = coord_welcome("run", NULL);
	is_int(packet_int(m, "restarts", -1), 3,
	       "from then on the restart count is the coordinator's");
	json_decref(m);
	plugin_stop(p);
}

/* The job was submitted with the environment of another job, which had been requeued. */
static void count_of_another(struct plugin *p)
{
	json_t *m;

	plugin_begin(p, NULL, 3);
	json_decref(coord_welcome("cold", json_pack("{s:i}", "restarts", 1)));
	ok(plugin_both_count(p), "the environment's restart count is another job's");
	coord_drop();
	m = coord_welcome("run", json_pack("{s:i}", "restarts", 0));
	is_int(packet_int(m, "restarts", -1), 1, "the coordinator's is used");
	json_decref(m);
	coord_drop();
	m = coord_welcome("run", NULL);
	is_int(packet_int(m, "restarts", -1), 1, "and kept for this start");
	json_decref(m);
	plugin_stop(p);
}

static json_t *listed(struct plugin *p)
{
	json_t *m;

	plugin_begin(p, NULL, 1);
	m = coord_welcome("refuse", NULL);
	plugin_stop(p);
	return m;
}

static void commits_in_doubt(struct plugin *p)
{
	json_t *m;
	FILE *f;
	char path[128];

	plugin_set_mode(p, "store/test/7/0/commit-1.json", 0);
	m = listed(p);
	ok(json_is_null(json_object_get(m, "commits")),
	   "a commit that cannot be read now: the list of commits is not known");
	ok(strstr(packet_text(m, "store_error", ""), "commit-1.json") != NULL,
	   "and the coordinator is told why");
	json_decref(m);
	plugin_set_mode(p, "store/test/7/0/commit-1.json", 0600);
	snprintf(path, sizeof path, "%s/store/test/7/0/commit-2.json", p->dir);
	f = fopen(path, "w");
	if (f && fputs("{\"format\":", f) >= 0)
		fclose(f);
	m = listed(p);
	is_int((long long)json_array_size(json_object_get(m, "commits")), 1,
	       "a damaged commit is not listed");
	json_decref(m);
	unlink(path);
	plugin_set_mode(p, "store", 0);
	m = listed(p);
	ok(json_is_null(json_object_get(m, "commits")), "a store that cannot be read");
	json_decref(m);
	plugin_set_mode(p, "store", 0755);
	p->store = "nowhere";
	m = listed(p);
	ok(json_is_null(json_object_get(m, "commits")),
	   "a store that is not there (not mounted)");
	json_decref(m);
	p->store = NULL;
}

/* The coordinator goes away when all ranks are built. */
static void left_built(struct plugin *p)
{
	char hash[40] = "";

	first_commit(p, hash);
	for (int refuses = 0; refuses < 2; refuses++) {
		plugin_write_scontrol(p, refuses ? "echo it is over >&2; exit 1" : "exit 0");
		plugin_begin(p, "restart-wait=3s", 1);
		json_decref(coord_welcome("restore", commit_members(1, hash)));
		ok(coord_ask("build", 1, NULL, NULL), "built");
		coord_deaf(true);
		coord_drop();
		ok(plugin_logged(p, "could be restored on all its nodes"),
		   "the log says that the coordinator is out of reach");
		if (refuses)
			is_int(plugin_reap(p, 0, true), SIGKILL,
			       "the job cannot be requeued: the ranks end");
		else
			ok(plugin_stays(p, 0, 500),
			   "the job is requeued: the ranks wait for Slurm");
		plugin_stop(p);
		coord_deaf(false);
	}
}

/* Memory of both ranks is of one instant, and theirs together again. */
static void share_memory(struct plugin *p, const char *shares, const char *what)
{
	const char *path = shares + (*shares != '/');
	char hash[40] = "";

	p->shares = shares;
	unlink(path);
	first_commit(p, hash);
	unlink(path);
	plugin_begin(p, NULL, 1);
	json_decref(coord_welcome("restore", commit_members(1, hash)));
	ok(coord_ask("build", 1, NULL, NULL) && coord_ask("files", 1, NULL, NULL) &&
	   coord_ask("run", 1, NULL, NULL), "restored: ranks that share %s", what);
	ok(plugin_both_count(p), "each sees what the other writes");
	is_int(access(path, F_OK), *shares == '-' ? -1 : 0, "its name is what it was");
	ok(plugin_sound(p, 0) && plugin_sound(p, 1), "no line is missing or repeated");
	plugin_stop(p);
	unlink(path);
	p->shares = NULL;
}

static int objects_of(key_t key, bool remove)
{
	int memory = shmget(key, 0, 0), semaphores = semget(key, 0, 0), messages = msgget(key, 0);

	if (remove) {
		shmctl(memory, IPC_RMID, NULL);
		semctl(semaphores, 0, IPC_RMID);
		msgctl(messages, IPC_RMID, NULL);
	}
	return (memory >= 0) + (semaphores >= 0) + (messages >= 0);
}

/* System V objects of both ranks are theirs together again; those of the former start make way. */
static void share_objects(struct plugin *p)
{
	key_t key = (key_t)(0x67000000 | getpid());
	char shares[16], hash[40] = "";
	int former;

	snprintf(shares, sizeof shares, "#%x", (unsigned)key);
	p->shares = shares;
	first_commit(p, hash);
	former = shmget(key, 0, 0);
	is_int(objects_of(key, false), 3, "the former start leaves its objects");
	plugin_begin(p, NULL, 1);
	json_decref(coord_welcome("restore", commit_members(1, hash)));
	ok(coord_ask("build", 1, NULL, NULL) && coord_ask("files", 1, NULL, NULL) &&
	   coord_ask("run", 1, NULL, NULL), "restored: ranks that share System V objects");
	ok(plugin_both_count(p), "each sees what the other writes");
	is_int(objects_of(key, false), 3, "they have their keys");
	ok(shmget(key, 0, 0) != former, "and are others");
	ok(coord_checkpoint(2, hash), "a checkpoint after the restart");
	is_int(semctl(semget(key, 0, 0), 0, GETVAL) > 0 && semctl(semget(key, 0, 0), 1, GETVAL) > 0,
	       1, "their semaphores count");
	ok(plugin_sound(p, 0) && plugin_sound(p, 1), "no line is missing or repeated");
	plugin_stop(p);
	is_int(semctl(semget(key, 0, 0), 0, GETVAL) + semctl(semget(key, 0, 0), 1, GETVAL), 0,
	       "their ends undo that");
	objects_of(key, true);
	p->shares = NULL;
}

/* Others have their keys at the restart; the ranks do not see that. */
static void share_hidden(struct plugin *p)
{
	key_t key = (key_t)(0x67000000 | getpid());
	char shares[16], hash[40] = "";

	snprintf(shares, sizeof shares, "#%x", (unsigned)key);
	p->shares = shares;
	p->limit = "1500";
	first_commit(p, hash);
	objects_of(key, true);
	ok(shmget(key, 100, IPC_CREAT | 0600) >= 0 && semget(key, 1, IPC_CREAT | 0600) >= 0 &&
	   msgget(key, IPC_CREAT | 0600) >= 0, "others have the keys of the ranks");
	plugin_begin(p, NULL, 1);
	json_decref(coord_welcome("restore", commit_members(1, hash)));
	ok(coord_ask("build", 1, NULL, NULL) && coord_ask("files", 1, NULL, NULL) &&
	   coord_ask("run", 1, NULL, NULL), "restored");
	ok(plugin_both_count(p), "each sees what the other writes, under the same keys");
	is_int(plugin_reap(p, 1, true), 3 << 8, "one ends and removes what they share");
	is_int(objects_of(key, true), 3, "the others still have theirs");
	plugin_stop(p);
	p->shares = p->limit = NULL;
}

static void one_had_finished(struct plugin *p)
{
	char hash[40] = "";

	p->limit = "100";
	plugin_begin(p, NULL, 0);
	json_decref(coord_welcome("cold", NULL));
	is_int(plugin_reap(p, 1, true), 3 << 8, "rank 1 ends by itself");
	ok(coord_checkpoint(1, hash), "a checkpoint carries its status");
	plugin_stop(p);
	plugin_begin(p, NULL, 1);
	json_decref(coord_welcome("restore", commit_members(1, hash)));
	ok(coord_ask("build", 1, NULL, NULL), "built");
	ok(plugin_stays(p, 1, 200), "rank 1 is held like the other");
	ok(coord_ask("run", 1, NULL, NULL), "let go");
	is_int(plugin_reap(p, 1, true), 3 << 8, "rank 1 exits with its earlier status");
	ok(plugin_counts(p, 0), "rank 0 runs");
	plugin_stop(p);
	p->limit = NULL;
}

static char newest[512];
static time_t newest_time;

static int look_for_object(const char *path, const struct stat *st, int kind, struct FTW *where)
{
	if (kind == FTW_F && strstr(path, "/2-") && !strstr(path + where->base, "rank-") &&
	    st->st_size > 0 && st->st_mtime >= newest_time) {
		snprintf(newest, sizeof newest, "%s", path);
		newest_time = st->st_mtime;
	}
	return 0;
}

/* Find an object that checkpoint 2 wrote. */
static bool find_object(const struct plugin *p)
{
	char dir[96];

	snprintf(dir, sizeof dir, "%s/store", p->dir);
	nftw(dir, look_for_object, 16, FTW_PHYS);
	return *newest;
}

/* Flip a byte in the middle of it. */
static bool damage(void)
{
	struct stat st;
	bool good;
	char byte;
	int fd;

	fd = open(newest, O_RDWR | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return false;
	good = pread(fd, &byte, 1, st.st_size / 2) == 1;
	byte = (char)~byte;
	good = good && pwrite(fd, &byte, 1, st.st_size / 2) == 1;
	close(fd);
	return good;
}

/* It cannot be read at present. */
static void store_fails(struct plugin *p, const char *hash)
{
	json_t *m = NULL;

	ok(all_of(find_object(p), chmod(newest, 0) == 0), "an object cannot be read");
	plugin_begin(p, NULL, 1);
	json_decref(coord_welcome("restore", commit_members(2, hash)));
	ok(!coord_ask("build", 2, NULL, &m), "no rank is built from it");
	is_int(packet_int(m, "code", 0), EREMOTEIO, "the store is to blame");
	json_decref(m);
	plugin_stop(p);
	chmod(newest, 0600);
}

static void falls_back(struct plugin *p)
{
	char first[40] = "", second[40] = "";
	json_t *m = NULL;

	plugin_begin(p, "keep=2", 0);
	json_decref(coord_welcome("cold", NULL));
	plugin_both_count(p);
	ok(coord_checkpoint(1, first) && plugin_both_count(p) && coord_checkpoint(2, second),
	   "two checkpoints");
	plugin_stop(p);
	store_fails(p, second);
	ok(damage(), "a byte of the second is flipped");
	plugin_begin(p, NULL, 1);
	json_decref(coord_welcome("restore", commit_members(2, second)));
	ok(!coord_ask("build", 2, NULL, &m), "it cannot be built");
	json_decref(m);
	coord_tell("fallback", 1, json_pack("{s:s, s:s}", "hash", first, "why", "damaged"));
	m = coord_await("done", "build");
	ok(packet_bool(m, "ok"), "the commit before can, in the same processes: %s",
	   packet_text(m, "error", "yes"));
	json_decref(m);
	ok(coord_ask("run", 1, NULL, NULL) && plugin_both_count(p), "and the ranks run");
	ok(plugin_sound(p, 0) && plugin_sound(p, 1), "no line is missing or repeated");
	plugin_stop(p);
}

/* An agent that dies before anything was emptied: the ranks ask the next one. */
static void agent_dies_waiting(struct plugin *p)
{
	char hash[40] = "";
	json_t *m;

	first_commit(p, hash);
	plugin_begin(p, NULL, 1);
	json_decref(coord_welcome("wait", NULL));
	ok(plugin_signal_agent(p, SIGKILL), "the agent is killed");
	m = coord_welcome("restore", commit_members(1, hash));
	is_str(packet_text(m, "state", ""), "new", "a new agent reports that nothing has started");
	json_decref(m);
	ok(coord_ask("build", 1, NULL, NULL) && coord_ask("run", 1, NULL, NULL) &&
	   plugin_both_count(p),
	   "the ranks are restored all the same");
	plugin_stop(p);
}

/* All ranks die while they are restored: only the agent keeps the job from ending. */
static void all_die(struct plugin *p)
{
	char hash[40] = "";
	pid_t teller;

	first_commit(p, hash);
	plugin_begin(p, NULL, 1);
	json_decref(coord_welcome("restore", commit_members(1, hash)));
	ok(coord_ask("build", 1, NULL, NULL), "the ranks are built");
	for (unsigned i = 0; i < PLUGIN_RANKS; i++) {
		kill(p->rank[i], SIGKILL);
		plugin_reap(p, i, true);
	}
	teller = fork();
	if (teller == 0) {
		bool stays = plugin_logged(p, "does not end before Slurm has requeued the job");

		sleep(2); /* as long as a busy slurmctld takes */
		if (stays)
			coord_tell("fallback", 0, json_pack("{s:s}", "why", "the job is requeued"));
		_exit(0);
	}
	plugin_stop(p);
	waitpid(teller, NULL, 0);
	ok(plugin_logged(p, "given up: the job is requeued"),
	   "they are killed: the agent stays until Slurm has requeued the job");
}

int main(void)
{
	struct plugin p;
	const char *why;

	signal(SIGPIPE, SIG_IGN);
	if (plugin_open(&p, &why) < 0) {
		skip("the agent's harder restarts", why);
		return tap_done();
	}
	test_clock_rate(HURRY);
	restart_alone(&p);
	restart_unknown(&p);
	count_of_another(&p);
	commits_in_doubt(&p);
	left_built(&p);
	one_had_finished(&p);
	share_memory(&p, "/dev/shm/gck-test-shared", "a file below /dev/shm");
	share_memory(&p, "+/dev/shm/gck-test-shared", "one that they have open");
	share_memory(&p, "=/dev/shm/gck-test-shared", "one that one of them only reads");
	share_memory(&p, "-/dev/shm/gck-test-shared", "memory without a name");
	share_objects(&p);
	share_hidden(&p);
	falls_back(&p);
	agent_dies_waiting(&p);
	all_die(&p);
	plugin_close(&p);
	return tap_done();
}
