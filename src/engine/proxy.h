/* proxy.h - the request by which a joined rank takes part in other ranks' operations. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_PROXY_H
#define ENGINE_PROXY_H

#include <stdbool.h>

struct comm;
struct request;
struct op_signature;
struct err;

/* proxy_can - may a joined rank take part in @s, and is there neutral data for it? */
bool proxy_can(const struct comm *c, const struct op_signature *s);

/* proxy_request - a request with neutral data for other ranks' @s: fills @q, except its name;
 * *@own is memory to free with the operation. */
int proxy_request(const struct comm *c, const struct op_signature *s, struct request *q,
		  void **own, struct err *e);

#endif
