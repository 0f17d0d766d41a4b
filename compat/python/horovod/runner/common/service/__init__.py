# __init__.py - a folder of Horovod's launcher: services with signed messages.
# SPDX-License-Identifier: Apache-2.0
