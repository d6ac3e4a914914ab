/* SPDX-License-Identifier: Apache-2.0
 * Logging for programs (libraries do not log): a line with the time for each event, to stderr or a
 * file. */
#ifndef GCK_LOG_H
#define GCK_LOG_H

enum gck_log_level {
	GCK_LOG_NOTHING = -1,
	GCK_LOG_ERROR,
	GCK_LOG_WARN,
	GCK_LOG_INFO,
	GCK_LOG_DEBUG
};

/* Append to the file path (mode 0600), or log to stderr if path is NULL. Every line has name. -1
 * with errno. EPERM: path is neither a device nor a regular file that belongs to this user and has
 * one link; ELOOP: it is a symbolic link. */
int gck_log_open(const char *name, const char *path, enum gck_log_level level);

/* Log to stderr from now on: for a child process that closes all other descriptors. */
void gck_log_as_stderr(void);

void gck_log(enum gck_log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define gck_error_log(...) gck_log(GCK_LOG_ERROR, __VA_ARGS__)
#define gck_warn(...) gck_log(GCK_LOG_WARN, __VA_ARGS__)
#define gck_info(...) gck_log(GCK_LOG_INFO, __VA_ARGS__)
#define gck_debug(...) gck_log(GCK_LOG_DEBUG, __VA_ARGS__)

#endif
