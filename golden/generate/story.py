# SPDX-License-Identifier: Apache-2.0
"""The answers of a cache to the commands of a story, in NumPy and float64.

As in core/case/story.h, row n of q of sequence s is the n-th query that s was
ever given, row n of k and v the n-th token. Both counts go on over truncation,
reset, fork and reorder, and over refused commands. A fork or a reorder moves
tokens, not the counts. A token's position is the last one in its sequence plus 1,
or 0 for the first, and does not change when other tokens leave.
"""
import numpy as np

from golden.generate import case_text
from golden.generate.rotation import rope_tables, rotate


class Cache:
    def __init__(self, case, inputs):
        self.case = case
        self.inputs = inputs
        self.held = [[] for _ in range(case.B)]
        self.tokens_given = [0] * case.B
        self.queries_given = [0] * case.B

    def append(self, s, count):
        first = self.tokens_given[s]
        self.tokens_given[s] += count
        if len(self.held[s]) + count > self.case.cap:
            return False
        for n in range(count):
            at = self.held[s][-1][2] + 1 if self.held[s] else 0
            self.held[s].append((s, first + n, at))
        return True

    def attend(self, s, count):
        first = self.queries_given[s]
        self.queries_given[s] += count
        if count > len(self.held[s]):
            return None
        data, held = self.inputs, self.held[s]
        q = data["q"][s][:, first:first + count]
        k = np.stack([data["k"][of][:, n] for of, n, _ in held], axis=1)
        v = np.stack([data["v"][of][:, n] for of, n, _ in held], axis=1)
        positions = np.array([at for _, _, at in held])
        return self.answer(q, k, v, positions)

    def answer(self, q, k, v, positions):
        case, n, m = self.case, q.shape[1], k.shape[1]
        if "rope" in case.words:
            style = case.words["rope"].split(".")[0]
            tables = rope_tables(case, positions[-1] + 1)
            q = rotate(q, positions[m - n:], tables, style)
            k = rotate(k, positions, tables, style)
        group = case.H // case.Hkv
        k, v = np.repeat(k, group, axis=0), np.repeat(v, group, axis=0)
        scale = np.float64(np.float32(case.words["scale"])) \
            if "scale" in case.words else 1 / np.sqrt(np.float64(case.d))
        i, j = np.arange(m - n, m)[:, None], np.arange(m)[None]
        sees = j <= i
        if case.win:
            sees = sees & ((j > i - case.win) | (j < (case.first or 0)))
        scores = np.where(sees, np.einsum("hic,hjc->hij", q, k) * scale,
                          -np.inf)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights = weights / weights.sum(axis=-1, keepdims=True)
        return np.einsum("hij,hjc->hic", weights, v)[None]

    def move(self, verb, words):
        if verb == "reorder":
            # Two that become one and the same sequence go separate ways.
            self.held = [list(self.held[ord(parent) - ord("a")])
                         for parent in words[0]]
            return
        s = ord(words[0]) - ord("a")
        if verb == "truncate":
            if int(words[1]) <= len(self.held[s]):
                del self.held[s][int(words[1]):]
        elif verb == "evict":
            first, count = int(words[1]), int(words[2])
            if first + count <= len(self.held[s]):
                del self.held[s][first:first + count]
        elif verb == "reset":
            self.held[s] = []
        elif verb == "fork":
            self.held[ord(words[1]) - ord("a")] = list(self.held[s])
        else:
            raise ValueError(f"no command of a story: {verb}")

    def command(self, verb, words):
        """The answer [1,H,n,dv] of a command, if it is legal and has queries."""
        if verb not in ("append", "attend", "step"):
            self.move(verb, words)
            return None
        s, count = ord(words[0]) - ord("a"), int(words[1])
        if verb == "append":
            self.append(s, count)
            return None
        if verb == "step" and not self.append(s, count):
            self.queries_given[s] += count
            return None
        return self.attend(s, count)


def answers(case, inputs):
    """{"o.N": answer} for the commands that answer."""
    cache = Cache(case, inputs)
    given = {}
    for n, (verb, *words) in enumerate(case_text.commands_of(case)):
        answer = cache.command(verb, words)
        if answer is not None:
            given[f"o.{n}"] = answer
    return given
