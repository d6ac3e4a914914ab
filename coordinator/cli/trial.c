/* SPDX-License-Identifier: Apache-2.0
 * Building a rank of a commit on this node, in a process of this program under the preload. It
 * waits in the preload's constructor, as a task of a restarted step does; this process is its
 * agent and its restorer. If this process is killed, so is that one. */
#include "config.h"

#include "coordinator/cli/trial.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shim/process/process.h"
#include "storage/image/image.h"
#include "storage/store/commit.h"
#include "storage/store/manifest.h"

#define ARRIVE_MS 30000 /* for the process to reach the preload's constructor */

struct trial {
	const char *preload;
	struct gck_store *store;
	struct progress *progress;
	int listener, link;
	char name[108]; /* of the listener */
	pid_t pid;
};

/* ---- the process --------------------------------------------------------------------------- */

/* The kernel chooses an abstract name. */
static int open_listener(struct trial *t, struct gck_error *err)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	socklen_t size = sizeof a;

	t->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (t->listener < 0 || bind(t->listener, (struct sockaddr *)&a, sizeof a.sun_family) ||
	    listen(t->listener, 1) || getsockname(t->listener, (struct sockaddr *)&a, &size))
		return gck_fail(err, errno, "a socket for the ranks: %s", strerror(errno));
	snprintf(t->name, sizeof t->name, "%.*s",
		 (int)(size - offsetof(struct sockaddr_un, sun_path) - 1), a.sun_path + 1);
	return 0;
}

/* If the preload does not stop it in its constructor, it only prints our version. */
static _Noreturn void become_rank(const struct trial *t, pid_t parent)
{
	char program[] = "gpuckpt", version[] = "--version", pid[16];
	char *argv[] = { program, version, NULL };
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	dup2(null, STDIN_FILENO);
	dup2(null, STDOUT_FILENO);
	snprintf(pid, sizeof pid, "%d", (int)getpid());
	setenv("LD_PRELOAD", t->preload, 1);
	setenv("GPUCKPT_LINK", t->name, 1);
	setenv("GPUCKPT_PID", pid, 1);
	setenv("GPUCKPT_RESTARTS", "1", 1);
	execv("/proc/self/exe", argv);
	_exit(127);
}

static int await(int fd, struct gck_error *err)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int n;

	do {
		n = poll(&p, 1, ARRIVE_MS);
	} while (n < 0 && errno == EINTR);
	return n > 0 ? 0 : gck_fail(err, n ? errno : ETIMEDOUT, "it did not reach the preload's "
				    "constructor (PreloadPath in gpuckpt.conf)");
}

/* Another process of the user's that connects is not ours. */
static int take_hello(struct trial *t, struct gck_error *err)
{
	struct ucred peer;
	socklen_t size = sizeof peer;
	struct gck_link_msg m;

	if (await(t->listener, err))
		return -1;
	t->link = accept4(t->listener, NULL, NULL, SOCK_CLOEXEC);
	if (t->link < 0 || getsockopt(t->link, SOL_SOCKET, SO_PEERCRED, &peer, &size))
		return gck_fail(err, errno, "its connection: %s", strerror(errno));
	if (await(t->link, err))
		return -1;
	if (peer.pid != t->pid || recv(t->link, &m, sizeof m, 0) <= 0 ||
	    m.type != GCK_LINK_HELLO || m.hello.version != GCK_LINK_VERSION)
		return gck_fail(err, EPROTO, "the preload %s is another version's", t->preload);
	m = (struct gck_link_msg){ .type = GCK_LINK_HOLD, .pid = getpid() };
	if (send(t->link, &m, offsetof(struct gck_link_msg, calls), MSG_NOSIGNAL) < 0)
		return gck_fail(err, errno, "its connection: %s", strerror(errno));
	return 0;
}

