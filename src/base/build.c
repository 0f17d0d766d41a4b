/* build.c - the version with what tells this build's sources from others of that number. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/build.h"

#include "build_id.h"
#include "config.h"

const char *build_version(void)
{
	return PACKAGE_VERSION "+" RINGUP_BUILD_ID;
}
