# tests/local.mk - everything speaks TAP; `make check` runs all of it.

TEST_EXTENSIONS    = .bats .py
TAP_DRIVER         = env AM_TAP_AWK='$(AWK)' $(SHELL) $(top_srcdir)/build-aux/tap-driver.sh
LOG_DRIVER         = $(TAP_DRIVER)
BATS_LOG_DRIVER    = $(TAP_DRIVER)
PY_LOG_DRIVER      = $(TAP_DRIVER)
# A test that hangs is a test that fails: nothing waits for ever.
# What a test may take; make check TEST_SECONDS=900 where everything takes longer.
TEST_SECONDS           = 300
LOG_COMPILER           = timeout -k 10 $(TEST_SECONDS)
BATS_LOG_COMPILER      = timeout -k 10 900 $(BATS) --tap
PY_LOG_COMPILER        = timeout -k 10 900 $(srcdir)/%reldir%/py/run
# Bats and pytest count failures themselves; their exit status would count them twice.
BATS_LOG_DRIVER_FLAGS  = --ignore-exit
PY_LOG_DRIVER_FLAGS    = --ignore-exit

AM_TESTS_ENVIRONMENT = . '$(abs_builddir)/%reldir%/environment';

# unit: one program per source file; links the core, sees hidden symbols
UNIT_TESTS = \
	%reldir%/unit/test_adasum \
	%reldir%/unit/test_api_status \
	%reldir%/unit/test_backends \
	%reldir%/unit/test_backend \
	%reldir%/unit/test_clock \
	%reldir%/unit/test_conf \
	%reldir%/unit/test_copy \
	%reldir%/unit/test_discover \
	%reldir%/unit/test_err \
	%reldir%/unit/test_blame \
	%reldir%/unit/test_facts \
	%reldir%/unit/test_netpage \
	%reldir%/unit/test_pairs \
	%reldir%/unit/test_verdict \
	%reldir%/unit/test_thread \
	%reldir%/unit/test_utf8 \
	%reldir%/unit/test_yaml \
	%reldir%/unit/test_jobdir \
	%reldir%/unit/test_loops \
	%reldir%/unit/test_file \
	%reldir%/unit/test_log \
	%reldir%/unit/test_near \
	%reldir%/unit/test_offer \
	%reldir%/unit/test_opt \
	%reldir%/unit/test_out \
	%reldir%/unit/test_proc \
	%reldir%/unit/test_limits \
	%reldir%/unit/test_path \
	%reldir%/unit/test_pidend \
	%reldir%/unit/test_pidstat \
	%reldir%/unit/test_stack \
	%reldir%/unit/test_pmi \
	%reldir%/unit/test_rankenv \
	%reldir%/unit/test_reduce \
	%reldir%/unit/test_batch \
	%reldir%/unit/test_gloo \
	%reldir%/unit/test_hvd \
	%reldir%/unit/test_rendezvous \
	%reldir%/unit/test_iface \
	%reldir%/unit/test_libfabric \
	%reldir%/unit/test_linkwatch \
	%reldir%/unit/test_lint \
	%reldir%/unit/test_nccl \
	%reldir%/unit/test_netconf \
	%reldir%/unit/test_netnames \
	%reldir%/unit/test_ompi \
	%reldir%/unit/test_output \
	%reldir%/unit/test_own \
	%reldir%/unit/test_picker \
	%reldir%/unit/test_pickers \
	%reldir%/unit/test_fix \
	%reldir%/unit/test_common \
	%reldir%/unit/test_outcome \
	%reldir%/unit/test_grid \
	%reldir%/unit/test_sweep \
	%reldir%/unit/test_relay \
	%reldir%/unit/test_jsonio \
	%reldir%/unit/test_shell \
	%reldir%/unit/test_snapshot \
	%reldir%/unit/test_ucx \
	%reldir%/unit/test_sources \
	%reldir%/unit/test_tcp
UNIT_TESTS += \
	%reldir%/unit/test_argv \
	%reldir%/unit/test_gradset \
	%reldir%/unit/test_groups \
	%reldir%/unit/test_measure \
	%reldir%/unit/test_inline \
	%reldir%/unit/test_pattern \
	%reldir%/unit/test_modules \
	%reldir%/unit/test_stamp \
	%reldir%/unit/test_stats \
	%reldir%/unit/test_task \
	%reldir%/unit/test_timing
UNIT_TESTS += \
	%reldir%/unit/test_alarm \
	%reldir%/unit/test_ancestor \
	%reldir%/unit/test_callback \
	%reldir%/unit/test_cgroup \
	%reldir%/unit/test_cores \
	%reldir%/unit/test_eager \
	%reldir%/unit/test_elastic \
	%reldir%/unit/test_cause \
	%reldir%/unit/test_culprit \
	%reldir%/unit/test_ending \
	%reldir%/unit/test_failure \
	%reldir%/unit/test_finder \
	%reldir%/unit/test_hostlist \
	%reldir%/unit/test_lobby \
	%reldir%/unit/test_notice \
	%reldir%/unit/test_order \
	%reldir%/unit/test_parent \
	%reldir%/unit/test_engine \
	%reldir%/unit/test_forks \
	%reldir%/unit/test_frame \
	%reldir%/unit/test_futex \
	%reldir%/unit/test_bundle \
	%reldir%/unit/test_group \
	%reldir%/unit/test_array \
	%reldir%/unit/test_hash \
	%reldir%/unit/test_identity \
	%reldir%/unit/test_context \
	%reldir%/unit/test_ledger \
	%reldir%/unit/test_lock \
	%reldir%/unit/test_nearend \
	%reldir%/unit/test_neutral \
	%reldir%/unit/test_node \
	%reldir%/unit/test_oom \
	%reldir%/unit/test_p2p_ring \
	%reldir%/unit/test_provider \
	%reldir%/unit/test_rest \
	%reldir%/unit/test_heartbeat \
	%reldir%/unit/test_deadlock \
	%reldir%/unit/test_stall \
	%reldir%/unit/test_cma \
	%reldir%/unit/test_progress \
	%reldir%/unit/test_quiesce \
	%reldir%/unit/test_wait \
	%reldir%/unit/test_waitset \
	%reldir%/unit/test_wake_fd \
	%reldir%/unit/test_self \
	%reldir%/unit/test_memory \
	%reldir%/unit/test_segment \
	%reldir%/unit/test_share \
	%reldir%/unit/test_stray \
	%reldir%/unit/test_host_queue \
	%reldir%/unit/test_coordinator \
	%reldir%/unit/test_name_table \
	%reldir%/unit/test_tree \
	%reldir%/unit/test_op_signature \
	%reldir%/unit/test_op_text \
	%reldir%/unit/test_watch
UNIT_TESTS += \
	%reldir%/unit/test_chan \
	%reldir%/unit/test_session \
	%reldir%/unit/test_dial \
	%reldir%/unit/test_door \
	%reldir%/unit/test_meet \
	%reldir%/unit/test_mesh \
	%reldir%/unit/test_ranks \
	%reldir%/unit/test_secret \
	%reldir%/unit/test_shake \
	%reldir%/unit/test_sock

UNIT_TESTS += \
	%reldir%/unit/test_bridge \
	%reldir%/unit/test_collective \
	%reldir%/unit/test_handles \
	%reldir%/unit/test_tensorflow_api \
	%reldir%/unit/test_xla_site

UNIT_TESTS += \
	%reldir%/unit/test_chrome \
	%reldir%/unit/test_label \
	%reldir%/unit/test_outfile \
	%reldir%/unit/test_points \
	%reldir%/unit/test_trace \
	%reldir%/unit/test_tracefile

UNIT_TESTS += \
	%reldir%/unit/test_horovod \
	%reldir%/unit/test_kernels \
	%reldir%/unit/test_mpi_find \
	%reldir%/unit/test_pieces \
	%reldir%/unit/test_autotune

UNIT_TESTS += \
	%reldir%/unit/test_echo \
	%reldir%/unit/test_names \
	%reldir%/unit/test_neigh \
	%reldir%/unit/test_reach \
	%reldir%/unit/test_roster \
	%reldir%/unit/test_rounds \
	%reldir%/unit/test_rules \
	%reldir%/unit/test_seal \
	%reldir%/unit/test_starter \
	%reldir%/unit/test_manual \
	%reldir%/unit/test_change \
	%reldir%/unit/test_diff \
	%reldir%/unit/test_talk \
	%reldir%/unit/test_way

