# SPDX-License-Identifier: Apache-2.0
"""A callable as a library of the plug-in ABI with one kernel in it."""
import ctypes
import inspect
import json
import os
import re
import traceback

import numpy as np

from . import _abi, _program, arrays, dlpack
from .declare import Refused, WrongUse, declared
from .imported import find

_OUTPUTS = ("o", "lse", "weights")
_OPTIONAL = ("mask", "bias", "sink", "slopes", "q_len", "kv_len", "cu_seqlens_q",
             "cu_seqlens_k", "block_table", "k_new", "v_new", "q_scale",
             "k_scale", "v_scale")
_ROPE = ("rope_cos", "rope_sin", "q_positions", "k_positions")


class _Wrong(Exception):
    """What a callable returned and should not have: one line."""


def kernel_name(target):
    """"attention/forward" for "my.attention:Forward": letters that names of
    kernels have."""
    module, _, name = target.partition(":")
    family = os.path.basename(module).removesuffix(".py").rsplit(".", 1)[-1]
    return "/".join(re.sub(r"[^a-z0-9_]+", "_", part.lower()).strip("_") or "x"
                    for part in (family, name.rsplit(".", 1)[-1]))


def last_frame(error):
    """" (attention.py:12, in forward)": where it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    own = os.path.dirname(os.path.abspath(__file__))
    frames = [f for f in frames
              if os.path.dirname(os.path.abspath(f.filename)) != own]
    if not frames:
        return ""
    last = frames[-1]
    return f" ({os.path.basename(last.filename)}:{last.lineno}, in {last.name})"


def guarded(answer):
    """`answer(*args)` as a function of the ABI, whose last argument is the
    qkvet_text: whatever is raised becomes a status and a reason."""
    def call(*args):
        text = args[-1]
        try:
            answer(*args)
            return _abi.OK
        except Refused as refused:
            _abi.write_reason(text, str(refused) or "refused")
            return _abi.UNSUPPORTED
        except _Wrong as wrong:
            _abi.write_reason(text, str(wrong))
        except WrongUse as wrong:
            _abi.write_reason(text, str(wrong))
            return _abi.INVALID_ARGUMENT
        except KeyboardInterrupt:
            # The second Ctrl-C: the run ends, and nothing was wrong.
            _abi.write_reason(text, "interrupted")
            return _abi.UNSUPPORTED
        except MemoryError:
            _abi.write_reason(text, "MemoryError")
            return _abi.OUT_OF_MEMORY
        except BaseException as error:  # noqa: an exit, too, is an answer
            _abi.write_reason(text, f"{type(error).__name__}: {error}"
                              + last_frame(error))
        return _abi.INTERNAL
    return call


def taken(name, given, out, framework):
    """What a callable returned as an array like `out`, or on a device as
    dlpack.Taken; _Wrong if it is no such thing."""
    wanted = f"expected {framework.name} {list(out.shape)} of {out.dtype}"
    if given is None:
        raise _Wrong(f"{name} is None; {wanted}")
    host = isinstance(out, np.ndarray)
    try:
        array = (framework.take(given) if host
                 else framework.owns(given) and given)
    except TypeError as error:
        raise _Wrong(f"{name} {error}") from None
    if array is None or not (host or hasattr(array, "__dlpack__")):
        raise _Wrong(f"{name} is of type {type(given).__module__}."
                     f"{type(given).__qualname__}; {wanted}")
    if tuple(array.shape) != tuple(out.shape):
        raise _Wrong(f"{name} has the shape {list(array.shape)}; {wanted}")
    return array


def store(name, given, tensor, framework, inputs, device=None):
    """Copies what a callable returned into the output; _Wrong if it is no such
    thing. device: a Device, where the output lies on one."""
    out = arrays.lying(tensor)
    array = taken(name, given, out, framework)
    wanted = f"expected {framework.name} {list(out.shape)} of {out.dtype}"
    if not isinstance(out, np.ndarray):
        device.store(name, array, out, wanted)
        return
    if array.dtype != out.dtype:
        raise _Wrong(f"{name} is {array.dtype}; {wanted}")
    for other, memory in inputs.items():
        if isinstance(memory, np.ndarray) and np.may_share_memory(array, memory):
            raise _Wrong(f"{name} is a view of the input {other}; {wanted}")
    out[...] = array


class Device:
    """The device of one call: its stream, and copies by QKVet's host."""

    def __init__(self, host, run):
        self.host = host
        self.stream = run.stream or 0
        self.place = run.device_type, run.device_id

    def store(self, name, given, out, wanted):
        place = tuple(given.__dlpack_device__())
        if place != self.place:
            raise _Wrong(f"{name} lies on {dlpack.place_name(place)}; expected "
                         f"{dlpack.place_name(self.place)}")
        # Of DLPack: 1 is the default stream of CUDA, which has no handle.
        one = dlpack.Taken(given, stream=self.stream or 1)
        if one.code_and_bits != out.code_and_bits:
            raise _Wrong(f"{name} has elements of DLPack's code and bits "
                         f"{one.code_and_bits}; {wanted}")
        # The copies are of the default stream; what is there is behind ours.
        self.call("device_sync", *self.place)
        size = out.dtype.itemsize
        if 0 in one.shape:
            return
        run, places = dlpack.pieces(one.shape, one.strides, out.strides)
        for source, target in places:
            self.call("device_copy", out.address + target * size,
                      one.address + source * size, run * size)

    def call(self, name, *words):
        status = getattr(self.host, name)(self.host.self, *words)
        if status != _abi.OK:
            raise RuntimeError(f"{name}() of the device returned {status}")


