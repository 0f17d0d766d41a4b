/* neigh.c - hardware addresses that this machine has for its neighbours. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/neigh.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

enum { TABLE = 4 << 20 };

/* "10.0.0.2  0x1  0x6  02:00:00:00:00:77  *  eth0"; flag 2 means that the MAC is known. */
bool neigh_find(const char *table, const char *address, char out[FACTS_WORD])
{
	char ip[IFACE_TEXT], mac[FACTS_WORD];
	unsigned flags;

	for (const char *line = table; line && *line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (sscanf(line, "%63s %*s %x %23s", ip, &flags, mac) == 3 && flags & 2 &&
		    !strcmp(ip, address)) {
			memcpy(out, mac, sizeof(mac));
			return true;
		}
	}
	return false;
}

void neigh_read(struct probe_path *paths, int n)
{
	char *table = NULL;
	size_t len;

	if (file_read("", "/proc/net/arp", TABLE, &table, &len, NULL))
		return;
	for (int i = 0; i < n; i++)
		if (paths[i].state != FACTS_OPEN)
			neigh_find(table, paths[i].address, paths[i].neighbour);
	free(table);
}

/* The first line names the columns; each processor has a line of hexadecimal numbers. */
unsigned long neigh_overflows(const char *stat)
{
	const char *name = strstr(stat, "table_fulls"), *line = strchr(stat, '\n');
	unsigned long sum = 0;
	char *end;
	int column = 0, at;

	if (!name || !line || name > line)
		return 0;
	for (const char *p = stat; p < name; p++)
		column += *p == ' ' && p[1] != ' ';
	for (; line && line[1]; line = strchr(line + 1, '\n')) {
		const char *p = line + 1;

		for (at = 0; at <= column; at++, p = end) {
			unsigned long v = strtoul(p, &end, 16);

			if (end == p)
				break;
			sum += at == column ? v : 0;
		}
	}
	return sum;
}

unsigned long neigh_count_overflows(void)
{
	char *stat = NULL;
	unsigned long n;
	size_t len;

	if (file_read("", "/proc/net/stat/arp_cache", TABLE, &stat, &len, NULL))
		return 0;
	n = neigh_overflows(stat);
	free(stat);
	return n;
}
