/* SPDX-License-Identifier: Apache-2.0
 * An agent without a coordinator, a store and real workers. */
#include "config.h"

#include "coordinator/agent/test/fakes.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "coordinator/agent/base/packet.h"
#include "coordinator/agent/checkpoint/checkpoint.h"
#include "coordinator/agent/checkpoint/events.h"
#include "coordinator/agent/checkpoint/transaction.h"
#include "coordinator/agent/ranks/links.h"
#include "coordinator/agent/restart/restart.h"
#include "coordinator/agent/upstream/upstream.h"
#include "coordinator/agent/worker/rank_memory.h"
#include "coordinator/agent/worker/store_job.h"

#define PATIENCE_S 60. /* reached only by a failure */

struct fake_world *fake_world;
pid_t fake_second;
struct agent *fake_agent;
bool fake_opened, fake_holding, fake_ended;
int fake_link_peer[FAKE_RANKS];
static struct step fake_step;
static struct lasting fake_lasting;
static json_t *sent;
static size_t seen;

/* ---- the agent's surroundings -------------------------------------------------------------- */

void upstream_send(struct agent *a, json_t *body)
{
	(void)a;
	json_array_append_new(sent, body);
}

bool upstream_welcomed(const struct upstream *u)
{
	(void)u;
	return !fake_world->away;
}

static void let_go(struct agent *a)
{
	fake_opened = true;
	a->gate = GATE_OPEN;
}

static void hold(struct agent *a)
{
	(void)a;
	fake_holding = true;
}

static void end_ranks(struct agent *a, const char *why, bool at_once)
{
	(void)a;
	(void)why;
	(void)at_once;
	fake_ended = true;
}

static void doubt(struct agent *a)
{
	(void)a;
}

static const struct agent_ops agent_ops = { let_go, hold, end_ranks, doubt };

json_t *store_check(const void *request, struct gck_error *err)
{
	(void)request;
	if (fake_world->checks_fail) {
		gck_fail(err, EACCES, "store file:/nowhere: no permission");
		return NULL;
	}
	return json_pack("{s:I, s:I, s:b}", "space", (json_int_t)fake_world->space, "memory",
			 (json_int_t)fake_world->memory, "first", fake_world->first);
}

json_t *store_commit(const void *request, struct gck_error *err)
{
	(void)request;
	(void)err;
	fake_world->committed++;
	return json_pack("{s:s}", "hash", "abc");
}

json_t *store_prune(const void *request, struct gck_error *err)
{
	const struct store_request *r = request;

	(void)err;
	fake_world->pruned += (int)json_array_size(r->document);
	return json_true();
}

json_t *store_discard(const void *request, struct gck_error *err)
{
	(void)err;
	fake_world->discarded += !strcmp(((const struct store_request *)request)->nonce, "n0nce");
	return json_true();
}

json_t *store_sweep(const void *request, struct gck_error *err)
{
	(void)err;
	return json_pack("{s:O}", "steps", ((const struct store_request *)request)->document);
}

json_t *store_keep_staged(const void *request, struct gck_error *err)
{
	(void)err;
	fake_world->kept_staged = (int)((const struct store_request *)request)->seq;
	return json_true();
}

/* ---- workers ------------------------------------------------------------------------------- */

static bool scripted(unsigned rank, const char *phase, enum fake_act act)
{
	return !strcmp(fake_world->script[rank].phase, phase) &&
	       fake_world->script[rank].act == act;
}

static void take_a_while(int *count, int *most, unsigned us)
{
	int now = __atomic_add_fetch(count, 1, __ATOMIC_SEQ_CST);

	if (now > *most)
		*most = now;
	usleep(us);
	__atomic_sub_fetch(count, 1, __ATOMIC_SEQ_CST);
}

static void write_for_a_while(void)
{
	take_a_while(&fake_world->writing, &fake_world->most_writing, 50000);
}

