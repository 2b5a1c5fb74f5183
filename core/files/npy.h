// SPDX-License-Identifier: Apache-2.0
// NumPy's .npy files (numpy.lib.format), versions 1.0, 2.0 and 3.0: a header
// that is a Python dict,
//
//   {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
//
// and the bytes of the elements. Numbers and bools with the least byte first;
// NumPy has no bf16 and no fp8: their bits are stored as <u2 and |u1. Objects
// would be pickles, that is programs, and are refused like all other types.
#ifndef QKVET_CORE_FILES_NPY_H_
#define QKVET_CORE_FILES_NPY_H_

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/files/file_tensor.h"

namespace qkvet {

struct NpyArray {
  FileTensor tensor;
  bool fortran_order = false;  // the first index runs fastest

  friend bool operator==(const NpyArray&, const NpyArray&) = default;
};

// Reads a whole file. On failure *error is one line, without the file's name.
std::optional<NpyArray> parse_npy(std::span<const std::byte> file,
                                  std::string* error);

// A file of version 1.0 with data at a multiple of 64, as NumPy writes it. On
// failure *error has the reason.
std::optional<std::vector<std::byte>> npy_bytes(const TensorToWrite& tensor,
                                                bool fortran_order,
                                                std::string* error);

}  // namespace qkvet

#endif  // QKVET_CORE_FILES_NPY_H_
