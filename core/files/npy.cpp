// SPDX-License-Identifier: Apache-2.0
#include "core/files/npy.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <string_view>

namespace qkvet {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kVersionAt = 6, kLengthAt = 8;
// NumPy begins the data at a multiple of this.
constexpr size_t kAlignment = 64;

struct Spelling {
  std::string_view descr;  // without the order of bytes
  FileDtype dtype;
};
constexpr std::array<Spelling, 12> kSpellings = {{{"f8", FileDtype::kF64},
                                                  {"f4", FileDtype::kF32},
                                                  {"f2", FileDtype::kF16},
                                                  {"b1", FileDtype::kBool},
                                                  {"i1", FileDtype::kInt8},
                                                  {"i2", FileDtype::kInt16},
                                                  {"i4", FileDtype::kInt32},
                                                  {"i8", FileDtype::kInt64},
                                                  {"u1", FileDtype::kUint8},
                                                  {"u2", FileDtype::kUint16},
                                                  {"u4", FileDtype::kUint32},
                                                  {"u8", FileDtype::kUint64}}};

std::string descr_of(FileDtype dtype) {
  // The bits of what NumPy does not have.
  if (dtype == FileDtype::kBf16) dtype = FileDtype::kUint16;
  if (dtype == FileDtype::kFp8e4m3 || dtype == FileDtype::kFp8e5m2)
    dtype = FileDtype::kUint8;
  for (const Spelling& row : kSpellings)
    if (row.dtype == dtype)
      return (file_dtype_bytes(dtype) == 1 ? "|" : "<") +
             std::string(row.descr);
  return "";
}

// "" or what is wrong.
std::string read_descr(std::string_view descr, FileDtype& dtype) {
  const char order = descr.empty() ? '\0' : descr[0];
  if (order == '>')
    return "descr " + shown(descr) +
           " has the most significant byte first; allowed is \"<\"";
  if (descr == "|O")
    return "descr " + shown(descr) + ": objects are never read";
  if (order == '<' || order == '=' || order == '|')
    for (const Spelling& row : kSpellings) {
      // "|" means that bytes have no order, so the type has one byte.
      const bool fits = order != '|' || file_dtype_bytes(row.dtype) == 1;
      if (fits && row.descr == descr.substr(1)) {
        dtype = row.dtype;
        return "";
      }
    }
  std::string allowed;
  for (const Spelling& row : kSpellings)
    allowed += (allowed.empty() ? "" : ", ") + descr_of(row.dtype);
  return "descr " + shown(descr) + "; allowed are " + allowed;
}

// The dict literal as NumPy writes it, with its keys in any order, either kind
// of quotes and any white space. Each read_...() returns "" or the problem.
class Header {
 public:
  explicit Header(std::string_view text) : text_(text) {}

  std::string read(NpyArray& array);

 private:
  void skip_space();
  bool take(char c);  // true if it came next
  bool take(std::string_view word);
  std::string expected(std::string_view what);
  std::string read_text(std::string_view& text);
  std::string read_entry(NpyArray& array);
  std::string read_value(size_t key, NpyArray& array);
  std::string read_shape(std::vector<int64_t>& shape);

