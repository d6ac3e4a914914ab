/* SPDX-License-Identifier: Apache-2.0
 * Parsing /proc/PID/maps and smaps. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>

#include "shim/process/proc/maps.h"
#include "shim/process/proc/procfs.h"

static const struct {
	char code[3];
	uint32_t flag;
} flag_codes[] = {
	{"dc", GCK_VM_DONTFORK}, {"wf", GCK_VM_WIPEONFORK}, {"ht", GCK_VM_HUGETLB},
	{"io", GCK_VM_DEVICE}, {"pf", GCK_VM_DEVICE}, {"gd", GCK_VM_GROWSDOWN},
	{"hg", GCK_VM_HUGE}, {"nh", GCK_VM_NOHUGE}, {"lo", GCK_VM_LOCKED},
	{"dd", GCK_VM_DONTDUMP}, {"mw", GCK_VM_MAYWRITE}, {"um", GCK_VM_USERFAULT},
	{"ss", GCK_VM_SHADOW}, {"lf", GCK_VM_ONFAULT},
	{"sr", GCK_VM_SEQUENTIAL}, {"rr", GCK_VM_RANDOM}, {"mg", GCK_VM_MERGEABLE},
	{"dp", GCK_VM_DROPPABLE}, {"nr", GCK_VM_NORESERVE}, {"sl", GCK_VM_SEALED},
	{"gu", GCK_VM_GUARDS},
};

static uint32_t parse_flags(const char *at)
{
	uint32_t flags = 0;

	for (at += strspn(at, " "); at[0] && at[1]; at += 2, at += strspn(at, " "))
		for (size_t i = 0; i < sizeof(flag_codes) / sizeof(flag_codes[0]); i++)
			if (!memcmp(at, flag_codes[i].code, 2))
				flags |= flag_codes[i].flag;
	return flags;
}

/* Parse one number and the character that must follow it; a sign is not accepted. */
static bool number(char **at, int base, char end, uint64_t *out)
{
	char *stop;

	if (!strchr("0123456789abcdef", **at) || !**at)
		return false;
	*out = strtoull(*at, &stop, base);
	if (stop == *at || *stop != end)
		return false;
	*at = stop + 1;
	return true;
}

/* "start-end rwxp offset major:minor inode   name" */
static bool parse_head(char *at, struct gck_vma *x)
{
	uint64_t major_, minor_;
	char *stop;

	memset(x, 0, sizeof(*x));
	if (!number(&at, 16, '-', &x->start) || !number(&at, 16, ' ', &x->end))
		return false;
	if (strlen(at) < 5 || at[4] != ' ')
		return false;
	x->prot = (at[0] == 'r' ? PROT_READ : 0) | (at[1] == 'w' ? PROT_WRITE : 0) |
		  (at[2] == 'x' ? PROT_EXEC : 0);
	x->shared = at[3] == 's';
	at += 5;
	if (!number(&at, 16, ' ', &x->offset) || !number(&at, 16, ':', &major_) ||
	    !number(&at, 16, ' ', &minor_))
		return false;
	x->device = makedev(major_, minor_);
	x->inode = strtoull(at, &stop, 10);
	x->name = stop + strspn(stop, " ");
	return stop != at && x->end > x->start;
}

/* "Key:   value" of smaps. */
static void parse_detail(char *line, struct gck_vma *x)
{
	static const struct {
		const char *key;
		size_t at;
	} sizes[] = {
		{"Rss:", offsetof(struct gck_vma, resident)},
		{"Anonymous:", offsetof(struct gck_vma, anonymous)},
		{"Swap:", offsetof(struct gck_vma, swapped)},
	};

	x->known = true;
	if (!strncmp(line, "VmFlags:", 8))
		x->flags = parse_flags(line + 8);
	else if (!strncmp(line, "ProtectionKey:", 14))
		x->key = (uint32_t)strtoul(line + 14, NULL, 10);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		if (!strncmp(line, sizes[i].key, strlen(sizes[i].key))) {
			uint64_t bytes = strtoull(line + strlen(sizes[i].key), NULL, 10) * 1024;

			memcpy((char *)x + sizes[i].at, &bytes, sizeof(bytes));
		}
}

int gck_maps_add(struct gck_maps *m, const struct gck_vma *x, struct gck_error *err)
{
	if (m->n == m->capacity) {
		size_t capacity = m->capacity ? m->capacity * 2 : 256;
		struct gck_vma *v = realloc(m->v, capacity * sizeof(*v));

		if (!v)
			return gck_fail(err, ENOMEM, "out of memory for the list of mappings");
		m->v = v;
		m->capacity = capacity;
	}
	m->v[m->n++] = *x;
	return 0;
}

/* Parse a text, which is malloced. m owns it, also on failure. */
static int parse(char *text, struct gck_maps *m, struct gck_error *err)
{
	struct gck_maps out = {.text = text};
	char *next;

	for (char *line = text; *line; line = next) {
		struct gck_vma x;

		next = strchr(line, '\n');
		next = next ? (*next = '\0', next + 1) : line + strlen(line);
		if (line[0] >= 'A' && line[0] <= 'Z' && out.n) {
			parse_detail(line, &out.v[out.n - 1]);
		} else if (!parse_head(line, &x)) {
			gck_fail(err, EPROTO, "a line of the process's maps is not understood: "
				 "%.80s", line);
			gck_maps_free(&out);
			return -1;
		} else if (gck_maps_add(&out, &x, err)) {
			gck_maps_free(&out);
			return -1;
		}
	}
	*m = out;
	return 0;
}

int gck_maps_read(int proc, struct gck_maps *m, struct gck_error *err)
{
	char *text = gck_proc_read(proc, "maps", NULL, err);

	return text ? parse(text, m, err) : -1;
}

int gck_smaps_read(int proc, struct gck_maps *m, struct gck_error *err)
{
	char *text = gck_proc_read(proc, "smaps", NULL, err);

	return text ? parse(text, m, err) : -1;
}

void gck_maps_free(struct gck_maps *m)
{
	free(m->v);
	free(m->text);
	memset(m, 0, sizeof(*m));
}

const struct gck_vma *gck_maps_find(const struct gck_maps *m, uint64_t address)
{
	size_t low = 0, high = m->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (m->v[middle].end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low < m->n && m->v[low].start <= address ? &m->v[low] : NULL;
}

const struct gck_vma *gck_maps_file(const struct gck_maps *m, uint64_t address)
{
	const struct gck_vma *last = NULL;

	for (size_t i = 0; i < m->n && m->v[i].start <= address; i++)
		if (m->v[i].inode)
			last = &m->v[i];
	return last ? gck_maps_same_file(m, last) : NULL;
}

const struct gck_vma *gck_maps_same_file(const struct gck_maps *m, const struct gck_vma *file)
{
	for (size_t i = 0; i < m->n; i++)
		if (m->v[i].inode == file->inode && m->v[i].device == file->device)
			return &m->v[i];
	return NULL;
}

uint64_t gck_maps_clear(const struct gck_maps *m, uint64_t start, uint64_t size, uint64_t around)
{
	for (size_t i = 0; i < m->n; i++)
		if (start < m->v[i].end + around && start + size + around > m->v[i].start)
			start = m->v[i].end + around;
	return start;
}

bool gck_path_deleted(const char *path)
{
	size_t n = strlen(path), suffix = strlen(" (deleted)");

	return n > suffix && !strcmp(path + n - suffix, " (deleted)");
}
