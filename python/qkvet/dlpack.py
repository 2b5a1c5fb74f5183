# SPDX-License-Identifier: Apache-2.0
"""DLPack by ctypes: tensors of a call for any library, and results of any library,
without a copy.

A callable with arrays="dlpack" gets a `Tensor`; from_dlpack() of NumPy, PyTorch,
JAX, CuPy and others takes it. NumPy's own export lacks bf16, fp8 and memory of a
device.
Source: dlpack.h 1.1, and the Python specification of DLPack.
"""
import ctypes as c
import itertools

import numpy as np

CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13
_ON_HOST = (CPU, CUDA_HOST)
_DEVICES = {CPU: "cpu", CUDA: "cuda"}
_READ_ONLY, _IS_COPIED = 1, 2
_BOOL, _UINT = 6, 1


class _Dtype(c.Structure):
    _fields_ = [("code", c.c_uint8), ("bits", c.c_uint8), ("lanes", c.c_uint16)]


class _DLTensor(c.Structure):
    _fields_ = [("data", c.c_void_p), ("device_type", c.c_int32),
                ("device_id", c.c_int32), ("ndim", c.c_int32), ("dtype", _Dtype),
                ("shape", c.POINTER(c.c_int64)),
                ("strides", c.POINTER(c.c_int64)), ("byte_offset", c.c_uint64)]


_Deleter = c.CFUNCTYPE(None, c.c_void_p)


class _Managed(c.Structure):
    name, used = b"dltensor", b"used_dltensor"
    _fields_ = [("tensor", _DLTensor), ("context", c.c_void_p),
                ("deleter", _Deleter)]


class _Versioned(c.Structure):
    name, used = b"dltensor_versioned", b"used_dltensor_versioned"
    _fields_ = [("major", c.c_uint32), ("minor", c.c_uint32),
                ("context", c.c_void_p), ("deleter", _Deleter),
                ("flags", c.c_uint64), ("tensor", _DLTensor)]


# ctypes must not hold a capsule that is being destroyed, hence addresses.
_destructor_type = c.PYFUNCTYPE(None, c.c_void_p)
_new = c.PYFUNCTYPE(c.py_object, c.c_void_p, c.c_char_p, _destructor_type)(
    ("PyCapsule_New", c.pythonapi))
_is_valid = c.PYFUNCTYPE(c.c_int, c.c_void_p, c.c_char_p)(
    ("PyCapsule_IsValid", c.pythonapi))
_pointer = c.PYFUNCTYPE(c.c_void_p, c.c_void_p, c.c_char_p)(
    ("PyCapsule_GetPointer", c.pythonapi))

# Exported tensors, until their consumer deletes them.
_exported = {}


@_Deleter
def _forget(address):
    _exported.pop(address, None)


@_destructor_type
def _drop(capsule):
    for kind in (_Managed, _Versioned):
        if _is_valid(capsule, kind.name):  # not consumed
            _forget(_pointer(capsule, kind.name))


