# SPDX-License-Identifier: Apache-2.0
"""A pool of processes on this machine."""
import os
import queue
import threading

from . import shard
from .progress import say


def devices(workers):
    """A GPU for each worker: by the names in the environment, or by number."""
    named = [one for one in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
             if one]
    return [(named or list(map(str, range(workers))))[i % (len(named) or workers)]
            for i in range(workers)]


class Pool:
    """As many threads as workers; each waits for the process of its shard."""

    def __init__(self, campaign, workers, gpu):
        self._campaign, self._gpu = campaign, gpu
        self._workers = workers
        self._running = set()
        self._lock = threading.Lock()
        self._stopped = False
        self._numbers = queue.Queue()
        self._outcomes = queue.Queue()

    def _started(self, number):
        mine = []

        def started(process):
            with self._lock:
                if process is None:
                    self._running.difference_update(mine)
                    return
                mine.append(process)
                self._running.add(process)
                if self._stopped:
                    process.kill()
            say(f"shard {number}/{self._campaign.of}  began, process {process.pid}")
        return started

    def _work(self, device):
        campaign = self._campaign
        while (number := self._numbers.get()) is not None:
            try:
                outcome = shard.run(campaign.words, number, campaign.of,
                                    campaign.cwd, campaign.jobs, device,
                                    self._started(number))
            except OSError as error:
                outcome = shard.Outcome(number, lost=str(error))
            self._outcomes.put(outcome)

    def _stop(self):
        with self._lock:
            self._stopped = True
            for process in self._running:
                process.kill()

    def run(self, progress):
        """Until every shard is done or given up."""
        missing = self._campaign.missing()
        threads = [threading.Thread(target=self._work, args=(device,), daemon=True)
                   for device in (devices(self._workers) if self._gpu
                                  else [None] * self._workers)]
        for number in missing:
            self._numbers.put(number)
        for thread in threads:
            thread.start()
        left = len(missing)
        try:
            while left:
                outcome = self._outcomes.get()
                if progress.took(outcome):
                    self._numbers.put(outcome.number)
                else:
                    left -= 1
        finally:
            self._stop()
            for _ in threads:
                self._numbers.put(None)
            for thread in threads:
                thread.join()
