# data_loader_base.py - a loader of batches, and a thread that loads ahead.
# SPDX-License-Identifier: Apache-2.0

import queue
import threading


class BaseDataLoader:
    """Iterates over batches.  A subclass defines _iterate() and __len__()."""

    def __len__(self):
        raise NotImplementedError

    def _iterate(self):
        """Yield the batches of one pass."""
        raise NotImplementedError

    def _process_batch(self, batch):
        """Return the batch that the iteration yields; a subclass may change it."""
        return batch

    def __iter__(self):
        for batch in self._iterate():
            yield self._process_batch(batch)


class _End:
    """Follows the last batch of a pass in the queue."""


class _Failure:
    """An exception of the thread that loads batches."""

    def __init__(self, error):
        self.error = error


class AsyncDataLoaderMixin:
    """Loads batches ahead in a thread.  It precedes a BaseDataLoader in the list of base classes:
    class Mine(AsyncDataLoaderMixin, MyLoader).

    The thread loads up to async_loader_queue_size batches ahead, pass after pass.  With 0, batches
    are loaded without a thread."""

    def __init__(self, async_loader_queue_size=64, debug_data_loader=False, *args, **kwargs):
        self.async_loader_queue_size = async_loader_queue_size
        self.debug_data_loader = debug_data_loader
        super().__init__(*args, **kwargs)
        self.started = False
        if async_loader_queue_size > 0:
            self.finished_event = threading.Event()
            self.queue = queue.Queue(async_loader_queue_size)
            self.thread = threading.Thread(target=self._async_worker, daemon=True)

    def _say(self, text):
        if self.debug_data_loader:
            print(f"{type(self).__name__}: {text}", flush=True)

    def _put(self, item):
        """Put an item into the queue; return False if the loader has been closed."""
        while not self.finished_event.is_set():
            try:
                self.queue.put(item, timeout=0.1)
                return True
            except queue.Full:
                pass
        return False

    def _async_worker(self):
        try:
            while not self.finished_event.is_set():
                for batch in self._iterate():
                    if not self._put(batch):
                        return
                if not self._put(_End()):
                    return
        except BaseException as e:  # the thread that asks for batches is to see it
            self._put(_Failure(e))

    def close_async_loader(self):
        """End the thread, and drop the batches that it has loaded ahead."""
        if self.async_loader_queue_size > 0 and self.started:
            self.finished_event.set()
            self.thread.join()
            self._say(f"closed, {self.queue.qsize()} batches dropped")

    def __iter__(self):
        if self.async_loader_queue_size <= 0:
            yield from super().__iter__()
            return
        if not self.started:
            self.started = True
            self.thread.start()
        while True:
            item = self.queue.get()
            if isinstance(item, _End):
                return
            if isinstance(item, _Failure):
                self.finished_event.set()
                raise item.error
            yield self._process_batch(item)
