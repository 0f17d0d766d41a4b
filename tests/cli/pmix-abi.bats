#!/usr/bin/env bats
# pmix-abi.bats - what ringup writes down of PMIx's binary interface is what its headers say.
# needs: cpu
# tests: src/wire/pmix_abi.h

load ../lib/helper

@test "sizes, places, numbers and names are those of the installed headers" {
  command -v pkg-config >/dev/null && pkg-config --exists pmix || skip "no headers of PMIx (libpmix-dev)"
  local -a flags
  read -ra flags < <(pkg-config --cflags pmix)
  cat >"$BATS_TEST_TMPDIR/abi.c" <<'EOT'
#include <pmix.h>
#include <string.h>
#include "wire/pmix_abi.h"

#define SAME(a, b) _Static_assert((a) == (b), #a " is " #b)

SAME(sizeof(struct pmix_abi_proc), sizeof(pmix_proc_t));
SAME(offsetof(struct pmix_abi_proc, rank), offsetof(pmix_proc_t, rank));
SAME(sizeof(struct pmix_abi_value), sizeof(pmix_value_t));
SAME(offsetof(struct pmix_abi_value, data), offsetof(pmix_value_t, data));
SAME(sizeof(struct pmix_abi_info), sizeof(pmix_info_t));
SAME(offsetof(struct pmix_abi_info, flags), offsetof(pmix_info_t, flags));
SAME(offsetof(struct pmix_abi_info, value), offsetof(pmix_info_t, value));
SAME(sizeof(pmix_status_t), sizeof(int));
SAME(sizeof(pmix_scope_t), sizeof(uint8_t));
SAME((int)PMIX_ABI_BOOL, PMIX_BOOL);
SAME((int)PMIX_ABI_STRING, PMIX_STRING);
SAME((int)PMIX_ABI_INT, PMIX_INT);
SAME((int)PMIX_ABI_GLOBAL, PMIX_GLOBAL);
SAME((int)PMIX_ABI_SUCCESS, PMIX_SUCCESS);

/* The compiler compares the types of these with the library's. */
pmix_status_t (*init)(pmix_proc_t *, pmix_info_t *, size_t) = PMIx_Init;
pmix_status_t (*finalize)(const pmix_info_t *, size_t) = PMIx_Finalize;
pmix_status_t (*put)(pmix_scope_t, const char *, pmix_value_t *) = PMIx_Put;
pmix_status_t (*commit)(void) = PMIx_Commit;
pmix_status_t (*fence)(const pmix_proc_t *, size_t, const pmix_info_t *, size_t) = PMIx_Fence;
pmix_status_t (*get)(const pmix_proc_t *, const char *, const pmix_info_t *, size_t, pmix_value_t **) = PMIx_Get;
const char *(*text)(pmix_status_t) = PMIx_Error_string;

int main(void)
{
	return strcmp(PMIX_ABI_COLLECT, PMIX_COLLECT_DATA) || strcmp(PMIX_ABI_TIMEOUT, PMIX_TIMEOUT);
}
EOT
  # The functions are looked at, not called: nothing is linked but main().
  ${CC:-cc} -std=gnu11 -Werror=incompatible-pointer-types -I"$src/src" "${flags[@]}" -c -o "$BATS_TEST_TMPDIR/abi.o" "$BATS_TEST_TMPDIR/abi.c"
  ${CC:-cc} -Wl,--unresolved-symbols=ignore-all -o "$BATS_TEST_TMPDIR/abi" "$BATS_TEST_TMPDIR/abi.o"
  "$BATS_TEST_TMPDIR/abi"
}