  std::string_view text_;
  size_t at_ = 0;
  std::array<bool, 3> has_{};  // in the order of kKeys
};

constexpr std::array<std::string_view, 3> kKeys = {"descr", "fortran_order",
                                                   "shape"};
constexpr std::string_view kAllowedKeys =
    "; allowed are descr, fortran_order and shape, each once";

void Header::skip_space() {
  at_ = std::min(text_.find_first_not_of(" \t\r\n\f", at_), text_.size());
}

bool Header::take(char c) { return take(std::string_view(&c, 1)); }

bool Header::take(std::string_view word) {
  skip_space();
  if (!text_.substr(at_).starts_with(word)) return false;
  at_ += word.size();
  return true;
}

std::string Header::expected(std::string_view what) {
  skip_space();
  return "header, byte " + std::to_string(at_) + ": " +
         (at_ == text_.size() ? "ends" : shown(text_.substr(at_, 1))) +
         " where " + std::string(what) + " must stand";
}

std::string Header::read_text(std::string_view& text) {
  const char quote = take('\'') ? '\'' : '"';
  if (quote == '"' && !take('"')) return expected("a text in quotes");
  const size_t end = text_.find(quote, at_);
  if (end == std::string_view::npos)
    return "header, byte " + std::to_string(at_) + ": a text without its end";
  text = text_.substr(at_, end - at_);
  // An escape: NumPy writes none where a type can be read.
  if (text.find('\\') != std::string_view::npos)
    return "header, byte " + std::to_string(at_) + ": a backslash in a text";
  at_ = end + 1;
  return "";
}

std::string Header::read_shape(std::vector<int64_t>& shape) {
  if (!take('(')) return expected("a tuple");
  while (!take(')')) {
    const size_t end =
        std::min(text_.find_first_not_of("-0123456789", at_), text_.size());
    const std::string_view digits = text_.substr(at_, end - at_);
    int64_t extent = 0;
    const auto [stop, code] =
        std::from_chars(digits.data(), digits.data() + digits.size(), extent);
    if (digits.empty()) return expected("an extent or \")\"");
    if (code != std::errc() || stop != digits.data() + digits.size() ||
        std::to_string(extent) != digits)
      return "shape: " + shown(digits) +
             " is not a whole number below 2^63 as Python writes it";
    shape.push_back(extent);
    if (shape.size() > kMostFileExtents)
      return "a shape of more than " + std::to_string(kMostFileExtents) +
             " extents";
    at_ = end;
    const bool comma = take(',');
    // (3) is a number; the tuple is (3,).
    if (comma || (shape.size() > 1 && text_.substr(at_).starts_with(')')))
      continue;
    return expected(shape.size() > 1 ? "\",\" or \")\"" : "\",\"");
  }
  return "";
}

std::string Header::read_value(size_t key, NpyArray& array) {
  if (key == 2) return read_shape(array.tensor.shape);
  if (key == 1) {
    array.fortran_order = take("True");
    return array.fortran_order || take("False") ? ""
                                                : expected("True or False");
  }
  if (take('[') || take('('))
    return "descr is a structured type; allowed is one number per element";
  std::string_view descr;
  std::string wrong = read_text(descr);
  return wrong.empty() ? read_descr(descr, array.tensor.dtype) : wrong;
}

std::string Header::read_entry(NpyArray& array) {
  std::string_view name;
  if (std::string wrong = read_text(name); !wrong.empty()) return wrong;
  const auto key = static_cast<size_t>(
      std::find(kKeys.begin(), kKeys.end(), name) - kKeys.begin());
  if (key == kKeys.size())
    return "header: unknown key " + shown(name) + std::string(kAllowedKeys);
  if (has_[key])
    return "header: " + std::string(name) + " is there twice" +
           std::string(kAllowedKeys);
  has_[key] = true;
  if (!take(':')) return expected("\":\"");
  return read_value(key, array);
}

std::string Header::read(NpyArray& array) {
  if (!take('{')) return expected("\"{\"");
  while (!take('}')) {
    if (std::string wrong = read_entry(array); !wrong.empty()) return wrong;
    if (take(',')) continue;
    if (!take('}')) return expected("\",\" or \"}\"");
    break;
  }
  skip_space();
  if (at_ != text_.size()) return expected("white space");
  for (size_t key = 0; key < kKeys.size(); ++key)
    if (!has_[key])
      return "header: " + std::string(kKeys[key]) + " is missing" +
             std::string(kAllowedKeys);
  return "";
}

// Finds the header; returns "" or the problem.
std::string find_header(std::string_view file, std::string_view& header) {
  if (!file.starts_with(kMagic))
    return "is not a .npy file: it begins with " +
           shown(file.substr(0, kMagic.size())) + ", not with " + shown(kMagic);
  const auto byte = [&](size_t at) {
    return static_cast<size_t>(static_cast<unsigned char>(file[at]));
  };
  if (file.size() < kLengthAt) return "ends before its version";
  const size_t major = byte(kVersionAt), minor = byte(kVersionAt + 1);
  if (major < 1 || major > 3 || minor != 0)
    return "is of version " + std::to_string(major) + "." +
           std::to_string(minor) + "; allowed are 1.0, 2.0 and 3.0";
  const size_t width = major == 1 ? 2 : 4;
  if (file.size() < kLengthAt + width)
    return "ends before the length of its header";
  size_t length = 0;
  for (size_t i = 0; i < width; ++i) length |= byte(kLengthAt + i) << (8 * i);
  const size_t left = file.size() - kLengthAt - width;
  if (length > left)
    return "header of " + std::to_string(length) + " bytes, but only " +
           std::to_string(left) + " follow";
  header = file.substr(kLengthAt + width, length);
  return "";
}

std::string read_npy(std::string_view file, NpyArray& array) {
  std::string_view header;
  if (std::string wrong = find_header(file, header); !wrong.empty())
    return wrong;
  if (std::string wrong = Header(header).read(array); !wrong.empty())
    return wrong;
  FileTensor& tensor = array.tensor;
  if (std::string wrong =
          checked_bytes(tensor.dtype, tensor.shape, tensor.bytes);
      !wrong.empty())
    return wrong;
  tensor.begin =
      static_cast<size_t>(header.data() - file.data()) + header.size();
  const size_t left = file.size() - tensor.begin;
  if (left == tensor.bytes) return "";
  return std::to_string(left) + " bytes of data, but " +
         file_tensor_text(tensor.dtype, tensor.shape) + " takes " +
         std::to_string(tensor.bytes);
}

}  // namespace

std::optional<NpyArray> parse_npy(std::span<const std::byte> file,
                                  std::string* error) {
  NpyArray array;
  std::string wrong = read_npy(
      {reinterpret_cast<const char*>(file.data()), file.size()}, array);
  if (wrong.empty()) return array;
  *error = std::move(wrong);
  return std::nullopt;
}

std::optional<std::vector<std::byte>> npy_bytes(const TensorToWrite& tensor,
                                                bool fortran_order,
                                                std::string* error) {
  if (std::string wrong = check_tensor(tensor); !wrong.empty()) {
    *error = std::move(wrong);
    return std::nullopt;
  }
  std::string shape;
  for (const int64_t extent : tensor.shape)
    shape += (shape.empty() ? "" : ", ") + std::to_string(extent);
  if (tensor.shape.size() == 1) shape += ",";
  std::string head = std::string(kMagic) + std::string("\x01\0\0\0", 4);
  const size_t before = head.size();
  head += "{'descr': '" + descr_of(tensor.dtype) +
          "', 'fortran_order': " + (fortran_order ? "True" : "False") +
          ", 'shape': (" + shape + "), }";
  // kMostFileExtents extents of 19 digits: the length fits into 16 bits.
  head.append((kAlignment - (head.size() + 1) % kAlignment) % kAlignment, ' ');
  head += '\n';
  const size_t length = head.size() - before;
  head[kLengthAt] = static_cast<char>(length & 0xff);
  head[kLengthAt + 1] = static_cast<char>(length >> 8);
  const auto* bytes = reinterpret_cast<const std::byte*>(head.data());
  std::vector<std::byte> file(bytes, bytes + head.size());
  file.insert(file.end(), tensor.data.begin(), tensor.data.end());
  return file;
}

}  // namespace qkvet
