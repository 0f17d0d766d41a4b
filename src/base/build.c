/* build.c - the version, with a suffix that identifies this build's sources. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/build.h"

#include "build_id.h"
#include "config.h"

const char *build_version(void)
{
	return PACKAGE_VERSION "+" RINGUP_BUILD_ID;
}
