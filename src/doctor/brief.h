/* brief.h - a page about a node to paste into an issue, without secrets. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DOCTOR_BRIEF_H
#define DOCTOR_BRIEF_H

#include <jansson.h>

/*
 * brief_of - array of {title, text}: the versions, the machine, what is installed, the
 * interfaces and the settings in force, of @facts, of find_all(), and of the running system.
 *
 * Addresses of interfaces and values that may be secrets are left out.  @root as in struct
 * doctor_how; below one the running system is left out.
 *
 * Ownership: the array is the caller's to json_decref().
 */
json_t *brief_of(const char *root, const json_t *facts);

#endif
