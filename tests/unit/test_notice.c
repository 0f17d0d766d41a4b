/* test_notice.c - a word that one process writes and others read. */
#include "wire/notice.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"
#include "ringup.h"
#include "tap.h"

int main(void)
{
	struct notice writer = { 0 }, reader = { 0 }, none = { 0 };
	struct err e = { 0 };
	int fd;

	ok(!notice_create(&writer, &e) && !notice_map(&reader, writer.fd, &e), "shared");
	ok(notice_read(&reader, 1) == 0, "nothing has changed");
	notice_set(&writer, 1, NOTICE_ADDED);
	ok(notice_read(&reader, 1) == NOTICE_ADDED, "something has");
	ok(notice_read(&reader, 2) == 0 && notice_read(&reader, 0) == 0,
	   "for another generation it has not");
	notice_set(&writer, 2, NOTICE_ADDED | NOTICE_REMOVED);
	ok(notice_read(&reader, 2) == 3 && notice_read(&reader, 1) == 0, "and so on");
	ok(ftruncate(writer.fd, 0) < 0, "nobody can take it away");
	ok(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, writer.fd, 0) == MAP_FAILED ||
		   errno == 0,
	   "and no reader can write it, where the kernel knows how");
	ok(notice_read(&none, 0) == 0, "without a word nothing changes");
	notice_set(&none, 1, 1);
	fd = open("/dev/null", O_RDONLY);
	ok(notice_map(&none, fd, &e) == RINGUP_EINVAL, "another file: %s", e.text);
	close(fd);
	ok(notice_map(&none, 1 << 19, &e) == RINGUP_ESYSTEM, "no file: %s", e.text);
	notice_close(&reader);
	notice_close(&writer);
	notice_close(&writer);
	notice_close(&none);
	return tap_done();
}
