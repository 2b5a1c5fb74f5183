# SPDX-License-Identifier: Apache-2.0
"""Arrays of the frameworks over the memory of a call, and back.

A kernel gets the tensors of a call in place. NumPy, PyTorch, CuPy and consumers of
DLPack use that memory itself; JAX copies to its own arrays on the CPU, which is
faster for small tensors.
"""
import contextlib
import ctypes

import numpy as np

from . import dlpack
from .declare import WrongUse

# The codes of DLPack (dlpack.h) with a type in NumPy, and those that the package
# ml_dtypes adds.
_NUMPY = {(2, 16): "float16", (2, 32): "float32", (2, 64): "float64",
          (0, 8): "int8", (0, 32): "int32", (0, 64): "int64", (1, 8): "uint8",
          (6, 8): "bool"}
_ML_DTYPES = {(4, 16): "bfloat16", (10, 8): "float8_e4m3fn",
              (12, 8): "float8_e5m2"}

# A view is created with at least its own length: one type does for all.
_Memory = ctypes.c_char * (1 << 60)


def ml_dtypes():
    """The package. ImportError with the reason if it is missing."""
    try:
        import ml_dtypes as package
    except ImportError:
        raise ImportError("bf16 and fp8 arrays need the package ml_dtypes "
                          "(pip install ml_dtypes)") from None
    return package


class _Dtypes(dict):
    def __missing__(self, code_and_bits):
        if code_and_bits in _NUMPY:
            dtype = np.dtype(_NUMPY[code_and_bits])
        elif code_and_bits in _ML_DTYPES:
            dtype = np.dtype(getattr(ml_dtypes(), _ML_DTYPES[code_and_bits]))
        else:
            raise TypeError(f"no array type has DLPack's code {code_and_bits[0]} "
                            f"with {code_and_bits[1]} bits")
        self[code_and_bits] = dtype
        return dtype


_dtypes = _Dtypes()


def code_of(dtype):
    """Code and bits of a NumPy type in DLPack. TypeError if it has none."""
    for table in (_NUMPY, _ML_DTYPES):
        for code_and_bits, name in table.items():
            if name == dtype.name:
                return code_and_bits
    raise TypeError(f"DLPack has no {dtype}")


def lying(tensor):
    """A qkvet_tensor in place: a NumPy array, or a dlpack.Tensor on a device."""
    if tensor.device_type == dlpack.CPU:
        return view(tensor)
    n, code_and_bits = tensor.ndim, (tensor.dtype.code, tensor.dtype.bits)
    return dlpack.Tensor((tensor.data or 0) + tensor.byte_offset,
                         tuple(tensor.shape[:n]), tuple(tensor.strides[:n]),
                         _dtypes[code_and_bits], code_and_bits,
                         (tensor.device_type, tensor.device_id))


def as_bool(array):
    """One byte per truth value."""
    return (array.view(np.bool_) if isinstance(array, np.ndarray)
            else array.as_bool())


def host_array(given):
    """The export of any library's __dlpack__, as a NumPy array over the same
    memory. TypeError, one line, if that memory is not on the host."""
    if hasattr(given, "detach"):  # a tensor with a gradient cannot be lent
        given = given.detach()
    device = tuple(given.__dlpack_device__())
    if not dlpack.on_host(device):
        raise TypeError(f"lies on {dlpack.place_name(device)}; expected memory of "
                        "the host")
    if hasattr(given, "block_until_ready"):
        given.block_until_ready()
    taken = dlpack.Taken(given)
    dtype = _dtypes[taken.code_and_bits]
    if 0 in taken.shape:
        return np.empty(taken.shape, dtype)
    memory = _Memory.from_address(taken.address)
    memory.taken = taken  # the array keeps the one, the one the other
    return np.ndarray(taken.shape, dtype, memory, strides=[
        stride * dtype.itemsize for stride in taken.strides])


def view(tensor):
    """The NumPy array over the memory of a qkvet_tensor."""
    n = tensor.ndim
    dtype = _dtypes[tensor.dtype.code, tensor.dtype.bits]
    shape = tuple(tensor.shape[:n])
    if 0 in shape:
        return np.empty(shape, dtype)
    strides = tuple(stride * dtype.itemsize for stride in tensor.strides[:n])
    memory = _Memory.from_address(tensor.data + tensor.byte_offset)
    return np.ndarray(shape, dtype, memory, strides=strides)


