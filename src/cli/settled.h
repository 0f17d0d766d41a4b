/* settled.h - print the results of `ringup net fix`, on this node or on many. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_SETTLED_H
#define CLI_SETTLED_H

#include "settle/settle.h"

/* settled_print_patches - print the patches of all changed files, coloured on a terminal. */
void settled_print_patches(const struct change *d);

/* settled_print_libraries - print each library's interfaces, as a table. */
int settled_print_libraries(const struct change *d, struct err *e);

/* settled_note_strays - note the libraries that will not use @interface; @node is theirs, or
 * "". */
void settled_note_strays(const struct change *d, const char *node, const char *interface);

/* settled_fates_json - the interfaces that a library uses or not, each with the rule. */
json_t *settled_fates_json(const struct iface_list *l, const struct picked *p);

/* settled_print_nodes - print all nodes; those with equal results together. */
int settled_print_nodes(const struct settle_options *how, const struct settle *s,
			struct err *e);

/* settled_nodes_json - `ringup.net.fix-nodes/1`. */
json_t *settled_nodes_json(const struct settle_options *how, const struct settle *s);

#endif
