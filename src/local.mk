# src/local.mk - files of the library and of the command, bottom layer first.

include_HEADERS += %reldir%/ringup.h

# What libringup.so is made of, a folder a paragraph.
CORE_SOURCES = %reldir%/ringup.h

CORE_SOURCES += \
	%reldir%/base/array.c %reldir%/base/array.h \
	%reldir%/base/build.c %reldir%/base/build.h \
	%reldir%/base/cgroup.c %reldir%/base/cgroup.h \
	%reldir%/base/clock.c %reldir%/base/clock.h \
	%reldir%/base/conf.c %reldir%/base/conf.def %reldir%/base/conf.h \
	%reldir%/base/err.c %reldir%/base/err.h \
	%reldir%/base/file.c %reldir%/base/file.h \
	%reldir%/base/forks.c %reldir%/base/forks.h \
	%reldir%/base/futex.c %reldir%/base/futex.h \
	%reldir%/base/hash.c %reldir%/base/hash.h \
	%reldir%/base/horovod.c %reldir%/base/horovod.def %reldir%/base/horovod.h \
	%reldir%/base/collectives.h \
	%reldir%/base/kinds.h \
	%reldir%/base/limits.c %reldir%/base/limits.h \
	%reldir%/base/lock.c %reldir%/base/lock.h \
	%reldir%/base/log.c %reldir%/base/log.h \
	%reldir%/base/near.c %reldir%/base/near.h \
	%reldir%/base/newcalls.h \
	%reldir%/base/num.h \
	%reldir%/base/path.c %reldir%/base/path.h \
	%reldir%/base/pidend.c %reldir%/base/pidend.h \
	%reldir%/base/pidstat.c %reldir%/base/pidstat.h \
	%reldir%/base/proc.c %reldir%/base/proc.h \
	%reldir%/base/release.c %reldir%/base/release.h \
	%reldir%/base/stack.c %reldir%/base/stack.h \
	%reldir%/base/thread.c %reldir%/base/thread.h \
	%reldir%/base/utf8.c %reldir%/base/utf8.h

CORE_SOURCES += \
	%reldir%/host/cores.c %reldir%/host/cores.h \
	%reldir%/host/identity.c %reldir%/host/identity.h \
	%reldir%/host/iface.c %reldir%/host/iface.h \
	%reldir%/host/nearend.c %reldir%/host/nearend.h \
	%reldir%/host/oom.c %reldir%/host/oom.h

CORE_SOURCES += \
	%reldir%/nicpick/own.c %reldir%/nicpick/own.h \
	%reldir%/nicpick/picker.c %reldir%/nicpick/picker.h

CORE_SOURCES += \
	%reldir%/wire/alarm.c %reldir%/wire/alarm.h \
	%reldir%/wire/ancestor.c %reldir%/wire/ancestor.h \
	%reldir%/wire/chan.c %reldir%/wire/chan.h \
	%reldir%/wire/cause.c %reldir%/wire/cause.h \
	%reldir%/wire/discover.c %reldir%/wire/discover.h \
	%reldir%/wire/dial.c %reldir%/wire/dial.h \
	%reldir%/wire/door.c %reldir%/wire/door.h \
	%reldir%/wire/cma.c %reldir%/wire/cma.h \
	%reldir%/wire/grid.c %reldir%/wire/grid.h \
	%reldir%/wire/jobdir.c %reldir%/wire/jobdir.h \
	%reldir%/wire/kvs.h %reldir%/wire/pmi.c \
	%reldir%/wire/pmix.c %reldir%/wire/pmix_abi.h \
	%reldir%/wire/inherit.c %reldir%/wire/inherit.h \
	%reldir%/wire/lobby.c %reldir%/wire/lobby.h \
	%reldir%/wire/meet.c %reldir%/wire/meet.h \
	%reldir%/wire/mesh.c %reldir%/wire/mesh.h \
	%reldir%/wire/mpi_state.c %reldir%/wire/mpi_state.h \
	%reldir%/wire/observe.c %reldir%/wire/observe.h \
	%reldir%/wire/ras_server.c %reldir%/wire/ras_server.h \
	%reldir%/wire/offer.c %reldir%/wire/offer.h \
	%reldir%/wire/pack.h \
	%reldir%/wire/ranks.c %reldir%/wire/ranks.h \
	%reldir%/wire/notice.c %reldir%/wire/notice.h \
	%reldir%/wire/rendezvous.c %reldir%/wire/rendezvous.h \
	%reldir%/wire/quiesce.c %reldir%/wire/quiesce.h \
	%reldir%/wire/waitset.c %reldir%/wire/waitset.h \
	%reldir%/wire/wake_fd.c %reldir%/wire/wake_fd.h \
	%reldir%/wire/secret.c %reldir%/wire/secret.h \
	%reldir%/wire/segment.c %reldir%/wire/segment.h \
	%reldir%/wire/memory.c %reldir%/wire/memory.h \
	%reldir%/wire/session.c %reldir%/wire/session.h \
	%reldir%/wire/share.c %reldir%/wire/share.h \
	%reldir%/wire/store.c %reldir%/wire/store.h \
	%reldir%/wire/stream.c %reldir%/wire/stream.h \
	%reldir%/wire/shake.c %reldir%/wire/shake.h \
	%reldir%/wire/sock.c %reldir%/wire/sock.h

