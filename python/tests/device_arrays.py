# SPDX-License-Identifier: Apache-2.0
"""A small array library for memory of a device, over the driver that
$QKVET_CUDA_DRIVER names: as a kernel library does, it launches its work on a
stream and returns before that is done."""
import ctypes as c
import os

import numpy as np

import kernels
import qkvet
from qkvet import dlpack

_KERNEL = c.CFUNCTYPE(None, c.c_void_p)
_CUDA = (dlpack.CUDA, 0)
_driver = c.CDLL(os.environ["QKVET_CUDA_DRIVER"])
_running = []  # bodies of kernels, until they have run
streams = []  # on which results were requested


def call(name, *words):
    error = getattr(_driver, name)(*words)
    if error != 0:
        raise RuntimeError(f"{name} failed with {error}")


class Array:
    """float32, packed."""

    def __init__(self, shape):
        self.shape = shape
        self.size = max(int(np.prod(shape)) * 4, 4)
        address = c.c_uint64()
        call("cuMemAlloc_v2", c.byref(address), c.c_size_t(self.size))
        self.address = address.value

    def __del__(self):
        _driver.cuMemFree_v2(c.c_uint64(self.address))

    def __dlpack_device__(self):
        return _CUDA

    def __dlpack__(self, *, stream=None, max_version=None):
        streams.append(stream)
        return dlpack.Tensor(self.address, self.shape,
                             dlpack.packed_strides(self.shape), np.float32,
                             (2, 32), _CUDA, owner=self).__dlpack__(
                                 stream=stream, max_version=max_version)


def to_host(tensor):
    """The content of memory on the device, as a NumPy array."""
    assert tensor.__dlpack_device__() == _CUDA
    taken = dlpack.Taken(tensor, stream=-1)
    out = np.empty(taken.shape, tensor.dtype)
    run, places = dlpack.pieces(taken.shape, taken.strides,
                                dlpack.packed_strides(taken.shape))
    for source, target in places if out.size else ():
        call("cuMemcpyDtoH_v2", c.c_void_p(out.ctypes.data + 4 * target),
             c.c_uint64(taken.address + 4 * source), c.c_size_t(4 * run))
    return out


def own_stream():
    """A stream of this library only."""
    stream = c.c_void_p()
    call("cuStreamCreate", c.byref(stream), 1)
    return stream


def launched(values):
    """An Array that a kernel fills later, on a separate stream."""
    out = Array(values.shape)
    values = np.ascontiguousarray(values)

    def body(_data):
        c.memmove(out.address, values.ctypes.data, values.nbytes)

    kernel = _KERNEL(body)
    _running.append(kernel)
    call("fakeLaunch", own_stream(), kernel, c.c_char_p(b""),
         c.c_size_t(0))
    del _running[:-8]
    return out


@qkvet.kernel(arrays="dlpack", device="cuda", options="scale cross_lengths lse")
def attention(q, k, v, scale=None):
    q, k, v = map(to_host, (q, k, v))
    scores = q @ k.swapaxes(-1, -2) * np.float32(scale)
    top = scores.max(-1, keepdims=True)
    weights = np.exp(scores - top)
    total = weights.sum(-1, keepdims=True)
    return launched(weights @ v / total), launched((top + np.log(total))[..., 0])


@qkvet.kernel(arrays="dlpack", device="cuda")
def forgets_scale(q, k, v):
    return launched(kernels.forgets_scale(*map(to_host, (q, k, v))))


@qkvet.kernel(arrays="dlpack", device="cuda")
def stays_on_host(q, k, v):
    return kernels.attention(*map(to_host, (q, k, v)))
