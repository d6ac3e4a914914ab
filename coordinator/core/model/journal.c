/* SPDX-License-Identifier: Apache-2.0
 * The journal: read back, appended to, rewritten; and the lock that keeps a second coordinator
 * out. */
#include "coordinator/core/model/journal.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define SUM_TEXT 17 /* 16 hex digits and a space */
#define LONG_ENOUGH (16 << 20)
#define UNTOUCHED_MS 2000 /* from the stamp of the last line to its write */

struct gck_journal {
	int fd;
	int dir;
	bool broken;
	off_t size;     /* of the complete lines */
	off_t compact;  /* size after the last rewrite */
	/* When it was opened: the last line's stamp (0: none), and the file's last change. */
	int64_t stamped_ms, changed_ms;
	char path[PATH_MAX];
};

/* ---- lines --------------------------------------------------------------------------------- */

static void sum_text(const char *text, size_t size, char out[SUM_TEXT + 1])
{
	snprintf(out, SUM_TEXT + 1, "%016llx ", (unsigned long long)XXH3_64bits(text, size));
}

static int64_t ms_of(struct timespec t)
{
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* The text of a record with the time; to be freed. */
static char *stamped_text(const json_t *record)
{
	json_t *copy = json_copy((json_t *)record);
	struct timespec now;
	char *text = NULL;

	clock_gettime(CLOCK_REALTIME_COARSE, &now); /* the kernel's, for st_ctim */
	if (json_object_set_new(copy, "at_ms", json_integer(ms_of(now))) == 0)
		text = json_dumps(copy, JSON_COMPACT);
	json_decref(copy);
	return text;
}

char *gck_journal_line(const json_t *record, size_t *size)
{
	char *text = stamped_text(record);
	char *line = NULL;

	if (text) {
		size_t n = strlen(text);

		line = malloc(SUM_TEXT + n + 2);
		if (line) {
			sum_text(text, n, line);
			memcpy(line + SUM_TEXT, text, n);
			line[SUM_TEXT + n] = '\n';
			line[SUM_TEXT + n + 1] = '\0';
			*size = SUM_TEXT + n + 1;
		}
		free(text);
	}
	return line;
}

/* Parse a line without its newline; NULL with a reason if it is damaged. */
static json_t *parse_line(const char *line, size_t size, const char **why)
{
	char sum[SUM_TEXT + 1];
	json_error_t bad;
	json_t *record;

	*why = "its checksum does not fit";
	if (size <= SUM_TEXT)
		return NULL;
	sum_text(line + SUM_TEXT, size - SUM_TEXT, sum);
	if (memcmp(sum, line, SUM_TEXT) != 0)
		return NULL;
	*why = "it is not JSON";
	record = json_loadb(line + SUM_TEXT, size - SUM_TEXT, 0, &bad);
	return record;
}

/* ---- reading back -------------------------------------------------------------------------- */

static char *slurp(struct gck_journal *j, size_t *size, struct gck_error *err)
{
	struct stat st = {0};
	char *text = NULL;
	size_t have = 0;

	if (fstat(j->fd, &st) == 0)
		text = malloc((size_t)st.st_size + 1);
	while (text && have < (size_t)st.st_size) {
		ssize_t n = pread(j->fd, text + have, (size_t)st.st_size - have, (off_t)have);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		have += (size_t)n;
	}
	j->changed_ms = ms_of(st.st_ctim);
	if (!text || have < (size_t)st.st_size) {
		gck_fail(err, errno ? errno : EIO, "cannot read %s: %s", j->path, strerror(errno));
		free(text);
		return NULL;
	}
	*size = have;
	return text;
}

static int damaged(const struct gck_journal *j, unsigned line, const char *why,
		   struct gck_error *err)
{
	return gck_fail(
		err, EBADMSG,
		"%s, line %u: %s. Put a copy from a backup in its place, or move "
		"it away: steps that run are then learned from their agents and commits from "
		"their stores, but what was disabled or removed is forgotten",
		j->path, line, why);
}

static int take_line(struct gck_journal *j, unsigned number, const char *line, size_t size,
		     bool last, gck_journal_fn *take, void *arg, struct gck_error *err)
{
	const char *why;
	struct gck_error inner = {0};
	json_t *record = parse_line(line, size, &why);
	int rc;

	if (!record)
		return last ? 1 : damaged(j, number, why, err);
	j->stamped_ms = json_integer_value(json_object_get(record, "at_ms"));
	rc = take(arg, record, &inner);
	json_decref(record);
	return rc ? damaged(j, number, inner.text, err) : 0;
}

/* Only the last line can be torn by a crash. */
static int replay(struct gck_journal *j, const char *text, size_t size, gck_journal_fn *take,
		  void *arg, bool *torn, struct gck_error *err)
{
	const char *p = text, *end = text + size;
	unsigned number = 0;

	*torn = false;
	while (p < end) {
		const char *newline = memchr(p, '\n', (size_t)(end - p));
		const char *stop = newline ? newline : end;
		bool last = !newline || newline + 1 == end;
		int rc = newline ? take_line(j, ++number, p, (size_t)(stop - p), last, take, arg,
					     err)
				 : 1;

		if (rc < 0)
			return -1;
		if (rc > 0) {
			*torn = true;
			break;
		}
		p = newline + 1;
	}
	j->size = j->compact = p - text;
	if (*torn && ftruncate(j->fd, j->size))
		return gck_fail(err, errno, "cannot cut the torn last line off %s: %s", j->path,
				strerror(errno));
	return 0;
}

static int read_back(struct gck_journal *j, gck_journal_fn *take, void *arg, bool *torn,
		     struct gck_error *err)
{
	size_t size;
	char *text = slurp(j, &size, err);
	int rc;

	if (!text)
		return -1;
	rc = replay(j, text, size, take, arg, torn, err);
	free(text);
	return rc;
}

/* ---- the file ------------------------------------------------------------------------------ */

static int open_files(struct gck_journal *j, const char *dir, struct gck_error *err)
{
	if ((size_t)snprintf(j->path, sizeof j->path, "%s/journal", dir) >= sizeof j->path)
		return gck_fail(err, ENAMETOOLONG, "StateDir=%s is too long", dir);
	j->dir = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (j->dir < 0)
		return gck_fail(err, errno, "cannot open StateDir=%s: %s", dir, strerror(errno));
	j->fd = openat(j->dir, "journal", O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW,
		       0600);
	if (j->fd < 0)
		return gck_fail(err, errno, "cannot open %s: %s", j->path, strerror(errno));
	return 0;
}

struct gck_journal *gck_journal_open(const char *dir, gck_journal_fn *take, void *arg, bool *torn,
				     struct gck_error *err)
{
	struct gck_journal *j = calloc(1, sizeof *j);

	if (!j) {
		gck_fail(err, ENOMEM, "no memory for the journal");
		return NULL;
	}
	j->fd = j->dir = -1;
	if (open_files(j, dir, err) || read_back(j, take, arg, torn, err)) {
		gck_journal_close(j);
		return NULL;
	}
	return j;
}

void gck_journal_close(struct gck_journal *j)
{
	if (!j)
		return;
	if (j->fd >= 0)
		close(j->fd);
	if (j->dir >= 0)
		close(j->dir);
	free(j);
}

static int write_all(int fd, const char *p, size_t size)
{
	while (size > 0) {
		ssize_t n = write(fd, p, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -1;
		p += n;
		size -= (size_t)n;
	}
	return 0;
}

static int write_failed(struct gck_journal *j, struct gck_error *err)
{
	int code = errno;

	/* A partial line must not stay in front of the next one. */
	if (ftruncate(j->fd, j->size))
		j->broken = true;
	return gck_fail(err, code, "cannot write to %s: %s", j->path, strerror(code));
}

int gck_journal_append(struct gck_journal *j, const json_t *record, bool sync,
		       struct gck_error *err)
{
	size_t size = 0;
	char *line;
	int rc;

	if (j->broken)
		return gck_fail(err, EIO, "%s failed before; free space on its file system",
				j->path);
	line = gck_journal_line(record, &size);
	if (!line)
		return gck_fail(err, ENOMEM, "no memory for a record of the journal");
	rc = write_all(j->fd, line, size);
	free(line);
	if (rc)
		return write_failed(j, err);
	if (sync && fdatasync(j->fd)) {
		j->broken = true;
		return gck_fail(err, errno, "cannot sync %s: %s", j->path, strerror(errno));
	}
	j->size += (off_t)size;
	return 0;
}

/* The stamp of the last line is that of the file: it is written when the others are on the disk,
 * which may take its time. */
static int write_records(int fd, const json_t *records, off_t *total)
{
	json_t *record;
	size_t i;

	*total = 0;
	json_array_foreach(records, i, record) {
		size_t size = 0;
		bool last = i + 1 == json_array_size(records);
		char *line = last && fsync(fd) ? NULL : gck_journal_line(record, &size);
		int rc = line ? write_all(fd, line, size) : -1;

		free(line);
		if (rc)
			return -1;
		*total += (off_t)size;
	}
	return fsync(fd);
}

int gck_journal_rewrite(struct gck_journal *j, const json_t *records, struct gck_error *err)
{
	off_t size = 0;
	int fd = openat(j->dir, "journal.new", O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC |
			O_NOFOLLOW, 0600);

	if (fd < 0)
		return gck_fail(err, errno, "cannot write %s.new: %s", j->path, strerror(errno));
	if (write_records(fd, records, &size) ||
	    renameat(j->dir, "journal.new", j->dir, "journal")) {
		gck_fail(err, errno, "cannot rewrite %s: %s", j->path, strerror(errno));
		close(fd);
		unlinkat(j->dir, "journal.new", 0);
		return -1;
	}
	close(j->fd);
	j->fd = fd;
	j->size = j->compact = size;
	j->broken = false;
	if (fsync(j->dir) == 0)
		return 0;
	j->broken = true;
	return gck_fail(err, errno, "cannot sync the directory of %s: %s", j->path,
			strerror(errno));
}

bool gck_journal_was_current(const struct gck_journal *j)
{
	int64_t apart = j->changed_ms - j->stamped_ms;

	return j->stamped_ms && apart <= UNTOUCHED_MS && apart >= -UNTOUCHED_MS;
}

bool gck_journal_is_long(const struct gck_journal *j)
{
	return j->size > LONG_ENOUGH && j->size > 4 * j->compact;
}

/* ---- the lock ------------------------------------------------------------------------------- */

static int refuse_lock(int fd, const char *path, struct gck_error *err)
{
	char pid[32] = "";
	int code = errno;
	ssize_t n;

	if (code != EWOULDBLOCK) {
		close(fd);
		return gck_fail(err, code, "cannot lock %s: %s", path, strerror(code));
	}
	n = pread(fd, pid, sizeof pid - 1, 0);
	pid[n > 0 ? strcspn(pid, "\n") : 0] = '\0';
	close(fd);
	return gck_fail(err, EBUSY, "another gpuckptd, pid %s, has %s locked; stop it first",
			*pid ? pid : "unknown", path);
}

/* The descriptor stays open, unnamed, for the life of the process. */
int gck_journal_lock(const char *dir, struct gck_error *err)
{
	char path[PATH_MAX], pid[32];
	int fd, n;

	if ((size_t)snprintf(path, sizeof path, "%s/lock", dir) >= sizeof path)
		return gck_fail(err, ENAMETOOLONG, "StateDir=%s is too long", dir);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return gck_fail(err, errno, "cannot open %s: %s", path, strerror(errno));
	if (flock(fd, LOCK_EX | LOCK_NB))
		return refuse_lock(fd, path, err);
	n = snprintf(pid, sizeof pid, "%ld\n", (long)getpid());
	if (ftruncate(fd, 0) || pwrite(fd, pid, (size_t)n, 0) != n) {
		gck_fail(err, errno, "cannot write %s: %s", path, strerror(errno));
		close(fd);
		return -1;
	}
	return 0;
}
