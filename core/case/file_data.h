// SPDX-License-Identifier: Apache-2.0
// Data that no recipe makes: tensors that came out of a file. A case names
// them by a fingerprint, file=9f86d081884c7d65, and says by the recipe `file`
// (q=file, mask=file.qk) which of its tensors they are. Whoever read the file
// adds them here first; a case whose data nobody has added is not valid.
//
// A smaller case has the first elements of every extent, as with recipes: that
// is what shrinking needs.
#ifndef QKVET_CORE_CASE_FILE_DATA_H_
#define QKVET_CORE_CASE_FILE_DATA_H_

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/call/call.h"

namespace qkvet {

struct Case;
struct Inputs;

struct FileData {
  struct Tensor {
    std::array<int64_t, 4> extents{};  // as given_extents() of the case
    std::vector<double> values;        // row-major; of masks 0 or not
  };
  std::map<TensorName, Tensor> tensors;  // inputs
  std::string path;                      // where a user finds them again
};

// 0 names nothing.
void add_file_data(uint64_t fingerprint, std::shared_ptr<const FileData> data);
// Null if there is none.
std::shared_ptr<const FileData> find_file_data(uint64_t fingerprint);

// 16 hexadecimal digits.
std::string fingerprint_text(uint64_t fingerprint);

// What the case takes from its file.
std::vector<TensorName> file_tensors(const Case& value);
// As an input is given, with 1 behind its rank: masks and biases in the extents
// of their own; k and v in all of them, also where they are shared.
std::array<int64_t, 4> given_extents(const Case& value, TensorName input);

// "" or why the data that the case takes from a file cannot be had.
std::string file_reason(const Case& value);
// Whether some tensor of the case comes from a file.
bool uses_file(const Case& value);
// Inside of make_inputs(): puts what the case takes from its file in the place
// of what recipes made.
void fill_from_file(const Case& value, Inputs& inputs);

}  // namespace qkvet

#endif  // QKVET_CORE_CASE_FILE_DATA_H_
