# SPDX-License-Identifier: Apache-2.0
"""Arrays of the frameworks over the memory of a call, and back.

A kernel is given the tensors of a call where they lie. NumPy and PyTorch look at
that memory itself; JAX, whose arrays are its own, copies.
"""
import ctypes

import numpy as np

from .declare import WrongUse

# The codes of DLPack (dlpack.h) for which NumPy has a type of its own, and those
# that the package ml_dtypes adds.
_NUMPY = {(2, 16): "float16", (2, 32): "float32", (2, 64): "float64",
          (0, 8): "int8", (0, 32): "int32", (0, 64): "int64", (1, 8): "uint8",
          (6, 8): "bool"}
_ML_DTYPES = {(4, 16): "bfloat16", (10, 8): "float8_e4m3fn",
              (12, 8): "float8_e5m2"}

# A view needs a length that is at least its own: one type does for all.
_Memory = ctypes.c_char * (1 << 60)


def ml_dtypes():
    """The package, or one line that says what it is wanted for."""
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


class _NumPy:
    name = "numpy"

    @staticmethod
    def give(array):
        return array

    @staticmethod
    def take(array):
        return array if isinstance(array, np.ndarray) else None


class _Torch:
    name = "torch"

    def __init__(self):
        import torch
        self._torch = torch
        # One thread, as the kernels of QKVet: a worker for each core is at work.
        torch.set_num_threads(1)

    def give(self, array):
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
            tensor = tensor.cpu()
        if tensor.dtype == torch.bfloat16:
            bits = tensor.contiguous().view(torch.int16).numpy()
            return bits.view(ml_dtypes().bfloat16)
        return tensor.resolve_conj().resolve_neg().numpy()


class _Jax:
    name = "jax"

    def __init__(self):
        import jax
        self._jax = jax

    def give(self, array):
        given = self._jax.numpy.asarray(array)
        # Lengths and offsets fit into the 32 bits that JAX has by default.
        if given.dtype != array.dtype and array.dtype.kind != "i":
            raise TypeError(f"JAX made {given.dtype} of {array.dtype}; float64 "
                            "needs jax.config.update('jax_enable_x64', True)")
        return given

    def take(self, array):
        return (np.asarray(array)
                if isinstance(array, self._jax.Array) else None)


_FRAMEWORKS = {kind.name: kind for kind in (_NumPy, _Torch, _Jax)}


def framework(name):
    """The converter of "numpy", "torch" or "jax"."""
    if name not in _FRAMEWORKS:
        raise WrongUse(f"arrays = {name!r}; allowed: "
                         + ", ".join(_FRAMEWORKS))
    return _FRAMEWORKS[name]()
