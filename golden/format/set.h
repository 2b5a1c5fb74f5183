// SPDX-License-Identifier: Apache-2.0
// A golden set: one call, or one story, with its right outputs, their source,
// and their largest distance from the truth. One safetensors file each
// (README.md, "The format").
#ifndef QKVET_GOLDEN_FORMAT_SET_H_
#define QKVET_GOLDEN_FORMAT_SET_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/files/safetensors.h"
#include "golden/format/recording.h"
#include "qkvet/kernel.h"

namespace qkvet::golden {

// How the expected numbers came about.
enum class Arithmetic : uint8_t {
  kExact,    // known by hand, rounded once
  kF64,      // in float64, from the inputs as they are stored
  kStorage,  // in the types of the case, by another implementation
  kKernel    // recorded from a kernel: its outputs, right or wrong
};
std::string_view arithmetic_name(Arithmetic arithmetic);

struct GoldenSet {
  std::string name;  // of the file, without its ending
  Recording recording;
  std::string pins;       // a sentence: which feature it holds fast
  std::string source;     // "numpy 1.24.2, float64"
  std::string generator;  // the script that made it; "" for recordings
  std::string finding;    // what is wrong with the source here; "" for nothing
  Arithmetic arithmetic = Arithmetic::kF64;
  // The conventions of the source, or of the recorded kernel.
  qkvet_dialect dialect{};
  SafetensorsMetadata metadata;  // as read

  const Case& value() const { return recording.value; }
};

// A value of the metadata beyond tensors; "" if it is absent.
std::string value_of(const SafetensorsMetadata& metadata, std::string_view key);

// Whether a set, and so its file, may have this name.
bool is_set_name(std::string_view name);

// Reads a whole file. `path` is where a user finds it. On failure *error is one
// line, without the path.
std::optional<GoldenSet> read_golden_set(std::span<const std::byte> file,
                                         const std::string& name,
                                         const std::string& path,
                                         std::string* error);

// Eight digits that identify the inputs of the case.
std::string digest_text(const Case& value);

inline constexpr const char* kGoldenFormat = "golden 1";

}  // namespace qkvet::golden

#endif  // QKVET_GOLDEN_FORMAT_SET_H_
