/* SPDX-License-Identifier: Apache-2.0
 * Logging for mains (libraries do not log): one line an event, to stderr or a file, with time. */
#ifndef GCK_LOG_H
#define GCK_LOG_H

enum gck_log_level { GCK_LOG_ERROR, GCK_LOG_WARN, GCK_LOG_INFO, GCK_LOG_DEBUG };

/* Log to path (appending, 0600) or, if NULL, to stderr. name stands in every line. -1 with errno:
 * EPERM if path is no regular file of one's own with this one name, nor a device; ELOOP if it is a
 * link. */
int gck_log_open(const char *name, const char *path, enum gck_log_level level);

/* The log becomes stderr: for a child that closes all else that is open. */
void gck_log_as_stderr(void);

void gck_log(enum gck_log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define gck_error_log(...) gck_log(GCK_LOG_ERROR, __VA_ARGS__)
#define gck_warn(...) gck_log(GCK_LOG_WARN, __VA_ARGS__)
#define gck_info(...) gck_log(GCK_LOG_INFO, __VA_ARGS__)
#define gck_debug(...) gck_log(GCK_LOG_DEBUG, __VA_ARGS__)

#endif
