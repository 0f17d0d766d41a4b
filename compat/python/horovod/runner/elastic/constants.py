# constants.py - a message that programs look for.
# SPDX-License-Identifier: Apache-2.0

RESET_LIMIT_EXCEEDED_MESSAGE = ("Horovod was shutdown because number of resets during elastic job "
                                "exceeded limit: {}")
