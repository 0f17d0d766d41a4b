# call.py - a rank: calls the user's function; python -m ringup.spark.call DESCRIPTOR.
# SPDX-License-Identifier: Apache-2.0
"""The job's key and the function are read from the descriptor, which the ranks of a host share."""

import json
import os
import sys
import traceback

from . import channel, failure, pickling, rank


def _read(fd):
    """All bytes behind a descriptor whose position belongs to several processes."""
    data, size = bytearray(os.fstat(fd).st_size), 0
    while size < len(data):
        part = os.pread(fd, len(data) - size, size)
        if not part:
            break
        data[size:size + len(part)] = part
        size += len(part)
    return bytes(data)


def _error(e, trace, module, remark=""):
    """An exception as a frame's body."""
    types = [t.__name__ for t in type(e).__mro__]
    pickled = b""
    if module:
        try:
            pickled = module.dumps(e)
        except Exception:  # then its text has to do
            pass
    text = "".join(traceback.format_exception(type(e), e, trace))
    header = json.dumps({"type": f"{type(e).__module__}.{type(e).__qualname__}",
                         "message": remark or str(e), "traceback": text,
                         "consequence": failure.is_consequence(types, str(e))}).encode()
    return len(header).to_bytes(4, "little") + header + pickled


def _missing(e):
    """What to do about a module that this host does not have."""
    return (f"{sys.executable} on {os.uname().nodename} has no module {e.name}, which the function "
            f"refers to: install it there, or send it with sc.addPyFile(), or import it inside the "
            "function and not at all where it is not needed")


def main(descriptor):
    """Call the function and report its result, or its exception."""
    payload = _read(descriptor)
    os.close(descriptor)
    rank.reporter = reporter = rank.Reporter(int(os.environ.pop("RINGUP_REPORT_FD")),
                                             payload[:channel.KEY_BYTES])
    payload = payload[channel.KEY_BYTES:]
    module = None
    try:
        fn, args, kwargs, module = pickling.loads_call(payload)
        del payload
    except ModuleNotFoundError as e:
        reporter.report(rank.ERROR, _error(e, e.__traceback__, module, _missing(e)))
        raise
    except BaseException as e:
        reporter.report(rank.ERROR, _error(e, e.__traceback__, module))
        raise
    try:
        result = fn(*args, **kwargs)
        try:
            body = module.dumps(result)
        except Exception as e:
            raise TypeError(f"what the function returned, {type(result).__qualname__}, cannot be "
                            f"sent to the driver: {e}") from e
    except BaseException as e:
        if not isinstance(e, SystemExit) or e.code:
            # Without this function's own frame.
            trace = e.__traceback__.tb_next or e.__traceback__
            reporter.report(rank.ERROR, _error(e, trace, module))
        raise
    reporter.report(rank.RESULT, body)


if __name__ == "__main__":
    main(int(sys.argv[1]))
