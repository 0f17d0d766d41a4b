# driver.py - names of upstream's driver that programs set.
# SPDX-License-Identifier: Apache-2.0
"""`ringup run` is the driver of an elastic job.  It uses the first of these values, but not the
second."""

DISCOVER_HOSTS_FREQUENCY_SECS = 1.0  # from one run of the discovery script to the next
ELASTIC_TIMEOUT_SECS = 600
