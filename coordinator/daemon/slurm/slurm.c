/* SPDX-License-Identifier: Apache-2.0
 * Children that ask Slurm, a few at a time.
 *
 * Waiting questions are limited by the callers (limits.h) and by a deadline from the moment of
 * asking. Waiting questions about the same job are merged: a thousand agents of a job ask once or
 * twice. A running question is not shared, since its answer may be older than the new question. A
 * requeue, for which ranks are held, does not wait behind others. */
#include "config.h"

#include "coordinator/daemon/slurm/slurm.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/log.h"
#include "coordinator/daemon/slurm/query.h"

#define MAX_CHILDREN 8
#define MAX_URGENT 8       /* more, for a requeue */
#define DEADLINE_S 60.
#define SHARED_DEADLINE_S 25. /* an agent waits for 30 s, then it reconnects */
#define MAX_ANSWER (64u << 20)

struct taker {
	struct taker *next;
	gck_slurm_fn *done;
	void *arg;
};

struct gck_slurm_request {
	struct gck_slurm_request *next;
	struct gck_slurm *slurm;
	json_t *request;
	struct taker *takers;
	pid_t pid; /* 0: not started */
	ev_io io;
	ev_timer deadline;
	char *text; /* what the child wrote; NUL-terminated */
	size_t size;
};

static void start_next(struct gck_slurm *s);

/* ---- children ------------------------------------------------------------------------------- */