%canon_reldir%_unit_test_kernels_SOURCES = %reldir%/unit/test_kernels.c \
	%reldir%/fakegpu/kernels_cpu.c %reldir%/fakegpu/kernels_cpu.h %reldir%/fakegpu/ptx.c %reldir%/fakegpu/ptx.h

# fuzz: parsers of other people's bytes; `make check` replays the seeds, and
# `make fuzz` (clang) searches for FUZZ_SECONDS each
FUZZ_TESTS = \
	%reldir%/fuzz/replay_card \
	%reldir%/fuzz/replay_chan \
	%reldir%/fuzz/replay_diagnose \
	%reldir%/fuzz/replay_discover \
	%reldir%/fuzz/replay_dist \
	%reldir%/fuzz/replay_echo \
	%reldir%/fuzz/replay_elfinfo \
	%reldir%/fuzz/replay_facts \
	%reldir%/fuzz/replay_fixfile \
	%reldir%/fuzz/replay_hang \
	%reldir%/fuzz/replay_hear \
	%reldir%/fuzz/replay_hostlist \
	%reldir%/fuzz/replay_tcp \
	%reldir%/fuzz/replay_jobdir \
	%reldir%/fuzz/replay_ldcache \
	%reldir%/fuzz/replay_cache \
	%reldir%/fuzz/replay_lobby \
	%reldir%/fuzz/replay_meet \
	%reldir%/fuzz/replay_mesh \
	%reldir%/fuzz/replay_cause \
	%reldir%/fuzz/replay_order \
	%reldir%/fuzz/replay_p2p \
	%reldir%/fuzz/replay_plan \
	%reldir%/fuzz/replay_pmi \
	%reldir%/fuzz/replay_ras \
	%reldir%/fuzz/replay_roster \
	%reldir%/fuzz/replay_rules \
	%reldir%/fuzz/replay_settings \
	%reldir%/fuzz/replay_shake \
	%reldir%/fuzz/replay_snapshot \
	%reldir%/fuzz/replay_sparkui \
	%reldir%/fuzz/replay_sock \
	%reldir%/fuzz/replay_stall \
	%reldir%/fuzz/replay_stamp \
	%reldir%/fuzz/replay_talk \
	%reldir%/fuzz/replay_tree \
	%reldir%/fuzz/replay_yaml
check_PROGRAMS += $(FUZZ_TESTS)
%canon_reldir%_fuzz_replay_card_SOURCES = %reldir%/fuzz/replay.c %reldir%/fuzz/fuzz_card.c
%canon_reldir%_fuzz_replay_hang_SOURCES = %reldir%/fuzz/replay.c %reldir%/fuzz/fuzz_hang.c
%canon_reldir%_fuzz_replay_hear_SOURCES = %reldir%/fuzz/replay.c %reldir%/fuzz/fuzz_hear.c
%canon_reldir%_fuzz_replay_chan_SOURCES = %reldir%/fuzz/replay.c %reldir%/fuzz/fuzz.h \
	%reldir%/fuzz/fuzz_chan.c
%canon_reldir%_fuzz_replay_diagnose_SOURCES = %reldir%/fuzz/replay.c %reldir%/fuzz/fuzz_diagnose.c
%canon_reldir%_fuzz_replay_discover_SOURCES = %reldir%/fuzz/replay.c %reldir%/fuzz/fuzz_discover.c
%canon_reldir%_fuzz_replay_tcp_SOURCES = %reldir%/fuzz/replay.c %reldir%/fuzz/fuzz_tcp.c
%canon_reldir%_fuzz_replay_mesh_SOURCES = %reldir%/fuzz/replay.c %reldir%/fuzz/fuzz_mesh.c
%canon_reldir%_fuzz_replay_jobdir_SOURCES = %reldir%/fuzz/replay.c %reldir%/fuzz/fuzz_jobdir.c
%canon_reldir%_fuzz_replay_ldcache_SOURCES = %reldir%/fuzz/replay.c %reldir%/fuzz/fuzz_ldcache.c
%canon_reldir%_fuzz_replay_cache_SOURCES = %reldir%/fuzz/replay.c %reldir%/fuzz/fuzz_cache.c
%canon_reldir%_fuzz_replay_hostlist_SOURCES = %reldir%/fuzz/replay.c %reldir%/fuzz/fuzz_hostlist.c
%canon_reldir%_fuzz_replay_cause_SOURCES = %reldir%/fuzz/replay.c %reldir%/fuzz/fuzz_cause.c
%canon_reldir%_fuzz_replay_order_SOURCES = %reldir%/fuzz/replay.c %reldir%/fuzz/fuzz_order.c
%canon_reldir%_fuzz_replay_lobby_SOURCES = %reldir%/fuzz/replay.c %reldir%/fuzz/fuzz_lobby.c
%canon_reldir%_fuzz_replay_sparkui_SOURCES = %reldir%/fuzz/replay.c %reldir%/fuzz/fuzz_sparkui.c
%canon_reldir%_fuzz_replay_meet_SOURCES = %reldir%/fuzz/replay.c %reldir%/fuzz/fuzz_meet.c
%canon_reldir%_fuzz_replay_dist_SOURCES = %reldir%/fuzz/replay.c %reldir%/fuzz/fuzz_dist.c
%canon_reldir%_fuzz_replay_echo_SOURCES = %reldir%/fuzz/replay.c %reldir%/fuzz/fuzz_echo.c
%canon_reldir%_fuzz_replay_elfinfo_SOURCES = %reldir%/fuzz/replay.c %reldir%/fuzz/fuzz_elfinfo.c
%canon_reldir%_fuzz_replay_facts_SOURCES = %reldir%/fuzz/replay.c %reldir%/fuzz/fuzz_facts.c
%canon_reldir%_fuzz_replay_fixfile_SOURCES = %reldir%/fuzz/replay.c %reldir%/fuzz/fuzz_fixfile.c
%canon_reldir%_fuzz_replay_p2p_SOURCES = %reldir%/fuzz/replay.c %reldir%/fuzz/fuzz_p2p.c
%canon_reldir%_fuzz_replay_plan_SOURCES = %reldir%/fuzz/replay.c %reldir%/fuzz/fuzz_plan.c
%canon_reldir%_fuzz_replay_pmi_SOURCES = %reldir%/fuzz/replay.c %reldir%/fuzz/fuzz_pmi.c
%canon_reldir%_fuzz_replay_ras_SOURCES = %reldir%/fuzz/replay.c %reldir%/fuzz/fuzz_ras.c
%canon_reldir%_fuzz_replay_roster_SOURCES = %reldir%/fuzz/replay.c %reldir%/fuzz/fuzz_roster.c
%canon_reldir%_fuzz_replay_rules_SOURCES = %reldir%/fuzz/replay.c %reldir%/fuzz/fuzz_rules.c
%canon_reldir%_fuzz_replay_shake_SOURCES = %reldir%/fuzz/replay.c %reldir%/fuzz/fuzz_shake.c
%canon_reldir%_fuzz_replay_settings_SOURCES = %reldir%/fuzz/replay.c %reldir%/fuzz/fuzz_settings.c
%canon_reldir%_fuzz_replay_snapshot_SOURCES = %reldir%/fuzz/replay.c %reldir%/fuzz/fuzz_snapshot.c
%canon_reldir%_fuzz_replay_talk_SOURCES = %reldir%/fuzz/replay.c %reldir%/fuzz/fuzz_talk.c
%canon_reldir%_fuzz_replay_sock_SOURCES = %reldir%/fuzz/replay.c %reldir%/fuzz/fuzz_sock.c
%canon_reldir%_fuzz_replay_stall_SOURCES = %reldir%/fuzz/replay.c %reldir%/fuzz/fuzz_stall.c
%canon_reldir%_fuzz_replay_stamp_SOURCES = %reldir%/fuzz/replay.c %reldir%/fuzz/fuzz_stamp.c
%canon_reldir%_fuzz_replay_tree_SOURCES = %reldir%/fuzz/replay.c %reldir%/fuzz/fuzz_tree.c
%canon_reldir%_fuzz_replay_yaml_SOURCES = %reldir%/fuzz/replay.c %reldir%/fuzz/fuzz_yaml.c
TESTS += $(FUZZ_TESTS)
EXTRA_DIST += %reldir%/fuzz/search %reldir%/fuzz/search.bats %reldir%/fuzz/seeds

