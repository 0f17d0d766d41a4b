# docs/local.mk - the manual; mdoc(7) by hand, installed as is.
dist_man_MANS += \
	%reldir%/man/ringup.1 \
	%reldir%/man/ringup-env.1 \
	%reldir%/man/ringup-help.1
EXTRA_DIST += %reldir%/MAP.md

# docs/MAP.md: the first line of every file, sorted by folder.
map:
	cd $(srcdir) && sh tests/lint/map.sh > docs/MAP.md
.PHONY: map
