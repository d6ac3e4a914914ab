/* SPDX-License-Identifier: Apache-2.0
 * Named semaphores, which libc maps and unmaps internally (OMPIO has one for each file's shared
 * pointer). libc maps a semaphore once, until it has been closed as often as opened. */
#include "config.h"

#include "shim/namespace/root/root.h"

#include <fcntl.h>
#include <semaphore.h>
#include <stdarg.h>
#include <sys/stat.h>

#include "shim/namespace/root/lock.h"

#define MAX_SEMAPHORES 4096

static struct {
	sem_t *sem; /* NULL: a free entry */
	unsigned int opened;
} semaphores[MAX_SEMAPHORES];
static struct gck_ns_lock lock; /* held during libc's call, which may reuse an address at once */

/* The index of a semaphore (NULL: of a free entry); MAX_SEMAPHORES: not found. */
static unsigned int find(const sem_t *sem)
{
	unsigned int i = 0;

	while (i < MAX_SEMAPHORES && semaphores[i].sem != sem)
		i++;
	return i;
}

static int list_semaphore(sem_t *sem)
{
	unsigned int i = find(sem);

	if (i == MAX_SEMAPHORES)
		i = find(NULL);
	if (i == MAX_SEMAPHORES || (!semaphores[i].sem && gck_ns_range_add(sem, sizeof *sem)))
		return -1;
	semaphores[i].sem = sem;
	semaphores[i].opened++;
	return 0;
}

/* Takes it out of the list before libc unmaps it, as in munmap. */
static void unlist(const sem_t *sem)
{
	unsigned int i = find(sem);

	if (i == MAX_SEMAPHORES || --semaphores[i].opened)
		return;
	semaphores[i].sem = NULL;
	gck_ns_range_remove(sem, sizeof *sem);
}

static sem_t *open_listed(const char *name, int flags, mode_t mode, unsigned int value)
{
	sem_t *sem = GCK_NS_NEXT(sem_open)(name, flags, mode, value);

	if (sem == SEM_FAILED || list_semaphore(sem) == 0)
		return sem;
	GCK_NS_NEXT(sem_close)(sem);
	errno = ENOMEM;
	return SEM_FAILED;
}

GCK_EXPORT sem_t *sem_open(const char *name, int flags, ...)
{
	mode_t mode = 0;
	unsigned int value = 0;
	va_list ap;
	sem_t *sem;

	if (flags & O_CREAT) {
		va_start(ap, flags);
		mode = va_arg(ap, mode_t);
		value = va_arg(ap, unsigned int);
		va_end(ap);
	}
	gck_ns_enter();
	gck_ns_lock(&lock);
	sem = open_listed(name, flags, mode, value);
	gck_ns_unlock(&lock);
	gck_ns_leave();
	return sem;
}

GCK_EXPORT int sem_close(sem_t *sem)
{
	int rc;

	gck_ns_enter();
	gck_ns_lock(&lock);
	unlist(sem);
	rc = GCK_NS_NEXT(sem_close)(sem);
	gck_ns_unlock(&lock);
	gck_ns_leave();
	return rc;
}
