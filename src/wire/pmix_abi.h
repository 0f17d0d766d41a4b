/* pmix_abi.h - the part of PMIx's stable binary interface (libpmix.so.2) that ringup uses. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WIRE_PMIX_ABI_H
#define WIRE_PMIX_ABI_H

#include <stddef.h>
#include <stdint.h>

/*
 * Declared here, since the library is opened at run time, where there is one, so that
 * a build needs no PMIx headers.  tests/cli/pmix-abi.bats compares with them.  Lists of
 * struct pmix_abi_info have one element: before version 3 an element was 8 bytes shorter.
 */
enum {
	PMIX_ABI_SPACE = 256, /* bytes of a namespace */
	PMIX_ABI_KEY = 512,   /* bytes of a key       */

	PMIX_ABI_BOOL = 1, /* types of values */
	PMIX_ABI_STRING = 3,
	PMIX_ABI_INT = 6,

	PMIX_ABI_GLOBAL = 3, /* scope: all ranks, on all hosts */
	PMIX_ABI_SUCCESS = 0,
};

#define PMIX_ABI_COLLECT "pmix.collect" /* bool: a fence brings the data of all */
#define PMIX_ABI_TIMEOUT "pmix.timeout" /* int: seconds                         */

struct pmix_abi_proc {
	char space[PMIX_ABI_SPACE];
	uint32_t rank;
};

struct pmix_abi_value {
	uint16_t type;
	union {
		_Bool flag;
		int integer;
		char *string;
		uint64_t room[3];
	} data;
};

struct pmix_abi_info {
	char key[PMIX_ABI_KEY];
	uint32_t flags;
	struct pmix_abi_value value;
};

/* The functions, by their names in the library. */
struct pmix_abi {
	int (*Init)(struct pmix_abi_proc *self, struct pmix_abi_info *info, size_t n);
	int (*Finalize)(const struct pmix_abi_info *info, size_t n);
	int (*Put)(uint8_t scope, const char *key, struct pmix_abi_value *value);
	int (*Commit)(void);
	int (*Fence)(const struct pmix_abi_proc *procs, size_t n_procs,
		     const struct pmix_abi_info *info, size_t n);
	int (*Get)(const struct pmix_abi_proc *proc, const char *key,
		   const struct pmix_abi_info *info, size_t n, struct pmix_abi_value **value);
	const char *(*Error_string)(int status);
};

#endif