/* Until all ranks are staged. */
static void upload_for_a_while(void)
{
	while (__atomic_load_n(&fake_world->staged, __ATOMIC_SEQ_CST) < FAKE_RANKS)
		usleep(1000);
	take_a_while(&fake_world->uploading, &fake_world->most_uploading, 50000);
}

static void stage(int fd, unsigned rank)
{
	__atomic_add_fetch(&fake_world->staged, 1, __ATOMIC_SEQ_CST);
	packet_send(fd, json_pack("{s:s, s:s, s:b, s:i, s:s}", "op", "done", "phase", "stage", "ok",
				  1, "staged", 7, "unstaged", rank ? "" : "the disk is full"),
				  NULL);
}

/* 0: the phase is done well; 1: leave. */
static int play(int fd, unsigned rank, const char *phase, json_t *answer)
{
	if (scripted(rank, phase, FAKE_DIE))
		kill(getpid(), SIGKILL);
	while (scripted(rank, phase, FAKE_HANG))
		pause();
	while (scripted(rank, phase, FAKE_STUCK)) {
		packet_send(fd, json_pack("{s:s, s:i, s:i}", "op", "progress", "done", 1, "all", 2),
			    NULL);
		usleep(100000);
	}
	if (scripted(rank, phase, FAKE_LATE))
		usleep(1500000);
	if (scripted(rank, phase, FAKE_FAIL) || scripted(rank, phase, FAKE_LATE) ||
	    scripted(rank, phase, FAKE_PASSING)) {
		bool passing = scripted(rank, phase, FAKE_PASSING);
		json_t *no = json_pack("{s:b, s:i, s:s}", "ok", 0, "code", passing ? EAGAIN : EIO,
				       "error", passing ? "for now" : "as scripted");

		json_object_update(answer, no);
		json_decref(no);
		packet_send(fd, answer, NULL);
		return 1;
	}
	packet_send(fd, answer, NULL);
	return 0;
}

/* A rank's own process, and the first rank's second one, if it has one. */
static json_t *gpus_of(unsigned rank)
{
	const pid_t pids[2] = { fake_agent->tasks.v[rank]->pid, rank ? 0 : fake_second };
	json_t *all = json_array();

	for (int i = 0; i < 2 && pids[i]; i++)
		json_array_append_new(all, json_pack("{s:i, s:I, s:[{s:s, s:I, s:I}]}", "pid",
			(int)pids[i], "device", fake_world->device, "devices", "uuid",
			fake_world->shared ? "one" : rank ? "other" : "one", "bytes",
			fake_world->device, "room", fake_world->device_free));
	return all;
}

static json_t *answer_to(const char *phase, unsigned rank)
{
	bool cuda = rank < fake_world->cuda;

	return json_pack("{s:s, s:s, s:b, s:i, s:i, s:b, s:o, s:I, s:I, s:I, "
			 "s:I, s:i, s:i, s:s,"
			 " s:i, s:i, s:{s:i}}",
			 "op", "done", "phase", phase, "ok", 1, "asked_one", rank == 1, "asked_all",
			 rank == 2 ? 4 : 0, "mpi", rank < fake_world->mpi, "gpus",
			 cuda ? gpus_of(rank) : json_array(), "device",
			 cuda ? fake_world->device : 0, "managed",
			 rank == 1 ? fake_world->managed : 0, "expected",
			 1000 + (cuda ? fake_world->device : 0),
			 "chunks", fake_world->chunks,
			 "first_ns", 100 + (int)rank, "last_ns", 200 + (int)rank, "manifest",
			 "feed", "put", 10, "stored", 5, "common", rank == 1 ?
			 "0123456789abcdef0123456789abcdef" :
			 "00112233445566778899aabbccddeeff", 3);
}

static void write_devices(const struct worker_task *t, const json_t *senders)
{
	const json_t *pid;
	size_t k;

	json_array_foreach(senders, k, pid)
		for (size_t i = 0; i < t->ndevices; i++)
			if (t->devices[i].pid == (pid_t)json_integer_value(pid)) {
				fake_world->device_writes++;
				send(t->devices[i].fds[0], "x", 1, MSG_NOSIGNAL);
			}
}

