/* env_plugin.c - an env plug-in of NCCL that pins NCCL_SOCKET_IFNAME to lo. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static int env_init(uint8_t major, uint8_t minor, uint8_t patch, const char *suffix,
		    void *logger)
{
	(void)major;
	(void)minor;
	(void)patch;
	(void)suffix;
	(void)logger;
	return 0;
}

static int env_end(void)
{
	return 0;
}

static const char *env_get(const char *name)
{
	return strcmp(name, "NCCL_SOCKET_IFNAME") ? getenv(name) : "lo";
}

/* The name says which interface it is: ncclEnvPlugin_v1 or ncclEnvPlugin_v2. */
struct {
	const char *name;
	int (*init)(uint8_t, uint8_t, uint8_t, const char *, void *);
	int (*finalize)(void);
	const char *(*get)(const char *);
} INTERFACE = { "lo", env_init, env_end, env_get };