# make fuzz: everything is compiled anew for it, as for an archive, so that a target which includes a
# source has no second copy of it.  Each target searches for itself; what one finds ends no other.
FUZZERS      = $(FUZZ_TESTS:%reldir%/fuzz/replay_%=%)
FUZZ_CC      = clang
FUZZ_SECONDS = 60
FUZZ_FOUND   = %reldir%/fuzz/found
FUZZ_FLAGS   = -std=gnu11 -g -O1 -fsanitize=address,undefined -fno-sanitize-recover=undefined -pthread \
	-MMD -MP $(DEFAULT_INCLUDES) $(AM_CPPFLAGS) $(SODIUM_CFLAGS) $(JANSSON_CFLAGS) $(MNL_CFLAGS)
FUZZ_LIBS    = $(SODIUM_LIBS) $(JANSSON_LIBS) $(MNL_LIBS) -ldl -lm
FUZZ_FROM    = $(filter %.c,$(CORE_SOURCES) $(TOOL_SOURCES))
FUZZ_OBJECTS = $(FUZZ_FROM:%.c=$(FUZZ_FOUND)/objects/%.o)
fuzz: $(FUZZERS:%=fuzz-%)
	@bash $(srcdir)/%reldir%/fuzz/search report $(FUZZ_FOUND) $(FUZZERS)
$(FUZZERS:%=fuzz-%): fuzz-%: %reldir%/fuzz/fuzz_%
	@echo "  FUZZ     $*"
	@bash $(srcdir)/%reldir%/fuzz/search run $(FUZZ_FOUND) $* $(FUZZ_SECONDS) $(srcdir)/%reldir%/fuzz/seeds/$*
$(FUZZERS:%=%reldir%/fuzz/fuzz_%): %reldir%/fuzz/fuzz_%: $(FUZZ_FOUND)/objects/%reldir%/fuzz/fuzz_%.o $(FUZZ_FOUND)/core.a
	$(AM_V_CCLD)$(FUZZ_CC) -fsanitize=address,undefined,fuzzer -pthread -o $@ $^ $(FUZZ_LIBS)
$(FUZZ_FOUND)/core.a: $(FUZZ_OBJECTS)
	$(AM_V_AR)rm -f $@ && $(AR) rc $@ $^
$(FUZZ_FOUND)/objects/%.o: $(srcdir)/%.c Makefile | build_id.h
	$(AM_V_CC)$(MKDIR_P) $(@D) && $(FUZZ_CC) $(FUZZ_FLAGS) -fsanitize=fuzzer-no-link -c -o $@ $<
-include $(wildcard $(FUZZ_OBJECTS:.o=.d) $(FUZZERS:%=$(FUZZ_FOUND)/objects/%reldir%/fuzz/fuzz_%.d))
.PHONY: fuzz $(FUZZERS:%=fuzz-%)
clean-local-fuzz:
	rm -rf $(FUZZ_FOUND) $(FUZZERS:%=%reldir%/fuzz/fuzz_%)
clean-local: clean-local-fuzz
.PHONY: clean-local-fuzz
UNIT_TESTS += \
	%reldir%/unit/test_commlibs \
	%reldir%/unit/test_compilers \
	%reldir%/unit/test_cudalibs \
	%reldir%/unit/test_dist \
	%reldir%/unit/test_requires \
	%reldir%/unit/test_elfinfo \
	%reldir%/unit/test_elflink \
	%reldir%/unit/test_find \
	%reldir%/unit/test_frameworks \
	%reldir%/unit/test_envplugin \
	%reldir%/unit/test_envplugins \
	%reldir%/unit/test_ldcache \
	%reldir%/unit/test_ldlibs \
	%reldir%/unit/test_loader \
	%reldir%/unit/test_pins \
	%reldir%/unit/test_mpilibs \
	%reldir%/unit/test_pythons \
	%reldir%/unit/test_job \
	%reldir%/unit/test_journal \
	%reldir%/unit/test_jsonrecord \
	%reldir%/unit/test_prove \
	%reldir%/unit/test_reason \
	%reldir%/unit/test_recipe \
	%reldir%/unit/test_release \
	%reldir%/unit/test_rootfs \
	%reldir%/unit/test_buildplan \
	%reldir%/unit/test_packages \
	%reldir%/unit/test_probe \
	%reldir%/unit/test_textpool \
	%reldir%/unit/test_versions \
	%reldir%/unit/test_text

UNIT_TESTS += \
	%reldir%/unit/test_cache \
	%reldir%/unit/test_folder \
	%reldir%/unit/test_signkey

UNIT_TESTS += \
	%reldir%/unit/test_compare \
	%reldir%/unit/test_complaint \
	%reldir%/unit/test_conclude \
	%reldir%/unit/test_fields \
	%reldir%/unit/test_match \
	%reldir%/unit/test_nodes \
	%reldir%/unit/test_jobend \
	%reldir%/unit/test_origin \
	%reldir%/unit/test_procs \
	%reldir%/unit/test_rulefile \
	%reldir%/unit/test_signature \
	%reldir%/unit/test_stepline \
	%reldir%/unit/test_unknown \
	%reldir%/unit/test_flights \
	%reldir%/unit/test_nccllog \
	%reldir%/unit/test_pickle \
	%reldir%/unit/test_ras \
	%reldir%/unit/test_ras_server \
	%reldir%/unit/test_ruling \
	%reldir%/unit/test_observe \
	%reldir%/unit/test_stacks \
	%reldir%/unit/test_wrap \
	%reldir%/unit/test_jobstate \
	%reldir%/unit/test_missing
EXTRA_DIST += %reldir%/diagnose

# model: what runs at the same time, in every order; see HACKING.md
MODEL_TESTS = \
	%reldir%/model/test_explore_ledger \
	%reldir%/model/test_explore_progress \
	%reldir%/model/test_explore_waitset
%canon_reldir%_model_test_explore_ledger_SOURCES = %reldir%/model/test_explore_ledger.c \
	%reldir%/model/explore.c %reldir%/model/explore.h %reldir%/model/shadow.h \
	%reldir%/model/verdict.h
%canon_reldir%_model_test_explore_progress_SOURCES = %reldir%/model/test_explore_progress.c \
	%reldir%/model/explore.c
%canon_reldir%_model_test_explore_waitset_SOURCES = %reldir%/model/test_explore_waitset.c \
	%reldir%/model/explore.c
check_PROGRAMS += $(MODEL_TESTS)
EXTRA_DIST     += %reldir%/model/engine.pml %reldir%/model/turns.pml
EXTRA_DIST     += %reldir%/device/ptx.py %reldir%/dist/loops.c %reldir%/programs/hangs.py
TESTS          += $(MODEL_TESTS)
check_PROGRAMS += $(UNIT_TESTS)
%canon_reldir%_unit_test_pmi_LDFLAGS = -Wl,--wrap=atexit
LDADD           = $(FRAMEWORK_LIBS) $(COMMAND_LIBS) $(CORE_LIBS)
AM_CPPFLAGS    += -I$(srcdir)/tests

# sim: the steps of more hosts than there are machines
SIM_TESTS = %reldir%/sim/sweep_growth
check_PROGRAMS += $(SIM_TESTS)
TESTS += $(SIM_TESTS)

# programs: what the Bats files start as ranks
TEST_TOOLS = \
	%reldir%/programs/ends \
	%reldir%/programs/hangs \
	%reldir%/programs/regroup \
	%reldir%/programs/sum \
	%reldir%/programs/whereami \
	%reldir%/programs/without
# What users link: the shared library and nothing else.
%canon_reldir%_programs_sum_LDADD   = libringup.la
%canon_reldir%_programs_hangs_LDADD   = libringup.la
%canon_reldir%_programs_hangs_LDFLAGS = $(AM_LDFLAGS) -no-install
%canon_reldir%_programs_ends_LDADD   = libringup.la
%canon_reldir%_programs_ends_LDFLAGS = $(AM_LDFLAGS) -no-install
%canon_reldir%_programs_regroup_LDADD   = libringup.la
%canon_reldir%_programs_regroup_LDFLAGS = $(AM_LDFLAGS) -no-install
%canon_reldir%_programs_sum_LDFLAGS = $(AM_LDFLAGS) -no-install
if HAVE_MPI
TEST_TOOLS += %reldir%/programs/mpisum %reldir%/programs/mpihangs
%canon_reldir%_programs_mpihangs_SOURCES  = %reldir%/programs/hangs.c
%canon_reldir%_programs_mpihangs_CPPFLAGS = $(AM_CPPFLAGS) -DWITH_MPI $(MPI_CFLAGS)
%canon_reldir%_programs_mpihangs_LDADD    = $(MPI_LIBS)
%canon_reldir%_programs_mpihangs_LDFLAGS  = $(AM_LDFLAGS) -no-install
%canon_reldir%_programs_mpisum_SOURCES  = %reldir%/programs/sum.c
%canon_reldir%_programs_mpisum_CPPFLAGS = $(AM_CPPFLAGS) -DWITH_MPI $(MPI_CFLAGS)
%canon_reldir%_programs_mpisum_LDADD    = libringup.la $(MPI_LIBS)
%canon_reldir%_programs_mpisum_LDFLAGS  = $(AM_LDFLAGS) -no-install
endif
%canon_reldir%_programs_without_LDADD =
# fault: ranks that loop while the tests break something
TEST_TOOLS += \
	%reldir%/fault/loop \
	%reldir%/fault/stranger \
	%reldir%/fault/strike
