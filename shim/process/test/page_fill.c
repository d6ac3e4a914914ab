/* SPDX-License-Identifier: Apache-2.0
 * What mappings need of missing files is found completely, without scanning all page groups for
 * each mapping. */
#include "config.h"

#include "shim/process/image/image.h"

static size_t looks;

static struct gck_page_group counted(const struct gck_page_groups *w, size_t i)
{
	looks++;
	return (gck_page_groups_at)(w, i);
}

#define gck_page_groups_at(w, i) counted(w, i)
#include "shim/process/memory/page_fill.c"
#undef gck_page_groups_at

#include "test/support/tap.h"

#define MAPS 200u
#define GROUPS 4000u
#define PAGES (GROUPS * GCK_GROUP_PAGES)

static uint64_t seed = 12;

static uint64_t number(uint64_t below)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed % below;
}

/* Every third page group is missing; some occur twice with other pages. */
static void make_content(struct gck_content *c)
{
	for (uint64_t i = 0; i < GROUPS; i++) {
		struct gck_page_group w = {.address = i * GCK_GROUP_BYTES,
					   .mask = number(UINT64_MAX) | 1};

		if (i % 3 == 0)
			continue;
		must(gck_page_groups_add(&c->groups, &w, NULL));
		w.mask = ~w.mask;
		if (i % 7 == 0 && w.mask)
			must(gck_page_groups_add(&c->groups, &w, NULL));
	}
}

static void make_maps(struct gck_map *maps)
{
	for (uint64_t i = 0; i < MAPS; i++) {
		uint64_t first = number(PAGES), n = 1 + number(i % 2 ? 3 : 300);

		maps[i] = (struct gck_map){ .kind = GCK_MAP_FILE, .content = 0,
					    .start = (i + 1) << 32, .offset = first * GCK_PAGE };
		maps[i].end = maps[i].start + n * GCK_PAGE;
	}
}

/* Whether a mapping gets exactly what it shows of a page group. */
static bool right(const struct pieces *p, const struct gck_map *m, size_t group)
{
	struct gck_page_group w = (gck_page_groups_at)(&p->v[0].of->groups, group);
	uint64_t base = m->start + (w.address - m->offset), meant = 0, found = 0;

	for (unsigned bit = 0; bit < GCK_GROUP_PAGES; bit++) {
		uint64_t offset = w.address + bit * GCK_PAGE;

		if (offset >= m->offset && offset - m->offset < m->end - m->start)
			meant |= w.mask & 1ull << bit;
	}
	for (size_t i = 0; i < p->n; i++)
		if (p->v[i].group == group && p->v[i].at == base)
			found |= p->v[i].mask;
	return meant == found;
}

int main(void)
{
	static struct gck_map maps[MAPS];
	struct gck_content content = { .path = (char *)"/gone" };
	struct gck_image img = {.maps = maps, .nmaps = MAPS, .contents = &content, .ncontents = 1};
	int none = -1;
	struct gck_restore r = { .img = &img, .contents = &none };
	struct pieces p = { 0 };
	size_t wrong = 0;

	make_content(&content);
	make_maps(maps);
	is_int(find_pieces(&p, &r, NULL), 0, "pieces are found");
	ok(p.n > MAPS, "%zu of %u mappings", p.n, MAPS);
	ok(looks <= 4 * (p.n + MAPS), "for which %zu page groups were looked at", looks);
	for (size_t i = 0; i < MAPS; i++)
		for (size_t k = 0; k < content.groups.rows.n; k += 1 + number(40))
			wrong += !right(&p, &maps[i], k);
	is_int((long long)wrong, 0, "they have exactly what the mappings show");
	free(p.v);
	gck_hex_table_clear(&content.groups.rows);
	return tap_done();
}
