# compat/local.mk - Python packages; installed as sources, for compat/install to make a wheel of.
compatdir = $(pkgdatadir)
nobase_dist_compat_SCRIPTS = \
	%reldir%/install \
	%reldir%/python/build_ringup.py
nobase_dist_compat_DATA = \
	%reldir%/versions.tsv \
	%reldir%/python/layers \
	%reldir%/python/pyproject.toml \
	%reldir%/python/ringup/__init__.py \
	%reldir%/python/ringup/__main__.py \
	%reldir%/python/ringup/_c.py \
	%reldir%/python/ringup/_version.py \
	%reldir%/python/ringup/collectives.py \
	%reldir%/python/ringup/constants.py \
	%reldir%/python/ringup/dlpack.py \
	%reldir%/python/ringup/drift.py \
	%reldir%/python/ringup/elastic.py \
	%reldir%/python/ringup/errors.py \
	%reldir%/python/ringup/foreign.py \
	%reldir%/python/ringup/job.py \
	%reldir%/python/ringup/memory.py \
	%reldir%/python/ringup/objects.py \
	%reldir%/python/ringup/operation.py \
	%reldir%/python/ringup/timeline.py \
	%reldir%/python/ringup/torchrun.py \
	%reldir%/python/horovod/__init__.py \
	%reldir%/python/horovod/common/__init__.py \
	%reldir%/python/horovod/common/adapter.py \
	%reldir%/python/horovod/common/basics.py \
	%reldir%/python/horovod/common/collectives.py \
	%reldir%/python/horovod/common/compression.py \
	%reldir%/python/horovod/common/elastic.py \
	%reldir%/python/horovod/common/exceptions.py \
	%reldir%/python/horovod/common/objects.py \
	%reldir%/python/horovod/common/process_sets.py \
	%reldir%/python/horovod/common/semantics.py \
	%reldir%/python/horovod/torch/__init__.py \
	%reldir%/python/horovod/torch/adapter.py \
	%reldir%/python/horovod/torch/compression.py \
	%reldir%/python/horovod/torch/delta.py \
	%reldir%/python/horovod/torch/elastic/__init__.py \
	%reldir%/python/horovod/torch/elastic/sampler.py \
	%reldir%/python/horovod/torch/elastic/state.py \
	%reldir%/python/horovod/torch/functions.py \
	%reldir%/python/horovod/torch/grad_scaler.py \
	%reldir%/python/horovod/torch/gradients.py \
	%reldir%/python/horovod/torch/mpi_ops.py \
	%reldir%/python/horovod/torch/optimizer.py \
	%reldir%/python/horovod/torch/parameter_names.py \
	%reldir%/python/horovod/torch/sync_batch_norm.py \
	%reldir%/python/horovod/torch/weights.py \
	%reldir%/python/horovod/torch/wrapping.py