%canon_reldir%_fault_loop_LDADD   = libringup.la
%canon_reldir%_fault_loop_LDFLAGS = $(AM_LDFLAGS) -no-install
%canon_reldir%_fault_stranger_LDADD =
%canon_reldir%_fault_strike_LDADD =
# Preloaded, so a shared library; -rpath makes it one.
check_LTLIBRARIES = %reldir%/fault/libshim.la
%canon_reldir%_fault_libshim_la_SOURCES = %reldir%/fault/shim.c
%canon_reldir%_fault_libshim_la_CFLAGS  = $(WARN) -fPIC
%canon_reldir%_fault_libshim_la_LIBADD  = -ldl
%canon_reldir%_fault_libshim_la_LDFLAGS = -module -avoid-version -rpath /nowhere

# The back end mpi from within, and from a program with an MPI of its own.
if HAVE_MPI
TEST_TOOLS += %reldir%/programs/mpiplans
endif
if HAVE_OPENMPI
TEST_TOOLS += %reldir%/programs/mpijob
%canon_reldir%_programs_mpijob_CPPFLAGS = $(AM_CPPFLAGS) $(OPENMPI_CFLAGS)
%canon_reldir%_programs_mpijob_LDADD    = libringup.la $(OPENMPI_LIBS)
%canon_reldir%_programs_mpijob_LDFLAGS  = $(AM_LDFLAGS) -no-install
endif
if HAVE_MPICH
TEST_TOOLS += %reldir%/programs/mpijob_mpich
%canon_reldir%_programs_mpijob_mpich_SOURCES  = %reldir%/programs/mpijob.c
%canon_reldir%_programs_mpijob_mpich_CPPFLAGS = $(AM_CPPFLAGS) $(MPICH_CFLAGS)
%canon_reldir%_programs_mpijob_mpich_LDADD    = libringup.la $(MPICH_LIBS)
%canon_reldir%_programs_mpijob_mpich_LDFLAGS  = $(AM_LDFLAGS) -no-install
endif
check_PROGRAMS += $(TEST_TOOLS)

BATS_TESTS = \
	%reldir%/model/spin.bats \
	%reldir%/cli/bench.bats \
	%reldir%/cli/bench-ends.bats \
	%reldir%/cli/bench-peers.bats \
	%reldir%/cli/bench-programs.bats \
	%reldir%/cli/bench-results.bats \
	%reldir%/cli/cache.bats \
	%reldir%/cli/completion.bats \
	%reldir%/cli/detect.bats \
	%reldir%/cli/diagnose.bats \
	%reldir%/cli/diagnose-runs.bats \
	%reldir%/cli/discover.bats \
	%reldir%/cli/doctor.bats \
	%reldir%/cli/env.bats \
	%reldir%/cli/full.bats \
	%reldir%/cli/hang.bats \
	%reldir%/cli/hang-hosts.bats \
	%reldir%/cli/hang-slurm.bats \
	%reldir%/cli/hang-trials.bats \
	%reldir%/cli/hello.bats \
	%reldir%/cli/horovodrun.bats \
	%reldir%/cli/help.bats \
	%reldir%/cli/job.bats \
	%reldir%/cli/limits.bats \
	%reldir%/cli/loads.bats \
	%reldir%/cli/man.bats \
	%reldir%/cli/modules.bats \
	%reldir%/cli/mpi.bats \
	%reldir%/cli/mpi-plans.bats \
	%reldir%/cli/net.bats \
	%reldir%/cli/net-fix.bats \
	%reldir%/cli/net-lint.bats \
	%reldir%/cli/net-check.bats \
	%reldir%/cli/pmix-abi.bats \
	%reldir%/cli/plan.bats \
	%reldir%/cli/rebuild.bats \
	%reldir%/cli/rebuild-done.bats \
	%reldir%/cli/rebuild-ends.bats \
	%reldir%/cli/rebuild-real.bats \
	%reldir%/cli/reported.bats \
	%reldir%/cli/rankd.bats \
	%reldir%/cli/run-elastic.bats \
	%reldir%/cli/run-elastic-walk.bats \
	%reldir%/cli/run-culprit.bats \
	%reldir%/cli/run.bats \
	%reldir%/cli/top.bats \
	%reldir%/cli/timeline.bats \
	%reldir%/init/bundle.bats \
	%reldir%/init/cache.bats \
	%reldir%/init/fetch.bats \
	%reldir%/init/frameworks.bats \
	%reldir%/init/island.bats \
	%reldir%/init/json.bats \
	%reldir%/init/kill.bats \
	%reldir%/init/network.bats \
	%reldir%/init/owned.bats \
	%reldir%/init/pkg.bats \
	%reldir%/init/platforms.bats \
	%reldir%/init/report.bats \
	%reldir%/init/rollback.bats \
	%reldir%/init/spark.bats \
	%reldir%/dist/arm.bats \
	%reldir%/dist/configure.bats \
	%reldir%/dist/install.bats \
	%reldir%/dist/ptx.bats \
	%reldir%/init/ringup-init.bats \
	%reldir%/init/steps.bats \
	%reldir%/init/wheel.bats \
	%reldir%/cluster/check-cures.bats \
	%reldir%/cluster/net-chance.bats \
	%reldir%/cluster/net-real-gloo.bats \
	%reldir%/cluster/net-real-mpi.bats \
	%reldir%/cluster/net-real-nccl.bats \
	%reldir%/cluster/net-watch.bats \
	%reldir%/cluster/launchers.bats \
	%reldir%/cluster/run-hosts.bats \
	%reldir%/cluster/scenes.bats \
	%reldir%/cluster/scenes-check.bats \
	%reldir%/cluster/scenes-mpi.bats \
	%reldir%/cluster/scenes-pages.bats \
	%reldir%/cluster/scenes-wall.bats \
	%reldir%/fresh/fresh.bats \
	%reldir%/fresh/packages.bats \
	%reldir%/cluster/by-hand.bats \
	%reldir%/cluster/check.bats \
	%reldir%/cluster/check-agents.bats \
	%reldir%/cluster/check-duplicates.bats \
	%reldir%/cluster/net-ways.bats \
	%reldir%/cluster/init.bats \
	%reldir%/cluster/net-nodes.bats \
	%reldir%/cluster/process-group.bats \
	%reldir%/cluster/hosts.bats
MUTANT_TESTS = %reldir%/mutants/mutants.bats
BATS_TESTS += $(MUTANT_TESTS)
FAULT_TESTS = \
	%reldir%/fault/gpu.bats \
	%reldir%/fault/launcher.bats \
	%reldir%/fault/net.bats \
	%reldir%/fault/net-blip.bats \
	%reldir%/fault/net-late.bats \
	%reldir%/fault/net-link.bats \
	%reldir%/fault/net-slow.bats \
	%reldir%/fault/net-stall.bats \
	%reldir%/fault/one.bats \
	%reldir%/fault/start.bats \
	%reldir%/fault/strangers.bats \
	%reldir%/fault/ends.bats
BATS_TESTS += $(FAULT_TESTS)
KILL_TESTS = %reldir%/fault/ends.bats %reldir%/fault/one.bats %reldir%/cli/run-elastic-walk.bats
DEATH_TESTS = %reldir%/fault/deaths.bats
EXTRA_DIST += $(DEATH_TESTS) %reldir%/fault/death_of_a_rank.py %reldir%/fault/deaths.py
GROWTH_TESTS = %reldir%/fault/test_growth
check_PROGRAMS += $(GROWTH_TESTS)
TESTS += $(GROWTH_TESTS)

