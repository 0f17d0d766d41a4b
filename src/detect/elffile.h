/* elffile.h - the headers, dynamic section and strings of an ELF file, read with bounds. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DETECT_ELFFILE_H
#define DETECT_ELFFILE_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

/* Real libraries have some 10 program headers and 60 dynamic entries; a file with more than
 * this is refused. */
enum { ELFFILE_SEGMENTS = 256, ELFFILE_DYNAMIC = 4096 };

/* Large: on the heap. */
struct elffile {
	int fd; /* borrowed */
	uint64_t size;
	Elf64_Ehdr head;
	Elf64_Phdr seg[ELFFILE_SEGMENTS];
	uint64_t strings, strings_len; /* place of the dynamic strings in the file */
	Elf64_Dyn dyn[ELFFILE_DYNAMIC];
	size_t dyn_count;
};

/*
 * elffile_open - read the headers and the dynamic section of the library open at @fd.
 *
 * Reads bounded pieces with pread(2): a library of 500 MB costs the same as a small one, and a
 * library that is truncated meanwhile is an error, not SIGBUS.
 *
 * Returns 0 or RINGUP_EINVAL (not a 64-bit little-endian ELF file, or its parts contradict each
 * other) or RINGUP_ESYSTEM.
 */
int elffile_open(struct elffile *f, int fd, struct err *e);

/* elffile_read - read @len bytes at @off; @what names them in the error. */
int elffile_read(const struct elffile *f, void *buf, size_t len, uint64_t off, const char *what,
		 struct err *e);

/* elffile_place - the file offset that the loader maps to @addr; the file's size if none. */
uint64_t elffile_place(const struct elffile *f, uint64_t addr);

/* elffile_is_cut - does the file lack a part that the loader maps?  A process that loads it
 * anyway dies of SIGBUS. */
bool elffile_is_cut(const struct elffile *f);

/* elffile_value - the value of the first dynamic entry @tag; false if there is none. */
bool elffile_value(const struct elffile *f, int64_t tag, uint64_t *value);

/* elffile_string - the dynamic string at @at; false if it is not printable or does not fit. */
bool elffile_string(const struct elffile *f, uint64_t at, char *out, size_t cap);

/* elffile_table - the table of the dynamic entry @tag, @len bytes, cut at 256 KiB; NULL if
 * there is none.  Ownership: the caller's, to free(). */
char *elffile_table(const struct elffile *f, int64_t tag, uint64_t *len);

/* elffile_take - copy the @size bytes at @at of a table; false beyond its end. */
bool elffile_take(const char *table, uint64_t len, uint64_t at, void *part, uint64_t size);

/* elffile_wants - call @see for each symbol version that the file needs from another library,
 * with the offsets of their names in the dynamic strings, until it returns false. */
typedef bool elffile_see_want(void *arg, uint64_t library, const Elf64_Vernaux *version);
void elffile_wants(const struct elffile *f, elffile_see_want *see, void *arg);

#endif
