/* SPDX-License-Identifier: Apache-2.0
 * The journal: reading back, torn and damaged lines; records and the state that they make. */
#include "coordinator/core/model/journal.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "coordinator/core/model/record.h"
#include "coordinator/core/retention/import.h"
#include "test/support/tap.h"

static char dir[] = "/tmp/gck-journal-XXXXXX";
static char path[64];

static int take(void *arg, const json_t *record, struct gck_error *err)
{
	return gck_record_apply(arg, record, err);
}

static json_t *record(const char *text)
{
	json_error_t bad;
	json_t *r = json_loads(text, 0, &bad);

	if (!r)
		printf("Bail out! a test's record is bad: %s\n", bad.text);
	return r;
}

static const char *const history[] = {
	"{\"t\":\"job\",\"job\":5,\"uid\":1000,\"user\":\"u\",\"restarts\":0,\"submit\":9,"
	"\"batch\":true}",
	"{\"t\":\"step\",\"job\":5,\"step\":0,\"restarts\":0,\"nodes\":2,\"ntasks\":2,\"store\":"
	"\"file:/s\","
	"\"options\":\"\",\"fingerprint\":{\"program\":\"p\"}}",
	"{\"t\":\"run\",\"job\":5,\"step\":0,\"seq\":0}",
	"{\"t\":\"intent\",\"job\":5,\"step\":0,\"seq\":1,\"nonce\":\"aa\",\"held\":false}",
	"{\"t\":\"abort\",\"job\":5,\"step\":0,\"seq\":1,\"why\":\"w\","
	"\"unheard\":true}",
	"{\"t\":\"intent\",\"job\":5,\"step\":0,\"seq\":2,\"nonce\":\"bb\",\"held\":true}",
	"{\"t\":\"committing\",\"job\":5,\"step\":0,\"seq\":2,\"info\":{\"put\":7}}",
	"{\"t\":\"commit\",\"job\":5,\"step\":0,\"seq\":2,\"restarts\":0,"
	"\"hash\":\"0123456789abcdef0123456789abcdef\",\"time\":8,\"keep\":2,\"info\":{\"put\":7}}",
	"{\"t\":\"exit\",\"job\":5,\"step\":0,\"rank\":1,\"status\":256}",
	"{\"t\":\"disable\",\"job\":5,\"step\":0,\"value\":true}",
	"{\"t\":\"requeue\",\"job\":5,\"value\":true}",
	"{\"t\":\"intent\",\"job\":5,\"step\":0,\"seq\":3,\"nonce\":\"cc\",\"held\":false}",
};

/* An import that was given up, one with a valid commit, and one that is under way. */
static const char *const imports[] = {
	"{\"t\":\"intent\",\"job\":5,\"step\":0,\"seq\":4,\"nonce\":\"\",\"held\":false,"
	"\"import\":[\"4-a/\"],\"info\":{\"imported\":true}}",
	"{\"t\":\"abort\",\"job\":5,\"step\":0,\"seq\":4}",
	"{\"t\":\"intent\",\"job\":5,\"step\":0,\"seq\":5,\"nonce\":\"\",\"held\":false,"
	"\"import\":[\"5-a/\"],\"info\":{\"imported\":true}}",
	"{\"t\":\"commit\",\"job\":5,\"step\":0,\"seq\":5,\"restarts\":0,"
	"\"hash\":\"0123456789abcdef0123456789abcdef\",\"time\":8,\"info\":{\"imported\":true}}",
	"{\"t\":\"intent\",\"job\":5,\"step\":0,\"seq\":6,\"nonce\":\"\",\"held\":false,"
	"\"import\":[\"6-a/\",\"2-b/\"],\"info\":{\"imported\":true}}",
};

#define NHISTORY (sizeof history / sizeof *history)

static void write_history(void)
{
	struct gck_state state = {0};
	bool torn;
	struct gck_journal *j;

	unlink(path);
	j = gck_journal_open(dir, take, &state, &torn, NULL);
	for (size_t i = 0; j && i < NHISTORY; i++) {
		json_t *r = record(history[i]);

		if (gck_journal_append(j, r, i % 2, NULL))
			printf("Bail out! cannot append\n");
		json_decref(r);
	}
	gck_journal_close(j);
}

