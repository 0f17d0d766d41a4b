/* fuzz_discover.c - any values in the variables that launchers set. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/err.h"
#include "fuzz/fuzz.h"
#include "wire/discover.h"

static const char *const names[] = {
	"RINGUP_RANK",
	"RINGUP_SIZE",
	"RINGUP_LOCAL_RANK",
	"RINGUP_LOCAL_SIZE",
	"RINGUP_JOB",
	"RINGUP_MEET",
	"RINGUP_SECRET_FD",
	"HOROVOD_RANK",
	"HOROVOD_SIZE",
	"HOROVOD_GLOO_RENDEZVOUS_PORT",
	"OMPI_COMM_WORLD_RANK",
	"OMPI_COMM_WORLD_SIZE",
	"OMPI_COMM_WORLD_LOCAL_SIZE",
	"PMIX_NAMESPACE",
	"PMIX_RANK",
	"PMI_RANK",
	"PMI_SIZE",
	"MPI_LOCALRANKID",
	"RANK",
	"WORLD_SIZE",
	"LOCAL_RANK",
	"LOCAL_WORLD_SIZE",
	"MASTER_ADDR",
	"MASTER_PORT",
	"SLURM_PROCID",
	"SLURM_NTASKS",
	"SLURM_JOB_ID",
	"SLURM_STEP_ID",
	"SLURM_NODEID",
	"SLURM_TASKS_PER_NODE",
	"SLURM_STEP_TASKS_PER_NODE",
	"SLURM_STEP_NUM_TASKS",
};
enum { NAMES = sizeof(names) / sizeof(names[0]), VALUE = 200 };

/* Lines: the first byte of each chooses the variable ('A' the first), the rest is
 * its value. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct discovery d;
	struct err e = { 0 };
	char value[VALUE + 1];
	size_t i, n;
	int rc;

	for (i = 0; i < NAMES; i++)
		unsetenv(names[i]);
	while (len) {
		const uint8_t *end = memchr(data, '\n', len);
		size_t line = end ? (size_t)(end - data) : len;

		n = line ? line - 1 : 0;
		n = n < VALUE ? n : VALUE;
		memcpy(value, data + 1, n);
		value[n] = 0;
		if (line)
			setenv(names[(data[0] - 'A' + 256u) % NAMES], value, 1);
		len -= end ? line + 1 : line;
		data += end ? line + 1 : line;
	}
	rc = discover(&d, &e);
	fuzz_require(rc <= 0 && !rc == !*e.text);
	if (rc)
		return 0;
	fuzz_require(d.size >= 1 && d.rank >= 0 && d.rank < d.size);
	fuzz_require(d.local_rank >= -1 && d.local_size >= -1 && d.local_size != 0);
	fuzz_require(memchr(d.key, 0, sizeof(d.key)) && d.meet && d.source);
	return 0;
}