static void report_areas(int fd)
{
	for (uint64_t i = 0; i < fake_world->areas; i++) {
		struct gck_common_memory x = { .device = 1, .inode = i + 1, .size = 4096,
					       .bytes = 4096, .whole = true, .writes = true };

		packet_send(fd, json_pack("{s:s, s:[o]}", "op", "memory", "all", memory_pack(&x)),
			    NULL);
	}
}

int worker_main(int fd, void *arg)
{
	const struct worker_task *t = arg;
	const char *op = "prepare";
	json_t *body = NULL;
	bool held = false, written = false;

	report_areas(fd);
	for (;;) {
		if (!strcmp(op, "write")) {
			write_for_a_while();
			fake_world->held_writes += packet_bool(body, "held");
			write_devices(t, json_object_get(body, "device"));
			written = !*t->step->options.stage;
		}
		if (!strcmp(op, "upload")) {
			upload_for_a_while();
			written = true;
			op = "write";
		} else if (!strcmp(op, "write") && !written) {
			stage(fd, t->rank);
			op = "hold";
		}
		if (!strcmp(op, "abort")) {
			__atomic_add_fetch(&fake_world->aborted, 1, __ATOMIC_SEQ_CST);
			return 0;
		}
		held = (held || !strcmp(op, "freeze")) && strcmp(op, "resume");
		if (strcmp(op, "hold") && play(fd, t->rank, op, answer_to(op, t->rank)))
			return 1;
		if (written && !held)
			return 0;
		json_decref(body);
		body = packet_recv(fd, -1, NULL);
		if (!body)
			return 1;
		op = packet_text(body, "op", "");
	}
}

static void count_for(const char *op)
{
	int *n = !strcmp(op, "run") ? &fake_world->runs : &fake_world->builds;

	if (!strcmp(op, "files"))
		n = &fake_world->filed;
	if ((!strcmp(op, "run") || !strcmp(op, "reopen")) &&
	    __atomic_load_n(&fake_world->filed, __ATOMIC_SEQ_CST) < FAKE_RANKS)
		fake_world->too_early++;
	if (strcmp(op, "reopen"))
		__atomic_add_fetch(n, 1, __ATOMIC_SEQ_CST);
}

/* Answers one question as scripted, and waits for the rank's end. */
int device_restore_main(int fd, void *arg)
{
	const struct worker_task *t = arg;
	const int socket = t->devices->fds[0];
	struct gck_link_data m;

	fake_world->filled_for = t->devices->pid;
	if (recv(socket, &m, sizeof m, 0) <= 0)
		return 0;
	if (play(fd, t->rank, "fill", json_pack("{s:s, s:i}", "op",
		 scripted(t->rank, "fill", FAKE_FAIL) ? "done" : "progress", "done", 1)))
		return 1;
	m.type = GCK_LINK_DATA_READY;
	send(socket, &m, offsetof(struct gck_link_data, why), MSG_NOSIGNAL);
	return recv(socket, &m, sizeof m, 0) > 0;
}

/* Of a rank's processes with CUDA: FAKE_NUMBER is its own. */
static json_t *numbers_of(unsigned rank)
{
	if (rank >= fake_world->cuda)
		return json_array();
	return rank || !fake_second ? json_pack("[i]", FAKE_NUMBER)
					   : json_pack("[i, i]", FAKE_NUMBER, FAKE_NUMBER + 1);
}

