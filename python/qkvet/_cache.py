# SPDX-License-Identifier: Apache-2.0
"""A class whose objects are KV caches, as the cache table of the ABI."""
import ctypes

from . import _abi, arrays
from ._answers import Lent, Wrong, guarded, store
from .declare import Refused


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
        types = dict(_abi.CacheTable._fields_)
        for name, function in (("create", self._create), ("step", self._step),
                               ("length", self._length), ("reset", self._reset)):
            setattr(table, name, types[name](guarded(function)))
        table.destroy = types["destroy"](self._destroy)
        for name in ("truncate", "fork", "evict"):
            if hasattr(cls, name):
                setattr(table, name, types[name](guarded(self._forward_to(name))))
        if hasattr(cls, "reorder"):
            table.reorder = types["reorder"](guarded(self._reorder))

    def _create(self, _self, _context, config, _exec, out, _why):
        config = config.contents
        if config.window or config.stored.bits:
            raise Refused("no window and no quantised storage")
        made = self.cls(**{name: getattr(config, name) for name in (
            "sequences", "heads", "kv_heads", "d", "dv", "capacity")},
            scale=config.scale if config.scale_given else None)
        self.numbers += 1
        self.objects[self.numbers] = (made, config.sequences)
        out[0] = self.numbers

    def _destroy(self, _self, number):
        self.objects.pop(number, None)

    def _of(self, number, sequence):
        made, sequences = self.objects[number]
        if not 0 <= sequence < sequences:
            raise Wrong(f"no sequence has number {sequence}")
        return made

    def _step(self, _self, number, args, _exec, _why):
        args = args.contents
        made = self._of(number, args.sequence)
        give = self.framework.give

        def rows(tensor):  # without the batch, of which there is one
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
        inputs = Lent({name: rows(getattr(args, name)) for name in "kvq"
                       if present[name]}, self.framework, self.here)
        if present["k"]:
            made.append(args.sequence, give(inputs["k"]), give(inputs["v"]))
        if present["q"]:
            o = made.attend(args.sequence, give(inputs["q"]))
            inputs.unwritten()
            batch = o[None] if hasattr(o, "__getitem__") else o
            store("o", batch, args.o, self.framework, inputs)

    def _length(self, _self, number, sequence, out, _why):
        out[0] = int(self._of(number, sequence).length(sequence))

    def _reset(self, _self, number, sequence, _why):
        self._of(number, sequence).reset(sequence)

    def _forward_to(self, name):
        def call(_self, number, sequence, *words_and_why):
            getattr(self._of(number, sequence), name)(
                sequence, *words_and_why[:-1])
        return call

    def _reorder(self, _self, number, parents, _why):
        made, sequences = self.objects[number]
        made.reorder([parents[n] for n in range(sequences)])
