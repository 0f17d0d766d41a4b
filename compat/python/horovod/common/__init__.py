# __init__.py - what all frameworks share.
# SPDX-License-Identifier: Apache-2.0