/* Open, dump the state, close. Returns the dump, or NULL with the error. */
static json_t *read_back(bool *torn, struct gck_error *err)
{
	struct gck_state state = {0};
	struct gck_journal *j = gck_journal_open(dir, take, &state, torn, err);
	json_t *dump = j ? gck_state_dump(&state) : NULL;

	if (dump)
		json_array_remove(dump, 0); /* the epoch has the time */
	gck_journal_close(j);
	gck_state_clear(&state);
	return dump;
}

static void change_byte(off_t at)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	char c;

	if (pread(fd, &c, 1, at) != 1)
		printf("Bail out! the journal is too short\n");
	c ^= 1;
	if (pwrite(fd, &c, 1, at) != 1)
		printf("Bail out! cannot write\n");
	close(fd);
}

static off_t size_of_journal(void)
{
	struct stat st;

	return stat(path, &st) ? -1 : st.st_size;
}

static void test_replay(void)
{
	struct gck_state state = {0};
	struct gck_step *step;
	bool torn = true;
	struct gck_journal *j;

	write_history();
	j = gck_journal_open(dir, take, &state, &torn, NULL);
	ok(all_of(j, !torn), "a journal is read back");
	step = gck_state_step(&state, 5, 0);
	if (ok(step != NULL, "the step is known")) {
		is_int(step->commits->seq, 2, "it has its commit");
		is_int(json_integer_value(json_object_get(step->commits->info, "put")), 7,
		       "with its information");
		is_int(step->intent.seq, 3, "the open intent");
		is_int(step->last_seq, 3, "the last sequence number");
		is_int(step->exits[1], 256, "the status of the rank that ended");
		is_int(gck_step_ended(step), 1, "no other rank has ended");
		ok(all_of(step->disabled, step->job->requeued, step->decided), "flags");
	}
	gck_journal_close(j);
	gck_state_clear(&state);
}

static void test_dump(void)
{
	struct gck_state state = {0}, again = {0};
	bool torn;
	json_t *first, *second, *r;
	struct gck_journal *j;
	size_t i;

	write_history();
	j = gck_journal_open(dir, take, &state, &torn, NULL);
	first = gck_state_dump(&state);
	json_array_foreach(first, i, r)
		if (gck_record_apply(&again, r, NULL))
			printf("# record %zu of a dump is refused\n", i);
	second = gck_state_dump(&again);
	ok(json_equal(first, second), "a dump makes an equal state");
	ok(gck_journal_rewrite(j, first, NULL) == 0, "the journal is rewritten");
	gck_journal_close(j);
	gck_state_clear(&again);
	j = gck_journal_open(dir, take, &again, &torn, NULL);
	json_decref(second);
	second = gck_state_dump(&again);
	ok(json_equal(first, second), "and read back equally");
	is_int(gck_state_step(&again, 5, 0)->unheard, 1, "with the commit in doubt");
	gck_journal_close(j);
	gck_state_clear(&again);
	gck_state_clear(&state);
	json_decref(first);
	json_decref(second);
}

static void apply(struct gck_state *state, const char *const *texts, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		json_t *r = record(texts[i]);

		if (gck_record_apply(state, r, NULL))
			printf("# %s is refused\n", texts[i]);
		json_decref(r);
	}
}

static void test_imports(void)
{
	struct gck_state state = {0}, again = {0};
	struct gck_step *step;
	json_t *dump, *r;
	size_t i;

	apply(&state, history, NHISTORY);
	apply(&state, imports, sizeof imports / sizeof *imports);
	dump = gck_state_dump(&state);
	json_array_foreach(dump, i, r)
		must(gck_record_apply(&again, r, NULL));
	r = gck_state_dump(&again);
	ok(json_equal(dump, r), "imports: a dump makes an equal state");
	json_decref(r);
	json_decref(dump);
	gck_state_clear(&state);
	step = gck_state_step(&again, 5, 0);
	is_int(step->commits->seq, 5, "the imported commit is valid");
	is_int(gck_step_newest(step, 0)->seq, 2, "without restart= no restart uses it");
	gck_step_prune(step, 1);
	ok(all_of(gck_step_commit(step, 5), gck_step_commit(step, 2)), "keep= does not count it");
	ok(all_of(step->intent.seq == 6, json_array_size(step->intent.import) == 2),
	   "another import is under way");
	is_int(step->removals, 1, "the store of the import that was given up must be swept");
	gck_import_lost_all(&again, 1000000);
	ok(all_of(!step->intent.seq, step->removals == 2, gck_step_unswept(step)),
	   "then that of the other one too");
	ok(step->landing_ms > 1000000, "and again when no object can arrive any more");
	gck_state_clear(&again);
}

