/* api_status.c - status codes in words, the version. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "ringup.h"

const char *ringup_strerror(int status)
{
	switch (status) {
	case 0:
		return "success";
#define X(name, code, text) \
	case code:          \
		return text;
		RINGUP_STATUSES(X)
#undef X
	}
	return "no such status";
}

const char *ringup_version(void)
{
	return PACKAGE_VERSION;
}
