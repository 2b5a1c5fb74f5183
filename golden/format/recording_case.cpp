// SPDX-License-Identifier: Apache-2.0
// Derives the case from the extents of tensors.
#include "golden/format/recording.h"

namespace qkvet::golden {
namespace {

const NamedTensor* find(const NamedTensors& tensors, std::string_view name) {
  const auto found = tensors.find(name);
  return found != tensors.end() ? &found->second : nullptr;
}

std::string extent(std::string_view key, int64_t value) {
  return "," + std::string(key) + std::to_string(value);
}

std::string missing(const NamedTensors& tensors, std::string_view name) {
  return std::string(name) + " is missing; the file has " + names_text(tensors);
}

// ".bq": the extents that are not 1. All of them where the whole is 1, which
// is the same.
std::string own_letters(const NamedTensor& tensor) {
  std::string own;
  for (size_t i = 0; i < 4; ++i)
    if (tensor.shape[i] != 1) own += "bhqk"[i];
  return own.empty() || own.size() == 4 ? "" : "." + own;
}

std::string dtypes_text(const NamedTensor& q, const NamedTensor& k,
                        const NamedTensor* o) {
  const FileDtype out =
      o != nullptr && o->dtype != FileDtype::kF64 ? o->dtype : q.dtype;
  const auto name = [](FileDtype dtype) {
    return std::string(file_dtype_name(dtype));
  };
  if (q.dtype == k.dtype && q.dtype == out) return name(q.dtype);
  return "q=" + name(q.dtype) + ",kv=" + name(k.dtype) + ",o=" + name(out);
}

std::string attention_text(const NamedTensors& tensors, std::string* error) {
  for (const char* name : {"q", "k", "v"}) {
    const NamedTensor* tensor = find(tensors, name);
    if (tensor == nullptr) *error = missing(tensors, name);
    if (!error->empty()) return "";
    if (tensor->shape.size() != 4)
      *error = std::string(name) + " is " +
               file_tensor_text(tensor->dtype, tensor->shape) +
               ": [B,H,T,d] is wanted (--layout declares another)";
    if (!error->empty()) return "";
  }
  const NamedTensor &q = *find(tensors, "q"), &k = *find(tensors, "k"),
                    &v = *find(tensors, "v");
  std::string text = dtypes_text(q, k, find(tensors, "o"));
  text += extent("B", q.shape[0]) + extent("H", q.shape[1]);
  if (k.shape[1] != q.shape[1]) text += extent("Hkv", k.shape[1]);
  text += extent("Tq", q.shape[2]) + extent("Tk", k.shape[2]) +
          extent("d", q.shape[3]);
  if (v.shape[3] != q.shape[3]) text += extent("dv", v.shape[3]);
  for (const char* name : {"mask", "bias"})
    if (const NamedTensor* tensor = find(tensors, name)) {
      if (tensor->shape.size() != 4) {
        *error = std::string(name) + " is " +
                 file_tensor_text(tensor->dtype, tensor->shape) +
                 ": [B,H,Tq,Tk] is wanted, with 1 where it is broadcast";
        return "";
      }
      text += std::string(",") + name + "=file" + own_letters(*tensor);
    }
  if (find(tensors, "sink") != nullptr) text += ",sink=file";
  if (const NamedTensor* slopes = find(tensors, "slopes"))
    text += slopes->shape.size() == 2 ? ",alibi=file.bh" : ",alibi=file";
  if (const NamedTensor* lists = find(tensors, "key_indices")) {
    if (lists->shape.size() != 4) {
      *error = "key_indices is " +
               file_tensor_text(lists->dtype, lists->shape) +
               ": [B,Hkv or 1,Tq,n] is wanted";
      return "";
    }
    text += ",keys=file" + std::to_string(lists->shape[3]);
    std::string letters = lists->shape[1] > 1 ? "h" : "";
    if (find(tensors, "topk_length") != nullptr) letters += "n";
    if (!letters.empty()) text += "." + letters;
  }
  const auto wide = [](const NamedTensor& tensor) {
    return tensor.dtype == FileDtype::kInt64 ? ".i64" : "";
  };
  if (const NamedTensor* segments = find(tensors, "segments_q"))
    text += std::string(",segments=file") + wide(*segments);
  if (const NamedTensor* ranges = find(tensors, "full_ranges")) {
    if (ranges->shape.size() != 3) {
      *error = "full_ranges is " +
               file_tensor_text(ranges->dtype, ranges->shape) +
               ": [B,R,2] is wanted";
      return "";
    }
    text += ",ranges=file" + std::to_string(ranges->shape[1]) + wide(*ranges);
  }
  if (find(tensors, "tree_mask") != nullptr) text += ",tree=file";
  return text + ",data=file";
}

std::string layer_text(const NamedTensors& tensors, const std::string& options,
                       std::string* error) {
  const NamedTensor& x = *find(tensors, "x");
  if (x.shape.size() != 3) {
    *error =
        "x is " + file_tensor_text(x.dtype, x.shape) + ": [B,T,D] is wanted";
    return "";
  }
  if (options.find('H') == options.npos) {
    *error =
        "the tensors of a layer do not say how many heads there are: "
        "--case H4 does";
    return "";
  }
  std::string text(file_dtype_name(x.dtype));
  text += extent("B", x.shape[0]) + extent("T", x.shape[1]) +
          extent("D", x.shape[2]);
  std::string biases;
  for (const char letter : {'q', 'k', 'v', 'o'})
    if (find(tensors, std::string("b_") + letter) != nullptr) biases += letter;
  if (!biases.empty()) text += ",biases=" + biases + ",bias=file";
  return text + ",x=file,w=file";
}

}  // namespace

std::string case_of_tensors(const NamedTensors& tensors,
                            const std::string& options, std::string* error) {
  error->clear();
  const std::string text = find(tensors, "x") != nullptr
                               ? layer_text(tensors, options, error)
                               : attention_text(tensors, error);
  if (!error->empty()) return "";
  return options.empty() ? text : text + "," + options;
}

}  // namespace qkvet::golden
