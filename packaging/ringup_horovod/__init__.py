# __init__.py - the folder of the wheel ringup-horovod that contains the packages horovod and sparkdl.
# SPDX-License-Identifier: Apache-2.0
"""ringup_horovod.pth appends this folder to sys.path, after site-packages."""
