/* test_ras_server.c - the port that answers as NCCL RAS does, and clients that mean harm. */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "ringup.h"
#include "wire/ras_server.h"

#include "tap.h"

enum { LONG = 3 << 20, SECOND = 1000000000 };

static struct ras_server server;
static int made;
static size_t report_len = 6;
static int64_t now;

/* The moment is the test's own: no test waits. */
static char *report(void *arg, enum ras_format format, size_t *len)
{
	char *out = malloc(report_len + 1);

	(void)arg;
	made++;
	memset(out, format == RAS_AS_JSON ? 'j' : 't', report_len);
	out[report_len - 1] = '\n';
	*len = report_len;
	return out;
}

static int port_of_server(void)
{
	struct err e;

	for (int port = 20011; port < 30000; port += 13)
		if (!ras_server_open(&server, port, report, NULL, &e))
			return port;
	return 0;
}

static int dial(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_port = htons((uint16_t)server.port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (connect(fd, (struct sockaddr *)&a, sizeof(a)) && errno != EINPROGRESS) {
		close(fd);
		return -1;
	}
	return fd;
}

/* Lets the server do what it can; returns the descriptors that it polls. */
static int turn(void)
{
	struct pollfd p[RAS_POLLS];
	int n = 0;

	for (int i = 0; i < 20; i++) {
		ras_server_list(&server, p, now);
		if (poll(p, RAS_POLLS, 2) <= 0 && i)
			break;
		ras_server_serve(&server, p, now);
	}
	ras_server_list(&server, p, now);
	for (int i = 0; i < RAS_POLLS; i++)
		n += p[i].fd >= 0;
	return n;
}

static int clients(void)
{
	int n = 0;

	for (int i = 0; i < RAS_CLIENTS; i++)
		n += server.client[i].fd >= 0;
	return n;
}

/* Sends @text and returns all that is answered until nothing more comes; @ended: also the end.
 */
static const char *ask(int fd, const char *text, bool *ended)
{
	static char got[8192];
	size_t len = 0;
	ssize_t n = 0;

	*ended = false;
	if (*text && send(fd, text, strlen(text), MSG_NOSIGNAL) < 0)
		return "";
	for (int i = 0; i < 10; i++) {
		turn();
		while ((n = read(fd, got + len, sizeof(got) - 1 - len)) > 0)
			len += (size_t)n;
		*ended |= !n;
	}
	got[len] = 0;
	return got;
}

static bool says(const char *text, const char *answer, bool ends)
{
	int fd = dial();
	bool ended;
	const char *got = ask(fd, text, &ended);
	bool good = !strcmp(got, answer) && ended == ends;

	if (!good)
		printf("# %s%s\n", got, ended ? " (ended)" : "");
	close(fd);
	turn();
	now += SECOND; /* another report */
	return good && !clients();
}

static void test_protocol(void)
{
	ok(says("CLIENT PROTOCOL 2\nSTATUS\n", "SERVER PROTOCOL 2\nttttt\n", true),
	   "greeting and report in one piece");
	ok(says("status\r\n", "ttttt\n", true),
	   "no greeting, small letters, a carriage return");
	ok(says("SET FORMAT json\nVERBOSE STATUS\n", "OK\njjjjj\n", true), "JSON");
	ok(says("TIMEOUT 5\nTIMEOUT 0.5\nTIMEOUT x\nTIMEOUT\n",
		"OK\nOK\nERROR: Invalid timeout\nERROR: Invalid timeout\n", false),
	   "limits of time");
	ok(says("SET FORMAT xml\n", "ERROR: Invalid format\n", false), "another format");
	ok(says("MONITOR all\nCONTROL PROFILER_MASK all\n",
		"ERROR: Unknown command MONITOR all\n"
		"ERROR: Unknown command CONTROL PROFILER_MASK all\n",
		false),
	   "events and changes there are none");
	ok(says("STATUSES\n", "ERROR: Unknown command STATUSES\n", false), "words end");
	ok(says("STATUS\nSTATUS\nSTATUS\n", "ttttt\n", true), "one report, and the end");
}

static void test_report(void)
{
	static char got[LONG + 1];
	size_t len = 0;
	ssize_t n;
	int fd;

	made = 0;
	for (int i = 0; i < 3; i++)
		(void)!says("STATUS\n", "", false);
	ok(made == 3, "a report a second");
	made = 0;
	for (int i = 0; i < 3; i++) {
		now -= SECOND;
		(void)!says("STATUS\n", "", false);
	}
	ok(made == 0, "and none anew within a moment: %d", made);
	report_len = LONG;
	fd = dial();
	(void)!send(fd, "STATUS\n", 7, MSG_NOSIGNAL);
	for (int i = 0; i < 20000 && len < LONG; i++) {
		turn();
		n = read(fd, got + len, LONG - len);
		len += n > 0 ? (size_t)n : 0;
	}
	ok(len == LONG && got[LONG - 2] == 't', "a long report arrives: %zu", len);
	close(fd);
	turn();
	report_len = 6;
	now += SECOND;
}

static void test_harm(void)
{
	static char line[2 * RAS_LINE];
	int fd[RAS_CLIENTS + 2], n, calls;
	bool ended;

	for (int extra = -1; extra <= 1; extra++) {
		memset(line, ' ', sizeof(line));
		memcpy(line, "TIMEOUT", 7);
		strcpy(line + RAS_LINE + extra - 2, "1\n");
		fd[0] = dial();
		ok(!strcmp(ask(fd[0], line, &ended), extra > 0 ? "" : "OK\n") &&
			   clients() == (extra <= 0),
		   "a line of RAS_LINE %+d", extra);
		close(fd[0]);
		turn();
		now += SECOND;
	}

	/* Nobody reads or says anything. */
	for (int i = 0; i < RAS_CLIENTS + 2; i++)
		fd[i] = dial();
	n = turn();
	ok(clients() == RAS_CLIENTS && n == RAS_CLIENTS, "no more than %d clients",
	   RAS_CLIENTS);
	ok(ras_server_until(&server) <= now + (int64_t)RAS_CLIENT_MS * 1000000,
	   "and they have a limit");
	now += (int64_t)RAS_CLIENT_MS * 1000000;
	turn();
	ok(!strcmp(ask(fd[RAS_CLIENTS], "TIMEOUT 1\n", &ended), "OK\n"),
	   "after which the next one is served");
	for (int i = 0; i < RAS_CLIENTS + 2; i++)
		close(fd[i]);
	turn();
	ok(!clients(), "all are gone");

	now += SECOND;
	report_len = LONG;
	fd[0] = dial();
	(void)!send(fd[0], "STATUS\n", 7, MSG_NOSIGNAL);
	turn();
	ok(clients() == 1, "one that does not read its report");
	now += (int64_t)RAS_CLIENT_MS * 1000000;
	turn();
	ok(!clients(), "is given up");
	close(fd[0]);
	report_len = 6;

	now += SECOND;
	calls = 0;
	for (int i = 0; i < 3 * RAS_SECOND; i++) {
		fd[0] = dial();
		calls += !strcmp(ask(fd[0], "TIMEOUT 1\n", &ended), "OK\n");
		close(fd[0]);
		turn();
	}
	ok(calls == RAS_SECOND, "%d connections in a second are served", calls);
	ok(ras_server_until(&server) <= now + SECOND, "for the others it wakes");
	now += SECOND;
	for (int i = 0; i < 3; i++)
		turn();
	now += SECOND;
	ok(says("TIMEOUT 1\n", "OK\n", false) || says("TIMEOUT 1\n", "OK\n", false),
	   "which are forgotten");
}

int main(void)
{
	struct ras_server second = { 0 };
	struct err e;
	int fd, why = 0;
	socklen_t len = sizeof(why);

	now = clock_ns();
	ok(port_of_server(), "a port");
	ok(!ras_server_open(&second, server.port, report, NULL, &e), "which ranks share");
	ras_server_close(&second);
	test_protocol();
	test_report();
	test_harm();
	fd = server.port;
	ras_server_close(&server);
	server.port = fd;
	fd = dial();
	if (fd >= 0) {
		poll(&(struct pollfd){ fd, POLLOUT, 0 }, 1, 1000);
		getsockopt(fd, SOL_SOCKET, SO_ERROR, &why, &len);
	}
	ok(fd < 0 || why == ECONNREFUSED, "closed");
	if (fd >= 0)
		close(fd);
	server = (struct ras_server){ 0 };
	ok(ras_server_until(&server) == INT64_MAX && turn() == 0, "a closed one wants nothing");
	return tap_done();
}