CORE_SOURCES += \
	%reldir%/coll/adasum.c %reldir%/coll/adasum.h \
	%reldir%/coll/copy.c %reldir%/coll/copy.h \
	%reldir%/coll/loops.c %reldir%/coll/loops.def %reldir%/coll/loops.h \
	%reldir%/coll/neutral.c %reldir%/coll/neutral.h \
	%reldir%/coll/reduce.c %reldir%/coll/reduce.h \
	%reldir%/coll/scalar.h \
	%reldir%/coll/step.h \
	%reldir%/coll/sweep.c %reldir%/coll/sweep.h

CORE_SOURCES += \
	%reldir%/device/driver.c %reldir%/device/driver.h \
	%reldir%/device/gpu.c %reldir%/device/gpu.h \
	%reldir%/device/kernels.h %reldir%/device/kernels_ptx.c \
	%reldir%/device/primary.c %reldir%/device/primary.h \
	%reldir%/device/staging.c %reldir%/device/staging.h
EXTRA_DIST += %reldir%/device/kernels.cu

CORE_SOURCES += \
	%reldir%/trace/chrome.c %reldir%/trace/chrome.h \
	%reldir%/trace/label.c %reldir%/trace/label.h \
	%reldir%/trace/outfile.c %reldir%/trace/outfile.h \
	%reldir%/trace/points.c %reldir%/trace/points.h \
	%reldir%/trace/record.h \
	%reldir%/trace/ring.h \
	%reldir%/trace/trace.c %reldir%/trace/trace.h \
	%reldir%/trace/tracefile.c %reldir%/trace/tracefile.h

CORE_SOURCES += \
	%reldir%/backend/backend.h \
	%reldir%/backend/backends.c \
	%reldir%/backend/cut.c %reldir%/backend/cut.h \
	%reldir%/backend/relay.c %reldir%/backend/relay.h \
	%reldir%/backend/tcp.c %reldir%/backend/tcp_state.h \
	%reldir%/backend/tcp_in_flight.c \
	%reldir%/backend/tcp_sum.c \
	%reldir%/backend/mail.c %reldir%/backend/mail.h \
	%reldir%/backend/mpi.c \
	%reldir%/backend/mpi_find.c %reldir%/backend/mpi_find.h \
	%reldir%/backend/mpi_module.h \
	%reldir%/backend/nccl_run.c %reldir%/backend/nccl_state.h \
	%reldir%/backend/nccl_end.c %reldir%/backend/nccl_queue.c %reldir%/backend/nccl_thread.c \
	%reldir%/backend/nccl_lib.c %reldir%/backend/nccl_lib.h \
	%reldir%/backend/nccl_move.c \
	%reldir%/backend/node.c %reldir%/backend/node_state.h \
	%reldir%/backend/node_begin.c \
	%reldir%/backend/node_zcopy.c \
	%reldir%/backend/node_move.c \
	%reldir%/backend/node_slots.c \
	%reldir%/backend/node_sum.c \
	%reldir%/backend/node_autotune.c \
	%reldir%/backend/pair.c %reldir%/backend/pair.h \
	%reldir%/backend/pieces.c %reldir%/backend/pieces.h \
	%reldir%/backend/self.c \
	%reldir%/backend/wait.c %reldir%/backend/wait.h \
	%reldir%/backend/self_block.h \
	%reldir%/backend/autotune.c %reldir%/backend/autotune.h

