# SPDX-License-Identifier: Apache-2.0
"""The folder of a campaign, from which it can be continued.

    campaign.json        the words, the number of shards, digests of the files named
    shards/3-of-8.jsonl  the record of a shard that is done, put there in one step
    shards/3-of-8.txt    its report
    all.jsonl            the record of the run, by `qkvet report`
"""
import fcntl
import hashlib
import json
import os
import pathlib

from .. import _program
from ..declare import WrongUse
from . import shard


def _digests(words, folder):
    """Digests of the files among the words; "libmine.so:config" names libmine.so.
    A rebuilt kernel is another campaign."""
    out = {}
    for word in words:
        for name in (word, word.split("=", 1)[-1], word.split(":", 1)[0]):
            path = pathlib.Path(folder, name)
            if name and path.is_file():
                out[name] = hashlib.sha256(path.read_bytes()).hexdigest()
                break
    return out


def _written(path, data):
    """Writes in one step: a reader sees all of it, or the previous file."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    with open(part, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)


class Campaign:
    """`words` of `qkvet check`, run in `cwd`, as `of` shards. If `of` is None: as
    many as before, or 16. WrongUse if the folder belongs to another campaign."""

    def __init__(self, out, words, of, jobs, cwd):
        self.out, self.words, self.cwd = pathlib.Path(out), list(words), str(cwd)
        self.jobs = jobs
        self._plan = self.out / "campaign.json"
        before = self._stored()
        self.of = of or (before or {}).get("shards", 16)
        plan = {"words": self.words, "shards": self.of,
                "files": _digests(words, cwd)}
        for field, now in plan.items():
            if before is not None and before.get(field) != now:
                raise WrongUse(
                    f"{out}: holds another campaign (its {field}: "
                    f"{before.get(field)}, now: {now}); allowed: the same "
                    "command, which goes on, or another folder")
        try:
            (self.out / "shards").mkdir(parents=True, exist_ok=True)
            if before is None:
                _written(self._plan, json.dumps(plan, indent=1).encode() + b"\n")
        except OSError as error:
            raise WrongUse(f"{out}: cannot be written ({error.strerror})") from error

    def _stored(self):
        try:
            return json.loads(self._plan.read_text())
        except FileNotFoundError:
            if self.out.is_dir() and any(self.out.iterdir()):
                raise WrongUse(f"{self.out}: is a folder with something else in it; "
                               "allowed: a new folder, or one of a campaign") from None
            return None
        except (OSError, ValueError) as error:
            raise WrongUse(f"{self._plan}: {error}") from error

    def locked(self):
        """An open file: as long as it is, no other campaign works in the folder."""
        file = open(self._plan, "rb")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise WrongUse(f"{self.out}: another process works at this campaign; "
                           "allowed: one at a time") from error
        return file

    def forget(self):
        """Frees the folder for other words, if no shard was done with these."""
        if any(self.out.glob("shards/*")):
            return
        self._plan.unlink()
        for folder in (self.out / "shards", self.out):
            try:
                folder.rmdir()
            except OSError:
                break  # it contains other files

    def file(self, number, ending=".jsonl"):
        return self.out / "shards" / f"{number}-of-{self.of}{ending}"

    def done(self):
        """Numbers of the shards with whole records."""
        return [number for number in range(1, self.of + 1)
                if self.file(number).exists() and shard.is_whole(
                    self.file(number).read_bytes(), number, self.of)]

    def missing(self):
        return sorted(set(range(1, self.of + 1)) - set(self.done()))

    def take(self, outcome):
        """Stores a shard. The record comes last: with it the shard is done."""
        _written(self.file(outcome.number, ".txt"), outcome.text.encode())
        _written(self.file(outcome.number), outcome.record)

    def merge(self):
        """`qkvet report` on the finished shards: exit code, text. RuntimeError
        with its line if it refuses."""
        code, text, said = _program.run(
            ["report", *(str(self.file(number)) for number in self.done()), "-o",
             str(self.out / "all.jsonl")])
        if code == 2:
            raise RuntimeError(said.strip())
        return code, text
