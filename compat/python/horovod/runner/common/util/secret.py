# secret.py - the key of services, and signatures made with it.
# SPDX-License-Identifier: Apache-2.0

import hashlib
import hmac
import os

SECRET_LENGTH = 32
DIGEST_LENGTH = 32
HOROVOD_SECRET_KEY = "_HOROVOD_SECRET_KEY"


def make_secret_key():
    """Return a new key."""
    return os.urandom(SECRET_LENGTH)


def compute_digest(key, message):
    """Return the signature of a message."""
    return hmac.new(key, message, hashlib.sha256).digest()


def check_digest(key, message, digest):
    """Return whether this is the signature of the message."""
    return hmac.compare_digest(compute_digest(key, message), digest)