CORE_SOURCES += \
	%reldir%/engine/agree.c %reldir%/engine/agree.h \
	%reldir%/engine/bundle.c %reldir%/engine/bundle.h \
	%reldir%/engine/callback.c %reldir%/engine/callback.h \
	%reldir%/engine/callers.c %reldir%/engine/callers.h \
	%reldir%/engine/deadlock.c %reldir%/engine/deadlock.h \
	%reldir%/engine/bootstrap.c %reldir%/engine/bootstrap.h \
	%reldir%/engine/eager.c %reldir%/engine/eager.h \
	%reldir%/engine/engine.c %reldir%/engine/engine.h \
	%reldir%/engine/engine_state.h \
	%reldir%/engine/execute.c %reldir%/engine/execute.h \
	%reldir%/engine/frame.c %reldir%/engine/frame.h \
	%reldir%/engine/group.c %reldir%/engine/group.h \
	%reldir%/engine/join.c %reldir%/engine/join.h \
	%reldir%/engine/comm.h \
	%reldir%/engine/context.c %reldir%/engine/context.h \
	%reldir%/engine/context_group.c \
	%reldir%/engine/comms.c %reldir%/engine/comms.h \
	%reldir%/engine/ledger.c %reldir%/engine/ledger.h \
	%reldir%/engine/eager_slot.c %reldir%/engine/eager_slot.h \
	%reldir%/engine/plan.c %reldir%/engine/plan.h \
	%reldir%/engine/provider.c %reldir%/engine/provider.h \
	%reldir%/engine/rest.c %reldir%/engine/rest.h \
	%reldir%/engine/proxy.c %reldir%/engine/proxy.h \
	%reldir%/engine/heartbeat.c %reldir%/engine/heartbeat.h \
	%reldir%/engine/request.h \
	%reldir%/engine/stall.c %reldir%/engine/stall.h \
	%reldir%/engine/inline.c %reldir%/engine/inline.h \
	%reldir%/engine/host_queue.c %reldir%/engine/host_queue.h \
	%reldir%/engine/notify.c %reldir%/engine/notify.h \
	%reldir%/engine/observer.c %reldir%/engine/observer.h \
	%reldir%/engine/stage.c %reldir%/engine/stage.h \
	%reldir%/engine/ras_report.c %reldir%/engine/ras_report.h \
	%reldir%/engine/turns.c %reldir%/engine/turns.h \
	%reldir%/engine/op.c %reldir%/engine/op.h \
	%reldir%/engine/op_state.h \
	%reldir%/engine/op_text.c %reldir%/engine/op_text.h \
	%reldir%/engine/over.c %reldir%/engine/over.h \
	%reldir%/engine/p2p.c %reldir%/engine/p2p.h %reldir%/engine/p2p_state.h \
	%reldir%/engine/p2p_far.c \
	%reldir%/engine/p2p_match.c \
	%reldir%/engine/p2p_stream.c \
	%reldir%/engine/p2p_ring.c %reldir%/engine/p2p_ring.h \
	%reldir%/engine/submit.c %reldir%/engine/submit.h \
	%reldir%/engine/coordinator.c %reldir%/engine/coordinator.h \
	%reldir%/engine/coordinator_batch.c \
	%reldir%/engine/coordinator_count.c \
	%reldir%/engine/coordinator_join.c \
	%reldir%/engine/coordinator_news.c \
	%reldir%/engine/coordinator_offer.c \
	%reldir%/engine/coordinator_state.h \
	%reldir%/engine/name_table.c %reldir%/engine/name_table.h \
	%reldir%/engine/timeline.c %reldir%/engine/timeline.h \
	%reldir%/engine/tracepoint.c %reldir%/engine/tracepoint.h \
	%reldir%/engine/tree.c %reldir%/engine/tree.h \
	%reldir%/engine/progress.c %reldir%/engine/progress.h \
	%reldir%/engine/liveness.h \
	%reldir%/engine/op_signature.c %reldir%/engine/op_signature.h \
	%reldir%/engine/watch.c %reldir%/engine/watch.h

CORE_SOURCES += \
	%reldir%/api/api_coll.c \
	%reldir%/api/api_group.c %reldir%/api/api_init.c \
	%reldir%/api/api_launcher.c %reldir%/api/api_launcher.h \
	%reldir%/api/api_p2p.c \
	%reldir%/api/api_status.c \
	%reldir%/api/api_timeline.c \
	%reldir%/api/call.c %reldir%/api/call.h

# What only the command needs.
TOOL_SOURCES =

TOOL_SOURCES += \
	%reldir%/detect/commlibs.c %reldir%/detect/commlibs.h \
	%reldir%/detect/envplugins.c %reldir%/detect/envplugins.h \
	%reldir%/detect/ldcache.c %reldir%/detect/ldcache.h \
	%reldir%/detect/loader.c %reldir%/detect/loader.h \
	%reldir%/detect/compilers.c %reldir%/detect/compilers.h \
	%reldir%/detect/cudalibs.c %reldir%/detect/cudalibs.h \
	%reldir%/detect/dist.c %reldir%/detect/dist.h \
	%reldir%/detect/elffile.c %reldir%/detect/elffile.h \
	%reldir%/detect/elfinfo.c %reldir%/detect/elfinfo.h \
	%reldir%/detect/elflink.c %reldir%/detect/elflink.h \
	%reldir%/detect/engines.c %reldir%/detect/engines.h \
	%reldir%/detect/find.c %reldir%/detect/find.h \
	%reldir%/detect/framework.h \
	%reldir%/detect/frameworks.c \
	%reldir%/detect/jax.c \
	%reldir%/detect/keras.c \
	%reldir%/detect/ldlibs.c %reldir%/detect/ldlibs.h \
	%reldir%/detect/loads.c %reldir%/detect/loads.h \
	%reldir%/detect/lookup.c %reldir%/detect/lookup.h \
	%reldir%/detect/mpilibs.c %reldir%/detect/mpilibs.h \
	%reldir%/detect/mxnet.c \
	%reldir%/detect/nccllibs.c %reldir%/detect/nccllibs.h \
	%reldir%/detect/netfacts.c %reldir%/detect/netfacts.h \
	%reldir%/detect/origins.c %reldir%/detect/origins.h \
	%reldir%/detect/override.c %reldir%/detect/override.h \
	%reldir%/detect/refused.c %reldir%/detect/refused.h \
	%reldir%/detect/requires.c %reldir%/detect/requires.h \
	%reldir%/detect/pythons.c %reldir%/detect/pythons.h \
	%reldir%/detect/rootfs.c %reldir%/detect/rootfs.h \
	%reldir%/detect/tensorflow.c \
	%reldir%/detect/text.c %reldir%/detect/text.h \
	%reldir%/detect/torch.c

