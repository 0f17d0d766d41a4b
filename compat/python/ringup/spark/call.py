# call.py - a rank: calls the user's function; python -m ringup.spark.call DESCRIPTOR.
# SPDX-License-Identifier: Apache-2.0
"""Runs the function of a rank.  It reads the function from a descriptor that the ranks of a host
share."""

import json
import os
import sys
import traceback

from . import failure, pickling, rank, unpack, values


def _read(fd):
    """Return all bytes behind a descriptor whose position several processes share."""
    data, size = bytearray(os.fstat(fd).st_size), 0
    while size < len(data):
        part = os.pread(fd, len(data) - size, size)
        if not part:
            break
        data[size:size + len(part)] = part
        size += len(part)
    return bytes(data)


def _error(e, trace, module, places):
    """Return an exception as the body of a frame."""
    types = [t.__name__ for t in type(e).__mro__]
    pickled = b""
    if module:
        try:
            pickled = module.dumps(e)
        except Exception:  # then its text has to do
            pass
    text = "".join(traceback.format_exception(type(e), e, trace))
    filename = getattr(e, "filename", None) if isinstance(e, FileNotFoundError) else None
    header = json.dumps({"type": f"{type(e).__module__}.{type(e).__qualname__}",
                         "message": str(e), "traceback": places.text_for_driver(text),
                         "consequence": failure.is_consequence(types, str(e)),
                         "module": e.name if isinstance(e, ModuleNotFoundError) else None,
                         "file": places.on_driver(os.fspath(filename))
                         if isinstance(filename, (str, os.PathLike)) else None,
                         "python": sys.executable}).encode()
    return len(header).to_bytes(4, "little") + header + pickled


def _tell(reporter, e, trace, module, places):
    """Report an exception and exit.  The driver shows its traceback, so this process does not."""
    reporter.report(rank.ERROR, _error(e, trace, module, places))
    job = sys.modules.get("ringup.job")
    if job:  # as its sys.excepthook would, were the exception to end this process
        job.abort_all(e)
    text = str(e).split("\n")[0]
    print(f"rank {os.environ.get('HOROVOD_RANK', '?')} raised {type(e).__qualname__}"
          f"{': ' * bool(text)}{text[:300]}  (the error on the driver has the traceback)",
          file=sys.stderr, flush=True)
    sys.exit(1)


def _compare(reporter, driver):
    """Report variables that affect what frameworks compute and that differ on the driver."""
    other = [f"{name} is {value!r} on the driver and {os.environ.get(name)!r} in the ranks"
             for name, value in driver.items() if (os.environ.get(name) or None) != (value or None)]
    if other and os.environ.get("HOROVOD_RANK") == "0":
        names = ", ".join(f"{n!r}: os.environ[{n!r}]" for n, v in driver.items()
                          if v and (os.environ.get(n) or None) != v)
        reporter.log("ringup: " + "; ".join(other) +
                     (f".  env={{{names}}} gives the ranks the driver's" if names else ""))


def _result(module, result):
    try:
        return module.dumps(result)
    except Exception as e:
        raise TypeError(f"the function's result, {type(result).__qualname__}, cannot be sent to "
                        f"the driver: {e}") from e


def main(descriptor):
    """Call the function and report its result, or its exception."""
    payload = _read(descriptor)
    os.close(descriptor)
    rank.reporter = reporter = rank.Reporter(int(os.environ.pop("RINGUP_REPORT_FD")))
    module, places = None, unpack.of_rank()
    try:
        header, module = pickling.loads_header(payload)
        unpack.order_path(places)
        values.install(header.get("values"))
        fn, args, kwargs = pickling.loads_call(payload)
        del payload
    except BaseException as e:
        _tell(reporter, e, e.__traceback__, module, places)
    _compare(reporter, header.get("environment") or {})
    try:
        result = fn(*args, **kwargs)
        # Only rank 0's is wanted by some: the others' may be as large, or no bytes at all.
        wanted = not header.get("first_only") or os.environ.get("HOROVOD_RANK") == "0"
        body = _result(module, result) if wanted else b""
    except SystemExit as e:
        if e.code:
            reporter.report(rank.ERROR, _error(e, e.__traceback__.tb_next or e.__traceback__,
                                               module, places))
        raise
    except BaseException as e:
        # Without this function's own frame.
        _tell(reporter, e, e.__traceback__.tb_next or e.__traceback__, module, places)
    reporter.report(rank.RESULT, body)


if __name__ == "__main__":
    main(int(sys.argv[1]))
