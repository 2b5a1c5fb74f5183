# SPDX-License-Identifier: Apache-2.0
def numbers(dtype, shape, text):
    """Hexadecimal floats, which say every bit. bf16 becomes float32."""
    values = [float.fromhex(word) for word in text.split()]
    return np.array(values, np.float64).astype(dtype).reshape(shape)


def integers(dtype, shape, text):
    return np.array([int(word) for word in text.split()], dtype).reshape(shape)
