/* test_ras.c - answers of NCCL RAS, whole and broken, and a client's dialogue. */
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/err.h"
#include "hang/look.h"
#include "hang/ras.h"
#include "hang/ruling.h"
#include "ringup.h"

#include "tap.h"

#define TABLE                                                                         \
	"NCCL version 2.28.3 compiled with CUDA 13.0\n\nJob summary\n===========\n\n" \
	"Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n" \
	"    #  in group  per comm  per node  per comm  in group\n"                   \
	"    0         1         1         4         4         4   RUNNING  "         \
	"MISMATCH\n\nWarnings\n"

static const char behind[] =
	TABLE "#0-0 (00aa) MISMATCH\n"
	      "  Communicator ranks have different AllReduce operation counts\n"
	      "  3 ranks have launched up to operation 41\n"
	      "  Rank 2 has launched up to operation 40 -- GPU 1 managed by process 77 on node "
	      "10.0.0.7\n";

/* 2.24 has one count for all kinds. */
static const char behind_old[] = TABLE
	"#0-0 (00aa) MISMATCH\r\n  Communicator ranks have different operation counts\r\n"
	"  3 ranks have launched up to operation 41\r\n"
	"  Rank 2 has launched up to operation 40 -- GPU 1 managed by process 77 on node a\r\n";

static const char init[] =
	TABLE "#0-0 (00aa) MISMATCH\n  Communicator ranks have different status\n"
	      "  3 ranks have status RUNNING\n"
	      "  Rank 1 has status INIT -- GPU 1 managed by process 78 on node 10.0.0.7\n";

static const char stopped[] = TABLE
	"#0-0 (00aa) INCOMPLETE\n  Missing communicator data from 1 rank\n"
	"  Rank 1 -- GPU 1 managed by process 79 on node 10.0.0.7\n\n"
	"#0-0 (00aa) MISMATCH\n  Communicator ranks have different AllReduce operation counts\n"
	"  2 ranks have launched up to operation 518\n"
	"  Rank 3 has launched up to operation 516 -- GPU 3 managed by process 80 on node "
	"10.0.0.7\n";

#define RANK(rank, pid, count)                                                              \
	"{\"rank\": " #rank ", \"host\": \"10.0.0.7\", \"pid\": " #pid                      \
	", \"status\": {\"init_state\": 0}, \"collective_counts\": {\"AllReduce\": " #count \
	"}}"

/* As 2.28.9 writes it: a comma is missing between the last two. */
static const char broken[] = "{\"nccl_version\": \"2.28.9\", \"communicators\": [{\"hash\": "
			     "\"0x00aa\", \"size\": 4, "
			     "\"ranks\": [" RANK(0, 10, 5) ", " RANK(
				     3, 13, 5) "], \"missing_ranks\": [{\"rank\": 1, \"host\": "
					       "\"10.0.0.7\", \"pid\": 11, \"status\": "
					       "{\"unresponsive\": true}}\n {\"rank\": 2, "
					       "\"host\": \"10.0.0.7\", \"pid\": 12}]}]}";

/* Of a job of ringup, of which rank 3 is on another host. */
static const char here_only[] =
	"{\"nccl_version\": \"0.2.0\", \"engine\": \"ringup\", \"communicators\": [{\"hash\": "
	"\"0x00aa\", \"size\": 4, \"ranks\": [" RANK(0, 10, 5) ", " RANK(1, 11, 4) ", " RANK(
		2, 12,
		5) "], \"missing_ranks\": [{\"rank\": 3, \"host\": \"b\", \"pid\": 13, "
		   "\"status\": {\"unresponsive\": false, \"considered_dead\": false}}]}]}";

static const char here_only_text[] = TABLE
	"#0-0 (00aa) INCOMPLETE\n  Missing communicator data from 1 rank\n"
	"  Rank 3 is on another host -- GPU 0 managed by process 13 on node b\n\n"
	"#0-0 (00aa) MISMATCH\n  Communicator ranks have different AllReduce operation counts\n"
	"  2 ranks have launched up to operation 5\n"
	"  Rank 1 has launched up to operation 4 -- GPU 1 managed by process 11 on node a\n";