# What the commands of `ringup net` judge by; the fuzz targets need it as well.
NET_SOURCES = \
	%reldir%/base/argv.c %reldir%/base/argv.h \
	%reldir%/base/batch.c %reldir%/base/batch.h \
	%reldir%/base/jsonio.c %reldir%/base/jsonio.h \
	%reldir%/base/shell.c %reldir%/base/shell.h \
	%reldir%/base/stats.c %reldir%/base/stats.h \
	%reldir%/base/yaml.c %reldir%/base/yaml.h \
	%reldir%/host/linkwatch.c %reldir%/host/linkwatch.h \
	%reldir%/host/netconf.c %reldir%/host/netconf.h \
	%reldir%/host/pins.c %reldir%/host/pins.h \
	%reldir%/host/netnames.c %reldir%/host/netnames.def %reldir%/host/netnames.h \
	%reldir%/host/snapshot.c %reldir%/host/snapshot.h \
	%reldir%/host/sources.c %reldir%/host/sources.h

NET_SOURCES += \
	%reldir%/nicpick/gloo.c \
	%reldir%/nicpick/hvd.c \
	%reldir%/nicpick/libfabric.c \
	%reldir%/nicpick/lint.c %reldir%/nicpick/lint.h \
	%reldir%/nicpick/envplugin.c %reldir%/nicpick/envplugin.h \
	%reldir%/nicpick/nccl.c \
	%reldir%/nicpick/ompi.c \
	%reldir%/nicpick/pickers.c \
	%reldir%/nicpick/common.c %reldir%/nicpick/common.h \
	%reldir%/nicpick/fix.c %reldir%/nicpick/fix.h \
	%reldir%/nicpick/fixfile.c %reldir%/nicpick/fixfile.h \
	%reldir%/nicpick/outcome.c %reldir%/nicpick/outcome.h \
	%reldir%/nicpick/trap.c %reldir%/nicpick/trap.h \
	%reldir%/nicpick/traps.def \
	%reldir%/nicpick/traps_form.c \
	%reldir%/nicpick/traps_nccl.c \
	%reldir%/nicpick/traps_ompi.c \
	%reldir%/nicpick/traps_others.c \
	%reldir%/nicpick/ucx.c

TOOL_SOURCES += $(NET_SOURCES)

# What nodes share.
TOOL_SOURCES += \
	%reldir%/base/folder.c %reldir%/base/folder.h \
	%reldir%/rebuild/cache.c %reldir%/rebuild/cache.h \
	%reldir%/rebuild/signkey.c %reldir%/rebuild/signkey.h

TOOL_SOURCES += \
	%reldir%/rebuild/drift.c %reldir%/rebuild/drift.h \
	%reldir%/rebuild/modules.c %reldir%/rebuild/modules.h \
	%reldir%/rebuild/package.c %reldir%/rebuild/package.h \
	%reldir%/rebuild/builder_ringup.c \
	%reldir%/rebuild/stamp.c %reldir%/rebuild/stamp.h

# What is to be built for a node, and with what.
TOOL_SOURCES += \
	%reldir%/rebuild/buildplan.c %reldir%/rebuild/buildplan.h \
	%reldir%/rebuild/buildplan_json.c \
	%reldir%/rebuild/jsonrecord.c %reldir%/rebuild/jsonrecord.h \
	%reldir%/rebuild/textpool.c %reldir%/rebuild/textpool.h \
	%reldir%/rebuild/draft.c %reldir%/rebuild/draft.h \
	%reldir%/rebuild/draft_compiler.c %reldir%/rebuild/draft_parts.c \
	%reldir%/rebuild/draft_targets.c \
	%reldir%/rebuild/choose.c %reldir%/rebuild/choose.h \
	%reldir%/rebuild/packages.c %reldir%/rebuild/packages.h \
	%reldir%/rebuild/probe.c %reldir%/rebuild/probe.h \
	%reldir%/rebuild/versions.c %reldir%/rebuild/versions.h

