/* SPDX-License-Identifier: Apache-2.0 */
#include "common/user/user.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>

const char *gck_user_name(uid_t uid, char name[GCK_USER_MAX])
{
	struct passwd pw, *found = NULL;
	char buffer[4096];

	if (getpwuid_r(uid, &pw, buffer, sizeof buffer, &found) == 0 && found)
		snprintf(name, GCK_USER_MAX, "%s", pw.pw_name);
	else
		snprintf(name, GCK_USER_MAX, "user %u", (unsigned)uid);
	return name;
}

int gck_user_id(const char *text, uid_t *uid)
{
	struct passwd pw, *found = NULL;
	char buffer[4096], *end;
	unsigned long number;

	if (getpwnam_r(text, &pw, buffer, sizeof buffer, &found) == 0 && found) {
		*uid = pw.pw_uid;
		return 0;
	}
	errno = 0;
	number = strtoul(text, &end, 10);
	if (*text < '0' || *text > '9' || *end || errno || number >= (uid_t)-1)
		return -1;
	*uid = (uid_t)number;
	return 0;
}
