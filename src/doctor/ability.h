/* ability.h - answer `horovodrun --check-build` from files. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DOCTOR_ABILITY_H
#define DOCTOR_ABILITY_H

#include <jansson.h>

/*
 * ability_of - for each Python of @facts that has an engine, {python, engine, version,
 * frameworks, controllers, operations}: members have Horovod's names and are true, false, or
 * null if only running it would tell.  The caller's reference.
 */
json_t *ability_of(const char *root, const json_t *facts);

#endif
