// SPDX-License-Identifier: Apache-2.0
// NumPy's .npz files (numpy.savez, numpy.savez_compressed): zip archives of
// .npy files, stored or deflated, with the fields of zip64 that NumPy gives
// every member. Zip archives that NumPy does not write are refused: encrypted
// members, other methods, members that are there twice or share bytes, and
// members that are no .npy files.
#ifndef QKVET_CORE_FILES_NPZ_H_
#define QKVET_CORE_FILES_NPZ_H_

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/files/npy.h"

namespace qkvet {

// All members together, unpacked. From here on NumPy leaves the sizes to zip64,
// which the minizip of Debian 12 does not read in a directory.
inline constexpr size_t kMostNpzBytes = (size_t{1} << 31) - 1;

struct NpzArray {
  NpyArray array;               // in `file`
  std::vector<std::byte> file;  // the member, unpacked

  std::span<const std::byte> data() const { return array.tensor.data(file); }
  friend bool operator==(const NpzArray&, const NpzArray&) = default;
};

// By the name of the array, which is that of its member without ".npy".
using NpzArrays = std::map<std::string, NpzArray, std::less<>>;

// Reads a whole file. On failure *error is one line, without the file's name.
std::optional<NpzArrays> parse_npz(std::span<const std::byte> file,
                                   std::string* error);

}  // namespace qkvet

#endif  // QKVET_CORE_FILES_NPZ_H_
