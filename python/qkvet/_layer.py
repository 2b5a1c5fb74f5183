# SPDX-License-Identifier: Apache-2.0
"""A callable that is an attention layer, as the layer table of the ABI."""
import ctypes

from . import _abi, arrays
from ._answers import Lent, guarded, store
from ._gradient import Gradient, named


_INPUTS = ("x", "w_q", "w_k", "w_v", "w_o")
_BIASES = ("b_q", "b_k", "b_v", "b_o")
# Outputs that a layer may return beside y, and orders of the fused matrix.
_STAGES = ("q", "k", "v", "attended", "weights")
_FUSED = (None, "qkv", "qvk", "kqv", "kvq", "vqk", "vkq")


class Layer:
    """The layer table of a callable, and its gradient if one is declared."""

    def __init__(self, function, fields, options, here=False):
        self.function = function
        self.here = here
        self.framework = arrays.framework(fields.get("arrays", "numpy"))
        self.gradient = Gradient(fields.get("gradient"))
        table = self.table = _abi.LayerTable()
        table.struct_size = ctypes.sizeof(table)
        table.options = options
        table.forward = dict(_abi.LayerTable._fields_)["forward"](
            guarded(self._forward))
        self.backward = dict(_abi.BackwardTable._fields_)["layer_backward"](
            guarded(self._backward))

    def backward_table(self):
        """None if no gradient is declared."""
        if self.gradient.way is None:
            return None
        table = _abi.BackwardTable()
        table.struct_size = ctypes.sizeof(table)
        table.layer_backward = self.backward
        return table

    def arguments(self, args):
        """x, the matrices and the biases by name, the options, and the NumPy
        arrays that hold all of them."""
        give = self.framework.give
        names = list(_INPUTS) + [name for name in _BIASES
                                 if getattr(args, name).ndim]
        inputs = Lent({name: arrays.view(getattr(args, name)) for name in names},
                      self.framework, self.here)
        options = {"heads": args.heads, "kv_heads": args.kv_heads}
        if args.causal:
            options["causal"] = _abi.CAUSAL[args.causal]
        if args.scale_given:
            options["scale"] = args.scale
        if args.rope:
            options["rope"] = (_abi.ROPE[args.rope], *(
                give(arrays.view(getattr(args, name)))
                for name in ("rope_cos", "rope_sin", "positions")))
        if args.fused:
            options["fused"] = _FUSED[args.fused]
            for name in ("w_qkv", "b_qkv"):
                if getattr(args, name).ndim:
                    options[name] = give(arrays.view(getattr(args, name)))
        if args.mask_buffer.ndim:
            options["mask_buffer"] = give(arrays.view(args.mask_buffer))
        return {name: give(one) for name, one in inputs.items()}, options, inputs

    def call(self, given, options):
        """The callable's returned values, by name."""
        given = dict(given)
        first = [given.pop(name) for name in _INPUTS]
        returned = self.function(*first, **given, **options)
        return returned if isinstance(returned, dict) else {"y": returned}

    def _forward(self, _self, _context, args, _exec, _why):
        args = args.contents
        given, options, inputs = self.arguments(args)
        returned = self.call(given, options)
        inputs.unwritten()
        for name in ("y", *_STAGES):
            if name == "y" or getattr(args, name).ndim:
                store(name, returned.get(name), getattr(args, name),
                      self.framework, inputs)

    def _backward(self, _self, _context, args, _exec, _why):
        args = args.contents
        given, options, inputs = self.arguments(args.layer.contents)
        d_y = self.framework.give(arrays.view(args.d_y))
        if self.gradient.way == "function":
            biases = dict(given)
            first = [biases.pop(name) for name in _INPUTS]
            found = named(self.function.backward(*first, d_y, **biases,
                                                 **options), given)
        else:
            found = self.gradient.of(
                lambda **leaves: self.call(leaves, options)["y"], given, d_y)
        inputs.unwritten()
        for name, one in found.items():
            store("d_" + name, one, getattr(args, "d_" + name), self.framework,
                  inputs)
