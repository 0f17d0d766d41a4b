# __init__.py - code shared by all frameworks.
# SPDX-License-Identifier: Apache-2.0
