/* ncclenv.c - libnccl-env-ringup.so: NCCL's env plug-in, interfaces v1 and v2. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL from 2.28.7 on asks an env plug-in for each of its settings instead of the environment.
 * This one answers from PINS_FILE, which `ringup net fix` writes, and takes every other name
 * from the environment.  So a variable in an image, a profile or a notebook does not override
 * the settings of the node's administrator.
 *
 * It runs in every training job: it allocates nothing, prints nothing, starts no thread and
 * cannot fail.  NCCL calls init() once, before any getEnv(); from then on the pins do not
 * change, so that getEnv() may be called from every thread and its answers stay valid.
 */
#include <fcntl.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/conf.h"
#include "host/pins.h"

enum { NCCL_SUCCESS = 0, FILE_CAP = 1 << 16 };

/* The two interfaces, from NCCL's documentation; they differ in init()'s arguments. */
struct env_v1 {
	const char *name;
	int (*init)(uint8_t major, uint8_t minor, uint8_t patch, const char *suffix);
	int (*finalize)(void);
	const char *(*get)(const char *name);
};

struct env_v2 {
	const char *name;
	int (*init)(uint8_t major, uint8_t minor, uint8_t patch, const char *suffix,
		    void (*logger)(void));
	int (*finalize)(void);
	const char *(*get)(const char *name);
};

static const char mark[] __attribute__((used)) = PINS_MARK;
static struct pins pins;
static char text[FILE_CAP];

/* A file that cannot be read, or is longer than any valid one, pins nothing. */
static size_t text_read(void)
{
	int fd = open(PINS_FILE, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	size_t len = 0;
	ssize_t n = 0;

	if (fd < 0)
		return 0;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode))
		while (len < sizeof(text) && (n = read(fd, text + len, sizeof(text) - len)) > 0)
			len += (size_t)n;
	close(fd);
	return n < 0 || len == sizeof(text) ? 0 : len;
}

static int env_init(void)
{
	pins_parse(&pins, text, text_read());
	return NCCL_SUCCESS;
}

static int env_init_v1(uint8_t major, uint8_t minor, uint8_t patch, const char *suffix)
{
	(void)major;
	(void)minor;
	(void)patch;
	(void)suffix;
	return env_init();
}

static int env_init_v2(uint8_t major, uint8_t minor, uint8_t patch, const char *suffix,
		       void (*logger)(void))
{
	(void)logger;
	return env_init_v1(major, minor, patch, suffix);
}

static int env_finalize(void)
{
	return NCCL_SUCCESS;
}

static const char *env_get(const char *name)
{
	const char *pinned = pins_get(&pins, name);

	return pinned ? pinned : conf_env(name);
}

#define EXPORTED __attribute__((visibility("default")))

EXPORTED extern const struct env_v1 ncclEnvPlugin_v1;
EXPORTED extern const struct env_v2 ncclEnvPlugin_v2;

const struct env_v1 ncclEnvPlugin_v1 = {
	.name = "ringup",
	.init = env_init_v1,
	.finalize = env_finalize,
	.get = env_get,
};

const struct env_v2 ncclEnvPlugin_v2 = {
	.name = "ringup",
	.init = env_init_v2,
	.finalize = env_finalize,
	.get = env_get,
};
