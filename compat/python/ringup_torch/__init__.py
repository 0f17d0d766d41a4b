# __init__.py - the torch.distributed backend "ringup": register() makes its name known to torch.
# SPDX-License-Identifier: Apache-2.0
"""torch calls register() through the entry points of the distribution, so a program only needs

    torch.distributed.init_process_group("ringup")

`import torch` runs this file in every process of an environment that has the package.  The file
therefore imports nothing of ringup, opens no file and never raises; the library is loaded when the
first process group is created.  If torch does not look for entry points (before 2.5, or with
TORCH_DEVICE_BACKEND_AUTOLOAD=0), a program calls ringup_torch.register() itself."""

NAME = "ringup"


def register():
    """Register the backend with torch.distributed.  A second call has no effect.

    This function never raises, because torch would turn the exception into an error of `import
    torch`. If torch has no distributed package, or refuses the name, init_process_group("ringup")
    reports it."""
    try:
        from torch.distributed import Backend

        if NAME.upper() not in Backend._plugins:
            _register(Backend.register_backend)
    except Exception:
        import logging

        logging.getLogger(__name__).debug("the back end is not registered", exc_info=True)


def _register(register_backend):
    """Call torch's registration function, which takes no devices before torch 2.0."""
    try:
        register_backend(NAME, _create, extended_api=True, devices=["cpu"])
    except TypeError:
        register_backend(NAME, _create, extended_api=True)


def _create(options, _backend_options):
    """Return the process group that torch requests.  Blocks until all its ranks request it."""
    import sys

    from .dynamo import hide
    from .meeting import forget_try
    from .mixed import Asked, MixedProcessGroup
    from .process_group import ProcessGroup

    hide()
    asked = Asked(sys._getframe(1))
    ours = (options.store, options.group_rank, options.group_size, options.timeout,
            options.global_ranks_in_group, getattr(options, "group_id", None))
    try:
        return MixedProcessGroup(asked, *ours) if asked.is_mixed else ProcessGroup(*ours)
    except BaseException:
        forget_try()
        raise
