/* settled.h - what `ringup net fix` has done, on this node or on many, told to people. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_SETTLED_H
#define CLI_SETTLED_H

#include "settle/settle.h"

/* settled_print_patches - of all files that change, in colour where that is seen. */
void settled_print_patches(const struct change *d);

/* settled_print_libraries - what each takes, as a table. */
int settled_print_libraries(const struct change *d, struct err *e);

/* settled_note_strays - on stderr, those that will not take @interface; @node is theirs, or "".
 */
void settled_note_strays(const struct change *d, const char *node, const char *interface);

/* settled_print_nodes - all nodes, those for which the same is done together. */
int settled_print_nodes(const struct settle_how *how, const struct settle *s, struct err *e);

/* settled_nodes_json - `ringup.net.fix-nodes/1`. */
json_t *settled_nodes_json(const struct settle_how *how, const struct settle *s);

#endif