# whole: the library as programs see it, where no single source is to blame
WHOLE_TESTS = \
	%reldir%/whole/test_adasum_job \
	%reldir%/whole/test_any \
	%reldir%/whole/test_arenas \
	%reldir%/whole/test_blame \
	%reldir%/whole/test_contexts \
	%reldir%/whole/test_deadline \
	%reldir%/whole/test_edges \
	%reldir%/whole/test_unwaited \
	%reldir%/whole/test_huge \
	%reldir%/whole/test_nulls \
	%reldir%/whole/test_old_caller \
	%reldir%/whole/test_owned \
	%reldir%/whole/test_p2p_job \
	%reldir%/whole/test_pair \
	%reldir%/whole/test_timeline \
	%reldir%/whole/test_quiet \
	%reldir%/whole/test_room \
	%reldir%/whole/test_root_job \
	%reldir%/whole/test_then
check_PROGRAMS += $(WHOLE_TESTS)
TESTS += $(WHOLE_TESTS)
%canon_reldir%_whole_test_room_LDFLAGS = -Wl,--wrap=malloc

# device: the engine's programs once more, through a back end that is asynchronous: a "device" with memory,
# queues and a thread of its own.  The sanitizers run the device's own test: what is special to it is there.
DEVICE_OWN = %reldir%/device/test_device \
	%reldir%/fakegpu/test_fakecuda \
	%reldir%/fakegpu/test_fakenccl \
	%reldir%/fakegpu/test_ptx
DEVICE_TESTS = $(DEVICE_OWN) \
	%reldir%/device/test_engine \
	%reldir%/device/test_bundle \
	%reldir%/device/test_context \
	%reldir%/device/test_adasum_job \
	%reldir%/device/test_any \
	%reldir%/device/test_deadline \
	%reldir%/device/test_room \
	%reldir%/device/test_root_job \
	%reldir%/device/test_then \
	%reldir%/device/test_timeline
# These take a path through the device that one of the above takes, too, so a shard has them.  contexts: a context
# opens and closes its device as each job of engine does.  group: test_device has groups with a device each, any has
# their collectives and the joins.  p2p_job: messages go by no back end.  unwaited: the progress thread carries plans
# out, as in then.
DEVICE_AGAIN = %reldir%/device/test_contexts \
	%reldir%/device/test_group \
	%reldir%/device/test_p2p_job \
	%reldir%/device/test_unwaited
check_PROGRAMS += $(DEVICE_TESTS) $(DEVICE_AGAIN)
TESTS += $(DEVICE_TESTS)
DEVICE = %reldir%/device/device.c %reldir%/device/device.h
%canon_reldir%_device_test_device_SOURCES = %reldir%/device/test_device.c $(DEVICE)
%canon_reldir%_device_test_engine_SOURCES = %reldir%/unit/test_engine.c $(DEVICE)
%canon_reldir%_device_test_group_SOURCES = %reldir%/unit/test_group.c $(DEVICE)
%canon_reldir%_device_test_bundle_SOURCES = %reldir%/unit/test_bundle.c $(DEVICE)
%canon_reldir%_device_test_context_SOURCES = %reldir%/unit/test_context.c $(DEVICE)
%canon_reldir%_device_test_adasum_job_SOURCES = %reldir%/whole/test_adasum_job.c $(DEVICE)
%canon_reldir%_device_test_any_SOURCES = %reldir%/whole/test_any.c $(DEVICE)
%canon_reldir%_device_test_contexts_SOURCES = %reldir%/whole/test_contexts.c $(DEVICE)
%canon_reldir%_device_test_deadline_SOURCES = %reldir%/whole/test_deadline.c $(DEVICE)
%canon_reldir%_device_test_p2p_job_SOURCES = %reldir%/whole/test_p2p_job.c $(DEVICE)
%canon_reldir%_device_test_room_SOURCES = %reldir%/whole/test_room.c $(DEVICE)
%canon_reldir%_device_test_room_LDFLAGS = -Wl,--wrap=malloc
%canon_reldir%_device_test_root_job_SOURCES = %reldir%/whole/test_root_job.c $(DEVICE)
%canon_reldir%_device_test_then_SOURCES = %reldir%/whole/test_then.c $(DEVICE)
%canon_reldir%_device_test_timeline_SOURCES = %reldir%/whole/test_timeline.c $(DEVICE)
%canon_reldir%_device_test_unwaited_SOURCES = %reldir%/whole/test_unwaited.c $(DEVICE)

# fakegpu: stand-ins for CUDA's driver and NCCL, as libraries that a program loads by the real names from a folder
# in LD_LIBRARY_PATH, and as parts of their own tests.
FAKE_CUDA  = %reldir%/fakegpu/cuda/libcuda.so.1
FAKE_NCCLS = %reldir%/fakegpu/nccl-2.18.3/libnccl.so.2 %reldir%/fakegpu/nccl-2.22.3/libnccl.so.2 \
	%reldir%/fakegpu/nccl-2.25.1/libnccl.so.2 %reldir%/fakegpu/nccl-2.27.7/libnccl.so.2 \
	%reldir%/fakegpu/nccl-2.28.9/libnccl.so.2 %reldir%/fakegpu/nccl-2.29.7/libnccl.so.2 \
	%reldir%/fakegpu/nccl-2.30.7/libnccl.so.2
check_DATA  = $(FAKE_CUDA) $(FAKE_NCCLS)
CLEANFILES += $(FAKE_CUDA) $(FAKE_NCCLS)
FAKE_INCLUDED = %reldir%/fakegpu/fakecuda.h %reldir%/fakegpu/fakenccl.h %reldir%/fakegpu/faults.h \
	%reldir%/fakegpu/ptx.h
EXTRA_DIST += $(FAKE_INCLUDED) %reldir%/fakegpu/libcuda.c %reldir%/fakegpu/libnccl.c
# ThreadSanitizer knows nothing of the loader's own memory for variables of threads, which this model does without.
FAKE_LINK = $(CC) $(DEFS) $(DEFAULT_INCLUDES) $(AM_CPPFLAGS) $(CPPFLAGS) $(AM_CFLAGS) $(CFLAGS) $(AM_LDFLAGS) \
	$(LDFLAGS) -fPIC -fvisibility=hidden -ftls-model=initial-exec -shared -pthread
$(FAKE_CUDA): %reldir%/fakegpu/libcuda.c %reldir%/fakegpu/ptx.c $(FAKE_INCLUDED)
	$(AM_V_CCLD)$(MKDIR_P) $(@D) && $(FAKE_LINK) -Wl,-soname,libcuda.so.1 -o $@ \
		$(srcdir)/%reldir%/fakegpu/libcuda.c $(srcdir)/%reldir%/fakegpu/ptx.c
$(FAKE_NCCLS): %reldir%/fakegpu/libnccl.c src/coll/scalar.h $(FAKE_INCLUDED) $(FAKE_CUDA)
	$(AM_V_CCLD)$(MKDIR_P) $(@D) && $(FAKE_LINK) -Wl,-soname,libnccl.so.2 '-Wl,-rpath,$$ORIGIN/../cuda' \
		-DFAKE_NCCL_VERSION=$$(echo $(@D) | awk -F '[-.]' '{ print ($$(NF - 2) * 100 + $$(NF - 1)) * 100 + $$NF }') \
		-DFAKE_NCCL_NAME=$$(echo $(@D) | sed 's/.*nccl-//') \
		-o $@ $(srcdir)/%reldir%/fakegpu/libnccl.c $(FAKE_CUDA)
# A rank by the public interface alone, with the fakes or the real libraries.
TEST_TOOLS += %reldir%/device/conform
%canon_reldir%_device_conform_LDADD   = libringup.la -ldl
%canon_reldir%_device_conform_LDFLAGS = $(AM_LDFLAGS) -no-install
FAKE_PARTS = %reldir%/fakegpu/libcuda.c %reldir%/fakegpu/ptx.c $(FAKE_INCLUDED)
%canon_reldir%_fakegpu_test_fakecuda_SOURCES = %reldir%/fakegpu/test_fakecuda.c $(FAKE_PARTS)
%canon_reldir%_fakegpu_test_fakenccl_SOURCES = %reldir%/fakegpu/test_fakenccl.c %reldir%/fakegpu/libnccl.c $(FAKE_PARTS)
%canon_reldir%_fakegpu_test_ptx_SOURCES = %reldir%/fakegpu/test_ptx.c %reldir%/fakegpu/ptx.c %reldir%/fakegpu/ptx.h
%canon_reldir%_fakegpu_test_fakenccl_CPPFLAGS = $(AM_CPPFLAGS) -DFAKE_NCCL_VERSION=23007

