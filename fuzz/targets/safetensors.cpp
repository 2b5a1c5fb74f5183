// SPDX-License-Identifier: Apache-2.0
// safetensors: models of other people, with a header in JSON. A file is refused
// with a reason, or all of it is tensors, which are written and read again.
#include "fuzz/targets/byte_checks.h"
#include "fuzz/targets/target.h"

namespace qkvet::fuzz {
std::string safetensors_problem(std::span<const std::byte> file,
                                SafetensorsParse parse, std::string* said) {
  std::string error;
  const auto read = parse(file, &error);
  *said = kind_of(error);
  if (!read)
    return is_one_line(error) ? ""
                              : "refused without one line: \"" + error + "\"";
  std::map<std::string, TensorToWrite, std::less<>> tensors;
  size_t all = 0;
  for (const auto& [name, tensor] : read->tensors) {
    if (tensor.begin > file.size() || tensor.bytes > file.size() - tensor.begin)
      return "a tensor lies outside of the file";
    all += tensor.bytes;
    tensors[name] = {tensor.dtype, tensor.shape, tensor.data(file)};
    if (tensors.size() < 3) *said += file_dtype_name(tensor.dtype);
  }
  if (all > file.size()) return "tensors share bytes";
  const auto written = safetensors_bytes(tensors, read->metadata, &error);
  if (!written) return "what was read cannot be written: " + error;
  const auto again = parse(*written, &error);
  if (!again) return "what was written is refused: " + error;
  if (again->metadata != read->metadata) return "metadata are lost";
  for (const auto& [name, tensor] : again->tensors) {
    const auto before = read->tensors.find(name);
    if (before == read->tensors.end() || before->second.shape != tensor.shape ||
        before->second.dtype != tensor.dtype)
      return "another tensor is read than was written";
  }
  return again->tensors.size() == read->tensors.size() ? ""
                                                       : "tensors are lost";
}

namespace {

std::string check(std::span<const uint8_t> bytes, std::string* said) {
  return safetensors_problem(std::as_bytes(bytes), parse_safetensors, said);
}

}  // namespace

extern constinit const FuzzTarget fuzz_safetensors = {
    .name = "safetensors",
    .sentence =
        "A safetensors file is refused with a reason, or is written and read "
        "again.",
    .check = check};

}  // namespace qkvet::fuzz
