# __init__.py - a folder of Horovod's launcher: elastic jobs.
# SPDX-License-Identifier: Apache-2.0
