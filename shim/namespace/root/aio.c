/* SPDX-License-Identifier: Apache-2.0
 * Asynchronous file access. libc uses internal threads for it, which could not be listed. Here each
 * request of the copy (OMPIO's posix component) is complete when it is issued. */
#include "config.h"

#include "shim/namespace/root/root.h"

#include <aio.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

static int done(struct aiocb *cb, ssize_t n)
{
	cb->__return_value = n;
	cb->__error_code = n < 0 ? errno : 0;
	return 0;
}

GCK_EXPORT int aio_read(struct aiocb *cb)
{
	void *buf = (void *)cb->aio_buf;

	return done(cb, pread(cb->aio_fildes, buf, cb->aio_nbytes, cb->aio_offset));
}

GCK_EXPORT int aio_read64(struct aiocb64 *cb)
{
	return aio_read((struct aiocb *)cb);
}

GCK_EXPORT int aio_write(struct aiocb *cb)
{
	const void *buf = (const void *)cb->aio_buf;

	return done(cb, pwrite(cb->aio_fildes, buf, cb->aio_nbytes, cb->aio_offset));
}

GCK_EXPORT int aio_write64(struct aiocb64 *cb)
{
	return aio_write((struct aiocb *)cb);
}

GCK_EXPORT int aio_error(const struct aiocb *cb)
{
	return cb->__error_code;
}

GCK_EXPORT int aio_error64(const struct aiocb64 *cb)
{
	return cb->__error_code;
}

GCK_EXPORT ssize_t aio_return(struct aiocb *cb)
{
	if (cb->__return_value < 0)
		errno = cb->__error_code;
	return cb->__return_value;
}

GCK_EXPORT ssize_t aio_return64(struct aiocb64 *cb)
{
	return aio_return((struct aiocb *)cb);
}

GCK_EXPORT int aio_fsync(int operation, struct aiocb *cb)
{
	return done(cb, operation == O_DSYNC ? fdatasync(cb->aio_fildes) : fsync(cb->aio_fildes));
}

GCK_EXPORT int aio_suspend(const struct aiocb *const list[], int n, const struct timespec *timeout)
{
	(void)list;
	(void)n;
	(void)timeout;
	return 0;
}

GCK_EXPORT int aio_cancel(int fd, struct aiocb *cb)
{
	(void)fd;
	(void)cb;
	return AIO_ALLDONE;
}
