/* test_xml.c - whatever the text, what is written is text. */
#include "base/xml.h"

#include <stdlib.h>
#include <string.h>

#include "tap.h"

static void expect(const char *s, int most, const char *want)
{
	size_t len;
	char *made;
	FILE *f = open_memstream(&made, &len);

	if (most)
		xml_clip(f, s, most);
	else
		xml_text(f, s);
	fclose(f);
	ok(!strcmp(made, want), "%s", want);
	free(made);
}

int main(void)
{
	expect("plain", 0, "plain");
	expect("<b a=\"1\" c='2'>&", 0, "&lt;b a=&quot;1&quot; c=&#39;2&#39;&gt;&amp;");
	expect("a\x1b[31m\n\x7f", 0, "a?[31m??");
	expect("n\xc3\xa9 \xe2\x82\xac \xf0\x9f\x8c\x8d", 0,
	       "n\xc3\xa9 \xe2\x82\xac \xf0\x9f\x8c\x8d");
	expect("\xff\xc3(\xe2\x82", 0,
	       "?"
	       "?(?"
	       "?");
	expect("\xc2\x9b \xed\xa0\x80 \xef\xbf\xbf \xc0\xaf", 0,
	       "?"
	       "? ?"
	       "?"
	       "? ?"
	       "?"
	       "? ?"
	       "?");
	expect("n\xc3\xa9twork", 4, "n\xc3\xa9t\xe2\x80\xa6");
	expect("four", 4, "four");
	expect("", 4, "");
	return tap_done();
}