static bool judges(const char *a, const char *b, enum ruling_kind kind, int culprits, int first)
{
	static struct ruling r;
	struct look before = { 0 }, now = { 0 };
	char version[RAS_VERSION];
	struct err e;
	bool good = !ras_parse(&before, a, strlen(a), version, &e) &&
		    !ras_parse(&now, b, strlen(b), version, &e);

	if (good)
		ruling_make(&r, &before, &now, 5000);
	look_free(&before);
	look_free(&now);
	good = good && r.kind == kind && r.culprits == culprits &&
	       (!culprits || r.culprit[first]);
	if (!good)
		printf("# %s, %d\n", ruling_name(r.kind), r.culprits);
	return good;
}

/* ---- a server ---- */

/* Serves @n connections; the first @mute of them as a stopped process does.  Returns the port.
 */
static int serve(int n, int mute, bool knows_json, const char *report, pid_t *child)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM, 0), c;
	char line[256];
	ssize_t got;

	if (bind(fd, (struct sockaddr *)&a, len) || listen(fd, 8) ||
	    getsockname(fd, (struct sockaddr *)&a, &len))
		exit(1);
	*child = fork();
	if (*child) {
		close(fd);
		return ntohs(a.sin_port);
	}
	alarm(60);
	while (n--) {
		c = accept(fd, NULL, NULL);
		if (mute-- > 0)
			continue;
		while ((got = read(c, line, sizeof(line) - 1)) > 0) {
			const char *say = "ERROR: Unknown command\n";

			line[got] = 0;
			if (strstr(line, "CLIENT"))
				say = "SERVER PROTOCOL 2\n";
			else if (strstr(line, "SET FORMAT") && knows_json)
				say = "OK\n";
			else if (strstr(line, "STATUS"))
				say = report;
			if (write(c, say, strlen(say)) < 0 || say == report)
				break;
		}
		close(c);
	}
	_exit(0);
}

static int ask(int mute, bool knows_json, const char *report, struct look *l, struct err *e)
{
	char where[64], version[RAS_VERSION];
	pid_t child;
	int rc;

	snprintf(where, sizeof(where), "127.0.0.1:%d",
		 serve(mute + 1, mute, knows_json, report, &child));
	rc = ras_ask(l, where, version, e);
	waitpid(child, NULL, 0);
	return rc;
}

int main(void)
{
	struct look l = { 0 };
	struct err e = { 0 };
	char version[RAS_VERSION];

	ok(judges(behind, behind, RULING_BEHIND, 1, 2), "a rank is behind, and none advances");
	ok(judges(behind_old, behind_old, RULING_BEHIND, 1, 2), "the same of NCCL 2.24");
	ok(judges(init, init, RULING_INIT, 1, 1), "a rank starts");
	ok(judges(stopped, stopped, RULING_SILENT, 1, 1),
	   "a rank does not answer, and the one that differs is not blamed");
	ok(judges(here_only, here_only, RULING_BEHIND, 1, 1) &&
		   judges(here_only_text, here_only_text, RULING_BEHIND, 1, 1),
	   "ranks of other hosts are not taken for silent ones");
	ok(judges(broken, broken, RULING_SILENT, 2, 1), "JSON without a comma is mended");
	ok(ras_parse(&l, "hello", 5, version, &e) == RINGUP_EINVAL &&
		   ras_parse(&l, "{\"a\": 1}", 8, version, &e) == RINGUP_EINVAL,
	   "other texts are no answer");
	ok(ras_is_answer(behind, sizeof(behind)) && ras_is_answer(broken, sizeof(broken)) &&
		   !ras_is_answer("NCCL version 2.28.9", 19),
	   "an answer is told from a log");
	look_free(&l);

	ok(!ask(0, true, broken, &l, &e) && l.ranks == 4, "the client takes JSON");
	look_free(&l);
	ok(!ask(0, false, behind, &l, &e) && l.ranks == 4, "and text of versions without it");
	look_free(&l);
	ok(!ask(1, true, broken, &l, &e) && l.ranks == 4,
	   "it connects again where a stopped process has the connection");
	look_free(&l);
	ok(ras_ask(&l, "127.0.0.1:1", version, &e) && *e.text, "nobody there: %s", e.text);
	look_free(&l);

	ok(ras_hazard("2.26.3", 4) && ras_hazard("2.27.3", 4) && ras_hazard("2.27.7", 4) &&
		   ras_hazard("2.30.7", 256) && ras_hazard("2.29.7", 0) && ras_hazard("", 4),
	   "versions that crash are known");
	ok(!ras_hazard("2.28.9", 512) && !ras_hazard("2.30.7", 4) && !ras_hazard("2.27.5", 512),
	   "and those that do not");
	return tap_done();
}
