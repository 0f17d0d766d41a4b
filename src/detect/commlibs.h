/* commlibs.h - which version of each communication library is installed. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DETECT_COMMLIBS_H
#define DETECT_COMMLIBS_H

struct err;
struct netconf;

/*
 * commlibs_find - tell @c the versions of what is found below @root.
 *
 * Of several copies of NCCL the newest, of Open MPI the first; torch's version
 * stands for the Gloo in it.  A library that is not found, or does not tell, is
 * left out.  Of NCCL's env plug-ins it tells what envplugins_find() does.  Runs nothing.
 */
int commlibs_find(struct netconf *c, const char *root, struct err *e);

#endif