# fakegpu: the back end nccl over a fake driver and a fake NCCL, which run the real PTX on the processor.
FAKEGPU_TESTS = \
	%reldir%/fakegpu/test_gpu \
	%reldir%/fakegpu/test_lifetimes \
	%reldir%/fakegpu/test_nccl \
	%reldir%/fakegpu/test_nccl_faults \
	%reldir%/fakegpu/test_nccl_find \
	%reldir%/fakegpu/test_nccl_slow \
	%reldir%/fakegpu/test_nccl_threads \
	%reldir%/fakegpu/test_nccl_start \
	%reldir%/fakegpu/test_nccl_unordered
check_PROGRAMS += $(FAKEGPU_TESTS)
TESTS += $(FAKEGPU_TESTS)
FAKES = $(FAKE_CUDA) $(FAKE_NCCLS)
fakes: $(FAKES)
.PHONY: fakes
EXTRA_%canon_reldir%_fakegpu_test_gpu_DEPENDENCIES = $(FAKES)
EXTRA_%canon_reldir%_fakegpu_test_fakenccl_DEPENDENCIES = $(FAKES)
EXTRA_%canon_reldir%_fakegpu_test_nccl_DEPENDENCIES = $(FAKES)
%canon_reldir%_fakegpu_test_gpu_SOURCES = %reldir%/fakegpu/test_gpu.c %reldir%/fakegpu/gpu_ranks.h
EXTRA_%canon_reldir%_fakegpu_test_lifetimes_DEPENDENCIES = $(FAKES)
%canon_reldir%_fakegpu_test_lifetimes_SOURCES = %reldir%/fakegpu/test_lifetimes.c %reldir%/fakegpu/gpu_ranks.h
%canon_reldir%_fakegpu_test_lifetimes_LDFLAGS = -Wl,--wrap=clock_ns,--wrap=callbacks_push,--wrap=p2p_leave,--wrap=stall_describe,--wrap=gpu_reached
EXTRA_%canon_reldir%_fakegpu_test_nccl_find_DEPENDENCIES = $(FAKES)
%canon_reldir%_fakegpu_test_nccl_find_SOURCES = %reldir%/fakegpu/test_nccl_find.c %reldir%/fakegpu/gpu_ranks.h
EXTRA_%canon_reldir%_fakegpu_test_nccl_start_DEPENDENCIES = $(FAKES)
%canon_reldir%_fakegpu_test_nccl_start_SOURCES = %reldir%/fakegpu/test_nccl_start.c %reldir%/fakegpu/gpu_ranks.h
EXTRA_%canon_reldir%_fakegpu_test_nccl_unordered_DEPENDENCIES = $(FAKES)
%canon_reldir%_fakegpu_test_nccl_unordered_SOURCES = %reldir%/fakegpu/test_nccl_unordered.c \
	%reldir%/fakegpu/gpu_ranks.h %reldir%/fakegpu/orders.h
%canon_reldir%_fakegpu_test_nccl_unordered_LDFLAGS = -Wl,--wrap=turns_take
EXTRA_%canon_reldir%_fakegpu_test_nccl_slow_DEPENDENCIES = $(FAKES)
%canon_reldir%_fakegpu_test_nccl_slow_SOURCES = %reldir%/fakegpu/test_nccl_slow.c %reldir%/fakegpu/gpu_ranks.h
EXTRA_%canon_reldir%_fakegpu_test_nccl_threads_DEPENDENCIES = $(FAKES)
%canon_reldir%_fakegpu_test_nccl_threads_SOURCES = %reldir%/fakegpu/test_nccl_threads.c \
	%reldir%/fakegpu/gpu_ranks.h %reldir%/fakegpu/orders.h
EXTRA_%canon_reldir%_fakegpu_test_nccl_faults_DEPENDENCIES = $(FAKES)
%canon_reldir%_fakegpu_test_nccl_faults_SOURCES = %reldir%/fakegpu/test_nccl_faults.c %reldir%/fakegpu/gpu_ranks.h
%canon_reldir%_fakegpu_test_nccl_SOURCES = %reldir%/fakegpu/test_nccl.c %reldir%/fakegpu/gpu_ranks.h %reldir%/fakegpu/orders.h

# threads: what can start some, so that ThreadSanitizer has something to see; tests/lint/threads.bats
# keeps the list
THREADED_TESTS = \
	%reldir%/device/test_device \
	%reldir%/fakegpu/test_fakecuda \
	%reldir%/fakegpu/test_fakenccl \
	%reldir%/fakegpu/test_gpu \
	%reldir%/fakegpu/test_lifetimes \
	%reldir%/fakegpu/test_nccl \
	%reldir%/fakegpu/test_nccl_faults \
	%reldir%/fakegpu/test_nccl_slow \
	%reldir%/fakegpu/test_nccl_threads \
	%reldir%/fakegpu/test_nccl_start \
	%reldir%/fakegpu/test_nccl_unordered \
	%reldir%/unit/test_alarm \
	%reldir%/unit/test_backend \
	%reldir%/unit/test_backends \
	%reldir%/unit/test_bridge \
	%reldir%/unit/test_bundle \
	%reldir%/unit/test_manual \
	%reldir%/unit/test_callback \
	%reldir%/unit/test_collective \
	%reldir%/unit/test_dial \
	%reldir%/unit/test_eager \
	%reldir%/unit/test_echo \
	%reldir%/unit/test_engine \
	%reldir%/unit/test_futex \
	%reldir%/unit/test_group \
	%reldir%/unit/test_tcp \
	%reldir%/unit/test_ledger \
	%reldir%/unit/test_lock \
	%reldir%/unit/test_measure \
	%reldir%/unit/test_timing \
	%reldir%/unit/test_lobby \
	%reldir%/unit/test_meet \
	%reldir%/unit/test_context \
	%reldir%/unit/test_memory \
	%reldir%/unit/test_mesh \
	%reldir%/unit/test_names \
	%reldir%/unit/test_p2p_ring \
	%reldir%/unit/test_pidend \
	%reldir%/unit/test_session \
	%reldir%/unit/test_progress \
	%reldir%/unit/test_quiesce \
	%reldir%/unit/test_pmi \
	%reldir%/unit/test_rendezvous \
	%reldir%/unit/test_rest \
	%reldir%/unit/test_rootfs \
	%reldir%/unit/test_deadlock \
	%reldir%/unit/test_stall \
	%reldir%/unit/test_stack \
	%reldir%/unit/test_thread \
	%reldir%/unit/test_trace \
	%reldir%/unit/test_tracefile \
	%reldir%/unit/test_tree \
	%reldir%/unit/test_waitset \
	%reldir%/unit/test_watch \
	%reldir%/whole/test_adasum_job \
	%reldir%/whole/test_any \
	%reldir%/whole/test_arenas \
	%reldir%/whole/test_blame \
	%reldir%/whole/test_contexts \
	%reldir%/whole/test_deadline \
	%reldir%/whole/test_edges \
	%reldir%/whole/test_huge \
	%reldir%/whole/test_nulls \
	%reldir%/whole/test_old_caller \
	%reldir%/whole/test_owned \
	%reldir%/whole/test_p2p_job \
	%reldir%/whole/test_pair \
	%reldir%/whole/test_quiet \
	%reldir%/whole/test_room \
	%reldir%/whole/test_root_job \
	%reldir%/whole/test_then \
	%reldir%/whole/test_timeline \
	%reldir%/whole/test_unwaited

# py: pytest, which prints TAP
PY_TESTS = \
	%reldir%/py/test_checks.py \
	%reldir%/py/test_compiled.py \
	%reldir%/py/test_digits.py \
	%reldir%/py/test_gpu.py \
	%reldir%/py/test_elastic.py \
	%reldir%/py/test_elastic_jobs.py \
	%reldir%/py/test_examples.py \
	%reldir%/py/test_header.py \
	%reldir%/py/test_install.py \
	%reldir%/py/test_recipes.py %reldir%/py/test_tables.py \
	%reldir%/py/test_wheels.py \
	%reldir%/py/test_jobs.py \
	%reldir%/py/test_layers.py \
	%reldir%/py/test_meeting.py \
	%reldir%/py/test_memory.py %reldir%/py/test_nccl.py \
	%reldir%/py/test_framework_examples.py \
	%reldir%/py/test_jax.py \
	%reldir%/py/test_jax_gpu.py \
	%reldir%/py/test_keras.py \
	%reldir%/py/test_tensorflow.py \
	%reldir%/py/test_torch_api.py \
	%reldir%/py/test_process_group.py \
	%reldir%/py/test_process_group_mixed.py \
	%reldir%/py/test_process_group_trainers.py \
	%reldir%/py/test_process_group_upstream.py \
	%reldir%/py/test_process_group_users.py \
	%reldir%/py/test_runner.py \
	%reldir%/py/test_optimizer.py \
	%reldir%/py/test_ray.py \
	%reldir%/py/test_spark.py \
	%reldir%/py/test_spark_data.py \
	%reldir%/py/test_spark_arguments.py \
	%reldir%/py/test_spark_failure.py \
	%reldir%/py/test_spark_files.py \
	%reldir%/py/test_spark_local.py \
	%reldir%/py/test_merge.py \
	%reldir%/py/test_timeline.py \
	%reldir%/py/test_train_check.py
