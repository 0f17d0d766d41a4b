/* say.h - puts a verdict into sentences for people, with advice on what to change or run. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HANG_SAY_H
#define HANG_SAY_H

#include <stddef.h>
#include <stdint.h>

struct look;
struct ruling;

enum { SAY_TEXT = 2048 };

/* say_ruling - one or more lines to @out, each ended by a newline.  say_head - "HANGS".
 * say_run - the command to run next, or "".  say_fix - what to change, or "". */
void say_ruling(const struct ruling *r, const struct look *now, int64_t elapsed_ms, char *out,
		size_t size);
const char *say_head(const struct ruling *r);
void say_run(const struct ruling *r, const struct look *now, char *out, size_t size);
void say_fix(const struct ruling *r, const struct look *now, char *out, size_t size);

/* say_time - "4 min 10 s"; returns @out. */
enum { SAY_TIME = 32 };
const char *say_time(int64_t ms, char out[SAY_TIME]);

#endif
