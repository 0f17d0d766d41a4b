/* identity.h - a hash that identifies this host, independent of its name. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOST_IDENTITY_H
#define HOST_IDENTITY_H

enum { IDENTITY_BYTES = 32 };

/*
 * identity_get - the same in all processes that can share memory and see each
 * other's end, different everywhere else.
 *
 * A hash of the machine's id, of this boot, of the pid, network and user
 * namespaces, and of the user.  Host names do not count: containers share them.
 *
 * @node: processes that are given different names count as on different hosts, wherever they
 * are; "" or NULL is no name.
 */
void identity_get(unsigned char out[IDENTITY_BYTES], const char *node);

#endif
