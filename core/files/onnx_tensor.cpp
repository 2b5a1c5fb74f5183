// SPDX-License-Identifier: Apache-2.0
#include "core/files/onnx_tensor.h"

#include <array>
#include <cstring>
#include <limits>
#include <string_view>
#include <utility>

#include "core/files/onnx_reading.h"

namespace qkvet {
namespace {

using namespace onnx_reading;

// Field numbers of TensorProto in onnx.proto.
namespace tensor_field {
enum : uint32_t {
  kDims = 1,
  kDataType = 2,
  kSegment = 3,
  kFloatData = 4,
  kInt32Data = 5,
  kStringData = 6,
  kInt64Data = 7,
  kName = 8,
  kRawData = 9,
  kDoubleData = 10,
  kUint64Data = 11,
  kExternalData = 13,
  kDataLocation = 14
};
}  // namespace tensor_field
struct Row {
  std::string_view name;
  int64_t code;  // of data_type
  FileDtype dtype;
  uint32_t field;  // of the numbers that are not in raw_data
};
constexpr std::array<Row, 15> kRows = {
    {{"FLOAT", 1, FileDtype::kF32, tensor_field::kFloatData},
     {"UINT8", 2, FileDtype::kUint8, tensor_field::kInt32Data},
     {"INT8", 3, FileDtype::kInt8, tensor_field::kInt32Data},
     {"UINT16", 4, FileDtype::kUint16, tensor_field::kInt32Data},
     {"INT16", 5, FileDtype::kInt16, tensor_field::kInt32Data},
     {"INT32", 6, FileDtype::kInt32, tensor_field::kInt32Data},
     {"INT64", 7, FileDtype::kInt64, tensor_field::kInt64Data},
     {"BOOL", 9, FileDtype::kBool, tensor_field::kInt32Data},
     {"FLOAT16", 10, FileDtype::kF16, tensor_field::kInt32Data},
     {"DOUBLE", 11, FileDtype::kF64, tensor_field::kDoubleData},
     {"UINT32", 12, FileDtype::kUint32, tensor_field::kUint64Data},
     {"UINT64", 13, FileDtype::kUint64, tensor_field::kUint64Data},
     {"BFLOAT16", 16, FileDtype::kBf16, tensor_field::kInt32Data},
     {"FLOAT8E4M3FN", 17, FileDtype::kFp8e4m3, tensor_field::kInt32Data},
     {"FLOAT8E5M2", 19, FileDtype::kFp8e5m2, tensor_field::kInt32Data}}};

// A tensor as the file has it: at most one of its fields may hold the numbers.
struct RawTensor {
  OnnxTensor tensor;
  int64_t data_type = 0;
  std::optional<std::string_view> raw;
  std::vector<std::byte> floats, doubles;
  std::vector<int64_t> int32s, int64s, uint64s;
};

void read_field(Reader& reader, RawTensor& raw) {
  switch (reader.tag()) {
    case tensor_field::kDims:
      read_ints(reader, raw.tensor.shape);
      break;
    case tensor_field::kDataType:
      raw.data_type = read_int(reader);
      break;
    case tensor_field::kName:
      raw.tensor.name = read_text(reader);
      break;
    case tensor_field::kRawData:
      raw.raw = read_bytes(reader);
      break;
    case tensor_field::kFloatData:
      read_fixed<float>(reader, raw.floats);
      break;
    case tensor_field::kDoubleData:
      read_fixed<double>(reader, raw.doubles);
      break;
    case tensor_field::kInt32Data:
      read_ints(reader, raw.int32s);
      break;
    case tensor_field::kInt64Data:
      read_ints(reader, raw.int64s);
      break;
    case tensor_field::kUint64Data:
      read_ints(reader, raw.uint64s);
      break;
    case tensor_field::kDataLocation:
      if (read_int(reader) != 0) throw Wrong{"its data lie in another file"};
      break;
    case tensor_field::kExternalData:
      throw Wrong{"its data lie in another file"};
    case tensor_field::kSegment:
      throw Wrong{"is a segment of a tensor"};
    case tensor_field::kStringData:
      throw Wrong{"holds texts"};
    default:
      reader.skip();
  }
}

const Row& row_of(int64_t data_type) {
  std::string allowed;
  for (const Row& row : kRows) {
    if (row.code == data_type) return row;
    allowed += (allowed.empty() ? "" : ", ") + std::to_string(row.code) + " (" +
               std::string(row.name) + ")";
  }
  throw Wrong{"data_type " + std::to_string(data_type) + "; allowed are " +
              allowed};
}

// The least and the greatest number of a type that is stored in int32_data or
// in uint64_data: f16 and similar types are stored as their bits.
std::pair<int64_t, int64_t> range_of(FileDtype dtype) {
  switch (dtype) {
    case FileDtype::kInt8:
      return {-128, 127};
    case FileDtype::kInt16:
      return {-32768, 32767};
    case FileDtype::kInt32:
      return {std::numeric_limits<int32_t>::min(),
              std::numeric_limits<int32_t>::max()};
    case FileDtype::kBool:
      return {0, 1};
    case FileDtype::kInt64:
    case FileDtype::kUint64:  // the same 64 bits
      return {std::numeric_limits<int64_t>::min(),
              std::numeric_limits<int64_t>::max()};
    default:
      return {0, (int64_t{1} << (8 * file_dtype_bytes(dtype))) - 1};
  }
}

std::vector<std::byte> narrowed(const std::vector<int64_t>& numbers,
                                FileDtype dtype) {
  const auto [least, greatest] = range_of(dtype);
  const auto width = static_cast<size_t>(file_dtype_bytes(dtype));
  std::vector<std::byte> bytes(numbers.size() * width);
  for (size_t n = 0; n < numbers.size(); ++n) {
    if (numbers[n] < least || numbers[n] > greatest)
      throw Wrong{std::to_string(numbers[n]) + " is no " +
                  std::string(file_dtype_name(dtype)) + "; allowed are " +
                  std::to_string(least) + " .. " + std::to_string(greatest)};
    std::memcpy(bytes.data() + n * width, &numbers[n], width);
  }
  return bytes;
}

// The numbers in the type's own field.
std::vector<std::byte> typed_data(RawTensor& raw, const Row& row) {
  if (row.field == tensor_field::kFloatData) return std::move(raw.floats);
  if (row.field == tensor_field::kDoubleData) return std::move(raw.doubles);
  return narrowed(row.field == tensor_field::kInt32Data   ? raw.int32s
                  : row.field == tensor_field::kInt64Data ? raw.int64s
                                                          : raw.uint64s,
                  row.dtype);
}

// The fields of numbers that hold any.
std::vector<uint32_t> filled_fields(const RawTensor& raw) {
  std::vector<uint32_t> fields;
  if (raw.raw) fields.push_back(tensor_field::kRawData);
  if (!raw.floats.empty()) fields.push_back(tensor_field::kFloatData);
  if (!raw.doubles.empty()) fields.push_back(tensor_field::kDoubleData);
  if (!raw.int32s.empty()) fields.push_back(tensor_field::kInt32Data);
  if (!raw.int64s.empty()) fields.push_back(tensor_field::kInt64Data);
  if (!raw.uint64s.empty()) fields.push_back(tensor_field::kUint64Data);
  return fields;
}

OnnxTensor read_tensor(Reader reader) {
  RawTensor raw;
  while (reader.next()) read_field(reader, raw);
  if (raw.data_type == 0) throw Wrong{"has no data_type"};
  const Row& row = row_of(raw.data_type);
  OnnxTensor& tensor = raw.tensor;
  tensor.dtype = row.dtype;
  const std::vector<uint32_t> fields = filled_fields(raw);
  if (fields.size() > 1) throw Wrong{"has its numbers in two fields"};
  if (!fields.empty() && fields[0] != tensor_field::kRawData &&
      fields[0] != row.field)
    throw Wrong{"has numbers of type " + std::string(row.name) + " in field " +
                std::to_string(fields[0]) + ", not in " +
                std::to_string(row.field) + " or raw_data"};
  if (raw.raw) {
    const auto* first = reinterpret_cast<const std::byte*>(raw.raw->data());
    tensor.data.assign(first, first + raw.raw->size());
  } else {
    tensor.data = typed_data(raw, row);
  }
  if (std::string wrong =
          check_tensor({tensor.dtype, tensor.shape, tensor.data});
      !wrong.empty())
    throw Wrong{wrong};
  return std::move(tensor);
}

}  // namespace

std::optional<OnnxTensor> parse_onnx_tensor(std::span<const std::byte> file,
                                            std::string* error) {
  return guarded(read_tensor, file, "tensor of ONNX", error);
}

}  // namespace qkvet
