/* libnccl.c - for tests: a stand-in for NCCL, libnccl.so.2; see fakenccl.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fakegpu/fakenccl.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "coll/scalar.h"
#include "fakegpu/faults.h"

#ifndef FAKE_NCCL_VERSION
#define FAKE_NCCL_VERSION 22707
#endif

enum {
	ERROR_BYTES = 128,
	RANKS = 64,
	REDOPS = 64,
	CONNECT_MS = 2, /* that a first operation is in progress */
	MAGIC = 0x6b636e66,
	HELLO_MAGIC = 0x6f6c6c65
};

/* Tools that look into a library find this, and no "NCCL version X+cudaY". */
__attribute__((used)) static const char what_this_is[] = "fake NCCL of ringup's tests, no GPU";

/* ---- objects ---- */

enum kind { ALLREDUCE, REDUCE, BROADCAST, ALLGATHER, REDUCESCATTER, SEND, RECV };

/* What ranks have to agree about, in front of each message. */
struct head {
	uint32_t kind, type, op, root;
	uint64_t count, serial;
};

struct op {
	enum kind kind;
	uint64_t in, out;
	uint64_t count;
	ncclDataType_t type;
	ncclRedOp_t op;
	int root; /* or the peer */
	bool scales, on_device;
	double scale; /* of this rank's contribution */
	uint64_t scale_at;
};

struct redop {
	bool used, on_device;
	ncclDataType_t type;
	double scale;
	uint64_t at;
};

struct fake_comm {
	unsigned int magic;
	int rank, size, device, sms;
	bool blocking;
	ncclUniqueId id;
	char name[64];
	CUcontext context;
	CUdeviceptr memory; /* that the real one has, too */
	CUevent last;
	CUstream stream; /* of the last operation */
	bool has_stream;
	int fd[RANKS], door, stopper;
	bool stopped;     /* atomic */
	int state, async; /* ncclResult_t; atomic */
	bool has_thread;
	pthread_t thread; /* that initializes, or launches the first operation */
	bool connected[2];
	pthread_mutex_t lock;
	pthread_cond_t idle;
	int in_flight;
	uint64_t executed, collectives;
	struct redop redop[REDOPS];
	struct fake_comm *dead; /* the next one of those that have ended */
};

/* Operations that run as one kernel. */
struct batch {
	struct fake_comm *comm;
	int count;
	struct op op[];
};

static int comms_left; /* atomic */
static struct fake_comm *comms_dead;
static _Thread_local char last_error[ERROR_BYTES];
static char any_error[ERROR_BYTES];
static pthread_mutex_t error_lock = PTHREAD_MUTEX_INITIALIZER;

__attribute__((format(printf, 2, 3))) static ncclResult_t fail(ncclResult_t code,
							       const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(last_error, sizeof(last_error), fmt, ap);
	va_end(ap);
	pthread_mutex_lock(&error_lock);
	memcpy(any_error, last_error, sizeof(any_error));
	pthread_mutex_unlock(&error_lock);
	return code;
}

static void nap_ms(long ms)
{
	if (ms > 0)
		usleep((useconds_t)ms * 1000);
}

static bool is_stopped(struct fake_comm *c)
{
	return __atomic_load_n(&c->stopped, __ATOMIC_ACQUIRE);
}

static int state_of(struct fake_comm *c)
{
	return __atomic_load_n(&c->state, __ATOMIC_ACQUIRE);
}

/* The end of a process that uses what is freed, as the real one's memory would be. */
static struct fake_comm *comm_check(struct fake_comm *c)
{
	if (!c)
		return NULL;
	if (c->magic != MAGIC) {
		fprintf(stderr, "fake NCCL: a communicator is used after its end\n");
		abort();
	}
	return c;
}

/* May the caller use @c now? */
static ncclResult_t comm_ready(struct fake_comm *c)
{
	int state;

	if (!comm_check(c))
		return fail(ncclInvalidArgument, "comm is NULL");
	if (is_stopped(c))
		return fail(ncclInvalidUsage, "the communicator was revoked");
	state = state_of(c);
	if (state == ncclInProgress)
		return fail(ncclInvalidArgument, "the communicator's last call is in progress");
	return (ncclResult_t)state;
}

/* ---- faults ---- */

/* "NAME=R@N...": does it mean @rank and, with a number, operation @n?  Sets the text behind. */
static bool fault_is(const char *name, int rank, uint64_t n, const char **more)
{
	const char *at = faults_find("FAKE_NCCL", name);
	char *end = NULL;

	if (!at || strtol(at, &end, 10) != rank)
		return false;
	if (*end == '@' && strtoull(end + 1, &end, 10) != n)
		return false;
	if (more)
		*more = *end == ':' ? end + 1 : end;
	return true;
}

/* ---- sockets ---- */

static int quick(int fd)
{
	int one = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

/* Waits for @fd, or until the communicator is stopped. */
static bool fd_await(struct fake_comm *c, int fd, short events)
{
	struct pollfd p[2] = { { fd, events, 0 }, { c->stopper, POLLIN, 0 } };

	while (poll(p, 2, -1) < 0 && errno == EINTR)
		;
	return !is_stopped(c);
}

static bool fd_move(struct fake_comm *c, int fd, void *at, size_t len, bool sends)
{
	unsigned char *p = at;

	while (len) {
		ssize_t n = sends ? send(fd, p, len, MSG_NOSIGNAL | MSG_DONTWAIT)
				  : recv(fd, p, len, MSG_DONTWAIT);

		if (n > 0) {
			p += n;
			len -= (size_t)n;
		} else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
			return false;
		} else if (!fd_await(c, fd, sends ? POLLOUT : POLLIN)) {
			return false;
		}
	}
	return true;
}

/* This rank's address: that of the interface in NCCL_SOCKET_IFNAME, or the loopback's. */
static struct in_addr own_address(void)
{
	const char *name = getenv("NCCL_SOCKET_IFNAME");
	struct in_addr own = { htonl(INADDR_LOOPBACK) };
	struct ifaddrs *list, *i;

