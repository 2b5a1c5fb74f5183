// SPDX-License-Identifier: Apache-2.0
#include "golden/import/import_onnx.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <limits>
#include <string_view>
#include <utility>

#include "golden/format/reshape.h"

namespace qkvet::golden {
namespace {

constexpr std::array<std::string_view, 7> kInputs = {
    "Q", "K", "V", "attn_mask", "past_key", "past_value", "nonpad_kv_seqlen"};
enum Input : size_t { kQ, kK, kV, kMask, kPastKey, kPastValue, kLengths };
constexpr std::array<std::string_view, 4> kOutputs = {
    "Y", "present_key", "present_value", "qk_matmul_output"};
enum Output : size_t { kY, kPresentKey, kPresentValue, kScores };
constexpr int64_t kSoftmaxMode = 3;  // of qk_matmul_output_mode
constexpr int64_t kOldestOpset = 23, kLengthsOpset = 24, kWindowOpset = 25,
                  kNewestOpset = 25;

struct Wrong {
  std::string text;
};

void require(bool good, const std::string& wrong) {
  if (!good) throw Wrong{wrong};
}

// The attributes; each is read once.
class Attributes {
 public:
  explicit Attributes(const OnnxNode& node) : left_(node.attributes) {}

  template <class Value>
  Value take(std::string_view name, Value otherwise) {
    const auto found = left_.find(name);
    if (found == left_.end()) return otherwise;
    const Value* value = std::get_if<Value>(&found->second);
    require(value != nullptr,
            "attribute " + shown(name) + " is of another type than it should");
    otherwise = *value;
    left_.erase(found);
    return otherwise;
  }
  void require_none_left(int64_t opset) const {
    if (left_.empty()) return;
    throw Wrong{"attribute " + shown(left_.begin()->first) +
                " is none of Attention of opset " + std::to_string(opset)};
  }

