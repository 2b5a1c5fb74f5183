# SPDX-License-Identifier: Apache-2.0
"""A callable as a library of the plug-in ABI with one kernel in it."""
import ctypes
import functools
import inspect
import json
import os
import re

from . import _abi, _program
from ._answers import guarded
from ._attention import Forward
from ._cache import Caches
from ._inspected import arrays_of, check_arguments
from ._layer import Layer
from .declare import WrongUse, declared
from .imported import find


def kernel_name(target):
    """"attention/forward" for "my.attention:Forward": letters that names of
    kernels have."""
    module, _, name = target.partition(":")
    family = os.path.basename(module).removesuffix(".py").rsplit(".", 1)[-1]
    return "/".join(re.sub(r"[^a-z0-9_]+", "_", part.lower()).strip("_") or "x"
                    for part in (family, name.rsplit(".", 1)[-1]))


def device_bits(fields):
    """qkvet_capabilities.devices for the fields `device` and `arrays`."""
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
    """One kernel, as `open` returns it; this object keeps it alive."""

    def __init__(self, target, function, fields, here=False):
        """here: in this process, not in a worker."""
        fields = dict(fields)
        if fields.get("arrays") is None:
            fields["arrays"] = arrays_of(function, fields)
        capabilities, dialect, precision, layer_options = _program.resolve(
            fields)
        # Only the call shows a callable which options it does not take.
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
            pass  # unknown for a built-in function
        self._kept = [capabilities, dialect, precision]
        kernel.capabilities = ctypes.pointer(capabilities)
        kernel.dialect = ctypes.pointer(dialect)
        kernel.precision = ctypes.pointer(precision)
        if "cache" in fields:
            self.functions = Caches(function, fields, here)
            kernel.cache = ctypes.pointer(self.functions.table)
        else:
            made = function() if inspect.isclass(function) else function
            if fields.get("subject") == "layer":
                self.functions = Layer(made, fields, layer_options, here)
                kernel.layer = ctypes.pointer(self.functions.table)
            else:
                check_arguments(target.rpartition(":")[2], made, fields)
                self.functions = Forward(made, fields, capabilities, here)
                kernel.forward = self.functions.forward
        table = getattr(self.functions, "backward_table", lambda: None)()
        if table is not None:
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
    """`open` of the ABI for the library that make(config) returns; its results
    live as long as the function."""
    kept = []

    def open_library(host, config, out, _why):
        kept.append(make(config.decode()))
        kept[-1].functions.host = host.contents if host else None
        kept[-1].fill(out.contents)

    function = _abi.OpenFunction(guarded(open_library))
    function.kept = kept
    return function


@functools.lru_cache(maxsize=None)
def callable_of(target, config):
    """The object "module:name", made a callable by its adapter, and all its
    declarations in a JSON object: imported once per process."""
    try:
        fields = json.loads(config) if config else {}
    except ValueError as error:
        raise WrongUse(f"{config!r}: no JSON object: {error}") from None
    adapter = fields.pop("adapter", None)
    function = find(target)
    if adapter:
        function = find(adapter)(function)
    return function, declared(function, fields)


def named_library(target, config):
    """The library of the object "module:name", declared by a JSON object."""
    return Library(target, *callable_of(target, config))
