# init-scripts/local.mk - bash that brings a node up; installed as it stands.
EXTRA_DIST += %reldir%/bundle.sh

INIT_SCRIPT = %reldir%/ringup-init
INIT_FILES = \
	%reldir%/lib/cache.bash \
	%reldir%/lib/engine.bash \
	%reldir%/lib/fetch.bash \
	%reldir%/lib/file.bash \
	%reldir%/lib/json.bash \
	%reldir%/lib/log.bash \
	%reldir%/lib/node.bash \
	%reldir%/lib/pkg.bash \
	%reldir%/lib/progress.bash \
	%reldir%/lib/report.bash \
	%reldir%/lib/shared.bash \
	%reldir%/lib/source.bash \
	%reldir%/lib/status.bash \
	%reldir%/steps/00-guard.bash \
	%reldir%/steps/10-detect.bash \
	%reldir%/steps/20-toolchain.bash \
	%reldir%/steps/30-build.bash \
	%reldir%/steps/40-install.bash \
	%reldir%/steps/50-frameworks.bash \
	%reldir%/steps/55-rebuild.bash \
	%reldir%/steps/60-network.bash \
	%reldir%/steps/65-spark.bash \
	%reldir%/steps/70-verify.bash \
	%reldir%/steps/80-report.bash
INIT_CHECK = %reldir%/lib/cluster.py %reldir%/lib/train_check.py
nobase_dist_pkgdata_SCRIPTS = $(INIT_SCRIPT)
nobase_dist_pkgdata_DATA = $(INIT_FILES) $(INIT_CHECK)

# The names of all settings, for a runner that has no sources beside it.
initdir = $(pkgdatadir)/init-scripts
nodist_init_DATA = %reldir%/settings
CLEANFILES += %reldir%/settings
%reldir%/settings: $(srcdir)/src/base/conf.def
	$(AM_V_at)$(MKDIR_P) %reldir%
	$(AM_V_GEN)$(SED) -n 's/^SETTING(\([a-z0-9_]*\),.*/\1/p' $(srcdir)/src/base/conf.def | tr a-z A-Z >$@

# One file, for platforms whose init hook takes one file, and its SHA-256: make ringup-init.sh
ringup-init.sh: $(INIT_SCRIPT) $(INIT_FILES) $(INIT_CHECK) $(srcdir)/%reldir%/bundle.sh $(srcdir)/src/base/conf.def
	$(AM_V_GEN)$(SHELL) $(srcdir)/%reldir%/bundle.sh >$@.part && mv $@.part $@ && sha256sum $@ >$@.sha256
CLEANFILES += ringup-init.sh ringup-init.sh.sha256
