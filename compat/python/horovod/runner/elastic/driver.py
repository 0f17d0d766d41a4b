# driver.py - names of upstream's driver that programs set.
# SPDX-License-Identifier: Apache-2.0
"""`ringup run` is the driver of an elastic job: it has no use for these."""

DISCOVER_HOSTS_FREQUENCY_SECS = 1.0
ELASTIC_TIMEOUT_SECS = 600
