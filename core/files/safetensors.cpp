// SPDX-License-Identifier: Apache-2.0
#include "core/files/safetensors.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>

#include "core/base/json.h"

namespace qkvet {
namespace {

constexpr size_t kLengthBytes = 8;
constexpr std::string_view kMetadataName = "__metadata__";

// In the order of FileDtype.
constexpr std::array<std::string_view, kFileDtypeCount> kSpellings = {
    "F64", "F32", "F16",  "BF16", "F8_E4M3", "F8_E5M2", "I8", "U8",
    "I64", "I32", "BOOL", "U16",  "I16",     "U32",     "U64"};

constexpr std::array<std::string_view, 3> kFields = {"dtype", "shape",
                                                     "data_offsets"};
enum Field : size_t { kDtypeField, kShapeField, kOffsetsField };

template <size_t kCount>
std::string listed(const std::array<std::string_view, kCount>& names) {
  std::string text;
  for (const std::string_view name : names)
    text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

std::string tensor_text(std::string_view name) {
  return "tensor " + shown(name);
}

// Takes the header as it is read, so that what does not belong there, deep
// nesting above all, ends the reading and takes no memory.
class Header final : public nlohmann::json_sax<ReadJson> {
 public:
  explicit Header(Safetensors& file) : file_(file) {}
  const std::string& wrong() const { return wrong_; }

  bool null() override { return misplaced("null"); }
  bool boolean(bool) override { return misplaced("true or false"); }
  bool number_integer(int64_t) override {
    return misplaced("a negative number");
  }
  bool number_unsigned(uint64_t value) override;
  bool number_float(double, const std::string&) override {
    return misplaced("a number with a fraction");
  }
  bool string(std::string& value) override;
  bool binary(ReadJson::binary_t&) override { return misplaced("bytes"); }
  bool start_object(size_t) override;
  bool key(std::string& name) override;
  bool end_object() override;
  bool start_array(size_t) override;
  bool end_array() override;
  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception& exception) override;

 private:
  enum class At { kStart, kTop, kMetadata, kTensor, kShape, kOffsets };

  bool refuse(std::string wrong) {
    wrong_ = std::move(wrong);
    return false;
  }
  bool misplaced(std::string_view found);
  bool name_field(std::string_view name);
  bool finish_tensor();

  Safetensors& file_;
  std::string wrong_;
  At at_ = At::kStart;
  bool has_metadata_ = false;
  std::string key_;  // a tensor's name, a key of the metadata
  // State of the tensor at hand.
  FileTensor* tensor_ = nullptr;
  size_t field_ = 0;
  std::array<bool, 3> has_{};
  std::vector<uint64_t> offsets_;
};

bool Header::parse_error(size_t position, const std::string&,
                         const nlohmann::detail::exception& exception) {
  // nlohmann-json: a double cannot hold the number.
  constexpr int kOutOfRange = 406;
  // It counts the bytes that it has read, the one at fault among them.
  return refuse((exception.id == kOutOfRange ? "header: a number too large"
                                             : "header: no JSON") +
                std::string(" at byte ") + std::to_string(position - 1));
}

bool Header::misplaced(std::string_view found) {
  std::string place = "header", wanted = "an object";
  if (at_ != At::kStart)
    place = at_ == At::kMetadata || key_ == kMetadataName
                ? std::string(kMetadataName)
                : tensor_text(key_);
  if (at_ == At::kMetadata) {
    place += ", key " + shown(key_);
    wanted = "a text";
  } else if (at_ == At::kTensor || at_ == At::kShape || at_ == At::kOffsets) {
    place += ", " + std::string(kFields[field_]);
    wanted = at_ != At::kTensor      ? "a whole number from 0 on"
             : field_ == kDtypeField ? "a text"
                                     : "a list";
  }
  return refuse(place + ": " + std::string(found) + " where " + wanted +
                " must stand");
}

bool Header::number_unsigned(uint64_t value) {
  constexpr auto kMost =
      static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  if (at_ != At::kShape && at_ != At::kOffsets) return misplaced("a number");
  if (value > kMost) return misplaced("a number beyond 2^63 - 1");
  if (at_ == At::kOffsets) {
    offsets_.push_back(value);
    return offsets_.size() <= 2 ||
           refuse(tensor_text(key_) +
                  ": data_offsets with more than 2 numbers");
  }
  std::vector<int64_t>& shape = tensor_->shape;
  shape.push_back(static_cast<int64_t>(value));
  return shape.size() <= kMostFileExtents ||
         refuse(tensor_text(key_) + ": a shape of more than " +
                std::to_string(kMostFileExtents) + " extents");
}

bool Header::string(std::string& value) {
  if (at_ == At::kMetadata) {
    file_.metadata[key_] = std::move(value);
    return true;
  }
  if (at_ != At::kTensor || field_ != kDtypeField) return misplaced("a text");
  const auto* found = std::find(kSpellings.begin(), kSpellings.end(), value);
  if (found == kSpellings.end())
    return refuse(tensor_text(key_) + ": dtype " + shown(value) +
                  "; allowed are " + listed(kSpellings));
  tensor_->dtype = static_cast<FileDtype>(found - kSpellings.begin());
  return true;
}

bool Header::start_object(size_t) {
  if (at_ == At::kStart) {
    at_ = At::kTop;
  } else if (at_ != At::kTop) {
    return misplaced("an object");
  } else if (key_ == kMetadataName) {
    at_ = At::kMetadata;
  } else {
    at_ = At::kTensor;
    has_ = {};
    offsets_.clear();
  }
  return true;
}

bool Header::name_field(std::string_view name) {
  field_ = static_cast<size_t>(std::find(kFields.begin(), kFields.end(), name) -
                               kFields.begin());
  if (field_ == kFields.size())
    return refuse(tensor_text(key_) + ": unknown key " + shown(name) +
                  "; allowed are " + listed(kFields));
  if (std::exchange(has_[field_], true))
    return refuse(tensor_text(key_) + ": " + std::string(name) +
                  " is there twice");
  return true;
}

bool Header::key(std::string& name) {
  if (at_ == At::kTensor) return name_field(name);
  key_ = std::move(name);
  if (at_ == At::kMetadata)
    return !file_.metadata.contains(key_) ||
           refuse(std::string(kMetadataName) + ", key " + shown(key_) +
                  " is there twice");
  if (key_ == kMetadataName)
    return !std::exchange(has_metadata_, true) ||
           refuse(std::string(kMetadataName) + " is there twice");
  const auto [found, is_new] = file_.tensors.try_emplace(key_);
  tensor_ = &found->second;
  return is_new || refuse(tensor_text(key_) + " is there twice");
}

bool Header::end_object() {
  if (at_ == At::kTensor && !finish_tensor()) return false;
  at_ = At::kTop;
  return true;
}

bool Header::finish_tensor() {
  for (size_t field = 0; field < kFields.size(); ++field)
    if (!has_[field])
      return refuse(tensor_text(key_) + ": " + std::string(kFields[field]) +
                    " is missing");
  size_t bytes = 0;
  if (std::string wrong = checked_bytes(tensor_->dtype, tensor_->shape, bytes);
      !wrong.empty())
    return refuse(tensor_text(key_) + ": " + wrong);
  const std::string range = "data_offsets " + std::to_string(offsets_[0]) +
                            " .. " + std::to_string(offsets_[1]);
  if (offsets_[0] > offsets_[1])
    return refuse(tensor_text(key_) + ": " + range + " run backwards");
  if (offsets_[1] - offsets_[0] != bytes)
    return refuse(tensor_text(key_) + ": " + range + ", but " +
                  file_tensor_text(tensor_->dtype, tensor_->shape) + " takes " +
                  std::to_string(bytes) + " bytes");
  tensor_->begin = offsets_[0];
  tensor_->bytes = bytes;
  return true;
}

bool Header::start_array(size_t) {
  if (at_ != At::kTensor || field_ == kDtypeField) return misplaced("a list");
  at_ = field_ == kShapeField ? At::kShape : At::kOffsets;
  return true;
}

bool Header::end_array() {
  const bool short_of_two = at_ == At::kOffsets && offsets_.size() != 2;
  at_ = At::kTensor;
  return !short_of_two ||
         refuse(tensor_text(key_) + ": data_offsets with " +
                std::to_string(offsets_.size()) + " numbers, not 2");
}

// "" if the tensors cover the data without holes and overlaps.
std::string check_cover(const Safetensors& file, size_t data_bytes) {
  std::vector<std::pair<const FileTensor*, std::string_view>> order;
  order.reserve(file.tensors.size());
  for (const auto& [name, tensor] : file.tensors)
    order.emplace_back(&tensor, name);
  // A tensor without bytes comes before one with the same beginning.
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return std::pair(a.first->begin, a.first->bytes) <
           std::pair(b.first->begin, b.first->bytes);
  });
  size_t end = 0;
  for (const auto& [tensor, name] : order) {
    if (tensor->begin != end)
      return tensor_text(name) + " begins at byte " +
             std::to_string(tensor->begin) + " of the data, but " +
             std::to_string(end) + " is where those before it end";
    end = tensor->begin + tensor->bytes;
  }
  if (end == data_bytes) return "";
  return std::to_string(data_bytes) + " bytes of data, but the tensors take " +
         std::to_string(end);
}