PY_FILES = \
	%reldir%/py/run \
	%reldir%/py/conftest.py \
	%reldir%/py/api_of_a_rank.py %reldir%/py/checks.py \
	%reldir%/py/child_of_a_rank.py %reldir%/py/compiled_of_a_rank.py \
	%reldir%/py/elastic_job_of_a_rank.py \
	%reldir%/py/ends_of_a_rank.py \
	%reldir%/py/elastic_of_a_rank.py \
	%reldir%/py/end_of_a_rank.py \
	%reldir%/py/step_of_a_rank.py \
	%reldir%/py/frameworks.py \
	%reldir%/py/gpu_of_a_rank.py \
	%reldir%/py/process_group_gpu_of_a_rank.py \
	%reldir%/py/nccl_of_a_rank.py %reldir%/py/nccl_training_of_a_rank.py %reldir%/py/ops_of_a_rank.py \
	%reldir%/py/interfaces.py \
	%reldir%/py/jax_distributed_of_a_rank.py \
	%reldir%/py/jax_end_of_a_rank.py \
	%reldir%/py/jax_of_a_rank.py \
	%reldir%/py/jax_places_of_a_rank.py \
	%reldir%/py/keras_end_of_a_rank.py \
	%reldir%/py/keras_fit_of_a_rank.py \
	%reldir%/py/keras_of_a_rank.py \
	%reldir%/py/optimizer_of_a_rank.py \
	%reldir%/py/parent_of_ranks.py \
	%reldir%/py/process_group_ends_of_a_rank.py \
	%reldir%/py/process_group_mixed_ends_of_a_rank.py \
	%reldir%/py/process_group_mixed_of_a_rank.py \
	%reldir%/py/process_group_of_a_rank.py \
	%reldir%/py/process_group_timeline_of_a_rank.py \
	%reldir%/py/process_group_users_of_a_rank.py \
	%reldir%/py/sets_of_a_rank.py \
	%reldir%/py/survive_of_a_rank.py \
	%reldir%/py/tensorflow_elastic_of_a_rank.py \
	%reldir%/py/tensorflow_end_of_a_rank.py \
	%reldir%/py/tensorflow_graph_of_a_rank.py \
	%reldir%/py/tensorflow_of_a_rank.py \
	%reldir%/py/tensorflow_order_of_a_rank.py \
	%reldir%/py/timeline_of_a_rank.py \
	%reldir%/py/train_of_a_rank.py \
	%reldir%/py/trainer_of_a_rank.py \
	%reldir%/py/where_of_a_rank.py

LINT_TESTS = \
	%reldir%/lint/capacities.bats \
	%reldir%/lint/layers.bats \
	%reldir%/lint/registry.bats \
	%reldir%/lint/format.bats \
	%reldir%/lint/library.bats \
	%reldir%/lint/tiers.bats \
	%reldir%/lint/needs.bats \
	%reldir%/lint/words.bats \
	%reldir%/lint/python.bats \
	%reldir%/lint/arm.bats \
	%reldir%/lint/shell.bats \
	%reldir%/lint/threads.bats

TESTS      += $(UNIT_TESTS) $(PY_TESTS)
if HAVE_BATS
TESTS      += $(BATS_TESTS) $(LINT_TESTS)
endif
EXTRA_DIST += .ci/run %reldir%/run %reldir%/one %reldir%/budgets $(BATS_TESTS) $(LINT_TESTS) $(PY_TESTS) $(PY_FILES) \
	%reldir%/asks.h %reldir%/block.h %reldir%/tap.h %reldir%/checks.h %reldir%/hosts.h %reldir%/ranks.h %reldir%/family.h %reldir%/half.h %reldir%/nomemory.h %reldir%/nest.h %reldir%/rounds.h %reldir%/sifted.h \
	%reldir%/lint/map.sh %reldir%/lint/capacities %reldir%/lint/circles %reldir%/lint/circles.awk %reldir%/lint/circles.bash %reldir%/lint/numbers.awk %reldir%/lint/prose.py %reldir%/lint/retired %reldir%/lint/words %reldir%/lib/helper.bash
EXTRA_DIST += \
	%reldir%/net/allreduce.c \
	%reldir%/net/beside_mpi.c \
	%reldir%/net/ask_many.py \
	%reldir%/net/ask_nccl.py \
	%reldir%/net/cases.h \
	%reldir%/net/env_plugin.c \
	%reldir%/net/cases/gloo.json \
	%reldir%/net/cases/horovod.json \
	%reldir%/net/cases/libfabric.json \
	%reldir%/net/cases/nccl.json \
	%reldir%/net/cases/nccl_versions.json \
	%reldir%/net/cases/openmpi.json \
	%reldir%/net/cases/openmpi5.json \
	%reldir%/net/cases/ucx.json
EXTRA_DIST += %reldir%/fault/endure.py %reldir%/fault/measure.py %reldir%/lib/fault.bash %reldir%/lib/hosts.bash
EXTRA_DIST += %reldir%/mutants/equivalent %reldir%/mutants/mutate.py
EXTRA_DIST += %reldir%/lib/affected.awk %reldir%/lib/affected.bash %reldir%/lib/costs.awk %reldir%/lib/jobs.bash \
	%reldir%/lib/prepare.bash %reldir%/lib/results.bash %reldir%/lib/tap.awk %reldir%/lib/trees.bash
EXTRA_DIST += %reldir%/lib/asked.bash %reldir%/lib/chance.bash %reldir%/lib/nodes.bash %reldir%/lib/scenes.bash %reldir%/lib/settings.bash %reldir%/lib/space.bash
EXTRA_DIST += %reldir%/lib/await.bash %reldir%/lib/bench.bash %reldir%/lib/elastic.bash %reldir%/lib/launcher.bash %reldir%/lib/mpi.bash
EXTRA_DIST += %reldir%/lib/engine.bash %reldir%/lib/machine.bash %reldir%/lib/machines.bash %reldir%/lib/node.bash %reldir%/lib/page.js %reldir%/lib/page.py %reldir%/lib/real.bash %reldir%/lib/release.bash %reldir%/lib/reported.bash %reldir%/lib/schema.py %reldir%/lib/tree.bash %reldir%/nics.h %reldir%/tinyelf.h
$(BATS_TESTS:.bats=.log): ringup horovodrun $(TEST_TOOLS) $(check_LTLIBRARIES)
$(BATS_TESTS:.bats=.log): libringup.la $(pkglib_LTLIBRARIES)
$(PY_TESTS:.py=.log): ringup horovodrun libringup.la libringup_tf.la libringup_jax.la

# torch: torch's own tests of process groups, which every wheel of it has
EXTRA_DIST += %reldir%/torch/distributed_of_torch.py %reldir%/torch/file_of_torch.py %reldir%/torch/of_torch.py

# horovod: Horovod's own tests, which are fetched
HOROVOD_TESTS = %reldir%/horovod/upstream.bats
EXTRA_DIST += $(HOROVOD_TESTS) %reldir%/horovod/ask.py %reldir%/horovod/expected.tsv \
	%reldir%/horovod/newer.py %reldir%/horovod/tensorflow-2.21.tsv
REBUILD_TESTS = %reldir%/cli/rebuild-torch.bats
UPGRADE_TESTS = %reldir%/cli/rebuild-upgrade-tensorflow.bats %reldir%/cli/rebuild-upgrade-torch.bats
# A cluster of two hosts is several Java processes; ranks of TensorFlow, and those of many trainings, take long to
# start; Horovod's tests are fetched.
SPARK_TESTS = %reldir%/py/test_spark_cluster.py %reldir%/py/test_spark_connect.py %reldir%/py/test_spark_estimators.py \
	%reldir%/py/test_spark_lightning.py \
	%reldir%/py/test_spark_tensorflow.py %reldir%/horovod/spark.bats
