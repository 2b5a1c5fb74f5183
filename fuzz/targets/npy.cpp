// SPDX-License-Identifier: Apache-2.0
// npy: arrays of other programs. A file is refused with a reason, or its data
// are inside of it, and can be written and read again.
#include <algorithm>

#include "fuzz/targets/byte_checks.h"
#include "fuzz/targets/target.h"

namespace qkvet::fuzz {
std::string npy_problem(std::span<const std::byte> file, NpyParse parse,
                        std::string* said) {
  std::string error;
  const auto array = parse(file, &error);
  *said = kind_of(error);
  if (!array)
    return is_one_line(error) ? ""
                              : "refused without one line: \"" + error + "\"";
  const FileTensor& tensor = array->tensor;
  *said = file_dtype_name(tensor.dtype);
  *said += std::to_string(std::min<size_t>(tensor.shape.size(), 5));
  if (tensor.begin + tensor.bytes != file.size())
    return "the data do not end with the file";
  const auto written =
      npy_bytes({tensor.dtype, tensor.shape, tensor.data(file)},
                array->fortran_order, &error);
  if (!written) return "what was read cannot be written: " + error;
  const auto again = parse(*written, &error);
  if (!again) return "what was written is refused: " + error;
  return again->tensor.shape == tensor.shape &&
                 again->fortran_order == array->fortran_order
             ? ""
             : "another array is read than was written";
}

namespace {

std::string check(std::span<const uint8_t> bytes, std::string* said) {
  return npy_problem(std::as_bytes(bytes), parse_npy, said);
}

}  // namespace

extern constinit const FuzzTarget fuzz_npy = {
    .name = "npy",
    .sentence =
        "A .npy file is refused with a reason, or is written and read again.",
    .check = check};

}  // namespace qkvet::fuzz