void gck_child_become(pid_t parent, int out, int err)
{
	int null = open("/dev/null", O_RDONLY);
	sigset_t none;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	for (int sig = 1; sig < 32; sig++)
		signal(sig, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	dup2(null, STDIN_FILENO);
	dup2(out, STDOUT_FILENO);
	dup2(err, STDERR_FILENO);
	close_range(3, ~0u, 0);
}

/* ---- the answer ---------------------------------------------------------------------------- */

static void unlink_request(struct gck_slurm_request **list, struct gck_slurm_request *r)
{
	while (*list && *list != r)
		list = &(*list)->next;
	if (*list)
		*list = r->next;
}

static void request_free(struct gck_slurm_request *r)
{
	while (r->takers) {
		struct taker *t = r->takers;

		r->takers = t->next;
		free(t);
	}
	ev_timer_stop(r->slurm->loop, &r->deadline);
	json_decref(r->request);
	free(r->text);
	free(r);
}

/* The answer is the last line; libslurm may have printed lines before it. */
static char *last_line(char *text)
{
	size_t n = strlen(text);
	char *p;

	while (n > 0 && text[n - 1] == '\n')
		text[--n] = '\0';
	p = strrchr(text, '\n');
	return p ? p + 1 : text;
}

static void give_answer(struct gck_slurm_request *r, const char *late)
{
	char *line = r->text ? last_line(r->text) : NULL;
	json_t *answer = line && !late ? json_loads(line, 0, NULL) : NULL;
	struct gck_slurm_answer a = {.code = EIO, .error = late};

	if (answer) {
		a.ok = json_is_true(json_object_get(answer, "ok"));
		a.code = (int)json_integer_value(json_object_get(answer, "code"));
		a.error = json_string_value(json_object_get(answer, "error"));
		a.data = json_object_get(answer, "data");
	} else if (!late && line && *line) {
		a.error = line;
	}
	if (!a.ok && !a.error)
		a.error = "libslurm ended without an answer; check that slurm.conf is found here";
	for (const struct taker *t = r->takers; t; t = t->next)
		t->done(t->arg, &a);
	json_decref(answer);
}

static void finish(struct gck_slurm_request *r, const char *late)
{
	struct gck_slurm *s = r->slurm;

	ev_io_stop(s->loop, &r->io);
	close(r->io.fd);
	/* The child has closed its pipe, so this wait is short. */
	kill(r->pid, SIGKILL);
	while (waitpid(r->pid, NULL, 0) < 0 && errno == EINTR)
		;
	unlink_request(&s->running, r);
	s->nrunning--;
	give_answer(r, late);
	request_free(r);
	start_next(s);
}

static void on_readable(struct ev_loop *loop, ev_io *w, int events)
{
	struct gck_slurm_request *r = w->data;
	char *more = r->size > MAX_ANSWER ? NULL : realloc(r->text, r->size + 65536 + 1);
	ssize_t n;

	(void)loop;
	(void)events;
	if (!more) {
		finish(r, "Slurm's answer is too long");
		return;
	}
	r->text = more;
	n = read(w->fd, r->text + r->size, 65536);
	if (n > 0)
		r->size += (size_t)n;
	r->text[r->size] = '\0';
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		finish(r, NULL);
}

static void on_deadline(struct ev_loop *loop, ev_timer *w, int events)
{
	struct gck_slurm_request *r = w->data;

	(void)loop;
	(void)events;
	if (r->pid) {
		finish(r, "slurmctld did not answer in time");
		return;
	}
	unlink_request(&r->slurm->waiting, r);
	give_answer(r, "slurmctld does not answer, and others wait for it too");
	request_free(r);
}

/* ---- the child ----------------------------------------------------------------------------- */

static void write_answer(json_t *answer)
{
	char *text = json_dumps(answer, JSON_COMPACT);
	const char *p = text ? text : "";
	size_t left = strlen(p);

	while (left > 0) {
		ssize_t n = write(STDOUT_FILENO, p, left);

		if (n <= 0)
			break;
		p += n;
		left -= (size_t)n;
	}
}

static void child(const json_t *request, int fd, pid_t parent)
{
	struct gck_error err = {0};
	json_t *data, *answer;

	gck_child_become(parent, fd, fd);
	data = gck_query(request, &err);
	if (data)
		answer = json_pack("{s:b, s:o}", "ok", 1, "data", data);
	else
		answer = json_pack("{s:b, s:i, s:s}", "ok", 0, "code", err.code, "error", err.text);
	(void)!write(STDOUT_FILENO, "\n", 1);
	write_answer(answer);
	_exit(0);
}

/* ---- starting ------------------------------------------------------------------------------ */

static int launch(struct gck_slurm_request *r)
{
	pid_t parent = getpid();
	int fds[2];

	if (pipe2(fds, O_CLOEXEC | O_NONBLOCK))
		return -1;
	/* The write end in the child blocks. */
	fcntl(fds[1], F_SETFL, 0);
	r->pid = fork();
	if (r->pid == 0)
		child(r->request, fds[1], parent);
	close(fds[1]);
	if (r->pid < 0) {
		close(fds[0]);
		return -1;
	}
	ev_io_init(&r->io, on_readable, fds[0], EV_READ);
	r->io.data = r;
	ev_io_start(r->slurm->loop, &r->io);
	return 0;
}

static bool is_op(const struct gck_slurm_request *r, const char *op)
{
	return !strcmp(json_string_value(json_object_get(r->request, "op")), op);
}

static struct gck_slurm_request *find_equal(struct gck_slurm_request *list, const json_t *request)
{
	while (list && !json_equal(list->request, request))
		list = list->next;
	return list;
}

static bool may_run(const struct gck_slurm *s, const struct gck_slurm_request *r)
{
	if (is_op(r, "requeue"))
		return s->nrunning < MAX_CHILDREN + MAX_URGENT;
	return s->nrunning < MAX_CHILDREN && !find_equal(s->running, r->request);
}

static struct gck_slurm_request *take_next(struct gck_slurm *s)
{
	struct gck_slurm_request *r = s->waiting;

	while (r && !may_run(s, r))
		r = r->next;
	if (r)
		unlink_request(&s->waiting, r);
	return r;
}

static void start_next(struct gck_slurm *s)
{
	struct gck_slurm_request *r;

	while ((r = take_next(s))) {
		if (launch(r)) {
			r->pid = 0;
			give_answer(r, "cannot start a process that asks Slurm");
			request_free(r);
			continue;
		}
		r->next = s->running;
		s->running = r;
		s->nrunning++;
	}
}

/* Children start from the loop, so that done is never called before gck_slurm_ask returns. */
static void on_begin(int revents, void *arg)
{
	(void)revents;
	start_next(arg);
}

static struct gck_slurm_request *request_new(struct gck_slurm *s, json_t *request)
{
	struct gck_slurm_request *r = calloc(1, sizeof *r);
	struct gck_slurm_request **p = &s->waiting;

	if (!r)
		return NULL;
	r->slurm = s;
	r->request = json_incref(request);
	ev_timer_init(&r->deadline, on_deadline, is_op(r, "job") ? SHARED_DEADLINE_S : DEADLINE_S,
		      0.);
	r->deadline.data = r;
	ev_timer_start(s->loop, &r->deadline);
	while (*p)
		p = &(*p)->next;
	*p = r;
	ev_once(s->loop, -1, 0, 0., on_begin, s);
	return r;
}

static void add_taker(struct gck_slurm_request *r, struct taker *t)
{
	struct taker **p = &r->takers;

	while (*p)
		p = &(*p)->next;
	*p = t;
}

void gck_slurm_ask(struct gck_slurm *s, json_t *request, gck_slurm_fn *done, void *arg)
{
	static const struct gck_slurm_answer no_memory = {.code = ENOMEM,
							  .error = "no memory to ask Slurm"};
	struct taker *t = request ? malloc(sizeof *t) : NULL;
	struct gck_slurm_request *r = find_equal(s->waiting, request);

	if (t && (!r || !is_op(r, "job")))
		r = request_new(s, request);
	json_decref(request);
	if (!t || !r) {
		free(t);
		done(arg, &no_memory);
		return;
	}
	*t = (struct taker){.done = done, .arg = arg};
	add_taker(r, t);
}

void gck_slurm_close(struct gck_slurm *s)
{
	while (s->waiting) {
		struct gck_slurm_request *r = s->waiting;

		s->waiting = r->next;
		request_free(r);
	}
	while (s->running) {
		struct gck_slurm_request *r = s->running;

		s->running = r->next;
		kill(r->pid, SIGKILL);
		close(r->io.fd);
		request_free(r);
	}
}
