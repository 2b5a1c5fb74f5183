// SPDX-License-Identifier: Apache-2.0
// npz: archives of arrays of other people. A file is refused with a reason, or
// its members are arrays, no larger than they can have been packed.
#include "fuzz/targets/byte_checks.h"
#include "fuzz/targets/target.h"

namespace qkvet::fuzz {
std::string npz_problem(std::span<const std::byte> file, NpzParse parse,
                        std::string* said) {
  std::string error;
  const auto arrays = parse(file, &error);
  *said = kind_of(error);
  if (!arrays)
    return is_one_line(error) ? ""
                              : "refused without one line: \"" + error + "\"";
  *said = "arrays" + std::to_string(std::min<size_t>(arrays->size(), 4));
  // The most bytes that deflate can produce from one byte.
  constexpr size_t kMostRatio = 1032;
  size_t all = 0;
  for (const auto& [name, array] : *arrays) {
    all += array.file.size();
    const auto read = parse_npy(array.file, &error);
    if (!read) return "a member is no .npy file: " + error;
    if (*read != array.array) return "a member holds another array";
    if (all == array.file.size())
      *said += file_dtype_name(array.array.tensor.dtype);
  }
  // The ratio is rounded down for each member.
  if (all > kMostRatio * (file.size() + arrays->size()))
    return "more was unpacked than can have been packed";
  const auto again = parse(file, &error);
  return again == arrays ? "" : "other arrays are read the second time";
}

namespace {

std::string check(std::span<const uint8_t> bytes, std::string* said) {
  return npz_problem(std::as_bytes(bytes), parse_npz, said);
}

}  // namespace

extern constinit const FuzzTarget fuzz_npz = {
    .name = "npz",
    .sentence =
        "A .npz file is refused with a reason, or all its members are arrays.",
    .check = check};

}  // namespace qkvet::fuzz