TOOL_SOURCES += \
	%reldir%/diagnose/bare.c %reldir%/diagnose/bare.h \
	%reldir%/diagnose/compare.c %reldir%/diagnose/compare.h \
	%reldir%/diagnose/complaint.c %reldir%/diagnose/complaint.h \
	%reldir%/diagnose/conclude.c %reldir%/diagnose/conclude.h \
	%reldir%/diagnose/evidence.c %reldir%/diagnose/evidence.h \
	%reldir%/diagnose/fields.c %reldir%/diagnose/fields.h \
	%reldir%/diagnose/lead.c %reldir%/diagnose/lead.h \
	%reldir%/diagnose/match.c %reldir%/diagnose/match.h \
	%reldir%/diagnose/missing.c %reldir%/diagnose/missing.h \
	%reldir%/diagnose/nodes.c %reldir%/diagnose/nodes.h \
	%reldir%/diagnose/origin.c %reldir%/diagnose/origin.h \
	%reldir%/diagnose/jobend.c %reldir%/diagnose/jobend.h \
	%reldir%/diagnose/jobstate.c %reldir%/diagnose/jobstate.h \
	%reldir%/diagnose/procs.c %reldir%/diagnose/procs.h \
	%reldir%/diagnose/routine.c %reldir%/diagnose/routine.h \
	%reldir%/diagnose/stepline.c %reldir%/diagnose/stepline.h \
	%reldir%/diagnose/links.c %reldir%/diagnose/links.h \
	%reldir%/diagnose/suite.c %reldir%/diagnose/suite.h \
	%reldir%/diagnose/read.c %reldir%/diagnose/read.h \
	%reldir%/diagnose/rulefile.c %reldir%/diagnose/rulefile.h \
	%reldir%/diagnose/sift.c %reldir%/diagnose/sift.h \
	%reldir%/diagnose/signature.c %reldir%/diagnose/signature.h \
	%reldir%/diagnose/signatures.def \
	%reldir%/diagnose/unknown.c %reldir%/diagnose/unknown.h \
	%reldir%/diagnose/wrap.c %reldir%/diagnose/wrap.h

TOOL_SOURCES += \
	%reldir%/hang/remote.c %reldir%/hang/remote.h \
	%reldir%/hang/collect.c %reldir%/hang/collect.h \
	%reldir%/hang/flights.c %reldir%/hang/flights.h \
	%reldir%/hang/gather.c %reldir%/hang/gather.h \
	%reldir%/hang/jobs.c %reldir%/hang/jobs.h \
	%reldir%/hang/meter.c %reldir%/hang/meter.h \
	%reldir%/hang/nccllog.c %reldir%/hang/nccllog.h \
	%reldir%/hang/pickle.c %reldir%/hang/pickle.h \
	%reldir%/hang/ras.c %reldir%/hang/ras.h \
	%reldir%/hang/look.c %reldir%/hang/look.h \
	%reldir%/hang/ruling.c %reldir%/hang/ruling.h \
	%reldir%/hang/rows.c %reldir%/hang/rows.h \
	%reldir%/hang/say.c %reldir%/hang/say.h \
	%reldir%/hang/stacks.c %reldir%/hang/stacks.h \
	%reldir%/hang/twice.c %reldir%/hang/twice.h

TOOL_SOURCES += \
	%reldir%/launch/cluster.c %reldir%/launch/cluster.h \
	%reldir%/launch/crew.c %reldir%/launch/crew.h \
	%reldir%/launch/elastic.c %reldir%/launch/elastic.h \
	%reldir%/launch/culprit.c %reldir%/launch/culprit.h \
	%reldir%/launch/ending.c %reldir%/launch/ending.h \
	%reldir%/launch/failure.c %reldir%/launch/failure.h \
	%reldir%/launch/finder.c %reldir%/launch/finder.h \
	%reldir%/launch/fleet.c %reldir%/launch/fleet.h \
	%reldir%/launch/hostlist.c %reldir%/launch/hostlist.h \
	%reldir%/launch/order.c %reldir%/launch/order.h \
	%reldir%/launch/output.c %reldir%/launch/output.h \
	%reldir%/launch/parent.c %reldir%/launch/parent.h \
	%reldir%/launch/rankd.c %reldir%/launch/rankd.h \
	%reldir%/launch/rankenv.c %reldir%/launch/rankenv.h \
	%reldir%/launch/starter.c %reldir%/launch/starter.h \
	%reldir%/launch/stray.c %reldir%/launch/stray.h

