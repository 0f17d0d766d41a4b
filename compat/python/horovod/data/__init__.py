# __init__.py - loaders of data.
# SPDX-License-Identifier: Apache-2.0

from horovod.data.data_loader_base import AsyncDataLoaderMixin, BaseDataLoader

__all__ = ["AsyncDataLoaderMixin", "BaseDataLoader"]
