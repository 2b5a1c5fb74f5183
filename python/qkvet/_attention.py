# SPDX-License-Identifier: Apache-2.0
"""A callable that is attention, as forward() and backward() of the ABI."""
import ctypes

from . import _abi, arrays
from ._answers import Device, Lent, guarded, store
from ._gradient import Gradient, named
from .declare import Refused

_OUTPUTS = ("o", "lse", "weights")
_ROPE = ("rope_cos", "rope_sin", "q_positions", "k_positions")
_OPTIONAL = tuple(name for name, kind in _abi.ForwardArgs._fields_
                  if kind is _abi.Tensor
                  and name not in (*"qkv", *_OUTPUTS, *_ROPE, "dropout_mask"))
# Inputs with a gradient that a call may request, in addition to q, k and v.
_MORE_GRADIENTS = {"bias": _abi.BACKWARD_BIAS, "sink": _abi.BACKWARD_SINK}


class Forward:
    """forward(), and backward() if a gradient is declared."""

    def __init__(self, function, fields, capabilities, here=False):
        self.gradient = Gradient(fields.get("gradient"), _MORE_GRADIENTS)
        self.function = function
        self.here = here
        self.framework = arrays.framework(fields.get("arrays", "numpy"))
        self.host = None  # set when the library is opened
        self.causal_only = bool(capabilities.flags
                                & _abi.FLAG_CAUSAL_ONLY)
        # The thunks are kept as long as the kernel is.
        self.forward = dict(_abi.Kernel._fields_)["forward"](
            guarded(self._forward))
        self.backward = dict(_abi.BackwardTable._fields_)["backward"](
            guarded(self._backward))

    def arguments(self, args):
        """q, k, v and the options of a call, as arrays of the framework; and their
        sources by name, NumPy arrays or dlpack.Tensor of a device."""
        inputs = {name: arrays.lying(getattr(args, name)) for name in "qkv"}
        for name in _OPTIONAL:
            tensor = getattr(args, name)
            if tensor.ndim or tensor.data:
                inputs[name] = arrays.lying(tensor)
        if args.rope:
            for name in _ROPE:
                inputs[name] = arrays.lying(getattr(args, name))
        for name in ("mask", "tree_mask"):
            if name in inputs:
                inputs[name] = arrays.as_bool(inputs[name])
        if "k_new" not in inputs:  # with it, the pages of k and v are written
            inputs = Lent(inputs, self.framework, self.here)
        give = self.framework.give
        given = {name: give(array) for name, array in inputs.items()}
        qkv = [given.pop(name) for name in "qkv"]
        if args.causal and not self.causal_only:
            given["causal"] = _abi.CAUSAL[args.causal]
        if args.scale_given:
            given["scale"] = args.scale
        if args.has_window:
            given["window"] = (args.window_left, args.window_right)
        for name in (*_abi.NUMBERS, "page_size", "key_block_size"):
            if number := getattr(args, name):
                given[name] = number
        if args.dropout_p > 0:
            given["dropout"] = (args.dropout_p, args.dropout_seed,
                                args.dropout_offset)
        if args.rope:
            given["rope"] = (_abi.ROPE[args.rope],
                             *(given.pop(name) for name in _ROPE))
        return qkv, given, inputs

    def _forward(self, _self, _context, args, run, _why):
        args = args.contents
        _refuse_unknown(args)
        if args.q.device_type == _abi.DEVICE_CPU:
            qkv, options, inputs = self.arguments(args)
            self.write(self.function(*qkv, **options), args, inputs)
            return
        device = Device(self.host, run.contents)
        with self.framework.on_stream(device.stream):
            qkv, options, inputs = self.arguments(args)
            self.write(self.function(*qkv, **options), args, inputs, device)

    def write(self, returned, args, inputs, device=None):
        if isinstance(inputs, Lent):
            inputs.unwritten()
        wanted = [name for name in _OUTPUTS
                  if getattr(args, name).ndim or getattr(args, name).data]
        if isinstance(returned, (tuple, list)):
            returned = dict(zip(_OUTPUTS, returned))
        elif not isinstance(returned, dict):
            returned = {"o": returned}
        for name in wanted:
            store(name, returned.get(name), getattr(args, name), self.framework,
                  inputs, device)

    def backward_table(self):
        """None if no gradient is declared."""
        if self.gradient.way is None:
            return None
        table = _abi.BackwardTable()
        table.struct_size = ctypes.sizeof(table)
        for name in self.gradient.more:
            table.options |= _MORE_GRADIENTS[name]
        table.backward = self.backward
        return table

    def _backward(self, _self, _context, args, _exec, _why):
        args = args.contents
        forward = args.forward.contents
        if args.d_o.device_type != _abi.DEVICE_CPU:
            raise Refused("gradients are taken on the CPU alone")
        qkv, options, inputs = self.arguments(forward)
        leaves = dict(zip("qkv", qkv))
        leaves.update((name, options.pop(name)) for name in self.gradient.more
                      if name in options)
        give = self.framework.give
        d_o = give(arrays.view(args.d_o))
        if self.gradient.way == "function":
            more = {name: leaves[name] for name in leaves if name not in "qkv"}
            found = named(self.function.backward(
                *qkv, give(arrays.view(forward.o)), give(arrays.view(forward.lse)),
                d_o, **options, **more), leaves)
        else:
            found = self.gradient.of(
                lambda **of: _first(self.function(of.pop("q"), of.pop("k"),
                                                  of.pop("v"), **of, **options)),
                leaves, d_o)
        if isinstance(inputs, Lent):
            inputs.unwritten()
        for name, given in found.items():
            output = getattr(args, "d_" + name)
            if output.ndim or output.data:
                store("d_" + name, given, output, self.framework, inputs)


def _refuse_unknown(args):
    """A caller with a later version of the struct may set what follows it here."""
    known = ctypes.sizeof(args)
    behind = max(args.struct_size - known, 0)
    if any(ctypes.string_at(ctypes.addressof(args) + known, behind)):
        raise Refused("a field is set that this version does not know")


def _first(returned):
    """o in a callable's returned value."""
    if isinstance(returned, dict):
        return returned["o"]
    return returned[0] if isinstance(returned, (tuple, list)) else returned