	if (!name || getifaddrs(&list))
		return own;
	for (i = list; i; i = i->ifa_next)
		if (!strcmp(i->ifa_name, name) && i->ifa_addr &&
		    i->ifa_addr->sa_family == AF_INET)
			own = ((const struct sockaddr_in *)(const void *)i->ifa_addr)->sin_addr;
	freeifaddrs(list);
	return own;
}

static int listen_on(struct in_addr at, uint16_t *port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr = at };
	socklen_t len = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) || listen(fd, RANKS) ||
	    getsockname(fd, (struct sockaddr *)&a, &len)) {
		if (fd >= 0)
			close(fd);
		return -1;
	}
	*port = ntohs(a.sin_port);
	return fd;
}

static int connect_to(struct in_addr at, uint16_t port)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_port = htons(port),
				 .sin_addr = at };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof(a))) {
		close(fd);
		return -1;
	}
	return fd;
}

/* ---- how ranks meet: at the process that made the id ---- */

struct ticket {
	uint64_t nonce;
	struct in_addr at;
	uint16_t port;
	char what[16];
};

struct hello {
	uint32_t magic;
	uint64_t nonce;
	int32_t rank, size, version, device;
	struct in_addr at;
	uint16_t port;
};

struct root {
	int fd;
	uint64_t nonce;
};

/* Threads that nobody joins wait for connections in plain calls. */
static bool all_of(int fd, void *at, size_t len, bool sends)
{
	unsigned char *p = at;

	while (len) {
		ssize_t n = sends ? send(fd, p, len, MSG_NOSIGNAL) : recv(fd, p, len, 0);

		if (n <= 0 && !(n < 0 && errno == EINTR))
			return false;
		p += n > 0 ? n : 0;
		len -= n > 0 ? (size_t)n : 0;
	}
	return true;
}

static void *root_main(void *arg)
{
	struct root *root = arg;
	struct hello hello, all[RANKS];
	int fd[RANKS], came = 0, size = 1, i;

	memset(all, 0, sizeof(all));
	for (i = 0; i < RANKS; i++)
		fd[i] = -1;
	while (came < size) {
		int new = accept4(root->fd, NULL, NULL, SOCK_CLOEXEC);

		if (new < 0)
			break;
		if (!all_of(new, &hello, sizeof(hello), false) || hello.magic != HELLO_MAGIC ||
		    hello.nonce != root->nonce || hello.rank < 0 || hello.rank >= RANKS ||
		    fd[hello.rank] >= 0) {
			close(new);
			continue;
		}
		size = hello.size;
		fd[hello.rank] = new;
		all[hello.rank] = hello;
		came++;
	}
	for (i = 0; i < RANKS; i++)
		if (fd[i] >= 0) {
			all_of(fd[i], all, sizeof(all[0]) * (size_t)size, true);
			close(fd[i]);
		}
	close(root->fd);
	free(root);
	return NULL;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
	struct ticket t = { .what = "fake NCCL id" };
	struct root *root = malloc(sizeof(*root));
	pthread_attr_t detached;
	pthread_t thread;
	int rc;

	t.at = own_address();
	root->fd = listen_on(t.at, &t.port);
	if (root->fd < 0 || getrandom(&t.nonce, sizeof(t.nonce), 0) != sizeof(t.nonce)) {
		free(root);
		return fail(ncclSystemError, "no socket: %s", strerror(errno));
	}
	root->nonce = t.nonce;
	pthread_attr_init(&detached);
	pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
	rc = pthread_create(&thread, &detached, root_main, root);
	pthread_attr_destroy(&detached);
	if (rc)
		abort();
	memset(id, 0, sizeof(*id));
	memcpy(id, &t, sizeof(t));
	return ncclSuccess;
}

static int version_of(void)
{
	return (int)faults_number("FAKE_NCCL", "version", FAKE_NCCL_VERSION);
}

/* What all ranks said fits together. */
static ncclResult_t hellos_fit(struct fake_comm *c, const struct hello *all)
{
	bool same_gpu = faults_find("FAKE_NCCL", "two_gpus_same") && c->size > 1;
	int i, k;

	for (i = 0; i < c->size; i++) {
		if (all[i].version != all[0].version)
			return fail(ncclInvalidUsage, "versions %d and %d of NCCL meet",
				    all[0].version, all[i].version);
		if (all[i].size != c->size)
			return fail(ncclInvalidUsage, "rank %d says there are %d ranks", i,
				    all[i].size);
		for (k = 0; k < i; k++)
			same_gpu |= all[k].device == all[i].device &&
				    all[k].at.s_addr == all[i].at.s_addr;
	}
	if (!same_gpu)
		return ncclSuccess;
	if (version_of() >= 23000 && getenv("NCCL_MULTI_RANK_GPU_ENABLE"))
		return ncclSuccess;
	return fail(ncclInvalidUsage, "two ranks have the same GPU, number %d", c->device);
}

static ncclResult_t mesh_open(struct fake_comm *c, const struct hello *all)
{
	int32_t who = c->rank;
	int i, fd;

	for (i = 0; i < c->rank; i++) {
		c->fd[i] = quick(connect_to(all[i].at, all[i].port));
		if (c->fd[i] < 0 || !fd_move(c, c->fd[i], &who, sizeof(who), true))
			return fail(ncclSystemError, "no connection to rank %d", i);
	}
	for (i = c->rank + 1; i < c->size; i++) {
		if (!fd_await(c, c->door, POLLIN))
			return fail(ncclInternalError, "aborted");
		fd = accept4(c->door, NULL, NULL, SOCK_CLOEXEC);
		if (fd < 0 || !fd_move(c, fd, &who, sizeof(who), false) || who < 0 ||
		    who >= c->size)
			return fail(ncclSystemError, "no connection of a rank");
		c->fd[who] = quick(fd);
	}
	return ncclSuccess;
}

