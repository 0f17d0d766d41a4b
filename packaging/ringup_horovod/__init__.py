# __init__.py - the folder in which the wheel ringup-horovod has the packages horovod and sparkdl.
# SPDX-License-Identifier: Apache-2.0
"""Not on sys.path itself: ringup_horovod.pth puts it there, behind site-packages."""
