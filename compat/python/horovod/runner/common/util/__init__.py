# __init__.py - a folder of Horovod's launcher: helpers.
# SPDX-License-Identifier: Apache-2.0
