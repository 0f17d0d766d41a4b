/* way.h - this machine's route to an address: interface, source address, MTU. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROBE_WAY_H
#define PROBE_WAY_H

#include <stdbool.h>

#include "host/iface.h"

struct way {
	int error;     /* errno of the kernel's refusal, or 0 */
	bool is_local; /* to this machine itself             */
	char via[IFACE_NAME];
	struct iface_ip source; /* family 0: unknown */
	int mtu;                /* of the interface, or of the route where it has one */
};

/* way_find - ask the kernel for its route to @to; policy routing counts. */
void way_find(struct way *w, const struct iface_ip *to);

#endif
