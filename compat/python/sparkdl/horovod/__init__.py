# __init__.py - sparkdl.horovod: messages from the ranks to the driver.
# SPDX-License-Identifier: Apache-2.0

__all__ = ["log_to_driver"]


def log_to_driver(message):
    """Send a message, a string, from a rank to the driver, which prints it.

    Messages are cut after 4,000 characters.  This function never blocks: if the driver reads too
    slowly, messages are dropped, and their number is reported."""
    from ringup.spark import rank

    rank.log_to_driver(message)
