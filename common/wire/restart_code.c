/* SPDX-License-Identifier: Apache-2.0 */
#include "common/wire/restart_code.h"

#include <errno.h>

enum gck_blame gck_restart_blame(int code)
{
	switch (code) {
	case EBADMSG:
	case ENOENT:
	case ESTALE:
	case EINVAL:
	case ENOTSUP:
	case ENOEXEC:
		return GCK_BLAME_COMMIT;
	case EXDEV:
	case EREMOTEIO:
	case ETIMEDOUT:
	case ECONNRESET:
	case ENOSPC:
	case EDQUOT:
		return GCK_BLAME_SURROUNDINGS;
	default:
		return GCK_BLAME_PROCESS;
	}
}