/* Ask for the memory, or the semaphores, that the rank shares with others. */
static void share(int fd, unsigned rank, json_int_t seq)
{
	const struct gck_ipc x = { .kind = GCK_IPC_SEMAPHORES, .id = 77, .size = 2, .mode = 0600 };
	json_t *answer, *body;
	struct stat st = { 0 };
	int given = -1;

	body = json_pack("{s:s, s:s, s:I, s:s, s:i, s:s, s:b, s:i, s:i}", "op", "share", "phase",
			 "build", "seq", seq, "ranks", fake_world->share, "number", 1, "name",
			 "area", "path", 0, "size", 8192, "seals", 0);
	if (fake_world->share_object)
		json_object_set_new(body, "ipc", ipc_pack(&x, NULL));
	packet_send(fd, body, NULL);
	answer = packet_take(fd, -1, &given, NULL);
	if (given >= 0 && !fstat(given, &st))
		fake_world->shared_inode[rank] = st.st_ino;
	else if (fake_world->share_object)
		fake_world->shared_inode[rank] = (uint64_t)packet_int(answer, "number", -1) + 1;
	json_decref(answer);
}

int restorer_main(int fd, void *arg)
{
	const struct worker_task *t = arg;
	json_t *body = json_pack("{s:s, s:I}", "op", "build", "seq", (json_int_t)t->seq);

	if (scripted(t->rank, "apart", FAKE_PASSING)) {
		packet_send(fd, json_pack("{s:s, s:s, s:b, s:i, s:i}", "op", "done", "phase",
					  "apart", "ok", 1, "number", FAKE_NUMBER, "above",
					  FAKE_NUMBER + 1), NULL);
		json_decref(body);
		body = packet_recv(fd, -1, NULL);
	}
	while (body) {
		const char *op = packet_text(body, "op", "");
		json_int_t seq = packet_int(body, "seq", 0);

		if (!strcmp(op, "files") && t->rank == 0)
			usleep(100000);
		if (!strcmp(op, "build") && *fake_world->share)
			share(fd, t->rank, seq);
		count_for(op); /* before it is reported: others act on that */
		play(fd, t->rank, strcmp(op, "build") || seq == 7 ? op : "rebuild",
		     json_pack("{s:s, s:s, s:b, s:b, s:o, s:I, s:i}", "op", "done", "phase", op,
			       "ok", 1, "mpi", t->rank < fake_world->mpi, "cuda",
			       numbers_of(t->rank), "seq", seq, "exit",
			       (int)t->rank == fake_world->finished_rank ? 256 : -1));
		if (!strcmp(op, "run"))
			return 0;
		json_decref(body);
		body = packet_recv(fd, -1, NULL);
	}
	return 1;
}

/* ---- ranks --------------------------------------------------------------------------------- */

static pid_t sleeper(void)
{
	pid_t pid = fork();

	while (pid == 0)
		pause();
	return pid;
}

/* A link in the state of a shim that was let go. */
static struct link *fake_link(struct task *t, int *peer)
{
	struct link *l = calloc(1, sizeof *l);
	int sv[2] = { -1, -1 };

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0)
		abort();
	l->all = fake_agent->links;
	l->fd = sv[0];
	l->task = t;
	l->greeted = true;
	ev_init(&l->limit, NULL);
	ev_io_init(&l->io, NULL, sv[0], 0);
	l->next = l->all->first;
	l->all->first = l;
	*peer = sv[1];
	return l;
}

static void add_ranks(void)
{
	for (unsigned i = 0; i < FAKE_RANKS; i++) {
		struct gck_control m = { GCK_CONTROL_TASK, i, sleeper(), 0 };
		struct task *t = tasks_apply(&fake_agent->tasks, &m);

		t->link = fake_link(t, &fake_link_peer[i]);
	}
}

void fake_rank_ends(unsigned rank, bool told)
{
	struct task *t = fake_agent->tasks.v[rank];
	struct gck_control m = { GCK_CONTROL_EXIT, rank, t->pid, 256 };

	kill(t->pid, SIGKILL);
	waitpid(t->pid, NULL, 0);
	if (!told)
		return;
	tasks_apply(&fake_agent->tasks, &m);
	if (fake_agent->transaction)
		events_task_ended(fake_agent->transaction, t);
	if (fake_agent->restart)
		restart_task_ended(fake_agent->restart, t);
}

/* ---- the test's side ----------------------------------------------------------------------- */