static ncclResult_t meet(struct fake_comm *c)
{
	struct ticket t;
	struct hello mine = { .magic = HELLO_MAGIC,
			      .rank = c->rank,
			      .size = c->size,
			      .version = version_of(),
			      .device = fake_cuda_physical(c->device) },
		     all[RANKS];
	ncclResult_t bad;
	bool met;
	int fd;

	memcpy(&t, &c->id, sizeof(t));
	mine.nonce = t.nonce;
	mine.at = own_address();
	c->door = listen_on(mine.at, &mine.port);
	fd = connect_to(t.at, t.port);
	met = c->door >= 0 && fd >= 0 && fd_move(c, fd, &mine, sizeof(mine), true) &&
	      fd_move(c, fd, all, sizeof(all[0]) * (size_t)c->size, false);
	if (fd >= 0)
		close(fd);
	if (!met)
		return fail(ncclSystemError, "the rank that made the id is gone");
	bad = hellos_fit(c, all);
	return bad ? bad : mesh_open(c, all);
}

/* ---- initialization ---- */

static ncclResult_t comm_init(struct fake_comm *c)
{
	int relaxed = CAPTURE_RELAXED;

	if (fault_is("init_hang", c->rank, 0, NULL)) {
		fd_await(c, -1, 0);
		return fail(ncclInternalError, "aborted");
	}
	cuThreadExchangeStreamCaptureMode(&relaxed);
	if (cuCtxSetCurrent(c->context) || cuMemAlloc_v2(&c->memory, 4096) ||
	    cuEventCreate(&c->last, 2))
		return fail(ncclUnhandledCudaError, "no memory on device %d", c->device);
	return meet(c);
}

static void *init_main(void *arg)
{
	struct fake_comm *c = arg;

	__atomic_store_n(&c->state, (int)comm_init(c), __ATOMIC_RELEASE);
	return NULL;
}

/* ---- groups ---- */

struct queued {
	struct fake_comm *comm;
	CUstream stream;
	struct op op;
};

enum { QUEUED = 4096, INITS = 64 };

static _Thread_local int depth;
static _Thread_local struct queued *queue;
static _Thread_local int queued, inits;
static _Thread_local struct fake_comm **init_of;

static ncclResult_t init_finish(struct fake_comm *c)
{
	if (!c->blocking)
		return ncclInProgress;
	pthread_join(c->thread, NULL);
	c->has_thread = false;
	return (ncclResult_t)state_of(c);
}

static ncclResult_t config_read(struct fake_comm *c, const ncclConfig_t *config)
{
	c->blocking = true;
	if (!config)
		return ncclSuccess;
	if (config->magic != NCCL_CONFIG_MAGIC || config->size < 24)
		return fail(ncclInvalidArgument, "the config is not one of NCCL's");
	if (config->blocking != NCCL_CONFIG_UNDEFINED && (unsigned int)config->blocking > 1)
		return fail(ncclInvalidArgument, "blocking is %d", config->blocking);
	c->blocking = config->blocking != 0;
	if (config->size >= 56 && version_of() >= 22700 && config->commName)
		snprintf(c->name, sizeof(c->name), "%s", config->commName);
	return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int size, ncclUniqueId id, int rank,
				    ncclConfig_t *config)
{
	struct fake_comm *c;
	ncclResult_t bad;
	int i, device = fake_cuda_current();

	*comm = NULL;
	if (size < 1 || size > RANKS || rank < 0 || rank >= size)
		return fail(ncclInvalidArgument, "rank %d of %d", rank, size);
	if (device < 0)
		return fail(ncclUnhandledCudaError, "no device is current");
	c = calloc(1, sizeof(*c));
	bad = config_read(c, config);
	if (bad || cuDevicePrimaryCtxRetain(&c->context, device)) {
		free(c);
		return bad ? bad : fail(ncclUnhandledCudaError, "no context");
	}
	c->magic = MAGIC;
	c->rank = rank;
	c->size = size;
	c->id = id;
	c->device = device;
	c->sms = (int)faults_number("FAKE_NCCL", "sms", FAKE_SMS);
	c->sms = c->sms < FAKE_SMS ? c->sms : FAKE_SMS;
	c->state = ncclInProgress;
	c->door = -1;
	c->stopper = eventfd(0, EFD_CLOEXEC);
	for (i = 0; i < RANKS; i++)
		c->fd[i] = -1;
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->idle, NULL);
	c->has_thread = true;
	if (pthread_create(&c->thread, NULL, init_main, c))
		abort();
	__atomic_add_fetch(&comms_left, 1, __ATOMIC_RELAXED);
	*comm = c;
	if (depth) {
		if (inits == INITS)
			return fail(ncclInvalidUsage, "too many in a group");
		if (!init_of)
			init_of = malloc(sizeof(struct fake_comm *) * INITS);
		init_of[inits++] = c;
		return c->blocking ? ncclSuccess : ncclInProgress;
	}
	return init_finish(c);
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int size, ncclUniqueId id, int rank)
{
	return ncclCommInitRankConfig(comm, size, id, rank, NULL);
}

/* ---- the end of a communicator ---- */

