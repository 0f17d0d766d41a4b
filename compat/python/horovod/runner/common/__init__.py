# __init__.py - a folder of Horovod's launcher: code that launcher and ranks share.
# SPDX-License-Identifier: Apache-2.0
