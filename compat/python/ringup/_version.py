# _version.py - the release this package belongs to; equal to configure.ac's.
# SPDX-License-Identifier: Apache-2.0
__version__ = "0.2.0"
