// SPDX-License-Identifier: Apache-2.0
#include "impl/call/plan_call.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "impl/call/tensor_view.h"

namespace qkvet::impl {
namespace {

using Args = qkvet_forward_args;
using Field = qkvet_tensor Args::*;

constexpr Field kFields[] = {
#define QKVET_FORWARD_TENSOR(field, ...) &Args::field,
#include "qkvet/tensors.def"
};

// The first axis of a pool and the last of a table vary with the batch.
bool is_of_batch(const Args& args, Field field, int32_t axis) {
  if (field == &Args::k || field == &Args::v) {
    return args.page_size > 0 && axis == 0;
  }
  return (field == &Args::block_table && axis == 1) ||
         field == &Args::page_indices;
}

bool same_scalars(const Args& a, const Args& b) {
  return a.causal == b.causal && a.scale_given == b.scale_given &&
         (a.scale_given == 0 || a.scale == b.scale) &&
         a.has_window == b.has_window &&
         (a.has_window == 0 || (a.window_left == b.window_left &&
                                a.window_right == b.window_right)) &&
#define QKVET_FORWARD_NUMBER(field, option) (a.field == b.field)&&
#include "qkvet/tensors.def"
         a.rope == b.rope && a.dropout_p == b.dropout_p &&
         a.page_size == b.page_size && a.key_block_size == b.key_block_size;
}

}  // namespace

MadeFor::MadeFor(const Args& args) : args_(args), extents_{} {
  for (int n = 0; n < kTensors; ++n) {
    qkvet_tensor& tensor = args_.*kFields[n];
    const int32_t rank = std::clamp<int32_t>(tensor.ndim, 0, 4);
    for (int32_t axis = 0; axis < rank && tensor.shape != nullptr; ++axis) {
      extents_[n][axis] = tensor.shape[axis];
    }
    tensor.data = nullptr;
    tensor.shape = tensor.strides = nullptr;
  }
}

const char* MadeFor::differs(const Args& args) const {
  if (!same_scalars(args_, args)) {
    return "the options are not those of the plan";
  }
  for (int n = 0; n < kTensors; ++n) {
    const qkvet_tensor& planned = args_.*kFields[n];
    const qkvet_tensor& given = args.*kFields[n];
    if (planned.ndim != given.ndim ||
        (given.ndim > 0 &&
         (given.shape == nullptr || !is_same(planned.dtype, given.dtype)))) {
      return "the tensors are not those of the plan";
    }
    for (int32_t axis = 0; axis < std::min<int32_t>(given.ndim, 4); ++axis) {
      if (given.shape[axis] != extents_[n][axis] &&
          !is_of_batch(args, kFields[n], axis)) {
        return "the extents are not those of the plan";
      }
    }
  }
  return nullptr;
}

void BatchNumbers::take(const Args& args) {
  for (int n = 0; n < kTables; ++n) {
    const qkvet_tensor& from = args.*kBatchTables[n];
    Table& table = tables_[n];
    table = {};
    if (is_absent(from)) {
      continue;
    }
    table.ndim = from.ndim;
    table.dtype = from.dtype;
    std::copy_n(from.shape, from.ndim, table.shape);
    const int64_t columns = from.ndim == 2 ? from.shape[1] : 1;
    table.strides[0] = columns;
    table.strides[1] = 1;
    const auto bytes = static_cast<size_t>(from.dtype.bits / 8);
    table.data.resize(static_cast<size_t>(from.shape[0] * columns) * bytes);
    const char* const data = static_cast<const char*>(first_element(from));
    char* to = table.data.data();
    for (int64_t i = 0; i < from.shape[0]; ++i) {
      for (int64_t j = 0; j < columns; ++j, to += bytes) {
        const int64_t at =
            i * from.strides[0] + (from.ndim == 2 ? j * from.strides[1] : 0);
        std::memcpy(to, data + at * static_cast<int64_t>(bytes), bytes);
      }
    }
  }
}

Args BatchNumbers::with(Args args) const {
  for (int n = 0; n < kTables; ++n) {
    const Table& table = tables_[n];
    qkvet_tensor& to = args.*kBatchTables[n];
    to = {};
    if (table.ndim == 0) {
      continue;
    }
    // Readers write into none of these.
    to.data = const_cast<char*>(table.data.data());
    to.shape = const_cast<int64_t*>(table.shape);
    to.strides = const_cast<int64_t*>(table.strides);
    to.device_type = QKVET_DEVICE_CPU;
    to.ndim = table.ndim;
    to.dtype = table.dtype;
  }
  return args;
}

BatchNumbers::Table* BatchNumbers::find(Field tensor) {
  const auto* const found =
      std::find(std::begin(kBatchTables), std::end(kBatchTables), tensor);
  return &tables_[found - std::begin(kBatchTables)];
}

void BatchNumbers::take_from(const BatchNumbers& other, Field tensor) {
  Table* const own = find(tensor);
  const Table* const from = const_cast<BatchNumbers&>(other).find(tensor);
  if (own->data.size() == from->data.size()) {
    own->data = from->data;
  }
}

void BatchNumbers::clear(Field tensor) {
  std::vector<char>& data = find(tensor)->data;
  std::fill(data.begin(), data.end(), '\0');
}

Args with_addresses(Args args) {
  alignas(64) static char somewhere[64];
  for (const Field field : kFields) {
    qkvet_tensor& tensor = args.*field;
    if (tensor.ndim > 0 && tensor.data == nullptr) {
      tensor.data = somewhere;
      tensor.byte_offset = 0;
    }
  }
  return args;
}

}  // namespace qkvet::impl