class Forward:
    """forward(), and backward() where a gradient is declared."""

    def __init__(self, function, fields, capabilities):
        self.function = function
        self.framework = arrays.framework(fields.get("arrays", "numpy"))
        self.host = None  # set when the library is opened
        self.gradient = fields.get("gradient")
        if self.gradient not in (None, "autograd", "vjp", "function"):
            raise WrongUse(f"gradient = {self.gradient!r}; allowed: autograd, "
                           "vjp, function")
        self.causal_only = bool(capabilities.flags
                                & _abi.FLAG_CAUSAL_ONLY)
        # The thunks are kept as long as the kernel is.
        self.forward = _abi._FORWARD(guarded(self._forward))
        self.backward = _abi._BACKWARD(guarded(self._backward))

    def arguments(self, args):
        """q, k, v and the options of a call, as arrays of the framework; what is
        behind them by name, NumPy arrays or of a device dlpack.Tensor."""
        inputs = {name: arrays.lying(getattr(args, name)) for name in "qkv"}
        for name in _OPTIONAL:
            tensor = getattr(args, name)
            if tensor.ndim or tensor.data:
                inputs[name] = arrays.lying(tensor)
        if args.rope:
            for name in _ROPE:
                inputs[name] = arrays.lying(getattr(args, name))
        if "mask" in inputs:
            inputs["mask"] = arrays.as_bool(inputs["mask"])
        if self.framework.name == "numpy" and "k_new" not in inputs:
            # The memory is: this makes an exception of what would be a crash.
            for array in inputs.values():
                array.flags.writeable = False
        give = self.framework.give
        given = {name: give(array) for name, array in inputs.items()}
        qkv = [given.pop(name) for name in "qkv"]
        if args.causal and not self.causal_only:
            given["causal"] = _abi.CAUSAL[args.causal]
        if args.scale_given:
            given["scale"] = args.scale
        if args.has_window:
            given["window"] = (args.window_left, args.window_right)
        if args.softcap > 0:
            given["softcap"] = args.softcap
        if args.page_size:
            given["page_size"] = args.page_size
        if args.dropout_p > 0:
            given["dropout"] = (args.dropout_p, args.dropout_seed,
                                args.dropout_offset)
        if args.rope:
            given["rope"] = (_abi.ROPE[args.rope],
                             *(given.pop(name) for name in _ROPE))
        return qkv, given, inputs

    def _forward(self, _self, _context, args, run, _why):
        args = args.contents
        if args.q.device_type == _abi.DEVICE_CPU:
            qkv, options, inputs = self.arguments(args)
            self.write(self.function(*qkv, **options), args, inputs)
            return
        device = Device(self.host, run.contents)
        with self.framework.on_stream(device.stream):
            qkv, options, inputs = self.arguments(args)
            self.write(self.function(*qkv, **options), args, inputs, device)

    def write(self, returned, args, inputs, device=None):
        wanted = [name for name in _OUTPUTS
                  if getattr(args, name).ndim or getattr(args, name).data]
        if isinstance(returned, (tuple, list)):
            returned = dict(zip(_OUTPUTS, returned))
        elif not isinstance(returned, dict):
            returned = {"o": returned}
        for name in wanted:
            store(name, returned.get(name), getattr(args, name), self.framework,
                  inputs, device)

    def _backward(self, _self, _context, args, _exec, _why):
        args = args.contents
        forward = args.forward.contents
        if args.d_o.device_type != _abi.DEVICE_CPU:
            raise Refused("gradients are taken on the CPU alone")
        qkv, options, inputs = self.arguments(forward)
        d_o = self.framework.give(arrays.view(args.d_o))
        if args.d_bias.ndim or args.d_sink.ndim:
            raise Refused("no gradient of a bias or of sinks")
        returned = getattr(self, "_by_" + self.gradient)(qkv, options, d_o,
                                                         forward)
        for name, given in zip(("d_q", "d_k", "d_v"), returned):
            store(name, given, getattr(args, name), self.framework, inputs)

    def _by_autograd(self, qkv, options, d_o, _forward):
        import torch
        leaves = [one.detach().requires_grad_(True) for one in qkv]
        with torch.enable_grad():
            o = self.function(*leaves, **options)
            o = o[0] if isinstance(o, (tuple, list)) else o
            return torch.autograd.grad(o, leaves, d_o, allow_unused=True)

    def _by_vjp(self, qkv, options, d_o, _forward):
        import jax

        def of_qkv(q, k, v):
            o = self.function(q, k, v, **options)
            return o[0] if isinstance(o, (tuple, list)) else o

        return jax.vjp(of_qkv, *qkv)[1](d_o)

    def _by_function(self, qkv, options, d_o, forward):
        give = self.framework.give
        return self.function.backward(*qkv, give(arrays.view(forward.o)),
                                      give(arrays.view(forward.lse)), d_o,
                                      **options)


