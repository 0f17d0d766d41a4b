# __init__.py - a folder of Horovod's launcher: more helpers.
# SPDX-License-Identifier: Apache-2.0