def twin(array):
    """The same values in separate memory with the strides of the array."""
    size = array.dtype.itemsize
    steps = [stride if extent > 1 else 0
             for extent, stride in zip(array.shape, array.strides)]
    span = sum((extent - 1) * step for extent, step in zip(array.shape, steps))
    if array.size == 0 or min(steps, default=0) < 0:
        return array.copy()
    memory = np.empty(span // size + 1, array.dtype)
    out = np.lib.stride_tricks.as_strided(memory, array.shape, array.strides)
    out[...] = array
    return out


class _Framework:
    """`give` makes an array of the framework from a NumPy array or, on a device,
    from a dlpack.Tensor; `take` makes a NumPy array from the result, or returns
    None if the result is no array of the framework."""
    name = ""
    # Whether its arrays are writable even if QKVet's memory is read-only.
    writes = True

    @contextlib.contextmanager
    def on_stream(self, _stream):
        """The framework's own work uses this stream of a device."""
        yield

    def owns(self, _given):
        """Whether the result on a device is the framework's."""
        return True


class _NumPy(_Framework):
    name = "numpy"
    writes = False

    @staticmethod
    def give(array):
        return array

    @staticmethod
    def take(array):
        if isinstance(array, np.ndarray):
            return array
        return host_array(array) if hasattr(array, "__dlpack__") else None


class _DLPack(_NumPy):
    """Any library: it gets tensors with __dlpack__ and returns such tensors."""
    name = "dlpack"
    writes = True

    @staticmethod
    def give(array):
        if isinstance(array, dlpack.Tensor):
            return array
        return dlpack.of_array(array, code_of(array.dtype))


class _Torch(_Framework):
    name = "torch"

    def __init__(self):
        import torch
        self._torch = torch
        # One thread, like QKVet's own kernels: there is a worker for each core.
        torch.set_num_threads(1)

    def on_stream(self, stream):
        cuda = self._torch.cuda
        return cuda.stream(cuda.ExternalStream(stream) if stream
                           else cuda.default_stream())

    def owns(self, given):
        return isinstance(given, self._torch.Tensor)

    def give(self, array):
        if isinstance(array, dlpack.Tensor):
            return self._torch.from_dlpack(array)
        if array.dtype.name == "bfloat16":
            return self._torch.from_numpy(array.view(np.int16)).view(
                self._torch.bfloat16)
        return self._torch.from_numpy(array)

    def take(self, tensor):
        torch = self._torch
        if not isinstance(tensor, torch.Tensor):
            return None
        tensor = tensor.detach()
        if tensor.device.type != "cpu":
            raise TypeError(f"lies on {tensor.device}; expected memory of the "
                            "host")
        if tensor.layout != torch.strided:
            raise TypeError(f"has the layout {tensor.layout}; expected "
                            "torch.strided")
        if tensor.dtype == torch.bfloat16:
            bits = tensor.contiguous().view(torch.int16).numpy()
            return bits.view(ml_dtypes().bfloat16)
        return tensor.resolve_conj().resolve_neg().numpy()


class _CuPy(_Framework):
    """CuPy has memory on a device only: with device="cuda"."""
    name = "cupy"

    def __init__(self):
        import cupy
        self._cupy = cupy

    def on_stream(self, stream):
        return self._cupy.cuda.ExternalStream(stream or 0)

    def owns(self, given):
        return isinstance(given, self._cupy.ndarray)

    def give(self, array):
        if isinstance(array, np.ndarray):
            raise WrongUse('arrays = "cupy" is for device="cuda"; allowed on the '
                           "CPU: " + ", ".join(_ON_CPU))
        return self._cupy.from_dlpack(array)

    def take(self, _array):
        return None


class _Jax(_Framework):
    name = "jax"
    writes = False

    def __init__(self):
        import jax
        self._jax = jax

    def owns(self, given):
        return isinstance(given, self._jax.Array)

    def give(self, array):
        if isinstance(array, dlpack.Tensor):
            return self._jax.dlpack.from_dlpack(array)
        given = self._jax.numpy.asarray(array)
        # Lengths and offsets fit into the 32 bits that JAX has by default.
        if given.dtype != array.dtype and array.dtype.kind != "i":
            raise TypeError(f"JAX made {given.dtype} of {array.dtype}; float64 "
                            "needs jax.config.update('jax_enable_x64', True)")
        return given

    def take(self, array):
        return (np.asarray(array)
                if isinstance(array, self._jax.Array) else None)


_ON_CPU = ("numpy", "torch", "jax", "dlpack")
_FRAMEWORKS = {kind.name: kind
               for kind in (_NumPy, _Torch, _Jax, _DLPack, _CuPy)}


def framework(name):
    """The converter of one of the names in _FRAMEWORKS."""
    if name not in _FRAMEWORKS:
        raise WrongUse(f"arrays = {name!r}; allowed: "
                       + ", ".join(_FRAMEWORKS))
    return _FRAMEWORKS[name]()
