# SPDX-License-Identifier: Apache-2.0
"""Returned values and exceptions of callables, as answers of the plug-in ABI."""
import os
import traceback

import numpy as np

from . import _abi, arrays, dlpack
from .declare import Refused, WrongUse


class Wrong(Exception):
    """A callable's wrong return value, in one line."""


class Written(Exception):
    """Memory that a callable wrote and should not have: one line."""


def last_frame(error):
    """" (attention.py:12, in forward)": the place of the exception."""
    frames = traceback.extract_tb(error.__traceback__)
    own = os.path.dirname(os.path.abspath(__file__))
    frames = [f for f in frames
              if os.path.dirname(os.path.abspath(f.filename)) != own]
    if not frames:
        return ""
    last = frames[-1]
    return f" ({os.path.basename(last.filename)}:{last.lineno}, in {last.name})"


def guarded(answer):
    """`answer(*args)` as a function of the ABI with the qkvet_text as its last
    argument: every exception becomes a status and a reason."""
    def call(*args):
        text = args[-1]
        try:
            answer(*args)
            return _abi.OK
        except Refused as refused:
            _abi.write_reason(text, str(refused) or "refused")
            return _abi.UNSUPPORTED
        except Wrong as wrong:
            _abi.write_reason(text, f"returned: {wrong}")
        except Written as wrong:
            _abi.write_reason(text, f"wrote {wrong}")
        except WrongUse as wrong:
            _abi.write_reason(text, str(wrong))
            return _abi.INVALID_ARGUMENT
        except KeyboardInterrupt:
            # The second Ctrl-C: the run ends without a failure.
            _abi.write_reason(text, "interrupted")
            return _abi.UNSUPPORTED
        except MemoryError:
            _abi.write_reason(text, "MemoryError")
            return _abi.OUT_OF_MEMORY
        except BaseException as error:  # noqa: an exit, too, is an answer
            _abi.write_reason(text, f"raised {type(error).__name__}: {error}"
                              + last_frame(error))
        return _abi.INTERNAL
    return call


class Lent(dict):
    """The inputs of a call by name, for the callable: read-only if possible. In a
    worker their memory is read-only, too. In this process a write to such memory
    would end the process, so inputs that cannot be made read-only are copied here.
    """

    def __init__(self, inputs, framework, here):
        super().__init__(inputs)
        self._lying = {}
        if framework.name == "numpy":
            for array in inputs.values():
                array.flags.writeable = False
        elif here and framework.writes:
            self._lying = {name: one for name, one in inputs.items()
                           if isinstance(one, np.ndarray)}
            self.update((name, arrays.twin(one))
                        for name, one in self._lying.items())

    def unwritten(self):
        """Written if one of them was."""
        for name, array in self._lying.items():
            if self[name].tobytes() != array.tobytes():
                raise Written(f"the input {name}; expected: inputs are only "
                              "read")


def taken(name, given, out, framework):
    """A callable's returned value as an array like `out`, or on a device as
    dlpack.Taken; Wrong if it is no such thing."""
    wanted = f"expected {framework.name} {list(out.shape)} of {out.dtype}"
    if given is None:
        raise Wrong(f"{name} is None; {wanted}")
    host = isinstance(out, np.ndarray)
    try:
        array = (framework.take(given) if host
                 else framework.owns(given) and given)
    except TypeError as error:
        raise Wrong(f"{name} {error}") from None
    if array is None or not (host or hasattr(array, "__dlpack__")):
        raise Wrong(f"{name} is of type {type(given).__module__}."
                     f"{type(given).__qualname__}; {wanted}")
    if tuple(array.shape) != tuple(out.shape):
        raise Wrong(f"{name} has the shape {list(array.shape)}; {wanted}")
    return array


def store(name, given, tensor, framework, inputs, device=None):
    """Copies a callable's returned value into the output; Wrong if it is no such
    thing. device: a Device, if the output is on one."""
    out = arrays.lying(tensor)
    array = taken(name, given, out, framework)
    wanted = f"expected {framework.name} {list(out.shape)} of {out.dtype}"
    if not isinstance(out, np.ndarray):
        device.store(name, array, out, wanted)
        return
    if array.dtype != out.dtype:
        raise Wrong(f"{name} is {array.dtype}; {wanted}")
    for other, memory in inputs.items():
        if isinstance(memory, np.ndarray) and np.may_share_memory(array, memory):
            raise Wrong(f"{name} is a view of the input {other}; {wanted}")
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
            raise Wrong(f"{name} lies on {dlpack.place_name(place)}; expected "
                         f"{dlpack.place_name(self.place)}")
        # In DLPack 1 is the default stream of CUDA, which has no handle.
        one = dlpack.Taken(given, stream=self.stream or 1)
        if one.code_and_bits != out.code_and_bits:
            raise Wrong(f"{name} has elements of DLPack's code and bits "
                         f"{one.code_and_bits}; {wanted}")
        # Copies run on the default stream; the data is ready on ours.
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
