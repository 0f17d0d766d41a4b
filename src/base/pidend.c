/* pidend.c - a descriptor that becomes readable when a process ends. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/pidend.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/array.h"
#include "base/file.h"
#include "base/forks.h"
#include "base/newcalls.h"
#include "base/pidstat.h"
#include "base/thread.h"

/* Tests that start no threads otherwise do not begin to (tests/lint/threads.bats). */
#pragma weak thread_start

/* Without pidfds: the processes that the thread looks at. */
struct pidend {
	pid_t pid;
	uint64_t start; /* of pidstat; 0: not known */
	int fd;         /* the pipe's end to write  */
};

static struct {
	pthread_mutex_t lock;
	struct pidend *of;
	int count;
	bool has_thread;
	uint32_t forks;
} ends = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* pidfd_open(2) itself knows no EPERM: that is a seccomp profile. */
static bool has_none(int why)
{
	return why == ENOSYS || why == EPERM;
}

static bool has_ended(pid_t pid, uint64_t start)
{
	struct pidstat p;
	siginfo_t s = { 0 };

	if (!pidstat_read(pid, &p))
		return p.state == 'Z' || p.state == 'X' || (start && p.start != start);
	/* No such process, or no /proc. */
	if (!waitid(P_PID, (id_t)pid, &s, WEXITED | WNOHANG | WNOWAIT) && s.si_pid == pid)
		return true;
	return kill(pid, 0) && errno == ESRCH;
}

/* Removes processes that have ended, or that no thread waits for.  Call with the lock held. */
static void look(void)
{
	int i, kept = 0;

	for (i = 0; i < ends.count; i++) {
		struct pollfd p = { ends.of[i].fd, 0, 0 };
		bool unread = poll(&p, 1, 0) > 0 && p.revents & POLLERR;

		if (!unread && !has_ended(ends.of[i].pid, ends.of[i].start)) {
			ends.of[kept++] = ends.of[i];
			continue;
		}
		/* A byte, since a pipe's end alone is POLLHUP. */
		if (!unread)
			(void)!write(ends.of[i].fd, "", 1);
		close(ends.of[i].fd);
	}
	ends.count = kept;
}

static void *look_on(void *arg)
{
	bool more;

	do {
		poll(NULL, 0, PIDEND_LOOK_MS);
		pthread_mutex_lock(&ends.lock);
		look();
		more = ends.has_thread = ends.count > 0;
		pthread_mutex_unlock(&ends.lock);
	} while (more);
	return arg;
}

/* Call with the lock held. */
static int start_thread(void)
{
	pthread_t thread;
	int rc = ends.has_thread ? 0
		 : !thread_start ? ENOSYS
				 : thread_start(&thread, look_on, NULL);

	if (rc || ends.has_thread)
		return rc;
	pthread_detach(thread);
	ends.has_thread = true;
	return 0;
}

/* A child of fork() has neither the thread nor, perhaps, the lock. */
static void forget_parents(void)
{
	uint32_t forks = forks_count();

	if (ends.forks == forks)
		return;
	for (int i = 0; i < ends.count; i++)
		close(ends.of[i].fd);
	ends.count = 0;
	ends.has_thread = false;
	pthread_mutex_init(&ends.lock, NULL);
	ends.forks = forks;
}

static int stand_in(pid_t pid)
{
	struct pidend *new;
	struct pidstat s;
	int pipes[2], rc = 0;

	if (kill(pid, 0) && errno == ESRCH)
		return -1;
	if (pipe2(pipes, O_CLOEXEC | O_NONBLOCK))
		return -1;
	forget_parents();
	pthread_mutex_lock(&ends.lock);
	new = array_room(&ends.of, ends.count, sizeof(*new));
	rc = new ? start_thread() : ENOMEM;
	if (!rc) {
		*new = (struct pidend){ pid, pidstat_read(pid, &s) ? 0 : s.start,
					file_lift(pipes[1]) };
		ends.count++;
	}
	pthread_mutex_unlock(&ends.lock);
	if (!rc)
		return pipes[0];
	close(pipes[0]);
	close(pipes[1]);
	errno = rc;
	return -1;
}

int pidend_open(pid_t pid)
{
	int fd = file_lift((int)syscall(SYS_pidfd_open, pid, 0));

	if (fd < 0 && has_none(errno))
		fd = file_lift(stand_in(pid));
	if (fd >= 0)
		fcntl(fd, F_SETFD, FD_CLOEXEC);
	return fd;
}

bool pidend_has_ended(pid_t pid)
{
	struct pollfd p = { (int)syscall(SYS_pidfd_open, pid, 0), POLLIN, 0 };
	bool ended;

	if (p.fd < 0)
		return has_none(errno) ? has_ended(pid, 0) : errno == ESRCH;
	ended = poll(&p, 1, 0) > 0;
	close(p.fd);
	return ended;
}

int pidend_signal(int fd, pid_t pid, int sig)
{
	int rc = (int)syscall(SYS_pidfd_send_signal, fd, sig, NULL, 0);

	/* EBADF: a pipe, or none. */
	return rc && (has_none(errno) || errno == EBADF) ? kill(pid, sig) : rc;
}