static int start(struct trial *t, struct gck_error *err)
{
	pid_t parent = getpid();

	t->pid = fork();
	if (t->pid == 0)
		become_rank(t, parent);
	if (t->pid < 0)
		return gck_fail(err, errno, "a process for it: %s", strerror(errno));
	return take_hello(t, err);
}

static void end(struct trial *t)
{
	if (t->pid > 0) {
		kill(t->pid, SIGKILL);
		waitpid(t->pid, NULL, 0);
	}
	if (t->link >= 0)
		close(t->link);
	t->pid = 0;
	t->link = -1;
}

/* ---- a rank -------------------------------------------------------------------------------- */

static int on_progress(void *arg, uint64_t done, uint64_t all)
{
	return !progress_tell(arg, done, all);
}

static int build_in(struct trial *t, struct gck_restore *r, const json_t *manifest,
		    struct gck_reader *reader, struct gck_error *err)
{
	gck_restore_for_trial(r);
	if (gck_restore_image(r, manifest, reader, err) < 0)
		return -1;
	if (gck_restore_device(r) && gck_store_check_rank(t->store, manifest, err) < 0)
		return -1;
	return gck_restore_build(r, on_progress, t->progress, err);
}

static const char *skipped(const struct gck_restore *r)
{
	bool mpi = gck_restore_has_mpi(r), cuda = gck_restore_cuda(r, 0);

	return mpi && cuda ? "MPI, GPU" : mpi ? "MPI" : cuda ? "GPU" : NULL;
}

/* *left_out is static text, or NULL if nothing was left out. */
static int build(struct trial *t, const json_t *manifest, const char **left_out,
		 struct gck_error *err)
{
	struct gck_reader *reader = gck_reader_open(t->store, manifest, err);
	struct gck_restore *r = NULL;
	int rc = -1;

	if (reader && start(t, err) == 0)
		r = gck_restore_open(t->pid, t->name, err);
	if (r)
		rc = build_in(t, r, manifest, reader, err);
	if (rc == 0)
		*left_out = skipped(r);
	gck_restore_close(r);
	end(t);
	if (reader)
		gck_reader_close(reader);
	return rc;
}

static json_t *try_rank(struct trial *t, const json_t *commit, const json_t *entry)
{
	json_int_t rank = json_integer_value(json_object_get(entry, "rank"));
	const json_t *exit = json_object_get(entry, "exit");
	const char *left_out = NULL;
	struct gck_error err = { 0 };
	json_t *manifest;
	int rc;

	if (json_is_integer(exit))
		return json_pack("{s:I, s:b, s:O}", "rank", rank, "builds", 1, "exit", exit);
	manifest = gck_store_read_manifest(t->store, commit, (uint32_t)rank, &err);
	rc = manifest ? build(t, manifest, &left_out, &err) : -1;
	json_decref(manifest);
	if (rc < 0)
		return json_pack("{s:I, s:b, s:s}", "rank", rank, "builds", 0, "error", err.text);
	return json_pack("{s:I, s:b, s:s*}", "rank", rank, "builds", 1, "skipped", left_out);
}

static json_t *try_ranks(struct trial *t, const json_t *commit)
{
	json_t *out = json_array(), *entry;
	size_t i;

	json_array_foreach(json_object_get(commit, "ranks"), i, entry)
		json_array_append_new(out, try_rank(t, commit, entry));
	return out;
}

json_t *trial_of_commit(const char *preload, struct gck_store *s, uint32_t seq, const char *hash,
			struct progress *progress, struct gck_error *err)
{
	struct trial t = { .preload = preload, .store = s, .progress = progress, .listener = -1,
			   .link = -1 };
	json_t *commit = gck_store_read_commit(s, seq, hash, NULL, err), *out = NULL;

	if (commit && access(preload, R_OK))
		gck_fail(err, errno, "%s: %s: the ranks' processes need it", preload,
			 strerror(errno));
	else if (commit && open_listener(&t, err) == 0)
		out = try_ranks(&t, commit);
	if (t.listener >= 0)
		close(t.listener);
	json_decref(commit);
	return out;
}
