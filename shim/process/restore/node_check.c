/* SPDX-License-Identifier: Apache-2.0
 * Restore: checks that the image fits this node's CPU, kernel and clock, before the process is
 * changed. The error names what does not fit. */
#include "config.h"

#include <cpuid.h>
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

#include "shim/process/memory/memory.h"
#include "shim/process/proc/procfs.h"
#include "shim/process/restore/restore.h"
#include "shim/process/threads/threads.h"

#define XCR0_AT 464      /* in the frame's software bytes: the enabled components */
#define AVX_AND_BELOW 0x7ull
#define MAX_XSTATE 65536u
#define CLOCK_BACK_NS 1000000000ll /* how far the clocks of two nodes may differ */

/* Flags of /proc/cpuinfo that programs test for; the others describe the kernel and mitigations. */
static const char *const isa[] = {
	"cmov",      "mmx",      "fxsr",       "sse*",      "ssse3",       "pni",       "cx16",
	"fma*",      "movbe",    "popcnt",     "aes",       "xsave*",      "avx*",      "f16c",
	"rdrand",    "lahf_lm",  "abm",        "3dnow*",    "misalignsse", "xop",       "tbm",
	"fsgsbase",  "bmi*",     "hle",        "rtm",       "rdseed",      "adx",       "clflush*",
	"clwb",      "sha*",     "sm3",        "sm4",       "xgetbv1",     "pku",       "ospke",
	"gfni",      "vaes",     "vpclmulqdq", "pclmulqdq", "rdpid",       "rdtscp",    "movdir*",
	"serialize", "tsxldtrk", "amx_*",      "waitpkg",   "cldemote",    "cmpccxadd", "clzero",
	"apx*",      "invpcid",
};

static bool is_isa(const char *flag)
{
	for (size_t i = 0; i < sizeof isa / sizeof isa[0]; i++) {
		size_t n = strlen(isa[i]);

		if (isa[i][n - 1] == '*' ? !strncmp(flag, isa[i], n - 1) : !strcmp(flag, isa[i]))
			return true;
	}
	return false;
}

static bool has_word(const char *words, const char *word)
{
	size_t n = strlen(word);

	for (const char *at = words; (at = strstr(at, word)); at += n)
		if ((at == words || at[-1] == ' ' || at[-1] == '\t') &&
		    (!at[n] || at[n] == ' ' || at[n] == '\n'))
			return true;
	return false;
}

/* The flags of this node's first CPU; free them. */
static char *cpu_flags(struct gck_error *err)
{
	FILE *f = fopen("/proc/cpuinfo", "re");
	char *line = NULL;
	size_t size = 0;
	bool found = false;

	while (f && !found && getline(&line, &size, f) > 0)
		found = !strncmp(line, "flags", 5);
	if (f)
		fclose(f);
	if (found)
		return line;
	free(line);
	gck_fail(err, EIO, "/proc/cpuinfo names no CPU flags");
	return NULL;
}

/* All processes of a rank come from one CPU. */
static bool has_flags_of_rank(const struct gck_restore *r)
{
	const char *mine = r->img->cpu_flags, *ranks = r->root->img->cpu_flags;

	return r != r->root && mine && ranks && !strcmp(mine, ranks);
}

static int check_cpu(const struct gck_restore *r, struct gck_error *err)
{
	char *here, *words, *save = NULL, missing[200] = "";

	if (has_flags_of_rank(r))
		return 0;
	here = cpu_flags(err);
	if (!here)
		return -1;
	words = strdup(r->img->cpu_flags ? r->img->cpu_flags : "");
	for (char *w = words ? strtok_r(words, " \t\n", &save) : NULL; w;
	     w = strtok_r(NULL, " \t\n", &save))
		if (is_isa(w) && !has_word(here, w) &&
		    strlen(missing) + strlen(w) + 2 < sizeof missing)
			strcat(strcat(missing, " "), w);
	free(words);
	free(here);
	if (missing[0])
		return gck_fail(err, ENOTSUP,
				"this node's CPU lacks what the CPU of the checkpoint had:"
				"%s: restart on nodes with the same CPU features",
				missing);
	return 0;
}