EXTRA_DIST += $(SPARK_TESTS)
# Ray, which the shard alone gets.
RAY_TESTS = %reldir%/horovod/ray.bats
EXTRA_DIST += $(RAY_TESTS)
EXTRA_DIST += $(REBUILD_TESTS) $(UPGRADE_TESTS) %reldir%/lib/upstream.bash

# Tiers, for tests/run.  The gate is all of $(TESTS) in their short form; ThreadSanitizer runs programs with
# threads, the other sanitizers all programs in C, and the seeds of the fuzz targets nobody else.
# What is too long for every change is a shard: the named tests of a build in their long form
# (RINGUP_TEST_LONG=1).  SHARD_NAME, with _ for each - of the name, lists TREE:TEST; each of these but
# those of SHARD_ONLY has a short form in the gate.
SHARDS = arm bench big device faults fuzz horovod launch machines model modules races upgrade
SHARD_arm      = gcc:%reldir%/lint/arm.bats gcc:%reldir%/dist/arm.bats
SHARD_big      = $(WHOLE_TESTS:%=gcc:%)
SHARD_device   = gcc:%reldir%/dist/ptx.bats gcc:%reldir%/py/test_nccl.py $(patsubst %,gcc:%,$(FAKEGPU_TESTS) $(DEVICE_AGAIN) $(filter-out %/test_any,$(DEVICE_TESTS)))
SHARD_faults   = $(patsubst %,gcc:%,$(filter-out $(KILL_TESTS),$(FAULT_TESTS)) $(GROWTH_TESTS))
SHARD_hang     = gcc:%reldir%/cli/hang-hosts.bats gcc:%reldir%/cli/hang-trials.bats
SHARD_fuzz     = gcc:%reldir%/fuzz/search.bats
SHARD_bench    = gcc:%reldir%/cli/bench-peers.bats gcc:%reldir%/cli/bench-programs.bats \
	gcc:%reldir%/cli/bench-results.bats gcc:%reldir%/cli/mpi-plans.bats
SHARD_horovod  = $(REBUILD_TESTS:%=gcc:%)
SHARD_horovod_tests = $(HOROVOD_TESTS:%=gcc:%)
SHARD_upgrade  = $(UPGRADE_TESTS:%=gcc:%)
SHARD_modules  = gcc:%reldir%/cli/modules.bats
SHARD_machines = gcc:%reldir%/cluster/net-chance.bats
SHARD_model    = $(MODEL_TESTS:%=gcc:%) gcc:%reldir%/model/spin.bats
SHARD_launch   = gcc:%reldir%/cli/diagnose-runs.bats gcc:%reldir%/py/test_digits.py gcc:%reldir%/cluster/launchers.bats
SHARD_torch    = gcc:%reldir%/cluster/process-group.bats gcc:%reldir%/py/test_meeting.py gcc:%reldir%/py/test_process_group.py gcc:%reldir%/py/test_process_group_mixed.py gcc:%reldir%/py/test_process_group_upstream.py \
	gcc:%reldir%/py/test_process_group_users.py gcc:%reldir%/py/test_process_group_trainers.py \
	gcc:%reldir%/py/test_compiled.py
SHARD_tensorflow = gcc:%reldir%/py/test_keras.py gcc:%reldir%/py/test_tensorflow.py \
	gcc:%reldir%/py/test_framework_examples.py gcc:%reldir%/py/test_jax.py
SHARD_races    = $(THREADED_TESTS:%=tsan:%)
SHARD_spark    = $(SPARK_TESTS:%=gcc:%) gcc:%reldir%/py/test_spark.py
SHARD_ray      = $(RAY_TESTS:%=gcc:%) gcc:%reldir%/py/test_ray.py
# No short form: the gate replays the seeds, and builds a small engine and configures Horovod's; it has
# tests of its own for what Horovod's test.  Of DEVICE_AGAIN see there.
SHARD_ONLY = $(DEVICE_AGAIN) %reldir%/fuzz/search.bats $(DEATH_TESTS) $(HOROVOD_TESTS) $(REBUILD_TESTS) $(RAY_TESTS) $(SPARK_TESTS) $(UPGRADE_TESTS)
# CI draws none of these: a fresh Debian is installed several times, Horovod's tests come from GitHub and wait by
# the clock, and ranks that are killed hundreds of times may take more than a quarter of an hour.  Those of frameworks
# get more packages than the gate, and have not been timed on a slow host.  Mutants are drawn by the commit, and each is
# a build and some tests.  Trials of hangs take more than an hour.
LONG_SHARDS = fresh hang horovod-tests kills mutants ray spark tensorflow torch
SHARD_kills = $(patsubst %,gcc:%,$(KILL_TESTS) $(DEATH_TESTS))
SHARD_mutants = $(MUTANT_TESTS:%=gcc:%)
SHARD_fresh = gcc:%reldir%/fresh/fresh.bats gcc:%reldir%/fresh/packages.bats gcc:%reldir%/py/test_wheels.py

# make list-tests: lines "gate TREE TEST", "shard NAME TREE TEST", "long NAME TREE TEST", "only TEST".
list-tests:
	@printf 'gate gcc %s\n' $(filter-out $(FUZZ_TESTS),$(TESTS))
	@printf 'gate asan %s\n' $(UNIT_TESTS) $(WHOLE_TESTS) $(DEVICE_OWN) $(FAKEGPU_TESTS) $(FUZZ_TESTS)
	@printf 'gate tsan %s\n' $(THREADED_TESTS)
	@printf 'only %s\n' $(SHARD_ONLY)
	@$(foreach s,$(SHARDS),printf 'shard $(s) %s %s\n' $(subst :, ,$(SHARD_$(subst -,_,$(s))));)
	@$(foreach s,$(LONG_SHARDS),printf 'long $(s) %s %s\n' $(subst :, ,$(SHARD_$(subst -,_,$(s))));)
# What the tests of the build gcc need.
for-tests: all-am $(filter-out $(FUZZ_TESTS),$(check_PROGRAMS)) $(check_LTLIBRARIES) $(check_DATA)
check-long: ; $(srcdir)/%reldir%/run --long
# make one T=unit/test_x: build what this test needs, and run it.
one: ; @MAKE='$(MAKE)' srcdir='$(abs_srcdir)' T='$(T)' F='$(F)' $(abs_srcdir)/%reldir%/one
list-programs: ; @printf '%s\n' $(check_PROGRAMS) $(check_LTLIBRARIES)
.PHONY: list-tests list-programs for-tests check-long one

# Peers to measure beside `ringup bench`; run by hand, since times are no tests.
check_PROGRAMS += %reldir%/peers/limits %reldir%/peers/player %reldir%/peers/recording
%canon_reldir%_peers_limits_SOURCES = %reldir%/peers/limits.c %reldir%/peers/placement.c %reldir%/peers/placement.h
%canon_reldir%_peers_player_SOURCES = %reldir%/peers/placement.c %reldir%/peers/placement.h %reldir%/peers/player.c
EXTRA_DIST += %reldir%/peers/check_nodes.py %reldir%/peers/container.bash %reldir%/peers/contest.py %reldir%/peers/peer_mpi.c %reldir%/peers/peer_torch.py %reldir%/peers/gpu.py %reldir%/peers/gpu_elastic.py %reldir%/peers/gpu_mixed.py %reldir%/peers/gpu_nccl.bash %reldir%/peers/gpu_resnet.py %reldir%/peers/gpu_stage.bash %reldir%/peers/gpu_train.py %reldir%/peers/slim_nccl.py \
	%reldir%/peers/idle.py %reldir%/peers/jax_collectives.py %reldir%/peers/models.py %reldir%/peers/nodes.bash \
	%reldir%/peers/process_groups.py %reldir%/peers/tensorflow_steps.py %reldir%/peers/empty_ops.c \
	%reldir%/peers/read_logs.py %reldir%/peers/recovery.py %reldir%/peers/spark.py %reldir%/peers/startup.py \
	%reldir%/peers/steps.py %reldir%/peers/table.py %reldir%/peers/steps.c %reldir%/peers/face.h
EXTRA_DIST += %reldir%/peers/two_builds.py %reldir%/peers/two_nodes.py %reldir%/peers/stream.c \
	%reldir%/peers/gloo_allreduce.py %reldir%/peers/mpi_allreduce.c
