/* test_conf.c - settings parse, and mistakes are reported. */
#include <stdlib.h>
#include <string.h>

#include "base/conf.h"
#include "base/err.h"
#include "ringup.h"
#include "tap.h"

/* Horovod's seconds and opposites, and defaults that come in sets. */
static void other_words(void)
{
	struct conf c;
	struct err e = { 0 };

	setenv("HOROVOD_STALL_CHECK_TIME_SECONDS", "7", 1);
	setenv("HOROVOD_STALL_CHECK_DISABLE", "1", 1);
	ok(!conf_load(&c, CONF_FORBID, &e) && c.stall_warn_ms == 7000 && !c.stall_check,
	   "seconds and opposites are translated");
	setenv("HOROVOD_STALL_CHECK_TIME_SECONDS", "soon", 1);
	ok(conf_load(&c, CONF_FORBID, &e) == RINGUP_EINVAL && strstr(e.text, "SECONDS=soon"),
	   "nonsense in them is refused: %s", e.text);
	unsetenv("HOROVOD_STALL_CHECK_TIME_SECONDS");
	setenv("HOROVOD_STALL_CHECK_DISABLE", "maybe", 1);
	ok(conf_load(&c, CONF_FORBID, &e) == RINGUP_EINVAL && strstr(e.text, "DISABLE=maybe"),
	   "and quoted: %s", e.text);
	unsetenv("HOROVOD_STALL_CHECK_DISABLE");
	setenv("RINGUP_LIVENESS_PROFILE", "fast", 1);
	setenv("RINGUP_LOST_MS", "4000", 1);
	ok(!conf_load(&c, CONF_FORBID, &e) && c.freeze_ms == 2000 && c.lost_ms == 4000,
	   "a profile gives defaults, and no more");
	setenv("RINGUP_DEVICE_MS", "2147483648", 1);
	setenv("HOROVOD_START_TIMEOUT", "2147483647", 1);
	ok(!conf_load(&c, CONF_FORBID, &e) && c.device_ms == INT32_MAX &&
		   c.start_timeout_ms == INT32_MAX,
	   "a time that is longer than an int can tell is the longest one");
	setenv("RINGUP_DEVICE_MS", "-1", 1);
	ok(conf_load(&c, CONF_FORBID, &e) == RINGUP_EINVAL, "a negative one is refused: %s",
	   e.text);
	unsetenv("RINGUP_DEVICE_MS");
	unsetenv("HOROVOD_START_TIMEOUT");
	setenv("RINGUP_LIVENESS_PROFILE", "slow", 1);
	ok(conf_load(&c, CONF_FORBID, &e) == RINGUP_EINVAL, "there are only so many: %s",
	   e.text);
}

int main(void)
{
	struct conf c;
	struct err e = { 0 };

	clearenv();
	ok(conf_load(&c, CONF_FORBID, &e) == 0, "defaults load: %s", e.text);
	ok(c.fusion_bytes == 4 << 20, "4M is 4 MiB");
	setenv("RINGUP_FUSION_BYTES", "2K", 1);
	ok(conf_load(&c, CONF_FORBID, &e) == 0 && c.fusion_bytes == 2048,
	   "the environment wins");
	setenv("RINGUP_FUSION_BYTES", "lots", 1);
	ok(conf_load(&c, CONF_FORBID, &e) == RINGUP_EINVAL, "nonsense is refused");
	ok(strstr(e.text, "lots") != NULL, "and quoted: %s", e.text);
	unsetenv("RINGUP_FUSION_BYTES");
	setenv("RINGUP_FUSION_BITES", "1", 1);
	ok(conf_load(&c, CONF_FORBID, &e) == RINGUP_EINVAL, "a misspelling is refused: %s",
	   e.text);
	ok(conf_load(&c, CONF_WARN, &e) == 0, "or only warned of");
	unsetenv("RINGUP_FUSION_BITES");
	setenv("HOROVOD_FUSION_THRESHOLD", "1024", 1);
	ok(conf_load(&c, CONF_FORBID, &e) == 0 && c.fusion_bytes == 1024,
	   "Horovod's name works");
	setenv("RINGUP_FUSION_BYTES", "4096", 1);
	ok(conf_load(&c, CONF_FORBID, &e) == 0 && c.fusion_bytes == 4096,
	   "ringup's own name wins");
	setenv("RINGUP_FUSION_BYTES", "99999999999T", 1);
	ok(conf_load(&c, CONF_FORBID, &e) == RINGUP_EINVAL, "an overflow is refused");
	unsetenv("RINGUP_FUSION_BYTES");
	unsetenv("HOROVOD_FUSION_THRESHOLD");
	ok(!conf_load(&c, CONF_FORBID, &e) && c.single_copy == -1,
	   "auto is neither on nor off");
	setenv("RINGUP_SINGLE_COPY", "off", 1);
	ok(!conf_load(&c, CONF_FORBID, &e) && c.single_copy == 0, "which may be said, too");
	setenv("RINGUP_SINGLE_COPY", "maybe", 1);
	ok(conf_load(&c, CONF_FORBID, &e) == RINGUP_EINVAL && strstr(e.text, "auto, 1 or 0"),
	   "and nothing else: %s", e.text);
	unsetenv("RINGUP_SINGLE_COPY");
	other_words();
	return tap_done();
}
