// SPDX-License-Identifier: Apache-2.0
// Reads messages of protobuf, only for core/onnx_*.cpp: a field of another wire
// type than it should have is refused, and problems are thrown up to guarded().
#ifndef QKVET_CORE_FILES_ONNX_READING_H_
#define QKVET_CORE_FILES_ONNX_READING_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <protozero/pbf_reader.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace qkvet::onnx_reading {

using Reader = protozero::pbf_reader;
using protozero::pbf_wire_type;

// The problem of a file with an intact frame.
struct Wrong {
  std::string text;
};

inline void expect_wire(const Reader& reader, pbf_wire_type type) {
  if (reader.wire_type() != type)
    throw Wrong{"field " + std::to_string(reader.tag()) + " is of wire type " +
                std::to_string(static_cast<uint32_t>(reader.wire_type())) +
                ", not " + std::to_string(static_cast<uint32_t>(type))};
}

inline int64_t read_int(Reader& reader) {
  expect_wire(reader, pbf_wire_type::varint);
  return reader.get_int64();
}

inline std::string_view read_bytes(Reader& reader) {
  expect_wire(reader, pbf_wire_type::length_delimited);
  const protozero::data_view view = reader.get_view();
  return {view.data(), view.size()};
}

inline std::string read_text(Reader& reader) {
  return std::string(read_bytes(reader));
}

inline Reader read_message(Reader& reader) {
  expect_wire(reader, pbf_wire_type::length_delimited);
  return reader.get_message();
}

// A repeated number: packed, or one at a time.
inline void read_ints(Reader& reader, std::vector<int64_t>& numbers) {
  if (reader.wire_type() != pbf_wire_type::length_delimited) {
    numbers.push_back(read_int(reader));
    return;
  }
  for (const int64_t number : reader.get_packed_int64())
    numbers.push_back(number);
}

// The same of fixed width, as the bytes that they are.
template <class Number>
inline void read_fixed(Reader& reader, std::vector<std::byte>& bytes) {
  if (reader.wire_type() == pbf_wire_type::length_delimited) {
    const uint32_t field = reader.tag();
    const std::string_view read = read_bytes(reader);
    if (read.size() % sizeof(Number) != 0)
      throw Wrong{"field " + std::to_string(field) + " ends within a number"};
    const auto* first = reinterpret_cast<const std::byte*>(read.data());
    bytes.insert(bytes.end(), first, first + read.size());
    return;
  }
  Number number = 0;
  if constexpr (sizeof(Number) == 4) {
    expect_wire(reader, pbf_wire_type::fixed32);
    number = reader.get_float();
  } else {
    expect_wire(reader, pbf_wire_type::fixed64);
    number = reader.get_double();
  }
  const size_t at = bytes.size();
  bytes.resize(at + sizeof number);
  std::memcpy(bytes.data() + at, &number, sizeof number);
}

// Reads with `read`; what is thrown on the way becomes *error.
template <class Result>
std::optional<Result> guarded(Result (*read)(Reader),
                              std::span<const std::byte> file,
                              std::string_view what, std::string* error) {
  try {
    return read(
        Reader(reinterpret_cast<const char*>(file.data()), file.size()));
  } catch (const Wrong& wrong) {
    *error = wrong.text;
  } catch (const protozero::exception& exception) {
    *error = "is no " + std::string(what) + ": " + exception.what();
  }
  return std::nullopt;
}

}  // namespace qkvet::onnx_reading

#endif  // QKVET_CORE_FILES_ONNX_READING_H_