TOOL_SOURCES += \
	%reldir%/probe/agent.c %reldir%/probe/agent.h \
	%reldir%/probe/blame.c %reldir%/probe/blame.h \
	%reldir%/probe/manual.c %reldir%/probe/manual.h \
	%reldir%/probe/check.c %reldir%/probe/check.h \
	%reldir%/probe/agents.c %reldir%/probe/agents.h \
	%reldir%/probe/echo.c %reldir%/probe/echo.h \
	%reldir%/probe/facts.c %reldir%/probe/facts.h \
	%reldir%/probe/judge.c %reldir%/probe/judge.h \
	%reldir%/probe/judge_names.c \
	%reldir%/probe/judge_nics.c \
	%reldir%/probe/judge_pace.c \
	%reldir%/probe/judge_reach.c \
	%reldir%/probe/judge_sizes.c \
	%reldir%/probe/judge_duplicates.c \
	%reldir%/probe/judge_ways.c \
	%reldir%/probe/pairs.c %reldir%/probe/pairs.h \
	%reldir%/probe/mtu.c %reldir%/probe/mtu.h \
	%reldir%/probe/names.c %reldir%/probe/names.h \
	%reldir%/probe/neigh.c %reldir%/probe/neigh.h \
	%reldir%/probe/reach.c %reldir%/probe/reach.h \
	%reldir%/probe/roster.c %reldir%/probe/roster.h \
	%reldir%/probe/rounds.c %reldir%/probe/rounds.h \
	%reldir%/probe/rules.c %reldir%/probe/rules.h \
	%reldir%/probe/seal.c %reldir%/probe/seal.h \
	%reldir%/probe/sparkui.c %reldir%/probe/sparkui.h \
	%reldir%/probe/speed.c %reldir%/probe/speed.h \
	%reldir%/probe/talk.c %reldir%/probe/talk.h \
	%reldir%/probe/verdict.c %reldir%/probe/verdict.h \
	%reldir%/probe/way.c %reldir%/probe/way.h

TOOL_SOURCES += \
	%reldir%/settle/change.c %reldir%/settle/change.h \
	%reldir%/settle/diff.c %reldir%/settle/diff.h \
	%reldir%/settle/pinlib.c %reldir%/settle/pinlib.h \
	%reldir%/settle/settle.c %reldir%/settle/settle.h \
	%reldir%/settle/writer.c %reldir%/settle/writer.h

TOOL_SOURCES += \
	%reldir%/report/netpage.c %reldir%/report/netpage.h

# The page of a network check, which draws itself from the data that are put into it.
reportdir = $(pkgdatadir)/report
dist_report_DATA = %reldir%/report/template/page.html

TOOL_SOURCES += \
	%reldir%/bench/gradset.c %reldir%/bench/gradset.h \
	%reldir%/bench/groups.c %reldir%/bench/groups.h \
	%reldir%/bench/measure.c %reldir%/bench/measure.h \
	%reldir%/bench/pattern.c %reldir%/bench/pattern.h \
	%reldir%/bench/task.c %reldir%/bench/task.h \
	%reldir%/bench/timing.c %reldir%/bench/timing.h

# Building other people's engines, and ours again.
TOOL_SOURCES += \
	%reldir%/base/data.c %reldir%/base/data.h \
	%reldir%/rebuild/builder_horovod.c \
	%reldir%/rebuild/job.c %reldir%/rebuild/job.h \
	%reldir%/rebuild/fetch.c %reldir%/rebuild/fetch.h \
	%reldir%/rebuild/journal.c %reldir%/rebuild/journal.h \
	%reldir%/rebuild/prove.c %reldir%/rebuild/prove.h \
	%reldir%/rebuild/reason.c %reldir%/rebuild/reason.h \
	%reldir%/rebuild/rebuild.c %reldir%/rebuild/rebuild.h \
	%reldir%/rebuild/upstream.c %reldir%/rebuild/upstream.h \
	%reldir%/rebuild/upstream_check.c %reldir%/rebuild/upstream_put.c \
	%reldir%/rebuild/upstream_wheel.c \
	%reldir%/rebuild/recipe.c %reldir%/rebuild/recipe.h

modulesdir = $(pkgdatadir)/modules/backend
dist_modules_DATA = \
	%reldir%/backend/mpi_module.c \
	%reldir%/backend/mpi_module.h

recipedir = $(pkgdatadir)/recipes
dist_recipe_DATA = \
	%reldir%/rebuild/recipes/apply.py \
	%reldir%/rebuild/recipes/horovod-0.28.1.json \
	%reldir%/rebuild/recipes/horovod_FindPytorch.cmake \
	%reldir%/rebuild/recipes/horovod_keras3.py
proofdir = $(pkgdatadir)/proofs
dist_proof_DATA = \
	%reldir%/rebuild/proofs/prove.py \
	%reldir%/rebuild/proofs/prove_jax.py \
	%reldir%/rebuild/proofs/prove_keras.py \
	%reldir%/rebuild/proofs/prove_tensorflow.py \
	%reldir%/rebuild/proofs/prove_torch.py