static void new_world(void)
{
	if (fake_world) /* workers of the world before may still count in it */
		munmap(fake_world, sizeof *fake_world);
	fake_world = mmap(NULL, sizeof *fake_world, PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	fake_world->space = fake_world->memory = INT64_MAX;
	fake_world->finished_rank = -1;
	fake_opened = fake_holding = fake_ended = false;
}

void fake_begin(void)
{
	new_world();
	sent = json_array();
	seen = 0;
	memset(&fake_step, 0, sizeof fake_step);
	strcpy(fake_step.node, "n1");
	strcpy(fake_step.options.store, "file:/nowhere");
	fake_step.options.cpus = 8;
	fake_step.options.timeout_ms = 2000;
	fake_step.options.hold_ms = 1000;
	fake_step.local_ntasks = fake_step.ntasks = FAKE_RANKS;
	fake_agent = calloc(1, sizeof *fake_agent);
	fake_agent->loop = ev_default_loop(0);
	fake_agent->ops = &agent_ops;
	fake_agent->step = &fake_step;
	fake_lasting = (struct lasting){ .released = 1 };
	fake_agent->lasting = &fake_lasting;
	fake_agent->links = calloc(1, sizeof *fake_agent->links);
	fake_agent->links->agent = fake_agent;
	add_ranks();
}

void fake_end(void)
{
	for (unsigned i = 0; i < FAKE_RANKS; i++) {
		if (!fake_agent->tasks.v[i]->ended)
			fake_rank_ends(i, false);
		close(fake_link_peer[i]);
	}
	json_decref(sent);
}

void fake_script(unsigned rank, const char *phase, enum fake_act act)
{
	strcpy(fake_world->script[rank].phase, phase);
	fake_world->script[rank].act = act;
}

void fake_command(const char *op, json_t *more)
{
	json_t *body = json_pack("{s:s, s:i, s:s}", "op", op, "seq", 7, "nonce", "n0nce");

	if (more)
		json_object_update(body, more);
	json_decref(more);
	if (!strcmp(op, "build") || !strcmp(op, "files") || !strcmp(op, "run") ||
	    !strcmp(op, "fallback"))
		restart_command(fake_agent, op, body);
	else if (!strcmp(op, "sweep"))
		commit_sweep(fake_agent, body);
	else
		checkpoint_command(fake_agent, op, body);
	json_decref(body);
}

static const json_t *find(const char *op, const char *phase)
{
	for (; seen < json_array_size(sent); seen++) {
		const json_t *m = json_array_get(sent, seen);

		if (strcmp(packet_text(m, "op", ""), op) ||
		    (phase && strcmp(packet_text(m, "phase", ""), phase)))
			continue;
		seen++;
		return m;
	}
	return NULL;
}

static void on_time(struct ev_loop *loop, ev_timer *w, int events)
{
	(void)w;
	(void)events;
	ev_break(loop, EVBREAK_ONE);
}

void fake_run(double seconds)
{
	ev_timer w;

	ev_now_update(fake_agent->loop);
	ev_timer_init(&w, on_time, seconds, 0.);
	ev_timer_start(fake_agent->loop, &w);
	ev_run(fake_agent->loop, 0);
	ev_timer_stop(fake_agent->loop, &w);
}

/* A message may lead to another, and that to a third. */
void fake_turn(void)
{
	for (int i = 0; i < 20; i++)
		ev_run(fake_agent->loop, EVRUN_NOWAIT);
}

const json_t *fake_await_within(const char *op, const char *phase, double seconds)
{
	const json_t *m = find(op, phase);

	for (double left = seconds; !m && left > 0; left -= 0.02) {
		fake_run(0.02);
		m = find(op, phase);
	}
	return m;
}

const json_t *fake_await(const char *op, const char *phase)
{
	return fake_await_within(op, phase, PATIENCE_S);
}

unsigned fake_workers(void)
{
	return fake_agent->transaction ? transaction_workers(fake_agent->transaction) : 0;
}
