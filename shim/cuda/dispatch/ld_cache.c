/* SPDX-License-Identifier: Apache-2.0
 * The loader's cache, as ldconfig writes it since glibc 2.2 ("new format"; glibc's
 * sysdeps/generic/dl-cache.h): a header, entries, and strings at offsets from the header. */
#include "shim/cuda/dispatch/ld_cache.h"

#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC "glibc-ld.so.cache1.1"
#define X86_64 0x0303 /* an ELF library for 64-bit glibc */

struct header {
	char magic[sizeof MAGIC - 1];
	uint32_t nlibs, strings_size;
	uint8_t flags, unused[3];
	uint32_t extension_offset, unused2[3];
};

struct entry {
	int32_t flags;
	uint32_t name, path, unused;
	uint64_t hwcap;
};

/* The string at an offset; NULL: it does not end within the file. */
static const char *text(const char *base, size_t size, uint32_t offset)
{
	return offset < size && memchr(base + offset, '\0', size - offset) ? base + offset : NULL;
}

static int look(const char *base, size_t size, const char *name, char *path, size_t capacity)
{
	const struct header *h = (const void *)base;
	const struct entry *e = (const void *)(h + 1);

	if (size < sizeof *h || memcmp(h->magic, MAGIC, sizeof h->magic) ||
	    h->nlibs > (size - sizeof *h) / sizeof *e)
		return -1;
	for (uint32_t i = 0; i < h->nlibs; i++) {
		const char *n = text(base, size, e[i].name), *p = text(base, size, e[i].path);

		if (e[i].flags == X86_64 && n && p && !strcmp(n, name) && strlen(p) < capacity) {
			strcpy(path, p);
			return access(path, R_OK);
		}
	}
	return -1;
}

int gck_cuda_cache_find(const char *cache, const char *name, char *path, unsigned long size)
{
	int fd = open(cache ? cache : "/etc/ld.so.cache", O_RDONLY | O_CLOEXEC), rc = -1;
	struct stat st;
	void *base;

	if (fd < 0)
		return -1;
	if (fstat(fd, &st) == 0 && st.st_size > 0) {
		base = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
		if (base != MAP_FAILED) {
			rc = look(base, (size_t)st.st_size, name, path, size);
			munmap(base, (size_t)st.st_size);
		}
	}
	close(fd);
	return rc;
}
