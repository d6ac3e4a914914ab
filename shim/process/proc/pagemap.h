/* SPDX-License-Identifier: Apache-2.0
 * PAGEMAP_SCAN (Linux 6.7); Debian 12's headers lack it. */
#ifndef GCK_PAGEMAP_H
#define GCK_PAGEMAP_H

#include <stdint.h>
#include <sys/ioctl.h>

struct gck_pagemap_region {
	uint64_t start, end, categories;
};

struct gck_pagemap_scan {
	uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages, category_inverted,
		category_mask, category_anyof_mask, return_mask;
};

#define GCK_PAGEMAP_SCAN _IOWR('f', 16, struct gck_pagemap_scan)
#define GCK_PAGEMAP_PROTECT 1u /* flags: write-protect matching pages */
#define GCK_PAGEMAP_CHECK 2u   /* EPERM if that is not possible */
#define GCK_PAGEMAP_REGIONS 512

#define GCK_PAGE_WRITTEN (1u << 1)
#define GCK_PAGE_FILE (1u << 2)
#define GCK_PAGE_PRESENT (1u << 3)
#define GCK_PAGE_SWAPPED (1u << 4)
#define GCK_PAGE_ZERO (1u << 5)
#define GCK_PAGE_HUGE (1u << 6)
#define GCK_PAGE_GUARD (1u << 8) /* of Linux 6.16: see gck_pagemap_guard; SWAPPED as well */

#endif
