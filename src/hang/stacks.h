/* stacks.h - where a process is: its main thread's stack, taken with py-spy or eu-stack. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HANG_STACKS_H
#define HANG_STACKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { STACKS_NAME = 64, STACKS_TEXT = 128, STACKS_MS = 5000 };

struct stack {
	char call[STACKS_NAME];  /* the collective that it is in: "MPI_Allreduce"; "": none  */
	char frame[STACKS_TEXT]; /* the program's innermost function: "load_batch"           */
	char where[STACKS_TEXT]; /* with its line: "load_batch (train.py:21)"                */
	char doing[STACKS_NAME]; /* innermost function of all: "clock_nanosleep"             */
	uint64_t back;  /* of a native stack in a call: where that returns to in the program */
	uint64_t print; /* of the program's own frames; 0: not known                         */
};

/*
 * stacks_read - the stack of @pid's main thread; false if no tool can tell.
 *
 * A Python process is asked by py-spy, which does not pause it; without py-spy, and any other
 * process, by eu-stack of elfutils, which pauses it for milliseconds.  gdb, which stops a
 * process of torch for minutes, is never used.  Each has STACKS_MS.
 *
 * While a process is in a collective, the frames of its program do not change.  So where the
 * print of these differs between two looks at one that is in the same collective, that is
 * another round of a loop.
 */
bool stacks_read(struct stack *s, pid_t pid, bool is_python);

/* stacks_has - is the best tool for such a process there?  stacks_advice - what to install.
 * stacks_are_forbidden - may this process not attach to @pid? */
bool stacks_has(bool is_python);
const char *stacks_advice(bool is_python);
bool stacks_are_forbidden(pid_t pid);

/* stacks_native, stacks_python - parse what eu-stack -1 -m -s and py-spy dump --json print, of
 * which every byte may be wrong. */
bool stacks_native(struct stack *s, const char *text);
bool stacks_python(struct stack *s, const char *text);

#endif