class Caches:
    """The cache table of a class: each cache of QKVet is an object of it."""

    def __init__(self, cls, fields):
        self.cls = cls
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
            raise _Wrong(f"no sequence has number {sequence}")
        return made

    def _step(self, _self, number, args, _exec, _why):
        args = args.contents
        made = self._of(number, args.sequence)
        give = self.framework.give

        def rows(tensor):  # without the batch, of which there is one
            return arrays.view(tensor)[0]

        present = {name: bool(getattr(args, name).ndim) for name in "kvq"}
        if present["k"] != present["v"] or not any(present.values()):
            raise _Wrong("a step needs k and v together, or q")
        if present["q"]:
            queries = args.q.shape[2]
            tokens = made.length(args.sequence) + (
                args.k.shape[2] if present["k"] else 0)
            if queries > tokens:
                raise _Wrong(f"{queries} queries of {tokens} tokens")
        if present["k"]:
            made.append(args.sequence, give(rows(args.k)), give(rows(args.v)))
        if present["q"]:
            inputs = {"q": arrays.view(args.q)}
            o = made.attend(args.sequence, give(rows(args.q)))
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


class Layer:
    """The layer table of a callable."""

    _INPUTS = ("x", "w_q", "w_k", "w_v", "w_o")
    _BIASES = ("b_q", "b_k", "b_v", "b_o")

    def __init__(self, function, fields, options):
        self.function = function
        self.framework = arrays.framework(fields.get("arrays", "numpy"))
        table = self.table = _abi.LayerTable()
        table.struct_size = ctypes.sizeof(table)
        table.options = options
        table.forward = dict(_abi.LayerTable._fields_)["forward"](
            guarded(self._forward))

    def _forward(self, _self, _context, args, _exec, _why):
        args = args.contents
        given = list(self._INPUTS) + [name for name in self._BIASES
                                      if getattr(args, name).ndim]
        inputs = {name: arrays.view(getattr(args, name)) for name in given}
        give = self.framework.give
        matrices = [give(inputs[name]) for name in self._INPUTS]
        options = {name: give(inputs[name]) for name in given
                   if name in self._BIASES}
        if args.causal:
            options["causal"] = _abi.CAUSAL[args.causal]
        if args.scale_given:
            options["scale"] = args.scale
        if args.rope:
            options["rope"] = (_abi.ROPE[args.rope], *(
                give(arrays.view(getattr(args, name)))
                for name in ("rope_cos", "rope_sin", "positions")))
        y = self.function(*matrices, heads=args.heads, kv_heads=args.kv_heads,
                          **options)
        store("y", y, args.y, self.framework, inputs)