static void comm_stop(struct fake_comm *c)
{
	uint64_t one = 1;

	__atomic_store_n(&c->stopped, true, __ATOMIC_RELEASE);
	while (write(c->stopper, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

static void comm_await(struct fake_comm *c)
{
	pthread_mutex_lock(&c->lock);
	while (c->in_flight)
		pthread_cond_wait(&c->idle, &c->lock);
	pthread_mutex_unlock(&c->lock);
}

static void thread_end(struct fake_comm *c)
{
	if (c->has_thread)
		pthread_join(c->thread, NULL);
	c->has_thread = false;
}

/* Frees all but the struct, by which later use is known. */
static void comm_free(struct fake_comm *c)
{
	int i, mode = CAPTURE_RELAXED;
	CUcontext before;

	cuCtxGetCurrent(&before);
	cuThreadExchangeStreamCaptureMode(&mode);
	cuCtxSetCurrent(c->context);
	if (c->memory)
		cuMemFree_v2(c->memory);
	if (c->last)
		cuEventDestroy_v2(c->last);
	cuCtxSetCurrent(before);
	cuThreadExchangeStreamCaptureMode(&mode);
	cuDevicePrimaryCtxRelease_v2(c->device);
	for (i = 0; i < RANKS; i++)
		if (c->fd[i] >= 0)
			close(c->fd[i]);
	if (c->door >= 0)
		close(c->door);
	close(c->stopper);
	c->magic = 0;
	pthread_mutex_lock(&error_lock);
	c->dead = comms_dead;
	comms_dead = c;
	pthread_mutex_unlock(&error_lock);
	__atomic_sub_fetch(&comms_left, 1, __ATOMIC_RELAXED);
}

/* Operations in flight end, without a result; those behind them, too. */
ncclResult_t ncclCommAbort(ncclComm_t comm)
{
	struct fake_comm *c = comm_check(comm);

	if (!c)
		return ncclSuccess;
	comm_stop(c);
	thread_end(c);
	nap_ms(faults_number("FAKE_NCCL", "abort_blocks", 0));
	comm_await(c);
	comm_free(c);
	return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
	struct fake_comm *c = comm_check(comm);

	if (!c)
		return ncclSuccess;
	thread_end(c);
	comm_await(c);
	comm_free(c);
	return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
	ncclResult_t bad = comm_ready(comm);
	bool busy;

	if (bad)
		return bad;
	if (comm->blocking)
		comm_await(comm);
	pthread_mutex_lock(&comm->lock);
	busy = comm->in_flight > 0;
	pthread_mutex_unlock(&comm->lock);
	return busy ? ncclInProgress : ncclSuccess;
}

#if FAKE_NCCL_VERSION >= 22800
ncclResult_t ncclCommRevoke(ncclComm_t comm, int flags)
{
	if (!comm_check(comm))
		return fail(ncclInvalidArgument, "comm is NULL");
	if (flags)
		return fail(ncclInvalidArgument, "flags are %d", flags);
	comm_stop(comm);
	return ncclSuccess;
}
#endif

/* ---- messages between ranks ---- */

/* One way of one message; the head goes first. */
struct message {
	int peer;
	struct head head, got;
	unsigned char *at;
	uint64_t len, moved; /* bytes, with the head's */
};

struct exchange {
	struct fake_comm *comm;
	struct message *out, *in;
	int outs, ins;
};

/* Until the communicator is stopped. */
static bool hang(struct fake_comm *c)
{
	while (!is_stopped(c))
		fd_await(c, -1, 0);
	return false;
}

enum progress { NONE, SOME, BROKEN };

static enum progress message_move(struct fake_comm *c, struct message *m, bool sends)
{
	struct head *head = sends ? &m->head : &m->got;
	bool in_head = m->moved < sizeof(*head);
	unsigned char *at =
		in_head ? (unsigned char *)head + m->moved : m->at + (m->moved - sizeof(*head));
	size_t n = in_head ? sizeof(*head) - m->moved : m->len - m->moved;
	ssize_t done = sends ? send(c->fd[m->peer], at, n, MSG_NOSIGNAL | MSG_DONTWAIT)
			     : recv(c->fd[m->peer], at, n, MSG_DONTWAIT);

	if (done > 0) {
		m->moved += (uint64_t)done;
		if (!sends && in_head && m->moved == sizeof(*head) &&
		    memcmp(&m->head, &m->got, sizeof(*head)) != 0)
			return BROKEN; /* the other rank is about something else */
		return SOME;
	}
	return done < 0 && (errno == EAGAIN || errno == EINTR) ? NONE : BROKEN;
}

/* The first message of a peer that is not complete; those behind it wait. */
static struct message *message_next(struct message *m, int n, int peer)
{
	int i;

	for (i = 0; i < n; i++)
		if (m[i].peer == peer && m[i].moved < m[i].len)
			return &m[i];
	return NULL;
}

static void peer_is_gone(struct fake_comm *c)
{
	if (faults_find("FAKE_NCCL", "peer_error"))
		__atomic_store_n(&c->async, (int)ncclRemoteError, __ATOMIC_RELEASE);
}

static bool exchange_run(struct exchange *x)
{
	struct fake_comm *c = x->comm;
	struct pollfd p[RANKS + 1];
	int peer, waits;

	for (;;) {
		waits = 0;
		for (peer = 0; peer < c->size; peer++) {
			struct message *m;
			enum progress some = SOME;

			p[peer] = (struct pollfd){ -1, 0, 0 };
			while (some == SOME && (m = message_next(x->out, x->outs, peer)))
				some = message_move(c, m, true);
			if (some == NONE)
				p[peer] = (struct pollfd){ c->fd[peer], POLLOUT, 0 };
			if (some != BROKEN)
				some = SOME;
			while (some == SOME && (m = message_next(x->in, x->ins, peer)))
				some = message_move(c, m, false);
			if (some == BROKEN) {
				peer_is_gone(c);
				return hang(c);
			}
			if (some == NONE) {
				p[peer].fd = c->fd[peer];
				p[peer].events |= POLLIN;
			}
			waits += p[peer].fd >= 0;
		}
		if (!waits)
			return true;
		p[c->size] = (struct pollfd){ c->stopper, POLLIN, 0 };
		while (poll(p, (nfds_t)c->size + 1, -1) < 0 && errno == EINTR)
			;
		if (is_stopped(c))
			return false;
	}
}

static void message_add(struct message *list, int *n, const struct head *head, int peer,
			void *at, uint64_t bytes)
{
	list[(*n)++] = (struct message){
		.peer = peer, .head = *head, .at = at, .len = bytes + sizeof(*head)
	};
}

/* ---- arithmetic ---- */

static size_t type_bytes(ncclDataType_t t)
{
	static const unsigned char bytes[] = { 1, 1, 4, 4, 8, 8, 2, 4, 8, 2 };

	return (unsigned int)t < sizeof(bytes) ? bytes[t] : 0;
}

#define INTEGERS(X)                       \
	X(ncclInt8, int8_t, uint8_t)      \
	X(ncclUint8, uint8_t, uint8_t)    \
	X(ncclInt32, int32_t, uint32_t)   \
	X(ncclUint32, uint32_t, uint32_t) \
	X(ncclInt64, int64_t, uint64_t)   \
	X(ncclUint64, uint64_t, uint64_t)

#define FLOATS(X)                                              \
	X(ncclFloat32, float, float, (float), (float))         \
	X(ncclFloat64, double, double, (double), (double))     \
	X(ncclFloat16, uint16_t, float, f16_widen, f16_narrow) \
	X(ncclBfloat16, uint16_t, float, bf16_widen, bf16_narrow)

#define COMBINE_INTEGER(code, elem, wraps)                                                 \
	case code:                                                                         \
		for (i = 0; i < n; i++) {                                                  \
			elem x = ((elem *)to)[i], y = ((const elem *)from)[i];             \
                                                                                           \
			((elem *)to)[i] = op == ncclMax   ? (x > y ? x : y)                \
					  : op == ncclMin ? (x < y ? x : y)                \
					  : op == ncclProd                                 \
						  ? (elem)((wraps)1 * (wraps)x * (wraps)y) \
						  : (elem)((wraps)x + (wraps)y);           \
		}                                                                          \
		break;

/* A minimum or maximum with a NaN is the other number. */
#define COMBINE_FLOAT(code, mem, elem, GET, PUT)                                        \
	case code:                                                                      \
		for (i = 0; i < n; i++) {                                               \
			elem x = GET(((mem *)to)[i]), y = GET(((const mem *)from)[i]);  \
                                                                                        \
			x = op == ncclMax    ? (x != x || y > x ? (y != y ? x : y) : x) \
			    : op == ncclMin  ? (x != x || y < x ? (y != y ? x : y) : x) \
			    : op == ncclProd ? x * y                                    \
					     : x + y;                                   \
			((mem *)to)[i] = PUT(x);                                        \
		}                                                                       \
		break;

/* to = to op from; an average is a sum here. */
static void combine(ncclDataType_t t, ncclRedOp_t op, void *to, const void *from, uint64_t n)
{
	uint64_t i;

	switch (t) {
		INTEGERS(COMBINE_INTEGER)
		FLOATS(COMBINE_FLOAT)
	}
}

#define SCALE_INTEGER(code, elem, wraps)                                                \
	case code:                                                                      \
		for (i = 0; i < n; i++)                                                 \
			((elem *)at)[i] =                                               \
				(elem)((wraps)((elem *)at)[i] * (wraps)(int64_t)scale); \
		break;
#define SCALE_FLOAT(code, mem, elem, GET, PUT)                                           \
	case code:                                                                       \
		for (i = 0; i < n; i++)                                                  \
			((mem *)at)[i] = PUT((elem)(GET(((mem *)at)[i]) * (elem)scale)); \
		break;
#define DIVIDE_INTEGER(code, elem, wraps)                                     \
	case code:                                                            \
		for (i = 0; i < n; i++)                                       \
			((elem *)at)[i] = (elem)(((elem *)at)[i] / (elem)by); \
		break;

static void scale_by(ncclDataType_t t, void *at, uint64_t n, double scale)
{
	uint64_t i;

	switch (t) {
		INTEGERS(SCALE_INTEGER)
		FLOATS(SCALE_FLOAT)
	}
}

static void divide_by(ncclDataType_t t, void *at, uint64_t n, int by)
{
	uint64_t i;

	switch (t) {
		INTEGERS(DIVIDE_INTEGER)
	default:
		break;
	}
}

static double scalar_of(ncclDataType_t t, const void *at)
{
	switch (t) {
	case ncclInt8:
		return *(const int8_t *)at;
	case ncclUint8:
		return *(const uint8_t *)at;
	case ncclInt32:
		return *(const int32_t *)at;
	case ncclUint32:
		return *(const uint32_t *)at;
	case ncclInt64:
		return (double)*(const int64_t *)at;
	case ncclUint64:
		return (double)*(const uint64_t *)at;
	case ncclFloat32:
		return (double)*(const float *)at;
	case ncclFloat64:
		return *(const double *)at;
	case ncclFloat16:
		return (double)f16_widen(*(const uint16_t *)at);
	case ncclBfloat16:
		return (double)bf16_widen(*(const uint16_t *)at);
	}
	return 0;
}

static bool is_integer(ncclDataType_t t)
{
	return t < ncclFloat16;
}

/* ---- the kernel ---- */

/* Where things are for the host; all inputs are copied first, so any may be outputs. */
struct run {
	struct fake_comm *comm;
	const struct op *op;
	struct head head;
	size_t size;          /* of an element */
	unsigned char *mine;  /* this rank's input, scaled */
	unsigned char *parts; /* of all ranks */
	unsigned char *out;
};

/* This rank's and the others' @count elements at parts, in the order of ranks, into @to. */
static void parts_combine(struct run *r, unsigned char *to, uint64_t count)
{
	int i;

	memcpy(to, r->parts, count * r->size);
	for (i = 1; i < r->comm->size; i++)
		combine(r->op->type, r->op->op, to, r->parts + (uint64_t)i * count * r->size,
			count);
	if (r->op->op == ncclAvg && is_integer(r->op->type))
		divide_by(r->op->type, to, count, r->comm->size);
}

/* Every rank sends the part that begins at @from[peer * step] to that peer, and puts what comes
 * at parts.  With only a @root the others send to it alone. */
static bool parts_move(struct run *r, const unsigned char *from, uint64_t step, uint64_t bytes,
		       int root)
{
	struct fake_comm *c = r->comm;
	struct message out[RANKS], in[RANKS];
	struct exchange x = { c, out, in, 0, 0 };
	int i;

	for (i = 0; i < c->size; i++) {
		unsigned char *part = (unsigned char *)(uintptr_t)(from + (uint64_t)i * step);

		if (i == c->rank) {
			if (root < 0 || root == i)
				memcpy(r->parts + (uint64_t)i * bytes, part, bytes);
			continue;
		}
		if (root < 0 || root == i)
			message_add(out, &x.outs, &r->head, i, part, bytes);
		if (root < 0 || root == c->rank)
			message_add(in, &x.ins, &r->head, i, r->parts + (uint64_t)i * bytes,
				    bytes);
	}
	return exchange_run(&x);
}

static bool broadcast_run(struct run *r)
{
	struct fake_comm *c = r->comm;
	struct message out[RANKS], in[1];
	struct exchange x = { c, out, in, 0, 0 };
	uint64_t bytes = r->op->count * r->size;
	int i;

	if (c->rank != r->op->root)
		message_add(in, &x.ins, &r->head, r->op->root, r->out, bytes);
	for (i = 0; i < c->size && c->rank == r->op->root; i++)
		if (i != c->rank)
			message_add(out, &x.outs, &r->head, i, r->mine, bytes);
	if (!exchange_run(&x))
		return false;
	if (c->rank == r->op->root)
		memcpy(r->out, r->mine, bytes);
	return true;
}

/* Elements at in and out of a collective. */
static uint64_t in_count(const struct fake_comm *c, const struct op *op)
{
	if (op->kind == BROADCAST && op->root != c->rank)
		return 0;
	return op->kind == REDUCESCATTER ? op->count * (uint64_t)c->size : op->count;
}

static uint64_t out_count(const struct fake_comm *c, const struct op *op)
{
	if (op->kind == REDUCE && op->root != c->rank)
		return 0;
	return op->kind == ALLGATHER ? op->count * (uint64_t)c->size : op->count;
}

static bool collective_move(struct run *r)
{
	struct fake_comm *c = r->comm;
	const struct op *op = r->op;
	uint64_t bytes = op->count * r->size;

	switch (op->kind) {
	case ALLREDUCE:
	case REDUCE:
		if (!parts_move(r, r->mine, 0, bytes, op->kind == REDUCE ? op->root : -1))
			return false;
		if (r->out)
			parts_combine(r, r->out, op->count);
		return true;
	case REDUCESCATTER:
		if (!parts_move(r, r->mine, bytes, bytes, -1))
			return false;
		parts_combine(r, r->out, op->count);
		return true;
	case ALLGATHER:
		if (!parts_move(r, r->mine, 0, bytes, -1))
			return false;
		memcpy(r->out, r->parts, bytes * (uint64_t)c->size);
		return true;
	default:
		return broadcast_run(r);
	}
}

/* What goes into a sum is multiplied by the operation's factor, if it has one. */
static CUresult input_scale(struct run *r)
{
	const struct op *op = r->op;
	double scale = op->scale;
	const void *at;

	if (op->kind != ALLREDUCE && op->kind != REDUCE && op->kind != REDUCESCATTER)
		return CUDA_SUCCESS;
	if (op->scales && op->on_device) {
		at = fake_cuda_host(op->scale_at, r->size);
		if (!at)
			return CUDA_ERROR_ILLEGAL_ADDRESS;
		scale = scalar_of(op->type, at);
	}
	if (op->op == ncclAvg && !is_integer(op->type))
		scale_by(op->type, r->mine, in_count(r->comm, op), 1.0 / r->comm->size);
	else if (op->scales)
		scale_by(op->type, r->mine, in_count(r->comm, op), scale);
	return CUDA_SUCCESS;
}

static CUresult collective_run(struct fake_comm *c, const struct op *op)
{
	struct run r = { .comm = c, .op = op, .size = type_bytes(op->type) };
	uint64_t in = in_count(c, op) * r.size, out = out_count(c, op) * r.size;
	const void *from = in ? fake_cuda_host(op->in, in) : NULL;
	CUresult bad = CUDA_SUCCESS;

	r.out = out ? fake_cuda_host(op->out, out) : NULL;
	if ((in && !from) || (out && !r.out))
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	r.head = (struct head){ (uint32_t)op->kind, (uint32_t)op->type, (uint32_t)op->op,
				(uint32_t)op->root, op->count,          c->collectives++ };
	r.mine = malloc(in + 1);
	r.parts = malloc(op->count * r.size * (uint64_t)c->size + 1);
	if (in)
		memcpy(r.mine, from, in);
	bad = input_scale(&r);
	if (!bad)
		collective_move(&r);
	free(r.mine);
	free(r.parts);
	return bad;
}

/* All sends and receives of a group at a time; those to oneself match in their order. */
static CUresult p2p_run(struct fake_comm *c, const struct op *op, int count)
{
	struct message *out = calloc((size_t)count, sizeof(*out));
	struct message *in = calloc((size_t)count, sizeof(*in));
	struct exchange x = { c, out, in, 0, 0 };
	CUresult bad = CUDA_SUCCESS;
	int i, self = 0;

	for (i = 0; i < count && !bad; i++) {
		const struct op *o = &op[i];
		uint64_t bytes = o->count * type_bytes(o->type);
		struct head head = { SEND, (uint32_t)o->type, 0, 0, o->count, 0 };
		void *at = fake_cuda_host(o->kind == SEND ? o->in : o->out, bytes);

		if (o->kind != SEND && o->kind != RECV)
			continue;
		if (bytes && !at)
			bad = CUDA_ERROR_ILLEGAL_ADDRESS;
		else if (o->root != c->rank)
			message_add(o->kind == SEND ? out : in,
				    o->kind == SEND ? &x.outs : &x.ins, &head, o->root, at,
				    bytes);
		else if (o->kind == RECV && bytes) {
			while (self < count &&
			       !(op[self].kind == SEND && op[self].root == c->rank))
				self++;
			if (self < count && op[self].count == o->count)
				memmove(at, fake_cuda_host(op[self++].in, bytes), bytes);
			else
				hang(c);
		}
	}
	if (!bad)
		exchange_run(&x);
	free(out);
	free(in);
	return bad;
}

/* The faults of this operation; false: it hangs until it is aborted. */
static bool op_is_well(struct fake_comm *c)
{
	const char *more = NULL;
	uint64_t n = ++c->executed;

	if (fault_is("late", c->rank, n, &more))
		nap_ms(strtol(more, NULL, 10));
	if (fault_is("async", c->rank, n, &more)) {
		__atomic_store_n(&c->async, (int)strtol(more, NULL, 10), __ATOMIC_RELEASE);
		return hang(c);
	}
	return !fault_is("hang", c->rank, n, NULL) || hang(c);
}

static CUresult batch_run(void *arg)
{
	struct batch *b = arg;
	struct fake_comm *c = b->comm;
	CUresult bad = CUDA_SUCCESS;
	bool p2p = false;
	int i;

	for (i = 0; i < b->count && !bad && !is_stopped(c) && !fake_cuda_is_poisoned(); i++) {
		const struct op *op = &b->op[i];

		if (op->kind == SEND || op->kind == RECV) {
			if (p2p || !op_is_well(c))
				continue;
			p2p = true;
			bad = p2p_run(c, b->op, b->count);
		} else if (op_is_well(c)) {
			bad = collective_run(c, op);
		}
	}
	pthread_mutex_lock(&c->lock);
	c->in_flight--;
	pthread_cond_broadcast(&c->idle);
	pthread_mutex_unlock(&c->lock);
	return bad;
}

/* ---- launches ---- */

/* Operations of a communicator run in the order of their calls, on whichever streams. */
static ncclResult_t batch_launch(struct batch *b, CUstream s)
{
	struct fake_comm *c = b->comm;
	CUcontext before;
	CUresult bad;

	cuCtxGetCurrent(&before);
	cuCtxSetCurrent(c->context);
	bad = c->has_stream && c->stream != s ? cuStreamWaitEvent(s, c->last, 0) : CUDA_SUCCESS;
	pthread_mutex_lock(&c->lock);
	c->in_flight++;
	pthread_mutex_unlock(&c->lock);
	if (!bad)
		bad = fake_cuda_enqueue(s, batch_run, b, c->sms);
	else
		free(b);
	if (bad) {
		pthread_mutex_lock(&c->lock);
		c->in_flight--;
		pthread_mutex_unlock(&c->lock);
	} else {
		bad = cuEventRecord(c->last, s);
	}
	c->stream = s;
	c->has_stream = true;
	cuCtxSetCurrent(before);
	return bad ? fail(ncclUnhandledCudaError, "CUDA says %d", bad) : ncclSuccess;
}

struct later {
	struct batch *batch;
	CUstream stream;
};

static void *later_main(void *arg)
{
	struct later *l = arg;
	struct fake_comm *c = l->batch->comm;
	int relaxed = CAPTURE_RELAXED;
	ncclResult_t bad;

	cuThreadExchangeStreamCaptureMode(&relaxed);
	nap_ms(CONNECT_MS);
	bad = batch_launch(l->batch, l->stream);
	__atomic_store_n(&c->state, (int)bad, __ATOMIC_RELEASE);
	free(l);
	return NULL;
}

/* Of its first kind, with blocking = 0, it goes on in a thread. */
static ncclResult_t launch(struct batch *b, CUstream s)
{
	struct fake_comm *c = b->comm;
	bool *connected = &c->connected[b->op[0].kind >= SEND], first = !*connected;
	struct later *l;

	*connected = true;
	if (c->blocking || !first)
		return batch_launch(b, s);
	thread_end(c);
	l = malloc(sizeof(*l));
	*l = (struct later){ b, s };
	__atomic_store_n(&c->state, (int)ncclInProgress, __ATOMIC_RELEASE);
	c->has_thread = true;
	if (pthread_create(&c->thread, NULL, later_main, l))
		abort();
	return ncclInProgress;
}

static struct batch *batch_new(struct fake_comm *c, int count)
{
	struct batch *b = malloc(sizeof(*b) + sizeof(b->op[0]) * (size_t)count);

	b->comm = c;
	b->count = 0;
	return b;
}

static ncclResult_t op_check(struct fake_comm *c, struct op *op)
{
	ncclResult_t bad = comm_ready(c);
	int number = (int)op->op - 5;
	struct redop *r;

	if (bad)
		return bad;
	if (!type_bytes(op->type))
		return fail(ncclInvalidArgument, "type %d is unknown", (int)op->type);
	if (op->root < 0 || op->root >= c->size)
		return fail(ncclInvalidArgument, "rank %d of %d", op->root, c->size);
	if (number < 0)
		return ncclSuccess;
	r = number < REDOPS ? &c->redop[number] : NULL;
	if (!r || !r->used || r->type != op->type)
		return fail(ncclInvalidArgument, "operation %d is unknown, or of another type",
			    (int)op->op);
	op->op = ncclSum;
	op->scales = true;
	op->on_device = r->on_device;
	op->scale = r->scale;
	op->scale_at = r->at;
	return ncclSuccess;
}

static ncclResult_t op_submit(struct fake_comm *c, struct op op, CUstream s)
{
	ncclResult_t bad = op_check(c, &op);
	struct batch *b;

	if (bad)
		return bad;
	if (!op.count && op.kind != SEND && op.kind != RECV)
		return ncclSuccess;
	if (depth) {
		if (!queue)
			queue = malloc(sizeof(*queue) * QUEUED);
		if (queued == QUEUED)
			return fail(ncclInvalidUsage, "too many in a group");
		queue[queued++] = (struct queued){ c, s, op };
		return ncclSuccess;
	}
	b = batch_new(c, 1);
	b->op[b->count++] = op;
	return launch(b, s);
}

ncclResult_t ncclGroupStart(void)
{
	depth++;
	return ncclSuccess;
}

/* One kernel for each communicator and stream, in the order of their first operations. */
ncclResult_t ncclGroupEnd(void)
{
	ncclResult_t result = ncclSuccess, one;
	int i, k, n = queued, m = inits;

	if (!depth)
		return fail(ncclInvalidUsage, "no group has begun");
	if (--depth)
		return ncclSuccess;
	queued = inits = 0;
	for (i = 0; i < m; i++) {
		one = init_finish(init_of[i]);
		result = one ? one : result;
	}
	for (i = 0; i < n; i++) {
		struct fake_comm *c = queue[i].comm;
		CUstream s = queue[i].stream;
		struct batch *b;

		if (!c)
			continue;
		b = batch_new(c, n - i);
		for (k = i; k < n; k++)
			if (queue[k].comm == c && queue[k].stream == s) {
				b->op[b->count++] = queue[k].op;
				queue[k].comm = NULL;
			}
		one = launch(b, s);
		result = one ? one : result;
	}
	free(queue);
	free(init_of);
	queue = NULL;
	init_of = NULL;
	return result;
}

/* ---- the calls ---- */

#define AT(p) ((uint64_t)(uintptr_t)(p))

static struct op op_of(enum kind kind, uint64_t in, uint64_t out, uint64_t count,
		       ncclDataType_t type, ncclRedOp_t op, int root)
{
	return (struct op){ .kind = kind,
			    .in = in,
			    .out = out,
			    .count = count,
			    .type = type,
			    .op = op,
			    .root = root };
}

ncclResult_t ncclAllReduce(const void *in, void *out, size_t count, ncclDataType_t type,
			   ncclRedOp_t op, ncclComm_t comm, CUstream s)
{
	return op_submit(comm, op_of(ALLREDUCE, AT(in), AT(out), count, type, op, 0), s);
}

ncclResult_t ncclReduce(const void *in, void *out, size_t count, ncclDataType_t type,
			ncclRedOp_t op, int root, ncclComm_t comm, CUstream s)
{
	return op_submit(comm, op_of(REDUCE, AT(in), AT(out), count, type, op, root), s);
}

ncclResult_t ncclBroadcast(const void *in, void *out, size_t count, ncclDataType_t type,
			   int root, ncclComm_t comm, CUstream s)
{
	return op_submit(comm, op_of(BROADCAST, AT(in), AT(out), count, type, ncclSum, root),
			 s);
}

ncclResult_t ncclBcast(void *at, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
		       CUstream s)
{
	return ncclBroadcast(at, at, count, type, root, comm, s);
}

ncclResult_t ncclAllGather(const void *in, void *out, size_t count, ncclDataType_t type,
			   ncclComm_t comm, CUstream s)
{
	return op_submit(comm, op_of(ALLGATHER, AT(in), AT(out), count, type, ncclSum, 0), s);
}

ncclResult_t ncclReduceScatter(const void *in, void *out, size_t count, ncclDataType_t type,
			       ncclRedOp_t op, ncclComm_t comm, CUstream s)
{
	return op_submit(comm, op_of(REDUCESCATTER, AT(in), AT(out), count, type, op, 0), s);
}

ncclResult_t ncclSend(const void *in, size_t count, ncclDataType_t type, int peer,
		      ncclComm_t comm, CUstream s)
{
	return op_submit(comm, op_of(SEND, AT(in), 0, count, type, ncclSum, peer), s);
}

ncclResult_t ncclRecv(void *out, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
		      CUstream s)
{
	return op_submit(comm, op_of(RECV, 0, AT(out), count, type, ncclSum, peer), s);
}

#if FAKE_NCCL_VERSION >= 22800
ncclResult_t ncclAlltoAll(const void *in, void *out, size_t count, ncclDataType_t type,
			  ncclComm_t comm, CUstream s)
{
	ncclResult_t bad = comm_ready(comm);
	size_t bytes = count * type_bytes(type);
	int i;

	if (bad)
		return bad;
	ncclGroupStart();
	for (i = 0; i < comm->size && !bad; i++) {
		bad = ncclSend((const char *)in + (size_t)i * bytes, count, type, i, comm, s);
		if (!bad)
			bad = ncclRecv((char *)out + (size_t)i * bytes, count, type, i, comm,
				       s);
	}
	return bad ? bad : ncclGroupEnd();
}
#endif

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t type,
				      ncclScalarResidence_t residence, ncclComm_t comm)
{
	ncclResult_t bad = comm_ready(comm);
	int i;

	if (bad)
		return bad;
	if (!type_bytes(type))
		return fail(ncclInvalidArgument, "type %d is unknown", (int)type);
	for (i = 0; i < REDOPS && comm->redop[i].used; i++)
		;
	if (i == REDOPS)
		return fail(ncclInternalError, "too many operations");
	comm->redop[i] = (struct redop){ .used = true,
					 .on_device = residence == ncclScalarDevice,
					 .type = type,
					 .at = AT(scalar) };
	if (residence == ncclScalarHostImmediate)
		comm->redop[i].scale = scalar_of(type, scalar);
	*op = (ncclRedOp_t)(i + 5);
	return ncclSuccess;
}

ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm)
{
	int number = (int)op - 5;

	if (!comm_check(comm) || number < 0 || number >= REDOPS || !comm->redop[number].used)
		return fail(ncclInvalidArgument, "operation %d is not of the caller's",
			    (int)op);
	comm->redop[number].used = false;
	return ncclSuccess;
}

ncclResult_t ncclGetVersion(int *version)
{
	*version = version_of();
	return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result)
{
	static const char *const texts[] = {
		"no error (fake)",
		"unhandled cuda error (fake)",
		"system error (fake)",
		"internal error (fake)",
		"invalid argument (fake)",
		"invalid usage (fake)",
		"remote process error (fake)",
		"in progress (fake)",
	};

	return (unsigned int)result < sizeof(texts) / sizeof(texts[0]) ? texts[result]
								       : "unknown (fake)";
}

/* The last one of this thread; else of any, as a thread of NCCL's own may have met it. */
const char *ncclGetLastError(ncclComm_t comm)
{
	(void)comm;
	if (last_error[0])
		return last_error;
	pthread_mutex_lock(&error_lock);
	memcpy(last_error, any_error, sizeof(last_error));
	pthread_mutex_unlock(&error_lock);
	return last_error;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error)
{
	struct fake_comm *c = comm_check(comm);

	if (!c)
		return fail(ncclInvalidArgument, "comm is NULL");
	*error = (ncclResult_t)__atomic_load_n(&c->async, __ATOMIC_ACQUIRE);
	if (!*error)
		*error = (ncclResult_t)state_of(c);
	return ncclSuccess;
}

ncclResult_t ncclCommCount(ncclComm_t comm, int *count)
{
	ncclResult_t bad = comm_ready(comm);

	if (!bad)
		*count = comm->size;
	return bad;
}

ncclResult_t ncclCommCuDevice(ncclComm_t comm, int *device)
{
	ncclResult_t bad = comm_ready(comm);

	if (!bad)
		*device = comm->device;
	return bad;
}

ncclResult_t ncclCommUserRank(ncclComm_t comm, int *rank)
{
	ncclResult_t bad = comm_ready(comm);

	if (!bad)
		*rank = comm->rank;
	return bad;
}

int fake_nccl_left(void)
{
	return __atomic_load_n(&comms_left, __ATOMIC_RELAXED);
}

__attribute__((destructor)) static void left_print(void)
{
	int n = fake_nccl_left();

	if (n)
		fprintf(stderr, "fake NCCL: left at exit: %d communicators\n", n);
}
