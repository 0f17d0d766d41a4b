# init-scripts/local.mk - bash that prepares a machine; installed as it stands.
initdir = $(pkgdatadir)/init
nobase_dist_init_SCRIPTS = %reldir%/ringup-init
nobase_dist_init_DATA = \
	%reldir%/lib/fetch.bash %reldir%/lib/log.bash %reldir%/lib/pkg.bash \
	%reldir%/steps/10-compilers.bash
EXTRA_DIST += %reldir%/bundle.sh

# One file, for platforms whose init hook takes one file.
ringup-init.sh: $(nobase_dist_init_SCRIPTS) $(nobase_dist_init_DATA)
	$(AM_V_GEN)$(SHELL) $(srcdir)/%reldir%/bundle.sh >$@
CLEANFILES += ringup-init.sh