def device_bits(fields):
    """qkvet_capabilities.devices for the words `device` and `arrays`."""
    place, taker = fields.get("device", "cpu"), fields.get("arrays", "numpy")
    if place not in ("cpu", "cuda"):
        raise WrongUse(f"device = {place!r}; allowed: cpu, cuda")
    if place == "cpu":
        return 0
    if taker == "numpy":
        raise WrongUse('device = "cuda" with arrays = "numpy", which lie on the '
                       "host; allowed: torch, jax, cupy, dlpack")
    if "cache" in fields or fields.get("subject") == "layer":
        raise WrongUse('device = "cuda" of a cache or a layer; allowed: a kernel')
    return 1 << _abi.DEVICE_CUDA


class Library:
    """One kernel, as `open` hands it over: kept alive by this object."""

    def __init__(self, target, function, fields):
        capabilities, dialect, precision, layer_options = _program.resolve(
            fields)
        # A callable learns in the call what it does not take.
        capabilities.flags |= _abi.FLAG_REFUSES_IN_CALL
        capabilities.devices = device_bits(fields)
        kernel = self.kernel = _abi.Kernel()
        kernel.struct_size = ctypes.sizeof(kernel)
        kernel.name = fields.get("name", kernel_name(target)).encode()
        kernel.description = f"{target}, called from Python".encode()
        code = inspect.unwrap(function) if callable(function) else function
        try:
            kernel.source_file = os.path.relpath(
                inspect.getsourcefile(code)).encode()
            kernel.source_line = inspect.getsourcelines(code)[1] or 1
        except (TypeError, OSError, ValueError):
            pass  # of a built-in function nobody knows
        self._kept = [capabilities, dialect, precision]
        kernel.capabilities = ctypes.pointer(capabilities)
        kernel.dialect = ctypes.pointer(dialect)
        kernel.precision = ctypes.pointer(precision)
        if "cache" in fields:
            self.functions = Caches(function, fields)
            kernel.cache = ctypes.pointer(self.functions.table)
        elif fields.get("subject") == "layer":
            self.functions = Layer(function, fields, layer_options)
            kernel.layer = ctypes.pointer(self.functions.table)
        else:
            if inspect.isclass(function):
                function = function()
            self.functions = Forward(function, fields, capabilities)
            kernel.forward = self.functions.forward
            if self.functions.gradient:
                table = _abi.BackwardTable()
                table.struct_size = ctypes.sizeof(table)
                table.backward = self.functions.backward
                self._kept.append(table)
                kernel.backward = ctypes.pointer(table)
        self.kernels = (ctypes.POINTER(_abi.Kernel) * 1)(ctypes.pointer(kernel))
        self.name = kernel.name.split(b"/")[0]

    def fill(self, out):
        out.abi_major, out.abi_minor = _abi.ABI_MAJOR, _abi.ABI_MINOR
        out.name = self.name
        out.kernel_count = 1
        out.kernels = ctypes.cast(self.kernels,
                                  ctypes.POINTER(ctypes.POINTER(_abi.Kernel)))


def opener(make):
    """`open` of the ABI for the library that make(config) returns; what it makes
    lives as long as the function."""
    kept = []

    def open_library(host, config, out, _why):
        kept.append(make(config.decode()))
        kept[-1].functions.host = host.contents if host else None
        kept[-1].fill(out.contents)

    function = _abi.OpenFunction(guarded(open_library))
    function.kept = kept
    return function


def named_library(target, config):
    """The library of what "module:name" names, declared by a JSON object."""
    try:
        fields = json.loads(config) if config else {}
    except ValueError as error:
        raise WrongUse(f"{config!r}: no JSON object: {error}") from None
    adapter = fields.pop("adapter", None)
    function = find(target)
    if adapter:
        function = find(adapter)(function)
    return Library(target, function, declared(function, fields))