TOOL_SOURCES += \
	%reldir%/doctor/ability.c %reldir%/doctor/ability.h \
	%reldir%/doctor/brief.c %reldir%/doctor/brief.h \
	%reldir%/doctor/dangling.c %reldir%/doctor/dangling.h \
	%reldir%/doctor/doctor.c %reldir%/doctor/doctor.h \
	%reldir%/doctor/exam.c %reldir%/doctor/exam.h \
	%reldir%/doctor/exam_gpus.c %reldir%/doctor/exam_machine.c \
	%reldir%/doctor/exam_software.c \
	%reldir%/doctor/hardware.c %reldir%/doctor/hardware.h \
	%reldir%/doctor/imports.c %reldir%/doctor/imports.h \
	%reldir%/doctor/extensions.c \
	%reldir%/doctor/java.c %reldir%/doctor/kmod.c %reldir%/doctor/kmod.h \
	%reldir%/doctor/launcher.c \
	%reldir%/doctor/misfits.c %reldir%/doctor/misfits.h \
	%reldir%/doctor/places.c %reldir%/doctor/proxies.c \
	%reldir%/doctor/trial.c %reldir%/doctor/trial.h

DISTCLEANFILES = share/ringup/compat share/ringup/proofs share/ringup/recipes share/ringup/report

TOOL_SOURCES += \
	%reldir%/cli/cmd.c %reldir%/cli/cmd.h \
	%reldir%/cli/cmd_bench.c \
	%reldir%/cli/cmd_cache.c \
	%reldir%/cli/cmd_detect.c \
	%reldir%/cli/cmd_diagnose.c \
	%reldir%/cli/cmd_hang.c \
	%reldir%/cli/cmd_doctor.c \
	%reldir%/cli/cmd_env.c \
	%reldir%/cli/cmd_hello.c \
	%reldir%/cli/cmd_help.c \
	%reldir%/cli/cmd_net.c \
	%reldir%/cli/cmd_net_agent.c \
	%reldir%/cli/cmd_net_check.c \
	%reldir%/cli/cmd_net_explain.c \
	%reldir%/cli/cmd_net_lint.c \
	%reldir%/cli/cmd_net_fix.c \
	%reldir%/cli/cmd_net_snapshot.c \
	%reldir%/cli/cmd_net_watch.c \
	%reldir%/cli/cmd_plan.c \
	%reldir%/cli/cmd_rankd.c \
	%reldir%/cli/cmd_rebuild.c \
	%reldir%/cli/cmd_run.c \
	%reldir%/cli/cmd_timeline.c \
	%reldir%/cli/cmd_top.c \
	%reldir%/cli/cmd_timeline_merge.c \
	%reldir%/cli/cmds.c \
	%reldir%/cli/horovodrun.c %reldir%/cli/horovodrun.h \
	%reldir%/cli/hvdbuild.c %reldir%/cli/hvdbuild.h \
	%reldir%/cli/hvdopts.c %reldir%/cli/hvdopts.def %reldir%/cli/hvdopts.h \
	%reldir%/cli/matrix.c %reldir%/cli/matrix.h \
	%reldir%/cli/opt.c %reldir%/cli/opt.h \
	%reldir%/cli/out.c %reldir%/cli/out.h \
	%reldir%/cli/scoreboard.c %reldir%/cli/scoreboard.h \
	%reldir%/cli/settled.c %reldir%/cli/settled.h \
	%reldir%/cli/targets.c %reldir%/cli/targets.h

# Everything, compiled once, as it can stand in a shared library.  That library, the command and the
# unit tests link these archives, so tests see hidden symbols and no process has two copies.
noinst_LIBRARIES += %reldir%/libcore.a %reldir%/libcommand.a
%canon_reldir%_libcore_a_SOURCES    = $(CORE_SOURCES)
%canon_reldir%_libcommand_a_SOURCES = $(TOOL_SOURCES)
CORE_LIBS    = %reldir%/libcore.a $(SODIUM_LIBS) $(MNL_LIBS) -lm
COMMAND_LIBS = %reldir%/libcommand.a $(JANSSON_LIBS)

lib_LTLIBRARIES += libringup.la
libringup_la_SOURCES =
# Libraries come behind the archive that needs them: libtool keeps the order of flags for the linker only.
libringup_la_LDFLAGS = $(AM_LDFLAGS) -version-info 0:0:0 -no-undefined -shared \
	-Wl,--whole-archive,%reldir%/libcore.a,--no-whole-archive \
	$(foreach lib,$(SODIUM_LIBS) $(MNL_LIBS) -lm,-Wl,$(lib)) \
	-Wl,--version-script=$(srcdir)/%reldir%/libringup.map
EXTRA_libringup_la_DEPENDENCIES = %reldir%/libcore.a %reldir%/libringup.map
# Operations for frameworks, installed beside libringup.so and found there by Python.  They are
# built without the headers of the framework, and take it from the process that loads them.  libringup.so
# is in that process already, so they name it and have no path to it; told of it, libtool would add one,
# and link again when they are installed.
noinst_LIBRARIES += %reldir%/libframeworks.a
%canon_reldir%_libframeworks_a_SOURCES = \
	%reldir%/frameworks/bridge.c %reldir%/frameworks/bridge.h \
	%reldir%/frameworks/collective.c %reldir%/frameworks/collective.h \
	%reldir%/frameworks/handles.c %reldir%/frameworks/handles.h \
	%reldir%/frameworks/later.c %reldir%/frameworks/later.h \
	%reldir%/frameworks/tensorflow_api.c %reldir%/frameworks/tensorflow_api.h \
	%reldir%/frameworks/xla_api.c %reldir%/frameworks/xla_api.h \
	%reldir%/frameworks/xla_site.c %reldir%/frameworks/xla_site.h
