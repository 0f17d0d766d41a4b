/* inherit.c - find descriptors of the launcher that a parent did not pass on. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/inherit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/pidstat.h"
#include "wire/secret.h"

enum { ANCESTORS = 32 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* The numbers that the environment has, and the descriptors that lead to the ancestor's: of the
 * secret, of notices and of causes. */
static int numbers[3], opened[3];
static bool is_opened;

/* The parent of @pid; 0 if that is not known, or of another user. */
static pid_t parent_of(pid_t pid)
{
	char path[64];
	struct stat st;
	struct pidstat p;

	if (pidstat_read(pid, &p) || p.parent <= 0)
		return 0;
	snprintf(path, sizeof(path), "/proc/%d", (int)p.parent);
	return !stat(path, &st) && st.st_uid == geteuid() ? p.parent : 0;
}

static int open_of(pid_t pid, int number, int flags)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, number);
	return open(path, flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
}

static bool find(const int number[3])
{
	pid_t pid = getpid();

	for (int i = 0; i < ANCESTORS && (pid = parent_of(pid)); i++) {
		opened[0] = open_of(pid, number[0], O_RDONLY);
		if (opened[0] >= 0 && secret_is(opened[0])) {
			opened[1] = number[1] < 0 ? -1 : open_of(pid, number[1], O_RDONLY);
			opened[2] = number[2] < 0 ? -1 : open_of(pid, number[2], O_WRONLY);
			return true;
		}
		if (opened[0] >= 0)
			close(opened[0]);
	}
	return false;
}

void inherit(int *secret, int *notice, int *cause)
{
	const int number[3] = { *secret, *notice, *cause };
	int saved = errno;

	if (*secret < 0 || secret_is(*secret))
		return;
	pthread_mutex_lock(&lock);
	if (!is_opened && find(number)) {
		is_opened = true;
		for (int i = 0; i < 3; i++)
			numbers[i] = number[i];
	}
	if (is_opened && numbers[0] == number[0]) {
		*secret = opened[0];
		*notice = *notice == numbers[1] ? opened[1] : *notice;
		*cause = *cause == numbers[2] ? opened[2] : *cause;
	}
	pthread_mutex_unlock(&lock);
	errno = saved;
}
