# SPDX-License-Identifier: Apache-2.0
#!/usr/bin/env python3
"""A KV cache that goes wrong, with all that it takes to see it.

HEAD

As it stands this file plays back what the kernel gave. Put your own cache into
make_cache(). numpy is all that it needs. Exit: 1 if something is wrong, else 0.
"""
import math
import sys

import numpy as np


def make_cache(config, calls):
    """What is to be judged: a cache with the methods of Definition below, as
    far as the stories ask for them. An illegal command is refused by a
    ValueError with a reason, and changes nothing."""
    # Your cache goes here, such as
    #     return MyCache(config["capacity"], config["heads"])
    # and `return Definition(config)` shows one that is right.
    return Recorded(calls)


# NUMBERS


class Recorded:
    """Plays back what the kernel gave, call by call."""

    def __init__(self, calls):
        self._calls = iter(calls)
        self._now = next(self._calls)  # its making

    def _next(self, *_):
        self._now = next(self._calls)
        if isinstance(self._now["recorded"], ValueError):
            raise self._now["recorded"]
        return self._now["recorded"]

    truncate = evict = reset = fork = reorder = _next

    def step(self, *_, **__):
        return self._next()

    def read_back(self, *_):
        recorded = self._next()
        return recorded["k"], recorded["v"]

    def lengths(self):
        return self._now["found_lengths"]


# --- The definition ----------------------------------------------------------