static void test_torn(void)
{
	json_t *whole, *dump;
	bool torn, all_good = true;
	off_t size;

	write_history();
	whole = read_back(&torn, NULL);
	size = size_of_journal();
	for (off_t cut = 1; cut < 60; cut++) {
		write_history();
		if (truncate(path, size - cut))
			break;
		dump = read_back(&torn, NULL);
		all_good = all_good && torn && dump && !json_equal(dump, whole);
		json_decref(dump);
		dump = read_back(&torn, NULL);
		all_good = all_good && !torn && dump;
		json_decref(dump);
	}
	ok(all_good, "a torn last line is dropped for good");
	write_history();
	change_byte(size - 3);
	dump = read_back(&torn, NULL);
	ok(all_of(dump, torn), "so is a last line with a wrong checksum");
	json_decref(dump);
	json_decref(whole);
}

static void test_damaged(void)
{
	struct gck_error err = {0};
	unsigned refused = 0, tried = 0;
	off_t size;
	bool torn;

	write_history();
	size = size_of_journal();
	for (off_t at = 0; at < size - 200; at += 13, tried++) {
		json_t *dump;

		write_history();
		change_byte(at);
		dump = read_back(&torn, &err);
		refused += dump == NULL;
		json_decref(dump);
	}
	is_int(refused, tried, "a changed byte anywhere before the last line is found");
	write_history();
	change_byte(3);
	read_back(&torn, &err);
	ok(all_of(strstr(err.text, path), strstr(err.text, "line 1"),
		  strstr(err.text, "move it away")), "file, line and remedy are named");
}

static void test_senseless(void)
{
	static const char *const bad[] = {
		"{\"t\":\"commit\",\"job\":5,\"step\":9,\"seq\":1}",
		"{\"t\":\"nonsense\"}",
		"{\"job\":5}",
		"{\"t\":\"exit\",\"job\":5,\"step\":0,\"rank\":2,\"status\":0}",
		"{\"t\":\"exit\",\"job\":5,\"step\":0,\"rank\":-1,\"status\":0}",
		"{\"t\":\"intent\",\"job\":5,\"step\":0,\"seq\":5000000000,\"nonce\":\"a\","
		"\"held\":false}",
		"{\"t\":\"committing\",\"job\":5,\"step\":0,\"seq\":77}",
		"{\"t\":\"step\",\"job\":5,\"step\":1,\"restarts\":0,\"nodes\":0,\"ntasks\":1,"
		"\"store\":\"\","
		"\"options\":\"\",\"fingerprint\":{}}",
	};
	struct gck_state state = {0};
	unsigned refused = 0;

	for (size_t i = 0; i < NHISTORY; i++) {
		json_t *r = record(history[i]);

		must(gck_record_apply(&state, r, NULL));
		json_decref(r);
	}
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct gck_error err = {0};
		json_t *r = record(bad[i]);

		refused += gck_record_apply(&state, r, &err) == -1 && *err.text;
		json_decref(r);
	}
	is_int(refused, sizeof bad / sizeof *bad, "invalid records are refused");
	gck_state_clear(&state);
}

/* A full file system, simulated by RLIMIT_FSIZE. */
static void test_full(void)
{
	struct gck_state state = {0};
	struct rlimit limit;
	struct gck_error err = {0};
	json_t *r = record(history[8]), *dump, *whole;
	struct gck_journal *j;
	bool torn;

	write_history();
	whole = read_back(&torn, NULL);
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &limit);
	limit.rlim_cur = (rlim_t)size_of_journal() + 20;
	setrlimit(RLIMIT_FSIZE, &limit);
	j = gck_journal_open(dir, take, &state, &torn, NULL);
	ok(all_of(gck_journal_append(j, r, true, &err) == -1, strstr(err.text, path)),
	   "a full file system is an error");
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_FSIZE, &limit);
	is_int(gck_journal_append(j, r, true, NULL), 0, "with space again a record is appended");
	gck_journal_close(j);
	gck_state_clear(&state);
	dump = read_back(&torn, NULL);
	ok(all_of(dump, !torn, json_equal(dump, whole)),
	   "no part of the failed record is before it");
	json_decref(dump);
	json_decref(whole);
	json_decref(r);
}

