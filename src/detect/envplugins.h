/* envplugins.h - find the libraries that NCCL would load as its env plug-in. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DETECT_ENVPLUGINS_H
#define DETECT_ENVPLUGINS_H

struct err;
struct netconf;
struct rootfs;

/*
 * envplugins_find - add to @c the library found under each name that NCCL may look for.
 *
 * The names are NCCL's own, that of ringup's plug-in, and the values of NCCL_ENV_PLUGIN in @c.
 * @nccl is the path of the NCCL that will look, or NULL.  A library is read and never loaded.
 */
int envplugins_find(struct netconf *c, struct rootfs *fs, const char *nccl, struct err *e);

#endif
