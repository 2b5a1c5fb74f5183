// SPDX-License-Identifier: Apache-2.0
// Files of safetensors: 8 bytes that hold the length of a header, the header,
// which is JSON,
//
//   {"__metadata__":{"format":"pt"},
//    "q":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}
//
// and the bytes of the tensors, which they must cover without holes and
// overlaps: each byte belongs to exactly one tensor. Stricter than the library
// of the format: the header begins with "{", the metadata are not null and
// repeat no key, and a tensor has no other keys.
#ifndef QKVET_CORE_FILES_SAFETENSORS_H_
#define QKVET_CORE_FILES_SAFETENSORS_H_

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/files/file_tensor.h"

namespace qkvet {

// A limit of the format.
inline constexpr size_t kMostSafetensorsHeader = 100'000'000;

using SafetensorsMetadata = std::map<std::string, std::string, std::less<>>;

// Names are UTF-8 with any characters.
struct Safetensors {
  std::map<std::string, FileTensor, std::less<>> tensors;
  SafetensorsMetadata metadata;

  friend bool operator==(const Safetensors&, const Safetensors&) = default;
};

// Reads a whole file. On failure *error is one line, without the file's name.
std::optional<Safetensors> parse_safetensors(std::span<const std::byte> file,
                                             std::string* error);

// The same file for the same tensors: the widest elements first, so that each
// is aligned, and by name among those. On failure *error is one line.
std::optional<std::vector<std::byte>> safetensors_bytes(
    const std::map<std::string, TensorToWrite, std::less<>>& tensors,
    const SafetensorsMetadata& metadata, std::string* error);

}  // namespace qkvet

#endif  // QKVET_CORE_FILES_SAFETENSORS_H_
