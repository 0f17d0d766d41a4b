/* commlibs.h - find the installed versions of communication libraries. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DETECT_COMMLIBS_H
#define DETECT_COMMLIBS_H

struct err;
struct netconf;

/*
 * commlibs_find - add to @c the versions of the libraries below @root.
 *
 * Of several copies of NCCL the newest, of Open MPI the first; torch's version stands for the
 * Gloo in it.  A library that is missing, or has no known version, is left out.  Also adds
 * NCCL's env plug-ins, by envplugins_find().  Runs nothing.
 */
int commlibs_find(struct netconf *c, const char *root, struct err *e);

#endif
