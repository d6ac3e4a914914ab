/* SPDX-License-Identifier: Apache-2.0
 * The supervisor: the parent of the agent. It keeps what must outlive the agent, and forks it
 * again when it dies. */
#include "coordinator/agent/node/node.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/base/log.h"
#include "coordinator/agent/base/agent.h"
#include "coordinator/agent/base/tasks.h"

#define FORK_DELAY_MS 200   /* before an agent that died is forked again; doubled each time */
#define FORK_LIMIT 20       /* agents that die, or cannot be forked, in succession */
#define SOON_LIMIT 5        /* the same while ranks wait for their first start, or are isolated */
#define FORK_SETTLED_MS 60000 /* an agent that lived for so long resets the count */
#define END_GRACE_MS 1000   /* how long an agent that hangs may delay the end of a step */
#define SEND_TIMEOUT_MS 5000
#define LOOK_MS 5000        /* between looks whether the agent runs; at least SlurmdTimeout / 12 */
#define LOOKS 4             /* in succession that see nothing of it: it is killed */

struct supervisor {
	const struct step *step;
	struct lasting *lasting;
	struct tasks tasks;
	int signals;
	pid_t child;             /* 0: none */
	int pipe;                /* control packets to the child */
	unsigned deaths;
	int64_t born_ms, fork_at_ms; /* fork_at_ms: 0 if no fork is due */
	int64_t kill_at_ms;      /* at the end of the step: when the child is killed */
	bool requeues;           /* until then it awaits the job's requeue, and is forked again */
	int64_t look_at_ms;      /* when to look next whether the child runs */
	int64_t awake_ms;        /* that of `lasting` at the last look */
	unsigned asleep;         /* looks in succession that found it the same */
	bool done;
	int status;
};

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void forward(struct supervisor *s, const struct gck_control *m)
{
	ssize_t n;

	if (!s->child)
		return;
	do {
		n = send(s->pipe, m, sizeof *m, MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN) {
		gck_warn("the agent takes no messages: killed");
		kill(s->child, SIGKILL);
	}
}

static const struct gck_control end_of_step = { .type = GCK_CONTROL_END };

/* A new agent must know the tasks, and the statuses of those that have ended. */
static void tell_tasks(struct supervisor *s)
{
	for (size_t i = 0; i < s->tasks.n; i++) {
		const struct task *t = s->tasks.v[i];
		struct gck_control m = { GCK_CONTROL_TASK, t->rank, t->pid, t->status };

		forward(s, &m);
		m.type = GCK_CONTROL_EXIT;
		if (t->ended)
			forward(s, &m);
	}
}

static void child_main(struct supervisor *s, int control)
{
	pid_t parent = s->step->supervisor;
	sigset_t none;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	/* Closes what is the supervisor's: the control socket, its signals, the pidfds. Low
	 * descriptors would otherwise be met by libraries. */
	dup2(open("/dev/null", O_RDWR | O_CLOEXEC), GCK_AGENT_CONTROL_FD);
	close(s->signals);
	for (size_t i = 0; i < s->tasks.n; i++)
		if (s->tasks.v[i]->pidfd >= 0)
			close(s->tasks.v[i]->pidfd);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	_exit(event_loop_run(s->step, s->lasting, control));
}

static int fork_child(struct supervisor *s)
{
	struct timeval tv = { .tv_sec = SEND_TIMEOUT_MS / 1000 };
	int sv[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0) {
		gck_warn("cannot make a socket for the agent: %s", strerror(errno));
		return -1;
	}
	setsockopt(sv[0], SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof tv);
	s->lasting->late = s->done;
	pid = fork();
	if (pid == 0) {
		close(sv[0]);
		child_main(s, sv[1]);
	}
	close(sv[1]);
	if (pid < 0) {
		gck_warn("cannot fork the agent: %s", strerror(errno));
		close(sv[0]);
		return -1;
	}
	s->child = pid;
	s->pipe = sv[0];
	s->born_ms = now_ms();
	s->fork_at_ms = 0;
	s->asleep = 0;
	tell_tasks(s);
	if (s->done)
		forward(s, &end_of_step);
	return 0;
}

/* SIGKILL to the tasks that have not ended, by pidfd: the pid of a task whose parent is dead may
 * have been used again. */
static void kill_tasks(struct supervisor *s)
{
	for (size_t i = 0; i < s->tasks.n; i++) {
		struct task *t = s->tasks.v[i];

		if (!t->ended && t->pidfd >= 0)
			syscall(SYS_pidfd_send_signal, t->pidfd, SIGKILL, NULL, 0);
	}
}

static void finish(struct supervisor *s, int status, int grace_ms)
{
	int64_t kill_at_ms = now_ms() + grace_ms;

	if (!s->done || kill_at_ms < s->kill_at_ms)
		s->kill_at_ms = kill_at_ms;
	if (s->done)
		return;
	s->status = status;
	s->done = true;
	if (!s->requeues)
		s->fork_at_ms = 0;
	forward(s, &end_of_step);
}

/* slurmstepd died. Slurm cannot signal its tasks any more, and they would run beside the
 * requeued job. */
static void orphaned(struct supervisor *s)
{
	gck_error_log("slurmstepd of step %u.%u died: its tasks are ended, since Slurm can no "
		      "longer do it", s->step->job, s->step->step);
	kill_tasks(s);
	finish(s, 1, END_GRACE_MS);
}

static void enter_task(struct supervisor *s, const struct gck_control *m)
{
	struct task *t = tasks_apply(&s->tasks, m);

	if (t && m->type == GCK_CONTROL_TASK) {
		t->pidfd = (int)syscall(SYS_pidfd_open, m->pid, 0);
	} else if (t && t->pidfd >= 0) {
		close(t->pidfd);
		t->pidfd = -1;
	}
}

static bool awaits_restart(const struct supervisor *s)
{
	return !s->lasting->released && s->lasting->bound;
}

static void take_control(struct supervisor *s)
{
	struct gck_control m;
	int rc;

	while ((rc = control_take(GCK_AGENT_CONTROL_FD, &m)) > 0) {
		if (m.type == GCK_CONTROL_END) {
			s->requeues = awaits_restart(s);
			finish(s, 0, END_GRACE_MS + (s->requeues ? GCK_REQUEUE_WAIT_MS : 0));
			return;
		}
		enter_task(s, &m);
		forward(s, &m);
	}
	if (rc < 0)
		orphaned(s);
}

/* What ranks cannot do without an agent; NULL: they can go on. */
static const char *need_of_agent(const struct supervisor *s)
{
	if (s->lasting->cut_off)
		return "are to stand still, since this node is cut off";
	return awaits_restart(s) ? "wait to be restored" : NULL;
}

/* The agent cannot live. Ranks that run, or start for the first time, go on without checkpoints;
 * those that wait see the end of the listening socket. Ranks that wait for a restart are killed:
 * they must neither wait for ever nor start cold. */
static void give_up(struct supervisor *s)
{
	const char *need = need_of_agent(s);

	if (need) {
		gck_error_log("the agent died %u times, and the ranks of step %u.%u %s: they are "
			      "killed", s->deaths, s->step->job, s->step->step, need);
		kill_tasks(s);
	} else {
		gck_error_log("the agent died %u times: step %u.%u goes on without checkpoints",
			      s->deaths,
			      s->step->job, s->step->step);
	}
	close(GCK_AGENT_LISTEN_FD);
}

/* Isolated ranks run while there is no agent, so it is given up sooner. */
static void try_again_later(struct supervisor *s)
{
	bool first = !s->lasting->released && !s->lasting->bound;

	s->fork_at_ms = 0;
	if (++s->deaths > (first || s->lasting->cut_off ? SOON_LIMIT : FORK_LIMIT))
		give_up(s);
	else
		s->fork_at_ms = now_ms() + (FORK_DELAY_MS << (s->deaths < 6 ? s->deaths - 1 : 5));
}

static void child_died(struct supervisor *s, int status)
{
	close(s->pipe);
	s->child = 0;
	if (s->done && (!s->requeues || (WIFEXITED(status) && !WEXITSTATUS(status))))
		return;
	if (now_ms() - s->born_ms > FORK_SETTLED_MS)
		s->deaths = 0;
	gck_warn("the agent died (%s %d)", WIFSIGNALED(status) ? "signal" : "status",
		 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	try_again_later(s);
}

static void take_signals(struct supervisor *s)
{
	struct signalfd_siginfo si;
	int status;
	pid_t pid;

	while (read(s->signals, &si, sizeof si) == (ssize_t)sizeof si)
		if (si.ssi_signo == SIGTERM && s->lasting->cut_off) {
			gck_info("SIGTERM: the ranks stay stopped until Slurm ends them");
		} else if (si.ssi_signo == SIGTERM) {
			gck_info("SIGTERM: the step goes on without checkpoints");
			finish(s, 0, END_GRACE_MS);
		}
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		if (pid == s->child)
			child_died(s, status);
}

/* Milliseconds until something is due. */
static int time_left(const struct supervisor *s)
{
	int64_t at = s->fork_at_ms ? s->fork_at_ms : s->look_at_ms, left;

	if (s->kill_at_ms && (!s->fork_at_ms || s->kill_at_ms < s->fork_at_ms))
		at = s->kill_at_ms;
	left = at - now_ms();
	return left < 0 ? 0 : (int)left;
}

/* An agent that is stopped or hangs lets the leases of its ranks end; one that dies does not
 * (lease.h). Looks are counted and not the time, in which this process may have stood still,
 * too. */
static void look(struct supervisor *s, int64_t now)
{
	int64_t every = s->lasting->slurmd_timeout_s * INT64_C(1000) / 12;
	bool same = s->lasting->awake_ms && s->lasting->awake_ms == s->awake_ms;

	s->look_at_ms = now + (every > LOOK_MS ? every : LOOK_MS);
	s->awake_ms = s->lasting->awake_ms;
	s->asleep = same && s->child ? s->asleep + 1 : 0;
	if (s->asleep < LOOKS)
		return;
	kill(s->child, SIGKILL);
	gck_warn("the agent is stopped, or hangs: killed");
	s->asleep = 0;
}

static void what_is_due(struct supervisor *s)
{
	int64_t now = now_ms();

	if (s->kill_at_ms && now >= s->kill_at_ms) {
		s->requeues = false;
		s->fork_at_ms = 0;
		s->kill_at_ms = now + END_GRACE_MS;
		if (!s->child)
			return;
		gck_warn("the agent did not end in time: killed");
		kill(s->child, SIGKILL);
	} else if (s->fork_at_ms && now >= s->fork_at_ms && fork_child(s) < 0) {
		try_again_later(s);
	} else if (!s->done && now >= s->look_at_ms) {
		look(s, now);
	}
}

static void serve(struct supervisor *s)
{
	struct pollfd p[2] = {
		{ .fd = s->signals, .events = POLLIN },
		{ .fd = GCK_AGENT_CONTROL_FD, .events = POLLIN },
	};

	if (fork_child(s) < 0)
		try_again_later(s);
	while (s->child || s->fork_at_ms || !s->done) {
		p[1].fd = s->done ? -1 : GCK_AGENT_CONTROL_FD;
		if (poll(p, 2, time_left(s)) < 0 && errno != EINTR)
			break;
		/* Slurm's SIGTERM first: ends of tasks that it caused are not the program's. */
		take_signals(s);
		if (p[1].revents && !s->done)
			take_control(s);
		what_is_due(s);
	}
}

/* Ignores the signals that a step is sent for its tasks. */
static int take_over_signals(void)
{
	const int ignored[] = { SIGHUP, SIGINT, SIGPIPE, SIGUSR1, SIGUSR2, SIGALRM, SIGTSTP };
	sigset_t set;

	for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
		signal(ignored[i], SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGTERM);
	if (sigprocmask(SIG_SETMASK, &set, NULL) < 0)
		return -1;
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

struct supervisor *supervisor_new(const struct step *step, struct gck_error *err)
{
	struct supervisor *s = calloc(1, sizeof *s);
	struct lasting *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
				      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int signals = take_over_signals();

	if (!s || shared == MAP_FAILED || signals < 0) {
		gck_fail(err, errno, "the agent cannot start: %s", strerror(errno));
		free(s);
		return NULL;
	}
	shared->bound = step_is_restart(step);
	shared->restarts = step->restarts;
	*s = (struct supervisor){ .step = step, .lasting = shared, .signals = signals };
	return s;
}

int supervise(struct supervisor *s)
{
	int status;

	serve(s);
	status = s->status;
	free(s);
	return status;
}
