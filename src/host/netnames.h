/* netnames.h - the environment variables that configure libraries' use of the network. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOST_NETNAMES_H
#define HOST_NETNAMES_H

/* A variable of no known library, of a library, or of a library about the network. */
enum netnames_use { NETNAMES_UNKNOWN, NETNAMES_OTHER, NETNAMES_NETWORK };

enum netnames_use netnames_find(const char *name);

/*
 * netnames_near - the variable about the network that @name was meant to be.
 *
 * NULL if @name is known or near to none.  A name that begins as a library's
 * do may be wrong in a third of its other letters if it tells of interfaces, any
 * other name in two.
 */
const char *netnames_near(const char *name);

#endif