FRAMEWORK_LIBS    = %reldir%/libframeworks.a
FRAMEWORK_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared \
	-Wl,--whole-archive,%reldir%/libframeworks.a,--no-whole-archive -Wl,.libs/libringup.so
FRAMEWORK_NEEDS   = %reldir%/libframeworks.a libringup.la
lib_LTLIBRARIES += libringup_tf.la
libringup_tf_la_SOURCES = %reldir%/frameworks/tensorflow_ops.c
libringup_tf_la_LDFLAGS = $(FRAMEWORK_LDFLAGS)
EXTRA_libringup_tf_la_DEPENDENCIES = $(FRAMEWORK_NEEDS)
lib_LTLIBRARIES += libringup_jax.la
libringup_jax_la_SOURCES = %reldir%/frameworks/jax_ops.c
libringup_jax_la_LDFLAGS = $(FRAMEWORK_LDFLAGS)
EXTRA_libringup_jax_la_DEPENDENCIES = $(FRAMEWORK_NEEDS)

# NCCL's env plug-in, which NCCL loads by its name; it needs one object of the archive.
lib_LTLIBRARIES += libnccl-env-ringup.la
libnccl_env_ringup_la_SOURCES = %reldir%/nicpick/ncclenv.c %reldir%/host/pins.c
libnccl_env_ringup_la_CPPFLAGS = $(AM_CPPFLAGS)
libnccl_env_ringup_la_LDFLAGS = $(filter-out $(BESIDE),$(AM_LDFLAGS)) -module -avoid-version -shared \
	-Wl,%reldir%/libcore.a -Wl,--version-script=$(srcdir)/%reldir%/ncclenv.map
EXTRA_libnccl_env_ringup_la_DEPENDENCIES = %reldir%/libcore.a %reldir%/ncclenv.map

# --enable-static: the same objects, as an archive.
if STATIC
lib_LIBRARIES += libringup.a
libringup_a_SOURCES = $(CORE_SOURCES)
endif

# The back end mpi, once for each MPI of the node; libringup.so loads the one it needs.
if HAVE_OPENMPI
pkglib_LTLIBRARIES += ringup-mpi-openmpi.la
endif
if HAVE_MPICH
pkglib_LTLIBRARIES += ringup-mpi-mpich.la
endif
MPI_MODULE = %reldir%/backend/mpi_module.c %reldir%/backend/mpi_module.h
MPI_MODULE_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared
ringup_mpi_openmpi_la_SOURCES  = $(MPI_MODULE)
ringup_mpi_openmpi_la_CPPFLAGS = $(AM_CPPFLAGS) $(OPENMPI_CFLAGS)
ringup_mpi_openmpi_la_LIBADD   = $(OPENMPI_LIBS)
ringup_mpi_openmpi_la_LDFLAGS  = $(MPI_MODULE_LDFLAGS)
ringup_mpi_mpich_la_SOURCES    = $(MPI_MODULE)
ringup_mpi_mpich_la_CPPFLAGS   = $(AM_CPPFLAGS) $(MPICH_CFLAGS)
ringup_mpi_mpich_la_LIBADD     = $(MPICH_LIBS)
ringup_mpi_mpich_la_LDFLAGS    = $(MPI_MODULE_LDFLAGS)

# What tells the sources of this library from others of the same version.
BUILT_SOURCES += build_id.h
CLEANFILES += build_id.h
build_id.h: $(CORE_SOURCES)
	$(AM_V_GEN)sum=`cd $(srcdir) && cat $(CORE_SOURCES) | sha256sum | cut -c 1-8` && \
	 echo "#define RINGUP_BUILD_ID \"$$sum\"" >$@.part && mv $@.part $@
%reldir%/base/build.$(OBJEXT): build_id.h

bin_PROGRAMS += ringup
ringup_SOURCES = %reldir%/cli/main.c
ringup_LDADD = $(COMMAND_LIBS) $(CORE_LIBS)
# Horovod's launcher is the same program by another name.
all-local: horovodrun
horovodrun: ringup$(EXEEXT) ; @rm -f $@ && $(LN_S) ringup$(EXEEXT) $@
install-exec-hook: ; cd '$(DESTDIR)$(bindir)' && rm -f horovodrun && $(LN_S) ringup$(EXEEXT) horovodrun
uninstall-hook: ; rm -f '$(DESTDIR)$(bindir)/horovodrun'
CLEANFILES += horovodrun

EXTRA_DIST += %reldir%/layers %reldir%/libringup.map %reldir%/ncclenv.map
