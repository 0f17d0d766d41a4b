# packaging/local.mk - what puts an installation into packages.
EXTRA_DIST += pyproject.toml %reldir%/description.md %reldir%/wheels.py \
	%reldir%/ringup_horovod/__init__.py %reldir%/ringup_horovod/__main__.py \
	%reldir%/recipes/Dockerfile %reldir%/recipes/ansible.yaml %reldir%/recipes/cloud-init.yaml \
	%reldir%/recipes/conda.yaml %reldir%/recipes/mpijob.yaml %reldir%/recipes/pytorchjob.yaml
# The packages of Debian: dpkg-buildpackage -b in the sources.
EXTRA_DIST += debian/changelog debian/control debian/copyright debian/rules debian/source/format \
	debian/libringup0.install debian/libringup-dev.install debian/python3-ringup.install debian/ringup.install \
	debian/ringup-mpi-mpich.install debian/ringup-mpi-openmpi.install

# make wheel: the wheels ringup and ringup-horovod, in dist/; see packaging/wheels.py
wheel: ; $(PYTHON3) $(srcdir)/%reldir%/wheels.py --build '$(srcdir)' dist
.PHONY: wheel
