/* proxies.c - find hosts of a job that gRPC would reach only through an HTTP proxy. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/err.h"
#include "base/jsonio.h"
#include "detect/dist.h"
#include "detect/rootfs.h"
#include "detect/text.h"
#include "doctor/exam.h"
#include "host/iface.h"
#include "nicpick/own.h"

enum { HOST_TEXT = 128, SHOWN = 4 };

/* Adds to @h, {HOST: true}, the host of @address: "10.1.2.3:2222", "[fd00::1]:2222",
 * "ray://head:10001". */
static void add_host(json_t *h, const char *address)
{
	static const char of_hosts[] = "abcdefghijklmnopqrstuvwxyz"
				       "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:";
	const char *scheme = strstr(address, "://");
	char host[HOST_TEXT];
	size_t n;

	address = scheme ? scheme + 3 : address;
	if (*address == '[')
		n = strcspn(++address, "]");
	else
		n = strcspn(address, ":/");
	if (!n || n >= sizeof(host) || strspn(address, of_hosts) < n)
		return;
	text_copy(host, sizeof(host), address, n);
	json_object_set_new(h, host, json_true());
}

/* Adds the tasks of TF_CONFIG: {"cluster": {"worker": ["10.1.2.3:2222", ...], ...}, ...}. */
static void add_tasks(json_t *h, const char *config)
{
	json_t *all = config ? json_loads(config, 0, NULL) : NULL, *tasks, *task;
	const char *role;
	size_t i;

	json_object_foreach(json_object_get(all, "cluster"), role, tasks)
		json_array_foreach(tasks, i, task)
			if (json_is_string(task))
				add_host(h, json_string_value(task));
	json_decref(all);
}

static void list_hosts(json_t *h)
{
	static const char *const others[] = { "JAX_COORDINATOR_ADDRESS", "RAY_ADDRESS" };

	add_tasks(h, conf_env("TF_CONFIG"));
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		const char *address = conf_env(others[i]);

		/* Not RAY_ADDRESS=auto. */
		if (address && strchr(address, ':'))
			add_host(h, address);
	}
}

/* Does the entry @e of no_proxy cover @host?  gRPC compares ends; newer ones know networks. */
static bool is_entry_of(const char *e, const char *host)
{
	struct iface_ip ip, net;
	size_t n, m = strlen(host);
	int prefix;

	e += *e == '*';
	n = strlen(e);
	if (n <= m && !strcasecmp(host + m - n, e))
		return true;
	return iface_parse(&ip, host) && own_network(e, &net, &prefix) &&
	       iface_within(&ip, &net, prefix);
}

static bool is_covered(const char *list, const char *host)
{
	char entry[HOST_TEXT];
	size_t n;

	for (; list && *list; list += n + (list[n] == ',')) {
		size_t blanks = strspn(list, " \t");

		n = strcspn(list, ",");
		if (blanks >= n || n - blanks >= sizeof(entry))
			continue;
		text_copy(entry, sizeof(entry), list + blanks, n - blanks);
		entry[strcspn(entry, " \t")] = 0;
		if (is_entry_of(entry, host))
			return true;
	}
	return false;
}

/* Does the list cover this host, which stands for the others? */
static bool is_self_covered(const char *list, const struct iface_list *l, char name[HOST_TEXT])
{
	char address[IFACE_TEXT];

	if (gethostname(name, HOST_TEXT - 1))
		*name = 0;
	if (is_covered(list, name))
		return true;
	for (int i = 0; i < l->naddrs; i++)
		if (iface_is_global(&l->addrs[i].ip) &&
		    is_covered(list, iface_text(&l->addrs[i].ip, address)))
			return true;
	return false;
}

