/* fuzz_ras.c - clients of the RAS port that send anything, are slow, and leave. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "fuzz/fuzz.h"
#include "ringup.h"
#include "wire/ras_server.h"

enum {
	CALLERS = RAS_CLIENTS + 2,
	SMALL = 64,
	LARGE = 300000, /* more than a socket takes at once */
	MS = 1000000,
	SECOND = 1000 * MS,
};

/* The client's side of a connection, and the answer that it has read. */
struct caller {
	int fd; /* -1: none */
	size_t lines, answers;
	bool in_report, ended;
	char line[256];
	size_t have, report_bytes;
	int64_t came_ns;
};

static struct ras_server server;
static struct caller caller[CALLERS];
static int64_t now, made_ns[RAS_FORMATS], second_ns;
static size_t report_len;
static bool no_memory;
static int accepted;
static struct sockaddr_un where;
static socklen_t where_len;

/* Lines "r...", which no answer to another command begins with. */
static char *report(void *arg, enum ras_format format, size_t *len)
{
	char *out;

	fuzz_require(arg == &server && format < RAS_FORMATS);
	fuzz_require(now - made_ns[format] >= (int64_t)RAS_REPORT_MS * MS);
	*len = 0;
	if (no_memory)
		return NULL;
	made_ns[format] = now;
	out = malloc(report_len);
	fuzz_require(out);
	memset(out, 'r', report_len);
	out[report_len - 1] = '\n';
	*len = report_len;
	return out;
}

static int clients(void)
{
	int n = 0;

	for (int i = 0; i < RAS_CLIENTS; i++)
		n += server.client[i].fd >= 0;
	return n;
}

static void check_clients(int before)
{
	fuzz_require(clients() <= RAS_CLIENTS);
	if (now - second_ns >= SECOND) {
		second_ns = now;
		accepted = 0;
	}
	/* A client that has left in the same turn hides one that has come. */
	accepted += clients() > before ? clients() - before : 0;
	fuzz_require(accepted <= 2 * RAS_SECOND);
	for (int i = 0; i < RAS_CLIENTS; i++) {
		const struct ras_client *c = &server.client[i];

		fuzz_require(c->have <= sizeof(c->line) && c->sent <= c->len);
		fuzz_require(c->fd < 0 || now < c->until_ns);
	}
}

static void turn(void)
{
	struct pollfd p[RAS_POLLS];
	int before = clients();

	ras_server_list(&server, p, now);
	fuzz_require(poll(p, RAS_POLLS, 0) >= 0);
	ras_server_serve(&server, p, now);
	check_clients(before);
}

/* ---- callers ---- */

static void take_answer(struct caller *c)
{
	static const char *const answers[] = { "SERVER PROTOCOL 2", "OK",
					       "ERROR: Invalid timeout",
					       "ERROR: Invalid format" };
	bool known = !strncmp(c->line, "ERROR: Unknown command ", 23);

	for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++)
		known |= !strcmp(c->line, answers[i]);
	fuzz_require(known);
	fuzz_require(++c->answers <= c->lines);
}

static void take_byte(struct caller *c, char byte)
{
	if (!c->have && byte == 'r')
		c->in_report = true;
	if (c->in_report) {
		fuzz_require(byte == 'r' || byte == '\n');
		c->report_bytes++;
		return;
	}
	fuzz_require(c->have < sizeof(c->line) - 1);
	if (byte != '\n') {
		c->line[c->have++] = byte;
		return;
	}
	c->line[c->have] = 0;
	take_answer(c);
	c->have = 0;
}

static void caller_read(struct caller *c, size_t most)
{
	static char buf[65536];
	ssize_t n;

	n = c->fd < 0 ? -1 : recv(c->fd, buf, most < sizeof(buf) ? most : sizeof(buf), 0);
	fuzz_require(n <= 0 || !c->ended);
	c->ended |= !n;
	for (ssize_t i = 0; i < n; i++)
		take_byte(c, buf[i]);
	/* Only the limit of time cuts a report short. */
	if (c->ended && c->in_report && now - c->came_ns < (int64_t)RAS_CLIENT_MS * MS)
		fuzz_require(c->report_bytes == SMALL || c->report_bytes == LARGE);
}

