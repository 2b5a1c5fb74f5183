// SPDX-License-Identifier: Apache-2.0
#include "core/case/file_data.h"

#include <mutex>
#include <type_traits>

#include "core/call/tensor_table.h"
#include "core/case/case.h"

namespace qkvet {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<uint64_t, std::shared_ptr<const FileData>> data;
};

Registry& registry() {
  static Registry all;
  return all;
}

bool is_file(const Recipe& recipe) { return recipe.kind == RecipeKind::kFile; }
bool is_file(const std::optional<Recipe>& recipe) {
  return recipe && is_file(*recipe);
}

void add_layer_tensors(const Case& c, std::vector<TensorName>& tensors) {
  if (is_file(c.x)) tensors.push_back(TensorName::kX);
  if (is_file(c.w))
    for (const TensorName matrix :
         {TensorName::kWq, TensorName::kWk, TensorName::kWv, TensorName::kWo})
      tensors.push_back(matrix);
  const std::pair<uint8_t, TensorName> biases[] = {{kBiasQ, TensorName::kBq},
                                                   {kBiasK, TensorName::kBk},
                                                   {kBiasV, TensorName::kBv},
                                                   {kBiasO, TensorName::kBo}};
  for (const auto& [bit, tensor] : biases)
    if (is_file(c.bias) && (c.biases & bit) != 0) tensors.push_back(tensor);
  if (c.backward && is_file(c.d_o)) tensors.push_back(TensorName::kDY);
}

}  // namespace

std::vector<TensorName> file_tensors(const Case& c) {
  std::vector<TensorName> tensors;
  if (c.is_layer()) {
    add_layer_tensors(c, tensors);
    return tensors;
  }
  const std::pair<bool, TensorName> attention[] = {
      {is_file(c.q), TensorName::kQ},
      {is_file(c.k), TensorName::kK},
      {is_file(c.v), TensorName::kV},
      {c.backward && is_file(c.d_o), TensorName::kDO},
      {c.mask.kind == MaskKind::kFile, TensorName::kMask},
      {is_file(c.score_bias), TensorName::kBias},
      {is_file(c.sink), TensorName::kSink},
      {is_file(c.slopes), TensorName::kSlopes},
      {c.listed.from_file, TensorName::kKeyIndices},
      {c.listed.from_file && c.listed.lengths, TensorName::kTopkLength},
      {c.fields.segments_from_file, TensorName::kSegmentsQ},
      {c.fields.segments_from_file, TensorName::kSegmentsK},
      {c.fields.ranges_from_file, TensorName::kFullRanges},
      {c.fields.tree_from_file, TensorName::kTreeMask}};
  for (const auto& [from_file, tensor] : attention)
    if (from_file) tensors.push_back(tensor);
  return tensors;
}

std::array<int64_t, 4> given_extents(const Case& c, TensorName tensor) {
  std::array<int64_t, 4> extents =
      tensor == TensorName::kK || tensor == TensorName::kV
          ? tensor_extents(c.shape, tensor)
          : tensor_extents(c, tensor);
  for (size_t i = static_cast<size_t>(tensor_rank(tensor)); i < 4; ++i)
    extents[i] = 1;
  return extents;
}

namespace {

// The part of the file's tensor that a case of these extents has.
template <class Visit>
void for_each_value(const FileData::Tensor& from,
                    const std::array<int64_t, 4>& extents, Visit visit) {
  const auto& e = from.extents;
  for (int64_t a = 0; a < extents[0]; ++a)
    for (int64_t b = 0; b < extents[1]; ++b)
      for (int64_t c = 0; c < extents[2]; ++c)
        for (int64_t d = 0; d < extents[3]; ++d)
          visit(from.values[static_cast<size_t>(
              ((a * e[1] + b) * e[2] + c) * e[3] + d)]);
}

std::string extents_text(const std::array<int64_t, 4>& extents, const Case& c,
                         TensorName tensor) {
  const int rank = tensor_rank(tensor);
  std::string text;
  for (int i = rank - given_rank(c, tensor); i < rank; ++i)
    text += (text.empty() ? "[" : ",") +
            std::to_string(extents[static_cast<size_t>(i)]);
  return text + "]";
}

}  // namespace

void add_file_data(uint64_t fingerprint, std::shared_ptr<const FileData> data) {
  const std::lock_guard lock(registry().mutex);
  registry().data[fingerprint] = std::move(data);
}

std::shared_ptr<const FileData> find_file_data(uint64_t fingerprint) {
  const std::lock_guard lock(registry().mutex);
  const auto found = registry().data.find(fingerprint);
  return found != registry().data.end() ? found->second : nullptr;
}

std::string fingerprint_text(uint64_t fingerprint) {
  std::string text(16, '0');
  for (size_t i = 0; i < text.size(); ++i)
    text[i] = "0123456789abcdef"[fingerprint >> (60 - 4 * i) & 15];
  return text;
}

bool uses_file(const Case& c) { return !file_tensors(c).empty(); }

std::string file_reason(const Case& c) {
  const std::vector<TensorName> tensors = file_tensors(c);
  const std::string token = "file=" + fingerprint_text(c.file);
  if (tensors.empty())
    return c.file == 0 ? ""
                       : token +
                             ": no tensor of the case comes from a file; "
                             "write q=file, k=file, mask=file, ...";
  if (c.file == 0)
    return std::string(tensor_name(tensors[0])) +
           " comes from a file: file= with 16 hexadecimal digits is missing";
  const auto data = find_file_data(c.file);
  if (data == nullptr)
    return token +
           ": the data are not at hand; --data FILE names the file that has "
           "them";
  for (const TensorName tensor : tensors) {
    const auto found = data->tensors.find(tensor);
    if (found == data->tensors.end())
      return token + ": the file has no " + tensor_name(tensor);
    const auto extents = given_extents(c, tensor);
    for (size_t i = 0; i < extents.size(); ++i)
      if (extents[i] > found->second.extents[i])
        return token + ": " + tensor_name(tensor) + " of the file is " +
               extents_text(found->second.extents, c, tensor) +
               ", the case needs " + extents_text(extents, c, tensor);
  }
  return "";
}

void fill_from_file(const Case& c, Inputs& inputs) {
  if (c.file == 0) return;
  const auto data = find_file_data(c.file);
  for (const TensorName tensor : file_tensors(c)) {
    const FileData::Tensor& from = data->tensors.at(tensor);
    const auto extents = given_extents(c, tensor);
    visit_values(inputs, tensor, [&](auto& values) {
      using Value = typename std::decay_t<decltype(values)>::value_type;
      values.clear();
      for_each_value(from, extents, [&](double value) {
        values.push_back(tensor_row(tensor).data == TensorData::kMask
                             ? static_cast<Value>(value != 0)
                             : static_cast<Value>(value));
      });
    });
  }
}

}  // namespace qkvet
