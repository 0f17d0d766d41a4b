/* pmi.c - the PMI-1 store of MPICH, Intel MPI and Slurm's pmi2: text lines on a socket. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/conf.h"
#include "base/err.h"
#include "ringup.h"
#include "wire/kvs.h"
#include "wire/mpi_state.h"

/*
 * Each request is a line "cmd=WORD KEY=VALUE ..." and has one line as its answer; the other
 * side sends nothing else.  So the MPI library of this process may use the same socket at other
 * times: its puts and barriers stay valid.
 */
enum {
	LINE_BYTES = 2048, /* twice as long as MPICH's own client takes */
	NAME_BYTES = 257,  /* of the store, with the NUL                */
	FAREWELL_MS = 2000,
};

static struct {
	int fd;       /* 0: none; a duplicate, since the MPI library closes its own */
	bool is_ours; /* this file, not MPI, has sent cmd=init to the launcher  */
	char name[NAME_BYTES];
} pmi;

/* The number in variable @name, or -1. */
static int pmi_number(const char *name)
{
	const char *text = conf_env(name);
	char *end;
	long n = text && *text ? strtol(text, &end, 10) : -1;

	return n < 0 || n > INT_MAX || *end ? -1 : (int)n;
}

/* Variables of another launcher may be left over, and PMI_FD may be another file by now. */
static bool pmi_is_here(int rank, int size)
{
	int fd = pmi_number("PMI_FD");
	struct stat st;

	return fd > 2 && pmi_number("PMI_RANK") == rank && pmi_number("PMI_SIZE") == size &&
	       !fstat(fd, &st) && S_ISSOCK(st.st_mode);
}

static int fail_gone(struct err *e)
{
	return fail(e, RINGUP_EPEER,
		    "the launcher has closed this rank's connection (PMI_FD): MPI_Finalize(), "
		    "or a program that ran before in this rank, may have ended it");
}

/* Sends all @len bytes; blocks until it has. */
static int send_all(const char *text, size_t len, struct err *e)
{
	while (len) {
		ssize_t n = send(pmi.fd, text, len, MSG_NOSIGNAL);

		if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
			poll(&(struct pollfd){ pmi.fd, POLLOUT, 0 }, 1, -1);
			continue;
		}
		if (n < 0)
			return errno == EPIPE || errno == ECONNRESET ? fail_gone(e)
								     : fail_os(e, "PMI_FD");
		text += n;
		len -= (size_t)n;
	}
	return 0;
}

/* One line to @line of LINE_BYTES, without its end.  Bytes behind it are an error: each
 * request has one answer. */
static int pmi_receive(char *line, int64_t deadline_ns, struct err *e)
{
	size_t have = 0;

	for (;;) {
		ssize_t n = recv(pmi.fd, line + have, LINE_BYTES - 1 - have, MSG_DONTWAIT);

		if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
			struct pollfd p = { pmi.fd, POLLIN, 0 };

			if (!poll(&p, 1, clock_left_ms(deadline_ns)))
				return fail(e, RINGUP_ETIMEDOUT, "no answer on PMI_FD");
			continue;
		}
		if (!n || (n < 0 && errno == ECONNRESET))
			return fail_gone(e);
		if (n < 0)
			return fail_os(e, "PMI_FD");
		if (memchr(line + have, 0, (size_t)n))
			break;
		have += (size_t)n;
		line[have] = 0;
		if (line[have - 1] == '\n') {
			line[have - 1] = 0;
			if (!strchr(line, '\n'))
				return 0;
			break;
		}
		if (have == LINE_BYTES - 1)
			break;
	}
	return fail(e, RINGUP_EMISMATCH,
		    "PMI_FD: the launcher's message is not a PMI-1 answer");
}

/* The value of @key in @line, to @out; -1 if there is none, or it is too long. */
static int pmi_value_of(const char *line, const char *key, char *out, size_t size)
{
	size_t len = strlen(key), n;
	const char *at = line;

	while (strncmp(at, key, len) || at[len] != '=') {
		at = strchr(at, ' ');
		if (!at)
			return -1;
		at++;
	}
	n = strcspn(at + len + 1, " ");
	if (n >= size)
		return -1;
	memcpy(out, at + len + 1, n);
	out[n] = 0;
	return 0;
}