/* The end of the last of these components in this CPU's layout. */
static uint32_t layout_size(uint64_t components)
{
	uint32_t end = 576, eax, ebx, ecx, edx;

	for (unsigned i = 2; i < 63; i++) {
		if (!(components >> i & 1))
			continue;
		__cpuid_count(0xd, i, eax, ebx, ecx, edx);
		if (eax && ebx + eax > end)
			end = ebx + eax;
	}
	return end;
}

static uint64_t word_at(const unsigned char *x, size_t at)
{
	uint64_t v;

	memcpy(&v, x + at, sizeof v);
	return v;
}

/* The CPU defines where components beyond AVX lie: another CPU's area fits if this CPU's layout
 * gives the same size. */
static int check_xstate(const struct gck_thread *t, uint64_t here, struct gck_error *err)
{
	uint64_t enabled, used;

	if (t->xstate_size < GCK_XSTATE_BV_AT + 64 || t->xstate_size > MAX_XSTATE)
		return gck_fail(err, EBADMSG, "thread \"%s\": registers of %zu bytes are damaged",
				t->name, t->xstate_size);
	enabled = word_at(t->xstate, XCR0_AT);
	used = word_at(t->xstate, GCK_XSTATE_BV_AT);
	if (used & GCK_XSTATE_TILES)
		return gck_fail(err, ENOTSUP,
				"thread \"%s\" has AMX tiles in use, which cannot be restored",
				t->name);
	if (used & ~here)
		return gck_fail(err, ENOTSUP,
				"thread \"%s\" uses CPU registers (components %#llx) that "
				"this node's kernel or CPU does not have",
				t->name, (unsigned long long)(used & ~here));
	if (used & ~AVX_AND_BELOW && enabled != here && layout_size(enabled) != t->xstate_size)
		return gck_fail(err, ENOTSUP,
				"thread \"%s\": this CPU lays its registers out in another "
				"way (%zu bytes there): restart on the same CPU type",
				t->name, t->xstate_size);
	return 0;
}

static int check_registers(struct gck_restore *r, struct gck_error *err)
{
	unsigned char *area = malloc(MAX_XSTATE);
	struct iovec iov = {area, MAX_XSTATE};
	int failed = 0;

	if (!area || ptrace(PTRACE_GETREGSET, r->remote.pid, NT_X86_XSTATE, &iov)) {
		free(area);
		return gck_fail(err, errno, "process %d: reading its registers: %s", r->remote.pid,
				strerror(errno));
	}
	r->xstate_size = iov.iov_len;
	for (size_t i = 0; i < r->img->nthreads && !failed; i++)
		failed = check_xstate(&r->img->threads[i], word_at(area, XCR0_AT), err);
	free(area);
	return failed;
}

static int check_vdso(struct gck_restore *r, struct gck_error *err)
{
	bool same;

	if (gck_restore_same_vdso(r, &same, err))
		return -1;
	for (size_t i = 0; i < r->img->nmaps && !same; i++) {
		const struct gck_map *m = &r->img->maps[i];

		if (m->kind == GCK_MAP_VDSO &&
		    !gck_restore_has_pages(&r->img->pages, m->start, m->end))
			return gck_fail(
				err, ENOTSUP,
				"this node's kernel is another one than that of the "
				"checkpoint (their vdso differ): restart on a node with that "
				"kernel");
	}
	return 0;
}

/* Programs may rely on CLOCK_MONOTONIC never going back. */
static int check_clock(const struct gck_restore *r, struct gck_error *err)
{
	int64_t back = r->img->monotonic_ns - gck_monotonic_of(r->proc);

	if (back <= CLOCK_BACK_NS || r->trial)
		return 0;
	return gck_fail(err, ENOTSUP,
			"CLOCK_MONOTONIC would go back by %lld s on this node, since the step or "
			"its checkpoint has no time namespace of gpuckpt's: restart it on the node "
			"of the checkpoint, or on nodes that have been up longer; the kernel needs "
			"CONFIG_TIME_NS and slurmd CAP_SYS_ADMIN",
			(long long)(back / 1000000000));
}

int gck_restore_check_node(struct gck_restore *r, struct gck_error *err)
{
	return check_cpu(r, err) || check_registers(r, err) || check_vdso(r, err) ||
	       check_clock(r, err) ? -1 : 0;
}
