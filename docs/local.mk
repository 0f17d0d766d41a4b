# docs/local.mk - the manual; mdoc(7) by hand, installed as is.
dist_man_MANS += \
	%reldir%/man/horovodrun.1 \
	%reldir%/man/ringup.1 \
	%reldir%/man/ringup-bench.1 \
	%reldir%/man/ringup-cache.1 \
	%reldir%/man/ringup-detect.1 \
	%reldir%/man/ringup-diagnose.1 \
	%reldir%/man/ringup-doctor.1 \
	%reldir%/man/ringup-env.1 \
	%reldir%/man/ringup-hang.1 \
	%reldir%/man/ringup-hello.1 \
	%reldir%/man/ringup-help.1 \
	%reldir%/man/ringup-init.8 \
	%reldir%/man/ringup-net.1 \
	%reldir%/man/ringup-net-check.1 \
	%reldir%/man/ringup-net-explain.1 \
	%reldir%/man/ringup-net-fix.1 \
	%reldir%/man/ringup-net-lint.1 \
	%reldir%/man/ringup-net-snapshot.1 \
	%reldir%/man/ringup-net-watch.1 \
	%reldir%/man/ringup-plan.1 \
	%reldir%/man/ringup-rankd.1 \
	%reldir%/man/ringup-rebuild.1 \
	%reldir%/man/ringup-run.1 \
	%reldir%/man/ringup-top.1 \
	%reldir%/man/ringup-timeline.1 \
	%reldir%/man/ringup-timeline-merge.1
exampledir = $(docdir)/examples
dist_example_DATA = \
	%reldir%/examples/average.c \
	%reldir%/examples/digits.py \
	%reldir%/examples/gather.c \
	%reldir%/examples/groups.c \
	%reldir%/examples/jax_digits_example.py \
	%reldir%/examples/keras_digits_example.py \
	%reldir%/examples/pipeline.c \
	%reldir%/examples/route.c \
	%reldir%/examples/ray_digits.py \
	%reldir%/examples/spark_digits.ipynb \
	%reldir%/examples/spark_digits.py \
	%reldir%/examples/spark_keras_digits.py \
	%reldir%/examples/tensorflow1_digits_example.py \
	%reldir%/examples/together.c \
	%reldir%/examples/train_ddp_example.py \
	%reldir%/examples/train_elastic_example.py \
	%reldir%/examples/train_horovod_example.py \
	%reldir%/examples/train_timeline_example.py \
	%reldir%/examples/uneven.c
# What `ringup doctor --json` prints, for programs that read it.
dist_pkgdata_DATA = %reldir%/doctor.schema.json
EXTRA_DIST += %reldir%/BENCHMARKS.md %reldir%/HISTORY.md %reldir%/HOROVOD-TESTS.md %reldir%/RELIABILITY.md %reldir%/databricks.md %reldir%/hang.md %reldir%/horovod.md %reldir%/migration.md %reldir%/network.md %reldir%/torch-distributed.md %reldir%/TORCH-TESTS.md %reldir%/DESIGN.md %reldir%/MAP.md %reldir%/WHY.md %reldir%/man/api.awk
EXTRA_DIST += %reldir%/bench/emerald-rapids.md %reldir%/bench/gpu.md %reldir%/gpu.md %reldir%/bench/hang.md %reldir%/bench/horovod.md %reldir%/bench/many-hosts.md %reldir%/bench/net.md %reldir%/bench/nodes.md %reldir%/bench/emerald-rapids-16.md %reldir%/bench/spark.md %reldir%/bench/tensorflow.md %reldir%/bench/torch.md %reldir%/bench/xeon-2.md %reldir%/bench/xeon.md %reldir%/bench/zen3.md %reldir%/bench/zen4.md %reldir%/bench/zen5.md
EXTRA_DIST += %reldir%/pictures/record.py %reldir%/pictures/ringup.sh %reldir%/pictures/ringup.svg

# The reference of the library is its header; this is the header as a page.
nodist_man_MANS += %reldir%/man/ringup_api.3
CLEANFILES += %reldir%/man/ringup_api.3
%reldir%/man/ringup_api.3: $(srcdir)/src/ringup.h $(srcdir)/%reldir%/man/api.awk
	$(AM_V_at)$(MKDIR_P) %reldir%/man
	$(AM_V_GEN)LC_ALL=C $(AWK) -v date="`$(SED) -n 's/^[.]Dd //p' $(srcdir)/%reldir%/man/ringup.1`" \
		-f $(srcdir)/%reldir%/man/api.awk $(srcdir)/src/ringup.h >$@.part && mv $@.part $@

# docs/MAP.md: the first line of every file, sorted by folder.
map:
	cd $(srcdir) && sh tests/lint/map.sh > docs/MAP.md
.PHONY: map

# Found by the bash-completion package under the command's name.
bashcompletiondir = $(datadir)/bash-completion/completions
install-data-local: install-completion
install-completion: $(srcdir)/completion/ringup.bash $(srcdir)/completion/horovodrun.bash
	$(MKDIR_P) '$(DESTDIR)$(bashcompletiondir)'
	$(INSTALL_DATA) $(srcdir)/completion/ringup.bash '$(DESTDIR)$(bashcompletiondir)/ringup'
	$(INSTALL_DATA) $(srcdir)/completion/horovodrun.bash '$(DESTDIR)$(bashcompletiondir)/horovodrun'
uninstall-local: uninstall-completion
uninstall-completion:
	rm -f '$(DESTDIR)$(bashcompletiondir)/ringup' '$(DESTDIR)$(bashcompletiondir)/horovodrun'
EXTRA_DIST += completion/ringup.bash completion/horovodrun.bash
.PHONY: install-completion uninstall-completion
