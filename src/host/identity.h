/* identity.h - which host this is, whatever it is called. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOST_IDENTITY_H
#define HOST_IDENTITY_H

enum { IDENTITY_BYTES = 32 };

/*
 * identity_get - the same on all processes that can share memory and see each
 * other end, different everywhere else.
 *
 * A hash of the machine's id, of this boot, of the pid, network and user
 * namespaces, and of the user.  Host names are not asked: containers share them.
 */
void identity_get(unsigned char out[IDENTITY_BYTES]);

#endif