// Finds the header; returns "" or the problem.
std::string find_header(std::string_view file, std::string_view& header) {
  if (file.size() < kLengthBytes)
    return "is not a safetensors file: " + std::to_string(file.size()) +
           " bytes, and the length of the header takes " +
           std::to_string(kLengthBytes);
  uint64_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i)
    length |= static_cast<uint64_t>(static_cast<unsigned char>(file[i]))
              << (8 * i);
  if (length > kMostSafetensorsHeader)
    return "header of " + std::to_string(length) + " bytes; at most " +
           std::to_string(kMostSafetensorsHeader) + " are allowed";
  const size_t left = file.size() - kLengthBytes;
  if (length > left)
    return "header of " + std::to_string(length) + " bytes, but only " +
           std::to_string(left) + " follow";
  header = file.substr(kLengthBytes, length);
  if (!header.starts_with('{'))
    return "header begins with " + shown(header.substr(0, 1)) +
           ", not with \"{\"";
  // nlohmann-json would take it for the end, and ignore the rest.
  if (const size_t at = header.find('\0'); at != std::string_view::npos)
    return "header: no JSON at byte " + std::to_string(at);
  return "";
}

std::string read_safetensors(std::string_view bytes, Safetensors& file) {
  std::string_view text;
  if (std::string wrong = find_header(bytes, text); !wrong.empty())
    return wrong;
  Header header(file);
  if (!ReadJson::sax_parse(text.begin(), text.end(), &header))
    return header.wrong();
  const size_t data_at = kLengthBytes + text.size();
  if (std::string wrong = check_cover(file, bytes.size() - data_at);
      !wrong.empty())
    return wrong;
  for (auto& [name, tensor] : file.tensors) tensor.begin += data_at;
  return "";
}