def turned(x, positions, rope, tables):
    """Rows x[t] with the pairs of channels turned by the tables (RoPE)."""
    if rope is None:
        return x
    x, d = x.copy(), x.shape[-1]
    if rope == "half":
        first, second = np.arange(d // 2), np.arange(d // 2) + d // 2
    else:
        first, second = np.arange(0, d, 2), np.arange(1, d, 2)
    cos, sin = (table.astype(np.float64)[positions] for table in tables)
    a, b = x[:, first], x[:, second]
    x[:, first], x[:, second] = a * cos - b * sin, a * sin + b * cos
    return x


class Definition:
    """Keeps every token that it is given, with the position that it stands at.
    Stored codes are not rounded to: what may be lost so is in the bounds."""

    def __init__(self, config):
        self.config = config
        self.held = [self._nothing() for _ in range(config["sequences"])]

    @staticmethod
    def _nothing():
        # The most tokens that there were since it was last empty.
        return {"tokens": [], "at": [], "most": 0}

    def _sequence(self, sequence):
        if not 0 <= sequence < len(self.held):
            raise ValueError(f"there is no sequence {sequence}")
        return self.held[sequence]

    def lengths(self):
        return [len(held["tokens"]) for held in self.held]

    def step(self, sequence, k, v, q, tables, mask=None, bias=None):
        """Appends k and v [1, Hkv, Tnew, ...], then attends with q
        [1, H, Tq, d] at the last positions; either may be None. mask and bias
        are those of its queries and of all tokens that are then held."""
        held = self._sequence(sequence)
        fresh = self._fresh(held, k, v)
        queries = 0 if q is None else q.shape[2]
        if k is None and q is None:
            raise ValueError("a step without k, v and q")
        count = len(held["tokens"]) + len(fresh)
        if queries > count:
            raise ValueError(f"{queries} queries over {count} tokens")
        window, back = self.config["window"], self.config["rollback"]
        if queries and window and held["most"] - 1 - (count - queries) > back:
            raise ValueError("a query further back than the window can go")
        for token in fresh:
            held["at"].append(held["at"][-1] + 1 if held["at"] else 0)
            held["tokens"].append(token)
        held["most"] = max(held["most"], count)
        return {} if q is None else self._attend(held, q[0], tables, mask, bias)

    def _fresh(self, held, k, v):
        c = self.config
        if (k is None) != (v is None):
            raise ValueError("one of k and v without the other")
        if k is None:
            return []
        for name, rows, width in (("k", k, c["d"]), ("v", v, c["dv"])):
            if rows.shape != (1, c["kv_heads"], k.shape[2], width):
                raise ValueError(f"{name} of another shape: {rows.shape}")
        count = len(held["tokens"]) + k.shape[2]
        if count > c["capacity"] and not c["grows"]:
            raise ValueError(f"{count} tokens are more than the capacity")
        k, v = k[0].astype(np.float64), v[0].astype(np.float64)
        return [(k[:, t], v[:, t]) for t in range(k.shape[1])]

    def _attend(self, held, q, tables, mask, bias):
        c, at = self.config, np.array(held["at"])
        H, Tq, _ = q.shape
        pairs = (H, Tq, len(at))
        mask, bias = (None if one is None else np.broadcast_to(one[0], pairs)
                      for one in (mask, bias))
        scale = c.get("scale", 1 / math.sqrt(c["d"]))
        o, lse = np.zeros((1, H, Tq, c["dv"])), np.zeros((1, H, Tq))
        for h, i in np.ndindex(H, Tq):
            row = len(at) - Tq + i
            seen = np.array([j for j in range(row + 1)
                             if (not c["window"] or j > row - c["window"]
                                 or j < c["first_tokens"])
                             and (mask is None or mask[h, i, j])], dtype=int)
            if not seen.size:
                lse[0, h, i] = c["sink"][h] if "sink" in c else -np.inf
                continue
            kv_head = h // (H // c["kv_heads"])
            keys, values = (np.array([held["tokens"][j][part][kv_head]
                                      for j in seen]) for part in (0, 1))
            rope = c.get("rope")
            query = turned(q[h, i : i + 1].astype(np.float64),
                           at[row : row + 1], rope, tables)
            scores = scale * (turned(keys, at[seen], rope, tables) @ query[0])
            if "softcap" in c:
                scores = c["softcap"] * np.tanh(scores / c["softcap"])
            if "slopes" in c:
                scores = scores - c["slopes"][h] * (at[row] - at[seen])
            if bias is not None:
                scores = scores + bias[h, i, seen].astype(np.float64)
            sink = c["sink"][h] if "sink" in c else -np.inf
            largest = max(scores.max(), sink)
            terms = np.exp(scores - largest)
            total = terms.sum() + np.exp(sink - largest)
            o[0, h, i] = terms @ values / total
            lse[0, h, i] = largest + np.log(total)
        return {"o": o, "lse": lse / math.log(2) if c["lse_base2"] else lse}

    def truncate(self, sequence, tokens):
        """Keeps the first tokens."""
        held = self._sequence(sequence)
        if not 0 <= tokens <= len(held["tokens"]):
            raise ValueError(f"not {tokens} tokens are there to keep")
        if self.config["window"] and (
                held["most"] - tokens > self.config["rollback"]):
            raise ValueError("more tokens than the window can take back")
        del held["tokens"][tokens:], held["at"][tokens:]
        held["most"] = held["most"] if tokens else 0

    def evict(self, sequence, first, tokens):
        """Tokens [first, first + tokens) leave; the others keep their places."""
        held = self._sequence(sequence)
        if self.config["window"]:
            raise ValueError("a cache with a window evicts by itself")
        if first < 0 or tokens < 1 or first + tokens > len(held["tokens"]):
            raise ValueError("these tokens are not there")
        del held["tokens"][first : first + tokens]
        del held["at"][first : first + tokens]
        held["most"] = held["most"] if held["tokens"] else 0

    def reset(self, sequence):
        self._sequence(sequence)
        self.held[sequence] = self._nothing()

    @staticmethod
    def _copy(held):
        return {"tokens": held["tokens"][:], "at": held["at"][:],
                "most": held["most"]}

    def fork(self, sequence, other):
        """`other` becomes what `sequence` is."""
        self._sequence(other)
        self.held[other] = self._copy(self._sequence(sequence))

    def reorder(self, parents):
        """Every sequence s becomes what parents[s] was."""
        self.held = [self._copy(self._sequence(parent)) for parent in parents]

    def read_back(self, sequence):
        """k [1, Hkv, L, d] and v, as they were given."""
        tokens = self._sequence(sequence)["tokens"]
        return tuple(np.stack([token[part] for token in tokens], 1)[None]
                     for part in (0, 1))


# --- The stories, and what every call must give ------------------------------
# Each begins where a cache is created. wanted: [value, allowed error, least,
# largest] of each output; an infinite allowed error asks for nothing, NaN asks
# for NaN. refusal: the command is illegal. lengths: tokens of all sequences.

# DATA

# VERDICT


LETTERS = {"o": "bhic"}
BEFORE_ROUNDING = False  # bounds count how numbers are stored


def obey(cache, call):
    """What the cache gives, or the ValueError with which it refuses."""
    command, sequence = call["command"], call.get("sequence")
    try:
        if command == "create":
            return {}
        if command == "step":
            tables = call.get("rope_cos"), call.get("rope_sin")
            pairs = {name: call[name] for name in ("mask", "bias")
                     if name in call}
            return cache.step(sequence, call.get("k"), call.get("v"),
                              call.get("q"), tables, **pairs) or {}
        if command == "read_back":
            return dict(zip("kv", cache.read_back(sequence)))
        arguments = {"truncate": ("tokens",), "evict": ("first", "tokens"),
                     "reset": (), "fork": ("other",), "reorder": ("parents",)}
        about = () if command == "reorder" else (sequence,)
        getattr(cache, command)(
            *about, *(call[name] for name in arguments[command]))
        return {}
    except ValueError as error:
        return error


def check_definition(definition, call):
    """The expected numbers of this file must be what the definition says."""
    found = obey(definition, call)
    refused = isinstance(found, ValueError)
    right = refused == (call["refusal"] is not None)
    if call["lengths"]:
        right = right and definition.lengths() == call["lengths"]
    for name, (value, bound, _, _) in call["wanted"].items():
        judged = np.isfinite(bound) & np.isfinite(value)
        if refused or not judged.any():
            continue
        slack = np.maximum(bound, 1e-9 * (1 + np.abs(value)))
        right &= (np.abs(found[name] - value) <= slack)[judged].all()
    assert right, (f"{call['place']}: the definition above does not give the expected "
                   f"values")


# STORED


def judge_end(call, given):
    refused = isinstance(given, ValueError)
    if call["refusal"] is None:
        if refused:
            print(f"{call['place']}: expected a result: the call is legal "
                  f"actual refused: {given}")
        return refused
    if refused and str(given) not in ("", "None"):
        return False
    print(f"{call['place']}: expected {call['refusal']} actual "
          f"{'refused without a reason' if refused else 'accepted'}")
    return True


def judge_numbers(call, given):
    wrong = False
    for name, storage in call["storage"].items():
        if name in given:
            wrong |= judge(call["place"] + ": ", name, storage,
                           call["wanted"][name], stored(given[name], storage))
    return wrong


def judge_lengths(call, lengths):
    for s, (wanted, found) in enumerate(zip(call["lengths"], lengths)):
        if wanted != found:
            print(f"{call['place']}: length of sequence {chr(97 + s)} expected "
                  f"{wanted} actual {found}")
            return True
    return False


def judge_story(calls):
    """Whether something is wrong. Of each kind the first is shown: the rest of
    the story follows from it."""
    cache, definition = make_cache(CONFIG, calls), Definition(CONFIG)
    wrong = dict.fromkeys(("end", "length", "step", "read_back"), False)
    for call in calls:
        check_definition(definition, call)
        given = obey(cache, call)
        if not wrong["end"]:
            wrong["end"] = judge_end(call, given)
        kind = "read_back" if call["command"] == "read_back" else "step"
        if not isinstance(given, ValueError):
            if not wrong["end"] and not wrong[kind]:
                wrong[kind] = judge_numbers(call, given)
        if not wrong["end"] and not wrong["length"]:
            wrong["length"] = judge_lengths(call, cache.lengths())
    return any(wrong.values())


def main():
    begins = [n for n, call in enumerate(CALLS) if call["command"] == "create"]
    failed = False
    for first, last in zip(begins, begins[1:] + [len(CALLS)]):
        failed |= judge_story(CALLS[first:last])
    print("FAILED" if failed else "passed")
    return int(failed)


if __name__ == "__main__":
    np.seterr(all="ignore")
    sys.exit(main())
