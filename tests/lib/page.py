#!/usr/bin/env python3
# page.py - parse a page that ringup wrote: its elements nest, and the data in it go to stdout.
import html.parser
import json
import sys

VOID = {"meta"}


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.data, self.scripts = [], "", 0

    def handle_starttag(self, tag, attrs):
        if tag == "script":
            self.scripts += 1
        if tag in VOID:
            return
        self.open.append((tag, dict(attrs)))

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        if not self.open or self.open[-1][0] != tag:
            sys.exit(f"</{tag}> within {self.open[-1:]}, line {self.getpos()[0]}")
        self.open.pop()

    def handle_data(self, data):
        if self.open and self.open[-1] == ("script", {"type": "application/json", "id": "data"}):
            self.data += data


page = Page()
with open(sys.argv[1], encoding="utf-8") as file:
    page.feed(file.read())
page.close()
if page.open or page.scripts != 2:
    sys.exit(f"{len(page.open)} elements do not end, {page.scripts} scripts")
print(json.dumps(json.loads(page.data)))