bool is_utf8(const std::string& text) {
  return read_json(json_text(ReadJson(text))) == ReadJson(text);
}

std::string check_texts(
    const std::map<std::string, TensorToWrite, std::less<>>& tensors,
    const SafetensorsMetadata& metadata) {
  for (const auto& [name, tensor] : tensors) {
    if (name == kMetadataName)
      return tensor_text(name) + ": this name is that of the metadata";
    if (!is_utf8(name)) return tensor_text(name) + ": its name is not UTF-8";
    if (std::string wrong = check_tensor(tensor); !wrong.empty())
      return tensor_text(name) + ": " + wrong;
  }
  for (const auto& [key, value] : metadata)
    if (!is_utf8(key) || !is_utf8(value))
      return std::string(kMetadataName) + ", key " + shown(key) +
             " is not UTF-8";
  return "";
}

}  // namespace

std::optional<Safetensors> parse_safetensors(std::span<const std::byte> file,
                                             std::string* error) {
  Safetensors result;
  std::string wrong = read_safetensors(
      {reinterpret_cast<const char*>(file.data()), file.size()}, result);
  if (wrong.empty()) return result;
  *error = std::move(wrong);
  return std::nullopt;
}

std::optional<std::vector<std::byte>> safetensors_bytes(
    const std::map<std::string, TensorToWrite, std::less<>>& tensors,
    const SafetensorsMetadata& metadata, std::string* error) {
  *error = check_texts(tensors, metadata);
  if (!error->empty()) return std::nullopt;
  std::vector<std::pair<const TensorToWrite*, std::string_view>> order;
  order.reserve(tensors.size());
  for (const auto& [name, tensor] : tensors) order.emplace_back(&tensor, name);
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) {
                     return file_dtype_bytes(a.first->dtype) >
                            file_dtype_bytes(b.first->dtype);
                   });
  ReadJson json = ReadJson::object();
  if (!metadata.empty()) json[std::string(kMetadataName)] = metadata;
  size_t end = 0;
  for (const auto& [tensor, name] : order) {
    const size_t begin = std::exchange(end, end + tensor->data.size());
    json[std::string(name)] = {
        {"dtype", kSpellings[static_cast<size_t>(tensor->dtype)]},
        {"shape", tensor->shape},
        {"data_offsets", {begin, end}}};
  }
  std::string head = json_text(json);
  head.append((kLengthBytes - head.size() % kLengthBytes) % kLengthBytes, ' ');
  if (head.size() > kMostSafetensorsHeader) {
    *error = "header of " + std::to_string(head.size()) + " bytes; at most " +
             std::to_string(kMostSafetensorsHeader) + " are allowed";
    return std::nullopt;
  }
  std::vector<std::byte> file;
  file.reserve(kLengthBytes + head.size() + end);
  for (size_t i = 0; i < kLengthBytes; ++i)
    file.push_back(static_cast<std::byte>((head.size() >> (8 * i)) & 0xff));
  const auto* bytes = reinterpret_cast<const std::byte*>(head.data());
  file.insert(file.end(), bytes, bytes + head.size());
  for (const auto& [tensor, name] : order)
    file.insert(file.end(), tensor->data.begin(), tensor->data.end());
  return file;
}

}  // namespace qkvet
