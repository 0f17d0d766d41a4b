/* proxy.h - the request by which a rank that has joined takes part in what others submit. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_PROXY_H
#define ENGINE_PROXY_H

#include <stdbool.h>

struct comm;
struct request;
struct op_signature;
struct err;

/* proxy_can - is there anything that a rank that has joined could give for @w, and may it? */
bool proxy_can(const struct comm *l, const struct op_signature *w);

/* proxy_request - ask for what others want, with nothing to give: fills @q, but for its name;
 * *@own is what to free with the operation. */
int proxy_request(const struct comm *l, const struct op_signature *w, struct request *q,
		  void **own, struct err *e);

#endif
