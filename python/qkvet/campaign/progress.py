# SPDX-License-Identifier: Apache-2.0
"""Handles each outcome: kept, tried again, or given up; and prints a line on it."""
import sys

from ..declare import WrongUse


def say(line):
    # In one write, because several threads print.
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


class Progress:
    """The shards that a pool is running. `tries`: how often a shard may be lost
    before it is left out."""

    def __init__(self, campaign, tries):
        self.campaign, self.tries = campaign, tries
        self.given_up = {}  # number -> why
        self._lost = {}
        self._done = len(campaign.done())

    def took(self, outcome):
        """True if the shard is to be run again. WrongUse ends the campaign."""
        if outcome.wrong:
            raise WrongUse(outcome.wrong.removeprefix("qkvet: "))
        name = f"shard {outcome.number}/{self.campaign.of}"
        if outcome.lost:
            return self.lost(outcome.number, outcome.lost)
        self.campaign.take(outcome)
        self._done += 1
        say(f"{name}  exit {outcome.exit}, {outcome.seconds:.1f} s on "
            f"{outcome.host}   ({self._done} of {self.campaign.of} done)")
        return False

    def lost(self, number, why):
        """The same for a shard without a result."""
        times = self._lost[number] = self._lost.get(number, 0) + 1
        again = times < self.tries
        say(f"shard {number}/{self.campaign.of}  lost: {why}; " +
            (f"again, try {times + 1} of {self.tries}" if again
             else f"given up after {times} tries"))
        if not again:
            self.given_up[number] = why
        return again
