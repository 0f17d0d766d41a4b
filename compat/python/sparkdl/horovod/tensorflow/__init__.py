# __init__.py - sparkdl.horovod.tensorflow: its keras has the callback.
# SPDX-License-Identifier: Apache-2.0