/* Is a framework installed whose processes connect through gRPC? */
static bool has_grpc_user(const struct exam *x)
{
	json_t *problems = json_array(), *o, *site;
	struct rootfs fs;
	struct err ignored;
	bool is = false;
	size_t i, k;

	json_array_foreach(json_object_get(x->facts, "frameworks"), i, o)
		is |= !strcmp(jsonio_string(o, "name"), "tensorflow") ||
		      !strcmp(jsonio_string(o, "name"), "jax");
	if (!is && !rootfs_open(&fs, "", problems, &ignored)) {
		json_array_foreach(json_object_get(x->facts, "pythons"), i, o)
			json_array_foreach(json_object_get(o, "sites"), k, site) {
				struct dists found = { 0 };

				dist_scan_site(&fs, json_string_value(site), &found);
				for (size_t d = 0; d < found.count; d++)
					is |= !strcmp(found.at[d].name, "ray");
				dist_free(&found);
			}
		rootfs_close(&fs);
	}
	json_decref(problems);
	return is;
}

/* The proxy that gRPC takes, as "http_proxy=http://proxy:3128" without a password; false: none.
 * It does not read the names in capitals. */
static bool find_proxy(char out[256])
{
	static const char *const names[] = { "grpc_proxy", "https_proxy", "http_proxy" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *url = conf_env(names[i]), *scheme, *host, *at;
		char clean[200];
		size_t n;

		if (!url || !*url)
			continue;
		scheme = strstr(url, "://");
		host = scheme ? scheme + 3 : url;
		n = strcspn(host, "/?#");
		at = memrchr(host, '@', n);
		text_clean(clean, sizeof(clean), at ? at + 1 : host);
		clean[strcspn(clean, "/?#")] = 0;
		snprintf(out, 256, "%s=%.*s%s", names[i],
			 scheme && scheme - url < 8 ? (int)(scheme - url) + 3 : 0, url, clean);
		return true;
	}
	return false;
}

/* Appends @before and @host to @out, unless there is no room for both. */
static void add_text(char *out, size_t cap, const char *before, const char *host)
{
	size_t n = strlen(out);

	if (n + strlen(before) + strlen(host) < cap)
		snprintf(out + n, cap - n, "%s%s", before, host);
}

void exam_proxies(struct exam *x, const struct iface_list *l)
{
	const char *name = conf_env("no_grpc_proxy") ? "no_grpc_proxy" : "no_proxy";
	const char *list = conf_env(name);
	const char *capitals = conf_env("NO_PROXY");
	char proxy[256], self[HOST_TEXT] = "", shown[(SHOWN + 1) * HOST_TEXT] = "",
			 all[PATH_MAX] = "", todo[2 * PATH_MAX];
	json_t *hosts = json_object(), *ignored;
	bool is_named;
	const char *host;
	int uncovered = 0;

	list_hosts(hosts);
	is_named = json_object_size(hosts);
	if (!find_proxy(proxy) ||
	    (!is_named && (!has_grpc_user(x) || is_self_covered(list, l, self))))
		goto out;
	json_object_foreach(hosts, host, ignored) {
		if (is_covered(list, host))
			continue;
		if (uncovered < SHOWN)
			add_text(shown, sizeof(shown), uncovered ? ", " : "", host);
		add_text(all, sizeof(all), ",", host);
		uncovered++;
	}
	if (is_named && !uncovered)
		goto out;
	exam_add(x, EXAM_NOTE, "%s, and %s does not cover %s%s%s%s", proxy, name,
		 is_named ? shown : "this host (", is_named ? "" : self, is_named ? "" : ")",
		 uncovered > SHOWN ? " and others" : "");
	if (!list && capitals && *capitals)
		snprintf(todo, sizeof(todo),
			 "export no_proxy=\"$NO_PROXY\": gRPC does not read NO_PROXY");
	else if (is_named && list && *list)
		snprintf(todo, sizeof(todo), "export %s=\"$%s\"%s", name, name, all);
	else
		snprintf(todo, sizeof(todo), "export %s=localhost,127.0.0.1%s%s", name, all,
			 is_named ? "" : ",... with the names or addresses of the job's hosts");
	exam_why(x,
		 "gRPC of TensorFlow, of JAX's coordinator and of Ray connects to other hosts "
		 "through the proxy, which refuses or delays that",
		 todo);
out:
	json_decref(hosts);
}
