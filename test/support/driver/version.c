/* SPDX-License-Identifier: Apache-2.0
 * The fake driver: what one version has otherwise than another. Which functions it exports is in
 * its .map. FAKE_OLDER: the version of CUDA that it is of. */
#include "test/support/driver/fake.h"

#ifdef FAKE_OLDER
const struct fake_version fake_version = {
	.cuda = FAKE_OLDER, .is_older = true, .later_slots = 0, .callbacks = 384,
	.modules = (size_t)10 << 20, .cache_words = 4,
};
#else
__attribute__((weak)) const struct fake_version fake_version = {
	.cuda = 13000, .later_slots = FAKE_LATER_SLOTS, .callbacks = 512,
	.modules = (size_t)16 << 20, .cache_words = 5 + FAKE_LATER_SLOTS,
};
#endif