static void caller_send(struct caller *c, const uint8_t *data, size_t len)
{
	ssize_t n = c->fd < 0 ? -1 : send(c->fd, data, len, MSG_NOSIGNAL);

	for (ssize_t i = 0; i < n; i++)
		c->lines += data[i] == '\n';
}

static void caller_leave(struct caller *c)
{
	if (c->fd >= 0)
		close(c->fd);
	*c = (struct caller){ .fd = -1 };
}

static void caller_come(struct caller *c)
{
	int size = 4096;

	caller_leave(c);
	c->came_ns = now;
	c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	fuzz_require(c->fd >= 0);
	setsockopt(c->fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	if (connect(c->fd, (struct sockaddr *)&where, where_len))
		caller_leave(c); /* the queue is full */
}

/* ---- the target ---- */

/* A listener without a name in any file system stands for the port. */
static void open_server(void)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	memset(&server, 0, sizeof(server));
	where = (struct sockaddr_un){ .sun_family = AF_UNIX };
	fuzz_require(fd >= 0 && !bind(fd, (struct sockaddr *)&where, sizeof(sa_family_t)));
	where_len = sizeof(where);
	fuzz_require(!getsockname(fd, (struct sockaddr *)&where, &where_len));
	fuzz_require(!listen(fd, RAS_CLIENTS));
	server.port = RAS_PORT;
	server.fd = fd;
	server.report = report;
	server.arg = &server;
	for (int i = 0; i < RAS_CLIENTS; i++)
		server.client[i].fd = -1;
	now = 100 * (int64_t)SECOND;
	second_ns = 0;
	accepted = 0;
	memset(made_ns, 0, sizeof(made_ns));
	for (int i = 0; i < CALLERS; i++)
		caller[i] = (struct caller){ .fd = -1 };
}

enum { COME, SAY, LINE, READ, HALF, LEAVE, PASS, REPORT };

static const uint8_t *act(uint8_t what, const uint8_t *data, const uint8_t *end)
{
	struct caller *c = &caller[(what >> 3) % CALLERS];
	uint8_t n = data < end ? *data++ : 0;
	size_t len = (size_t)(end - data) < n ? (size_t)(end - data) : n;

	switch (what & 7) {
	case COME:
		caller_come(c);
		break;
	case SAY:
	case LINE:
		caller_send(c, data, len);
		if ((what & 7) == LINE)
			caller_send(c, (const uint8_t *)"\n", 1);
		return data + len;
	case READ:
		caller_read(c, (size_t)n * n + 1);
		break;
	case HALF:
		if (c->fd >= 0)
			shutdown(c->fd, SHUT_WR);
		break;
	case LEAVE:
		caller_leave(c);
		break;
	case PASS:
		now += (int64_t)n * n * MS; /* up to 65 s */
		break;
	case REPORT:
		no_memory = n & 1;
		report_len = n & 2 ? LARGE : SMALL;
		break;
	}
	return data;
}

/* Callers read what is left for them; then the server closes each connection in time. */
static void finish(void)
{
	for (int i = 0; i < 400; i++) {
		turn();
		for (int k = 0; k < CALLERS; k++)
			if (!caller[k].ended)
				caller_read(&caller[k], LARGE);
	}
	/* The queue has connections of callers that have left: one is accepted in each turn. */
	for (int i = 0; i < 4 * CALLERS; i++) {
		now += 2 * (int64_t)RAS_CLIENT_MS * MS;
		turn();
	}
	fuzz_require(!clients());
}

/* Again and again: a byte (bits 0 to 2: what is done; the others: which caller does it), a
 * byte that says how much of it, and, of what is sent, that many bytes. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	const uint8_t *end = data + len;

	if (len > 4096)
		return 0;
	no_memory = false;
	report_len = SMALL;
	open_server();
	while (data < end) {
		data = act(*data, data + 1, end);
		turn();
	}
	finish();
	for (int i = 0; i < CALLERS; i++)
		caller_leave(&caller[i]);
	ras_server_close(&server);
	return 0;
}