static void test_lock(void)
{
	char pid[32];
	struct gck_error err = {0};
	int status;
	pid_t child;

	is_int(gck_journal_lock(dir, NULL), 0, "the lock is taken");
	snprintf(pid, sizeof pid, "pid %d,", (int)getpid());
	child = fork();
	if (child == 0)
		_exit(gck_journal_lock(dir, &err) == -1 && strstr(err.text, pid) ? 0 : 1);
	waitpid(child, &status, 0);
	is_int(status, 0, "another process is refused with the owner's pid");
}

/* As a coordinator that is opened on it sees the journal. */
static bool is_current(void)
{
	struct gck_state state = {0};
	bool torn, current;
	struct gck_journal *j = gck_journal_open(dir, take, &state, &torn, NULL);

	current = j && gck_journal_was_current(j);
	gck_journal_close(j);
	gck_state_clear(&state);
	return current;
}

/* A last line that was written so long ago; no stamp: as 0.1.0 wrote it. */
static void add_line(const char *stamp)
{
	char text[200];
	FILE *out = fopen(path, "a");

	snprintf(text, sizeof text, "{\"t\":\"job\",\"job\":6,\"uid\":1000,\"user\":\"u\","
		 "\"restarts\":0,\"submit\":9,\"batch\":true%s}", stamp);
	fprintf(out, "%016llx %s\n", (unsigned long long)XXH3_64bits(text, strlen(text)), text);
	fclose(out);
}

static void add_old_line(int64_t age_ms)
{
	char stamp[40];
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	snprintf(stamp, sizeof stamp, ",\"at_ms\":%lld",
		 (long long)(now.tv_sec * 1000 + now.tv_nsec / 1000000 - age_ms));
	add_line(stamp);
}

static void test_current(void)
{
	struct gck_state state = {0};
	struct gck_journal *j;
	json_t *dump;
	bool torn;

	unlink(path);
	ok(!is_current(), "a new journal may lack what a lost one had");
	write_history();
	ok(is_current(), "a journal as a coordinator has left it");
	j = gck_journal_open(dir, take, &state, &torn, NULL);
	dump = gck_state_dump(&state);
	is_int(gck_journal_rewrite(j, dump, NULL), 0, "it is rewritten");
	gck_journal_close(j);
	json_decref(dump);
	gck_state_clear(&state);
	ok(is_current(), "and current");
	add_old_line(10000);
	ok(!is_current(), "a file that was put back later than its last line was written");
	add_old_line(-10000);
	ok(!is_current(), "one whose last line is of a clock that was ahead");
	add_line("");
	ok(!is_current(), "one of a release that did not tell the time");
}

static void test_prune(void)
{
	struct gck_job job = {.id = 1};
	struct gck_step *step = gck_job_add_step(&job, 0);

	for (uint32_t seq = 1; seq <= 5; seq++)
		gck_step_add_commit(step, seq);
	gck_step_commit(step, 4)->abandoned = true;
	gck_step_prune(step, 4);
	ok(all_of(!gck_step_commit(step, 4), gck_step_commit(step, 1)),
	   "abandoned commits are dropped first");
	gck_step_prune(step, 2);
	ok(all_of(gck_step_commit(step, 5), gck_step_commit(step, 3), !gck_step_commit(step, 2)),
	   "then the oldest ones");
	while (step->commits)
		gck_step_drop_commit(step, step->commits->seq);
	free(step);
}

int main(void)
{
	if (!mkdtemp(dir))
		return 1;
	snprintf(path, sizeof path, "%s/journal", dir);
	test_replay();
	test_dump();
	test_imports();
	test_torn();
	test_damaged();
	test_senseless();
	test_full();
	test_lock();
	test_current();
	test_prune();
	unlink(path);
	snprintf(path, sizeof path, "%s/lock", dir);
	unlink(path);
	rmdir(dir);
	return tap_done();
}
