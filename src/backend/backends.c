/* backends.c - the list of back ends. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/backend.h"

/*
 * The order decides: for each kind of memory the first that opens serves a communicator.  To
 * add one, write backend/NAME.c defining backend_NAME and put NAME here.
 */
#define BACKENDS(X) \
	X(self)     \
	X(node)     \
	X(mpi)      \
	X(tcp)      \
	X(nccl)

#define X(name) extern const struct backend backend_##name;
BACKENDS(X)
#undef X

const struct backend *const backends[] = {
#define X(name) &backend_##name,
	BACKENDS(X) NULL,
#undef X
};
