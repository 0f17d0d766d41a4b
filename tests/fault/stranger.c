/* stranger.c - knocks at a port without a secret, in ways that have hurt others. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 6000, GARBAGE = 4096 };

static int open_to(const char *address, int port)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

	a.sin_port = htons((unsigned short)port);
	inet_pton(AF_INET, address, &a.sin_addr);
	if (fd >= 0)
		(void)!connect(fd, (struct sockaddr *)&a, sizeof(a));
	return fd;
}

static void rest(long ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000 };

	nanosleep(&t, NULL);
}

static long now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Has the other side ended the connection? */
static bool is_out(int fd)
{
	char c[512];
	ssize_t n;

	do
		n = recv(fd, c, sizeof(c), MSG_DONTWAIT);
	while (n > 0);
	return n == 0 || (errno != EAGAIN && errno != EINTR);
}

static void tell(int out, long half, long last)
{
	printf("%d %ld %ld\n", out, half, last);
	fflush(stdout);
}

/*
 * stranger ADDRESS:PORT COUNT MS HOW [LEAST] - COUNT connections for MS in all
 *
 * garbage  4 KiB of noise on each; trickle  a byte every 20 ms; idle  nothing;
 * huge  bytes that announce 2^31 - 1 more.  Prints how many of them were put out, and
 * the milliseconds after which half of those, and all of them, were seen to be: at the
 * end, or as soon as there are LEAST of them.
 */
int main(int argc, char **argv)
{
	static unsigned char noise[GARBAGE];
	static int fd[MOST];
	static bool gone[MOST];
	struct rlimit l = { MOST + 64, MOST + 64 };
	long ms, began, half = 0, last = 0;
	int count, least, port, i, round, rounds, out = 0;
	bool has_told = false;
	char address[64];
	const char *how;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setrlimit(RLIMIT_NOFILE, &l);
	if (argc < 5 || argc > 6 || sscanf(argv[1], "%63[0-9.]:%d", address, &port) != 2)
		return 2;
	count = atoi(argv[2]) < MOST ? atoi(argv[2]) : MOST;
	ms = atol(argv[3]);
	how = argv[4];
	least = argc == 6 ? atoi(argv[5]) : MOST + 1;
	began = now_ms();
	srand((unsigned)began);
	for (i = 0; i < GARBAGE; i++)
		noise[i] = (unsigned char)rand();
	if (!strcmp(how, "huge"))
		memset(noise, 0x7f, sizeof(noise));
	for (i = 0; i < count; i++)
		fd[i] = open_to(address, port);
	rounds = (int)(ms / 20 ? ms / 20 : 1);
	for (round = 0; round < rounds; round++) {
		rest(20);
		for (i = 0; i < count; i++)
			if (!strcmp(how, "trickle"))
				(void)!send(fd[i], noise + round % GARBAGE, 1, MSG_NOSIGNAL);
			else if (round == 1 && strcmp(how, "idle") != 0)
				(void)!send(fd[i], noise, sizeof(noise), MSG_NOSIGNAL);
		for (i = 0; i < count; i++) {
			if (gone[i] || !is_out(fd[i]))
				continue;
			gone[i] = true;
			last = now_ms() - began;
			if (++out == (count + 1) / 2)
				half = last;
		}
		if (out >= least && !has_told) {
			tell(out, half, last);
			has_told = true;
		}
	}
	if (!has_told)
		tell(out, half, last);
	return 0;
}
