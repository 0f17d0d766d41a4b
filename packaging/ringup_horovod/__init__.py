# __init__.py - the folder in the wheel ringup-horovod with the packages horovod and sparkdl.
# SPDX-License-Identifier: Apache-2.0
"""ringup_horovod.pth appends this folder to sys.path, after site-packages."""
