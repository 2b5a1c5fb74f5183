# SPDX-License-Identifier: Apache-2.0
"""A class of KV caches, as the cache table of the ABI."""
import ctypes

import numpy as np

from . import _abi, arrays
from ._answers import Lent, Wrong, guarded, store, taken
from .declare import Refused, WrongUse

# QKVET_CACHE_* of include/qkvet/cache.h; rotations are not passed on.
OPTIONS = {name[len("CACHE_"):].lower(): bit for name, bit in vars(_abi).items()
           if name.startswith("CACHE_") and name != "CACHE_ROPE"}
SCALES = (None, "per_token", "per_channel")


def options_of(words):
    """The bits of `cache="window grows"`; "yes" has no bit."""
    bits = 0
    for word in words.split():
        if word not in OPTIONS and word != "yes":
            raise WrongUse(f"cache = {word!r}; allowed: " + ", ".join(OPTIONS))
        bits |= OPTIONS.get(word, 0)
    return bits


class Reach:
    """How far back the queries and truncations of a cache with a window may go:
    `rollback` tokens before the longest length of a sequence since it was empty.
    """

    def __init__(self, config):
        self.window, self.rollback = config.window, config.rollback
        self.longest = [0] * config.sequences

    def holds(self, sequence, tokens):
        self.longest[sequence] = max(self.longest[sequence], tokens) if tokens else 0

    def check(self, sequence, tokens, what):
        oldest = self.longest[sequence] - self.rollback
        if self.window and tokens < oldest:
            raise Wrong(f"{what} of {self.longest[sequence]}, of which {oldest} are "
                        "out of reach behind the window")


