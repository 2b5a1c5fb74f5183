# SPDX-License-Identifier: Apache-2.0
"""Building blocks of adapters."""
import functools

from .declare import kernel


def adapter(**fields):
    """Declares the arguments that an adapter's callables take, and keeps their
    names."""
    def declare(adapt):
        @functools.wraps(adapt)
        def adapted(function):
            call = functools.wraps(function, updated=())(adapt(function))
            return kernel(call, **{**fields, **getattr(function, "__qkvet__",
                                                       {})})
        return adapted
    return declare


def bthd_of(array):
    """[B, H, T, ...] and [B, T, H, ...], whichever it is not."""
    return array.swapaxes(1, 2)