class Tensor:
    """A tensor of a call, to be taken by from_dlpack() of a library.

    shape: a tuple; strides: in elements; dtype: a NumPy type, of ml_dtypes for
    bf16 and fp8; device: ("cpu" or "cuda", number). What QKVet put there is
    there before the call begins, on every stream. The memory is QKVet's: it is
    read-only, and its contents are those of the call until the call ends.
    """

    def __init__(self, address, shape, strides, dtype, code_and_bits,
                 device=(CPU, 0), owner=None):
        self.shape, self.strides, self.dtype = shape, strides, dtype
        self.address, self.code_and_bits = address, code_and_bits
        self._device, self._owner = device, owner

    @property
    def device(self):
        return _DEVICES[self._device[0]], self._device[1]

    def as_bool(self):
        """The same bytes as truth values."""
        return Tensor(self.address, self.shape, self.strides, np.dtype(np.bool_),
                      (_BOOL, 8), self._device, self._owner)

    def __dlpack_device__(self):
        return self._device

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None,
                   copy=None):
        """A capsule. BufferError for another device, for a copy and, on the CPU,
        for a stream."""
        if dl_device not in (None, self._device):
            raise BufferError(f"a tensor on {self.device}: copying it elsewhere "
                              "is for who takes it")
        if copy:
            raise BufferError("a tensor of a call is lent and not copied")
        if stream is not None and self._device[0] == CPU:
            raise BufferError(f"stream {stream!r} of a tensor on the CPU; allowed: "
                              "None")
        # No stream has to wait: the copies that filled this memory were done
        # when the call began.
        kind = _Versioned if max_version and max_version[0] >= 1 else _Managed
        managed = kind()
        n = len(self.shape)
        shape, strides = ((c.c_int64 * max(n, 1))(*row)
                          for row in (self.shape, self.strides))
        managed.tensor = _DLTensor(
            self.address, *self._device, n, _Dtype(*self.code_and_bits, 1),
            c.cast(shape, c.POINTER(c.c_int64)),
            c.cast(strides, c.POINTER(c.c_int64)), 0)
        managed.deleter = _forget
        if kind is _Versioned:
            managed.major, managed.minor, managed.flags = 1, 0, _READ_ONLY
        address = c.addressof(managed)
        _exported[address] = (managed, shape, strides, self._owner)
        return _new(address, kind.name, _drop)

    def __repr__(self):
        return f"qkvet.dlpack.Tensor({list(self.shape)}, {self.dtype}, " \
               f"{self.device[0]})"


def of_array(array, code_and_bits):
    """A NumPy array as a Tensor: code and bits are DLPack's of its type."""
    size = array.dtype.itemsize
    return Tensor(array.ctypes.data, array.shape,
                  tuple(stride // size for stride in array.strides), array.dtype,
                  code_and_bits, owner=array)


class Taken:
    """The tensor of another library: `address`, `shape`, `strides` (in elements),
    `code_and_bits` and `device` of its memory, which lives as long as this object.
    """

    def __init__(self, given, stream=None):
        """TypeError or BufferError if the library does not lend it."""
        words = {} if stream is None else {"stream": stream}
        try:
            self._capsule = given.__dlpack__(max_version=(1, 1), **words)
        except TypeError:  # of before DLPack 1.0
            self._capsule = given.__dlpack__(**words)
        number = id(self._capsule)
        for kind in (_Versioned, _Managed):
            if _is_valid(number, kind.name):
                managed = kind.from_address(_pointer(number, kind.name))
                break
        else:
            raise BufferError("__dlpack__() returned no capsule of a tensor")
        if kind is _Versioned and managed.major > 1:
            raise BufferError(f"DLPack {managed.major} is newer than 1")
        tensor = managed.tensor
        if tensor.dtype.lanes != 1:
            raise BufferError(f"elements of {tensor.dtype.lanes} lanes")
        n = tensor.ndim
        self.address = (tensor.data or 0) + tensor.byte_offset
        self.shape = tuple(tensor.shape[:n])
        self.strides = (tuple(tensor.strides[:n]) if tensor.strides
                        else packed_strides(self.shape))
        self.code_and_bits = tensor.dtype.code, tensor.dtype.bits
        self.device = tensor.device_type, tensor.device_id


def packed_strides(shape):
    """In elements, row-major."""
    steps = itertools.accumulate(reversed(shape[1:]), lambda a, b: a * b,
                                 initial=1)
    return tuple(steps)[::-1] if shape else ()


def pieces(shape, *strides):
    """The contiguous pieces of a tensor with several strides: the number of
    elements in a piece that is contiguous in all of them, and the beginning of
    each piece, in elements."""
    run, inner = 1, len(shape)
    while inner > 0 and all(shape[inner - 1] == 1 or one[inner - 1] == run
                            for one in strides):
        run *= shape[inner - 1]
        inner -= 1
    return run, [
        tuple(sum(i * step for i, step in zip(index, one)) for one in strides)
        for index in np.ndindex(*shape[:inner])]


def place_name(device):
    return f"{_DEVICES.get(device[0], f'device type {device[0]}')}:{device[1]}"


def on_host(device):
    return device[0] in _ON_HOST
