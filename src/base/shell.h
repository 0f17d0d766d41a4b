/* shell.h - quote words for a shell. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_SHELL_H
#define BASE_SHELL_H

#include <stddef.h>

/* How much room a word of this length may need. */
#define SHELL_ROOM(length) (4 * (length) + 3)

/* shell_word - @word, in single quotes if a shell would not take it literally; cut if it
 * does not fit into @out.  Returns @out. */
const char *shell_word(const char *word, char *out, size_t size);

#endif