class Caches:
    """The cache table of a class: each cache of QKVet is an object of it."""

    def __init__(self, cls, fields, here=False):
        self.cls = cls
        self.here = here
        self.framework = arrays.framework(fields.get("arrays", "numpy"))
        self.objects = {}
        self.numbers = 0
        table = self.table = _abi.CacheTable()
        table.struct_size = ctypes.sizeof(table)
        self.declared = set(fields["cache"].split())
        table.options = options_of(fields["cache"])
        types = dict(_abi.CacheTable._fields_)
        for name, function in (("create", self._create), ("step", self._step),
                               ("length", self._length), ("reset", self._reset)):
            setattr(table, name, types[name](guarded(function)))
        table.destroy = types["destroy"](self._destroy)
        for name in ("truncate", "fork", "evict"):
            if hasattr(cls, name):
                setattr(table, name, types[name](guarded(self._forward_to(name))))
        for name in ("reorder", "read_back"):
            if hasattr(cls, name):
                setattr(table, name, types[name](guarded(getattr(self, f"_{name}"))))

    def _create(self, _self, _context, config, _exec, out, _why):
        config = config.contents
        made = self.cls(**{name: getattr(config, name) for name in (
            "sequences", "heads", "kv_heads", "d", "dv", "capacity")},
            scale=config.scale if config.scale_given else None,
            **self._kinds(config))
        self.numbers += 1
        self.objects[self.numbers] = (made, Reach(config))
        out[0] = self.numbers

    def _kinds(self, config):
        """The arguments of a cache other than its sizes, if the class declares
        them."""
        kinds = {}
        if "window" in self.declared:
            kinds.update({name: getattr(config, name)
                          for name in ("window", "first_tokens", "rollback")})
        elif config.window:
            raise Refused("no window")
        if any(word.startswith(("int8", "fp8")) for word in self.declared):
            scales = {name: np.array(arrays.view(tensor)) for name, tensor in (
                ("k_scale", config.k_scale), ("v_scale", config.v_scale))
                if tensor.ndim}
            kinds.update(
                stored=None if not config.stored.bits else
                "int8" if config.stored.code == 0 else "fp8",
                scales=SCALES[config.scales],
                **{name: self.framework.give(scales[name]) if scales else None
                   for name in ("k_scale", "v_scale")})
        elif config.stored.bits:
            raise Refused("no quantised storage")
        for word, name in (("alibi", "slopes"), ("sink", "sink")):
            tensor = getattr(config, name)
            if word in self.declared:
                kinds[name] = self.framework.give(
                    np.array(arrays.view(tensor))) if tensor.ndim else None
            elif tensor.ndim:
                raise Refused(f"no {word}")
        if "softcap" in self.declared:
            kinds["softcap"] = config.softcap or None
        elif config.softcap:
            raise Refused("no softcap")
        return kinds

    def _destroy(self, _self, number):
        self.objects.pop(number, None)

    def _of(self, number, sequence):
        made, reach = self.objects[number]
        if not 0 <= sequence < len(reach.longest):
            raise Wrong(f"no sequence has number {sequence}")
        return made

    def _step(self, _self, number, args, _exec, _why):
        args = args.contents
        made, reach = self._of(number, args.sequence), self.objects[number][1]
        give = self.framework.give

        def rows(tensor):  # without the batch, which is 1
            return arrays.view(tensor)[0]

        present = {name: bool(getattr(args, name).ndim) for name in "kvq"}
        if present["k"] != present["v"] or not any(present.values()):
            raise Wrong("a step needs k and v together, or q")
        if present["q"]:
            queries = args.q.shape[2]
            tokens = made.length(args.sequence) + (
                args.k.shape[2] if present["k"] else 0)
            if queries > tokens:
                raise Wrong(f"{queries} queries of {tokens} tokens")
            reach.check(args.sequence, tokens - queries + 1,
                        f"a query at token {tokens - queries}")
        pairs = ("mask", "bias")
        for name in pairs:
            present[name] = bool(getattr(args, name).ndim)
            if present[name] and name not in self.declared:
                raise Refused(f"no {name}")
        inputs = {name: rows(getattr(args, name)) for name in present
                  if present[name]}
        if present["mask"]:
            inputs["mask"] = arrays.as_bool(inputs["mask"])
        inputs = Lent(inputs, self.framework, self.here)
        if present["k"]:
            made.append(args.sequence, give(inputs["k"]), give(inputs["v"]))
            reach.holds(args.sequence, made.length(args.sequence))
        if present["q"]:
            o = made.attend(args.sequence, give(inputs["q"]), **{
                name: give(inputs[name]) if present[name] else None
                for name in pairs if name in self.declared})
            inputs.unwritten()
            batch = o[None] if hasattr(o, "__getitem__") else o
            store("o", batch, args.o, self.framework, inputs)

    def _length(self, _self, number, sequence, out, _why):
        out[0] = int(self._of(number, sequence).length(sequence))

    def _reset(self, _self, number, sequence, _why):
        self._of(number, sequence).reset(sequence)
        self.objects[number][1].holds(sequence, 0)

    def _forward_to(self, name):
        def call(_self, number, sequence, *words_and_why):
            made, reach = self._of(number, sequence), self.objects[number][1]
            words = words_and_why[:-1]
            if name == "truncate":
                reach.check(sequence, words[0], f"{words[0]} tokens left")
            getattr(made, name)(sequence, *words)
            if name == "fork":
                reach.longest[words[0]] = reach.longest[sequence]
            else:
                reach.holds(sequence, made.length(sequence))
        return call

    def _reorder(self, _self, number, parents, _why):
        made, reach = self.objects[number]
        parents = [parents[n] for n in range(len(reach.longest))]
        made.reorder(parents)
        reach.longest = [reach.longest[n] for n in parents]

    def _read_back(self, _self, number, sequence, k, v, _why):
        found = self._of(number, sequence).read_back(sequence)
        if not isinstance(found, tuple) or len(found) != 2:
            raise Wrong("read_back() is no pair; expected k and v")
        for name, given, tensor in zip("kv", found, (k, v)):
            out = arrays.view(tensor.contents)[0]
            array = taken(name, given, out, self.framework)
            if array.dtype != out.dtype:
                raise Wrong(f"{name} is {array.dtype}; expected {out.dtype}")
            out[...] = array