 private:
  std::map<std::string, OnnxAttribute, std::less<>> left_;
};

// Attributes of the node.
struct Options {
  bool causal = false;
  float scale = 0, softcap = 0;
  bool has_scale = false;
  int64_t q_heads = 0, kv_heads = 0, mode = 0, left = -1, right = -1;
};

Options options_of(const OnnxNode& node) {
  Attributes attributes(node);
  Options options;
  options.causal = attributes.take<int64_t>("is_causal", 0) != 0;
  options.has_scale = node.attributes.contains("scale");
  options.scale = attributes.take<float>("scale", 0);
  options.softcap = attributes.take<float>("softcap", 0);
  options.q_heads = attributes.take<int64_t>("q_num_heads", 0);
  options.kv_heads = attributes.take<int64_t>("kv_num_heads", 0);
  options.mode = attributes.take<int64_t>("qk_matmul_output_mode", 0);
  attributes.take<int64_t>("softmax_precision", 0);
  if (node.opset >= kWindowOpset) {
    options.left = attributes.take<int64_t>("left_window_size", -1);
    options.right = attributes.take<int64_t>("right_window_size", -1);
    require(options.left >= -1 && options.right >= -1,
            "a window of " + std::to_string(options.left) + " and " +
                std::to_string(options.right) +
                " keys; allowed are -1 (all) and numbers from 0 on");
  }
  attributes.require_none_left(node.opset);
  return options;
}

// The node's tensors by position; those that are left out stay empty.
template <size_t kCount>
std::array<std::optional<NamedTensor>, kCount> bound(
    const std::array<std::string_view, kCount>& positions,
    const std::vector<std::string>& of_node,
    const std::vector<std::string>& of_graph,
    const std::vector<OnnxTensor>& files) {
  require(of_node.size() <= kCount,
          "the node has " + std::to_string(of_node.size()) +
              " tensors where Attention has " + std::to_string(kCount));
  std::array<std::optional<NamedTensor>, kCount> found;
  for (size_t n = 0; n < of_node.size(); ++n) {
    if (of_node[n].empty()) continue;
    const auto place = std::find(of_graph.begin(), of_graph.end(), of_node[n]);
    const auto number = static_cast<size_t>(place - of_graph.begin());
    require(number < files.size(), std::string(positions[n]) +
                                       " has no file: " + shown(of_node[n]) +
                                       " is none of the graph's first " +
                                       std::to_string(files.size()));
    const OnnxTensor& file = files[number];
    found[n] = NamedTensor{file.dtype, file.shape, file.data};
  }
  return found;
}

using OnnxInputs = std::array<std::optional<NamedTensor>, kInputs.size()>;

std::string text_of(size_t input, const NamedTensor& tensor) {
  return std::string(kInputs[input]) + " is " +
         file_tensor_text(tensor.dtype, tensor.shape);
}

// [B,T,H*d] or [B,H,T,d] as the latter.
void split_heads(const std::string& what, int64_t heads, NamedTensor& tensor) {
  if (tensor.shape.size() == 3) {
    require(heads > 0 && tensor.shape[2] % heads == 0,
            what + ": [B,T,H*d] does not go with " + std::to_string(heads) +
                " heads");
    tensor = heads_apart(tensor, heads);
  }
  require(tensor.shape.size() == 4,
          what + "; allowed are [B,H,T,d] and [B,T,H*d]");
}

void put_past_in_front(OnnxInputs& inputs, size_t past, size_t now) {
  const NamedTensor& old = *inputs[past];
  NamedTensor& tensor = *inputs[now];
  std::vector<int64_t> wanted = tensor.shape;
  if (old.shape.size() == 4) wanted[2] = old.shape[2];
  require(old.shape == wanted && old.dtype == tensor.dtype,
          text_of(past, old) + ", which does not go in front of " +
              text_of(now, tensor));
  tensor = joined(old, tensor, 2);
}

void check_shapes(const OnnxInputs& inputs) {
  const auto& q = inputs[kQ]->shape;
  const auto& k = inputs[kK]->shape;
  const auto& v = inputs[kV]->shape;
  require(k[0] == q[0] && v[0] == q[0] && v[1] == k[1] && v[2] == k[2] &&
              k[3] == q[3] && k[1] > 0 && q[1] % k[1] == 0,
          text_of(kQ, *inputs[kQ]) + ", " + text_of(kK, *inputs[kK]) + " and " +
              text_of(kV, *inputs[kV]) + ", which do not go together");
}

std::vector<int64_t> lengths_of(const OnnxInputs& inputs) {
  if (!inputs[kLengths]) return {};
  const NamedTensor& tensor = *inputs[kLengths];
  const int64_t batch = inputs[kQ]->shape[0], keys = inputs[kK]->shape[2];
  require(tensor.dtype == FileDtype::kInt64 &&
              tensor.shape == std::vector<int64_t>{batch},
          text_of(kLengths, tensor) + "; allowed is int64 [" +
              std::to_string(batch) + "]");
  std::vector<int64_t> lengths(static_cast<size_t>(batch));
  if (!lengths.empty())
    std::memcpy(lengths.data(), tensor.data.data(), tensor.data.size());
  for (const int64_t length : lengths)
    require(length >= 0 && length <= keys,
            "nonpad_kv_seqlen holds " + std::to_string(length) +
                "; allowed are 0 .. " + std::to_string(keys));
  return lengths;
}

std::vector<std::byte> minus_infinity(FileDtype dtype) {
  std::vector<std::byte> bytes(static_cast<size_t>(file_dtype_bytes(dtype)));
  const auto put = [&](auto value) {
    std::memcpy(bytes.data(), &value, sizeof value);
  };
  if (dtype == FileDtype::kF64) put(-std::numeric_limits<double>::infinity());
  if (dtype == FileDtype::kF32) put(-std::numeric_limits<float>::infinity());
  if (dtype == FileDtype::kF16) put(uint16_t{0xfc00});
  if (dtype == FileDtype::kBf16) put(uint16_t{0xff80});
  return bytes;
}

// The mask in four extents, each its own or 1 but the last, which is all keys.
NamedTensor whole_mask(const OnnxInputs& inputs) {
  NamedTensor mask = *inputs[kMask];
  const std::array<int64_t, 4> whole = {
      inputs[kQ]->shape[0], inputs[kQ]->shape[1], inputs[kQ]->shape[2],
      inputs[kK]->shape[2]};
  const std::string text = text_of(kMask, mask);
  require(mask.dtype == FileDtype::kBool || mask.dtype == inputs[kQ]->dtype,
          text + "; allowed are bool and " +
              std::string(file_dtype_name(inputs[kQ]->dtype)));
  bool fits = !mask.shape.empty() && mask.shape.size() <= 4;
  widen(mask, 4);
  for (size_t n = 0; n < 3 && fits; ++n)
    fits = mask.shape[n] == 1 || mask.shape[n] == whole[n];
  require(
      fits && mask.shape[3] <= whole[3],
      text + ", which does not go with " + file_tensor_text(mask.dtype, whole));
  // Also a single key: ONNX hides the others, and broadcasts nothing.
  NamedTensor rest = {mask.dtype, mask.shape, {}};
  rest.shape[3] = whole[3] - mask.shape[3];
  if (rest.shape[3] == 0) return mask;
  const std::vector<std::byte> hidden = mask.dtype == FileDtype::kBool
                                            ? std::vector{std::byte{0}}
                                            : minus_infinity(mask.dtype);
  const int64_t count =
      rest.shape[0] * rest.shape[1] * rest.shape[2] * rest.shape[3];
  for (int64_t n = 0; n < count; ++n)
    rest.data.insert(rest.data.end(), hidden.begin(), hidden.end());
  return joined(mask, rest, 3);
}

// A mask that shows what the causal rule and the window show, and what `mask`
// does, if there is one: a bool [.,.,1 or Tq,Tk].
NamedTensor folded(const Options& options, int64_t offset, int64_t queries,
                   int64_t keys, const NamedTensor* mask) {
  NamedTensor result = {FileDtype::kBool, {1, 1, queries, keys}, {}};
  if (mask != nullptr) {
    result.shape[0] = mask->shape[0];
    result.shape[1] = mask->shape[1];
  }
  const int64_t planes = result.shape[0] * result.shape[1];
  const auto shown_by_mask = [&](int64_t plane, int64_t i, int64_t j) {
    if (mask == nullptr) return true;
    const int64_t row = mask->shape[2] == 1 ? 0 : i;
    return mask->data[static_cast<size_t>(
               (plane * mask->shape[2] + row) * keys + j)] != std::byte{0};
  };
  for (int64_t plane = 0; plane < planes; ++plane)
    for (int64_t i = 0; i < queries; ++i)
      for (int64_t j = 0; j < keys; ++j) {
        const int64_t at = i + offset;
        const bool seen = (!options.causal || j <= at) &&
                          (options.left < 0 || at - j <= options.left) &&
                          (options.right < 0 || j - at <= options.right) &&
                          shown_by_mask(plane, i, j);
        result.data.push_back(seen ? std::byte{1} : std::byte{0});
      }
  return result;
}

std::string shortest_text(float number) {
  std::array<char, 32> text{};
  return {text.data(),
          std::to_chars(text.data(), text.data() + text.size(), number).ptr};
}

// Appends one token.
void add(std::string& options, const std::string& token) {
  options += (options.empty() ? "" : ",") + token;
}

// Causal and window, as tokens if one of the alignments is meant, else as a
// mask. `past` is the offset where no lengths are given.
void align(const Options& options, bool has_lengths, int64_t past,
           ImportedOnnx& result) {
  const bool has_window = options.left >= 0 || options.right >= 0;
  if (!options.causal && !has_window) return;
  const int64_t queries = result.tensors["q"].shape[2];
  const int64_t keys = result.tensors["k"].shape[2];
  const bool bottom_right = has_lengths || past == keys - queries;
  // Without a causal rule a window counts from the bottom right.
  const bool top_left = !has_lengths && past == 0 && options.causal;
  if (top_left || bottom_right) {
    if (options.causal)
      add(result.options, top_left ? "causal=tl" : "causal=br");
    if (has_window)
      add(result.options, "window=" + std::to_string(options.left) + "." +
                              std::to_string(options.right));
    return;
  }
  const auto mask = result.tensors.find("mask");
  result.tensors["mask"] =
      folded(options, past, queries, keys,
             mask != result.tensors.end() ? &mask->second : nullptr);
}

void import_inputs(const OnnxNode& node, const Options& options,
                   OnnxInputs& inputs, ImportedOnnx& result) {
  for (const size_t n : {kQ, kK, kV})
    require(inputs[n].has_value(), std::string(kInputs[n]) + " is missing");
  require(inputs[kPastKey].has_value() == inputs[kPastValue].has_value(),
          "past_key and past_value go together");
  require(!inputs[kLengths] || !inputs[kPastKey],
          "nonpad_kv_seqlen does not go with past_key");
  require(!inputs[kLengths] || node.opset >= kLengthsOpset,
          "nonpad_kv_seqlen is none of opset " + std::to_string(node.opset));
  split_heads(text_of(kQ, *inputs[kQ]), options.q_heads, *inputs[kQ]);
  for (const size_t n : {kK, kV})
    split_heads(text_of(n, *inputs[n]), options.kv_heads, *inputs[n]);
  int64_t past = 0;
  if (inputs[kPastKey]) {
    put_past_in_front(inputs, kPastKey, kK);
    put_past_in_front(inputs, kPastValue, kV);
    past = inputs[kPastKey]->shape[2];
  }
  check_shapes(inputs);
  const std::vector<int64_t> lengths = lengths_of(inputs);
  if (inputs[kMask]) {
    NamedTensor mask = whole_mask(inputs);
    result.tensors[mask.dtype == FileDtype::kBool ? "mask" : "bias"] =
        std::move(mask);
  }
  result.tensors["q"] = std::move(*inputs[kQ]);
  result.tensors["k"] = std::move(*inputs[kK]);
  result.tensors["v"] = std::move(*inputs[kV]);
  align(options, !lengths.empty(), past, result);
  std::string list;
  for (const int64_t length : lengths)
    list += (list.empty() ? "kvlen=" : ".") + std::to_string(length);
  if (!list.empty()) add(result.options, list);
  if (options.has_scale)
    add(result.options, "scale=" + shortest_text(options.scale));
  if (options.softcap > 0)
    add(result.options, "softcap=" + shortest_text(options.softcap));
}

ImportedOnnx import_node(const OnnxNode& node,
                         const std::vector<OnnxTensor>& inputs,
                         const std::vector<OnnxTensor>& outputs) {
  require(node.op_type == "Attention" && node.domain.empty(),
          "the node is " + shown(node.op_type) + " of domain " +
              shown(node.domain) + "; allowed is \"Attention\" of \"\"");
  require(node.opset >= kOldestOpset && node.opset <= kNewestOpset,
          "the node is of opset " + std::to_string(node.opset) +
              "; allowed are 23, 24 and 25");
  require(!node.has_initializers, "the model has tensors of its own");
  const Options options = options_of(node);
  ImportedOnnx result;
  OnnxInputs tensors = bound(kInputs, node.inputs, node.graph_inputs, inputs);
  auto expected = bound(kOutputs, node.outputs, node.graph_outputs, outputs);
  require(expected[kY].has_value(), "Y is missing");
  import_inputs(node, options, tensors, result);
  split_heads(
      "Y is " + file_tensor_text(expected[kY]->dtype, expected[kY]->shape),
      options.q_heads, *expected[kY]);
  result.tensors["o"] = std::move(*expected[kY]);
  if (expected[kScores] && options.mode == kSoftmaxMode)
    result.tensors["weights"] = std::move(*expected[kScores]);
  return result;
}

}  // namespace

std::optional<ImportedOnnx> import_onnx(const OnnxNode& node,
                                        const std::vector<OnnxTensor>& inputs,
                                        const std::vector<OnnxTensor>& outputs,
                                        std::string* error) {
  try {
    return import_node(node, inputs, outputs);
  } catch (const Wrong& wrong) {
    *error = wrong.text;
    return std::nullopt;
  }
}

}  // namespace qkvet::golden
