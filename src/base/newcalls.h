/* newcalls.h - system calls that are newer than the oldest supported C library. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_NEWCALLS_H
#define BASE_NEWCALLS_H

/*
 * glibc 2.28 and the kernel headers beside it (Debian 11, Ubuntu 20.04, Red Hat 8) do not name
 * all of pidfd_open(), close_range() and openat2().  The running kernel may have them all the
 * same: the numbers are those of all architectures.  A kernel that lacks one answers ENOSYS,
 * which callers expect.
 */
#include <stdint.h>
#include <sys/syscall.h>

#if __has_include(<linux/close_range.h>)
#include <linux/close_range.h>
#endif
#if __has_include(<linux/openat2.h>)
#include <linux/openat2.h>
#else
struct open_how {
	uint64_t flags, mode, resolve;
};
#define RESOLVE_NO_MAGICLINKS 0x02
#define RESOLVE_IN_ROOT       0x10
#endif

#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC (1U << 2)
#endif
#ifndef SYS_openat2
#define SYS_openat2 437
#endif

#endif
