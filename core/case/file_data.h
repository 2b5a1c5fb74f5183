// SPDX-License-Identifier: Apache-2.0
// Data without a recipe: tensors from a file. A case names them by a
// fingerprint, file=9f86d081884c7d65, and the recipe `file` selects its tensors
// (q=file, mask=file.qk). The code that reads a file adds its data here first;
// without them a case is not valid.
//
// A smaller case has the first elements of every extent, as with recipes;
// shrinking needs this.
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

// The fingerprint 0 is reserved.
void add_file_data(uint64_t fingerprint, std::shared_ptr<const FileData> data);
// Null if there is none.
std::shared_ptr<const FileData> find_file_data(uint64_t fingerprint);

// 16 hexadecimal digits.
std::string fingerprint_text(uint64_t fingerprint);

// The tensors that the case takes from its file.
std::vector<TensorName> file_tensors(const Case& value);
// The extents in which an input is given, padded with 1: for masks and biases
// their own; for k and v all of them, even where they are shared.
std::array<int64_t, 4> given_extents(const Case& value, TensorName input);

// "" or why the data that the case takes from a file cannot be had.
std::string file_reason(const Case& value);
// Whether some tensor of the case comes from a file.
bool uses_file(const Case& value);
// Inside of make_inputs(): replaces data of recipes by the data that the case
// takes from its file.
void fill_from_file(const Case& value, Inputs& inputs);

}  // namespace qkvet

#endif  // QKVET_CORE_CASE_FILE_DATA_H_
