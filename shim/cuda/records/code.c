/* SPDX-License-Identifier: Apache-2.0
 * For which GPUs the modules have code: "sm_90a" is compiled, "compute_80" is PTX, which the driver
 * compiles for any later GPU. An `a` is for no other GPU, an `f` for those of its family. */
#include "shim/cuda/records/records.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/kernels/ptx/fatbin.h"

#define WORDS_SIZE 512 /* of a module */

/* In e_flags of cubins, whose place depends on the version of their ABI. */
#define NEW_ABI 8
#define OLD_THIS_GPU 0x800
#define NEW_THIS_GPU 0x8

struct words {
	char text[WORDS_SIZE];
	size_t n;
};

static void add(struct words *w, const char *kind, unsigned capability, const char *suffix)
{
	w->n += (size_t)snprintf(w->text + w->n, sizeof w->text - w->n, "%s%s%u%s",
				 w->n ? " " : "", kind, capability, suffix);
	w->n = w->n < sizeof w->text ? w->n : sizeof w->text;
}

static void add_cubin(struct words *w, const char *image)
{
	const Elf64_Ehdr *head = (const void *)image;
	bool is_new = head->e_ident[EI_ABIVERSION] >= NEW_ABI;
	unsigned capability = (is_new ? head->e_flags >> 8 : head->e_flags) & 0xff;

	add(w, "sm_", capability,
	    head->e_flags & (is_new ? NEW_THIS_GPU : OLD_THIS_GPU) ? "a" : "");
}

/* The statement is at the beginning of a line. */
static void add_ptx(struct words *w, const char *text)
{
	const char *target = strstr(text, "\n.target");
	char suffix[2] = "";
	unsigned capability;

	if (target && sscanf(target + 8, " sm_%u%1[af]", &capability, suffix) > 0)
		add(w, "compute_", capability, suffix);
}

static void add_fatbin(struct words *w, const void *fatbin, size_t size)
{
	struct gck_fatbin_entry e;
	struct gck_error err;
	const char *content;
	size_t at = 0;

	while (gck_fatbin_next(fatbin, size, &at, &e, &content, &err) > 0) {
		const char *suffix = e.flags & GCK_FATBIN_THIS_GPU ? "a"
				     : e.flags & GCK_FATBIN_THIS_FAMILY ? "f" : "";

		if (e.kind == GCK_FATBIN_PTX)
			add(w, "compute_", e.capability, suffix);
		else if (e.kind == GCK_FATBIN_CUBIN)
			add(w, "sm_", e.capability, suffix);
	}
}

/* An image without words says nothing, and nothing is checked; nor with too many words. */
static void add_image(struct words *w, const char *image)
{
	size_t size;
	const void *at = gck_record_image(image, &size);

	if (at && gck_record_is_fatbin(image))
		add_fatbin(w, at, size);
	else if (at && gck_record_is_cubin(image))
		add_cubin(w, image);
	else if (at)
		add_ptx(w, image);
	if (w->n == sizeof w->text)
		w->n = 0;
	w->text[w->n] = '\0';
}

static bool has(const char *list, size_t n, const char *text)
{
	size_t at = 0;

	while (at < n && strcmp(list + at, text))
		at += strlen(list + at) + 1;
	return at < n;
}

size_t gck_cuda_records_code(char *list, size_t size)
{
	size_t n = 0;

	gck_records_lock();
	for (const struct gck_record *r = gck_records_first(); r; r = r->next) {
		struct words w = {.n = 0};

		if (r->kind == GCK_RECORD_MODULE)
			add_image(&w, gck_record_image_of(r));
		if (!w.n || has(list, n, w.text) || w.n + 1 > size - n)
			continue;
		memcpy(list + n, w.text, w.n + 1);
		n += w.n + 1;
	}
	gck_records_unlock();
	return n;
}