/* Is @line the answer @want, and does it report success? */
static int check_answer(const char *line, const char *want, struct err *e)
{
	char word[64];

	if (pmi_value_of(line, "cmd", word, sizeof(word)) || strcmp(word, want))
		return fail(e, RINGUP_EMISMATCH,
			    "PMI_FD: the launcher says \"%.60s\" where cmd=%s was expected",
			    line, want);
	if (!pmi_value_of(line, "rc", word, sizeof(word)) && strcmp(word, "0"))
		return fail(e, RINGUP_ESYSTEM, "PMI_FD: the launcher says \"%.120s\"", line);
	return 0;
}

/* Send a line, and read the answer @want to @line of LINE_BYTES. */
static int pmi_ask(char *line, const char *want, int64_t deadline_ns, struct err *e,
		   const char *fmt, ...) __attribute__((format(printf, 5, 6)));

static int pmi_ask(char *line, const char *want, int64_t deadline_ns, struct err *e,
		   const char *fmt, ...)
{
	va_list ap;
	int n, rc;

	va_start(ap, fmt);
	n = vsnprintf(line, LINE_BYTES, fmt, ap);
	va_end(ap);
	rc = send_all(line, (size_t)n, e);
	if (!rc)
		rc = pmi_receive(line, deadline_ns, e);
	return rc ? rc : check_answer(line, want, e);
}

/* Introduce this process, unless its MPI library has; then learn the store's name. */
static int introduce(struct err *e)
{
	char line[LINE_BYTES];
	int rc = 0;

	pmi.is_ours = mpi_state() == MPI_STATE_NONE;
	if (pmi.is_ours)
		rc = pmi_ask(line, "response_to_init", INT64_MAX, e,
			     "cmd=init pmi_version=1 pmi_subversion=1\n");
	if (!rc)
		rc = pmi_ask(line, "my_kvsname", INT64_MAX, e, "cmd=get_my_kvsname\n");
	if (!rc && pmi_value_of(line, "kvsname", pmi.name, sizeof(pmi.name)))
		rc = fail(e, RINGUP_EMISMATCH, "PMI_FD: the launcher's store has no name");
	return rc;
}

static int pmi_open(int rank, struct err *e)
{
	int rc;

	(void)rank;
	pmi.fd = fcntl(pmi_number("PMI_FD"), F_DUPFD_CLOEXEC, 3);
	if (pmi.fd < 0) {
		pmi.fd = 0;
		return fail_os(e, "PMI_FD");
	}
	rc = introduce(e);
	if (rc) {
		close(pmi.fd);
		pmi.fd = 0;
	}
	return rc;
}

static int pmi_put(const char *key, const char *value, struct err *e)
{
	char line[LINE_BYTES];

	return pmi_ask(line, "put_result", INT64_MAX, e, "cmd=put kvsname=%s key=%s value=%s\n",
		       pmi.name, key, value);
}

static int pmi_fence(struct err *e)
{
	char line[LINE_BYTES];

	return pmi_ask(line, "barrier_out", INT64_MAX, e, "cmd=barrier_in\n");
}

static int pmi_get(const char *key, char *value, struct err *e)
{
	char line[LINE_BYTES];
	int rc = pmi_ask(line, "get_result", INT64_MAX, e, "cmd=get kvsname=%s key=%s\n",
			 pmi.name, key);

	if (!rc && pmi_value_of(line, "value", value, KVS_VALUE_BYTES))
		rc = fail(e, RINGUP_EMISMATCH, "PMI_FD: no value, or a long one, of %s", key);
	return rc;
}

/* An MPI library that was initialised later sends cmd=finalize itself. */
static void pmi_close(void)
{
	char line[LINE_BYTES];

	if (pmi.is_ours && mpi_state() == MPI_STATE_NONE)
		pmi_ask(line, "finalize_ack", clock_deadline(FAREWELL_MS), NULL,
			"cmd=finalize\n");
	close(pmi.fd);
	pmi.fd = 0;
}

const struct kvs kvs_pmi = {
	.name = "PMI",
	.is_here = pmi_is_here,
	.open = pmi_open,
	.put = pmi_put,
	.fence = pmi_fence,
	.get = pmi_get,
	.close = pmi_close,
};
