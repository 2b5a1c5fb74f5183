// SPDX-License-Identifier: Apache-2.0
// A batch of a plan (planned_skeleton.h): its lengths and tables, read by the
// host, the items of its rows, and the device memory that contains both for
// runs.
#ifndef QKVET_IMPL_CUDA_PLANNED_BATCH_H_
#define QKVET_IMPL_CUDA_PLANNED_BATCH_H_

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>
#include <vector>

#include "impl/call/plan_call.h"
#include "impl/cuda/decode_skeleton.h"

namespace qkvet::impl {

// Few on the emulator, which tests only their order.
#if defined(__CUDACC__)
inline constexpr int64_t kItemsWanted = kBlocksWanted;
#else
inline constexpr int64_t kItemsWanted = 24;
#endif

inline int64_t pieces_of(int64_t all, int64_t piece) {
  return (all + piece - 1) / piece;
}

// One of a call's tensors in memory of the host.
class HostCopy {
 public:
  qkvet_status take(qkvet_tensor* tensor, void* stream, qkvet_text* why) {
    if (tensor->ndim == 0) {
      return QKVET_OK;
    }
    int64_t low = 0, high = 1;
    for (int32_t axis = 0; axis < tensor->ndim; ++axis) {
      const int64_t last = (tensor->shape[axis] - 1) * tensor->strides[axis];
      if (tensor->shape[axis] == 0) {
        return QKVET_OK;
      }
      (last < 0 ? low : high) += last;
    }
    const int64_t bytes = tensor->dtype.bits / 8;
    const char* const first =
        static_cast<const char*>(tensor->data) + tensor->byte_offset;
    memory_.resize(static_cast<size_t>((high - low) * bytes));
    tensor->data = memory_.data() - low * bytes;
    tensor->byte_offset = 0;
    return copy_from_device(memory_.data(), first + low * bytes, memory_.size(),
                            stream, why);
  }

 private:
  std::vector<char> memory_;
};

class DeviceMemory {
 public:
  DeviceMemory() = default;
  ~DeviceMemory() { device_free(data_); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  char* data() const { return static_cast<char*>(data_); }
  // The old contents are kept only if there is no room for more.
  qkvet_status reserve(size_t bytes, qkvet_text* why) {
    if (bytes <= bytes_) {
      return QKVET_OK;
    }
    void* larger = nullptr;
    QKVET_TRY(device_alloc(bytes, &larger, why));
    device_free(data_);
    data_ = larger;
    bytes_ = bytes;
    return QKVET_OK;
  }

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

// The lengths and tables of a batch after plan() and update().
struct PlannedBatch {
  BatchNumbers numbers;
  std::vector<int> counts;  // items, then parts of each member
  std::vector<DecodeItem> items;
  int64_t room = 0;  // items of the largest batch
};

struct DevicePlan {
  explicit DevicePlan(const qkvet_forward_args& args) : made_for(args) {}

  MadeFor made_for;
  PlannedBatch batch;
  DeviceMemory memory;
  size_t tables[std::size(kBatchTables)] = {};  // offsets in memory
  size_t items = 0;
};

// How a batch is cut: kItemsWanted items, and at most one more for each block
// of rows.
class ItemCutter {
 public:
  explicit ItemCutter(const ServingCall& s) : s_(s) {
    const ForwardCall& c = s.call;
    wanted_ =
        std::max<int64_t>(1, kItemsWanted / std::max<int64_t>(1, c.kv_heads));
    int64_t tiles = 0;
    for (int64_t m = 0; m < s.members(); ++m) {
      tiles += row_blocks(m) * tiles_of(m);
    }
    tiles_ = std::max<int64_t>(1, pieces_of(tiles, wanted_));
  }

  int64_t room() const {
    const int64_t rows = group() * s_.call.queries;
    const int64_t blocks = pieces_of(rows, kDecodeRows);
    return wanted_ +
           (s_.packed() ? blocks + s_.members() : blocks * s_.members());
  }
  void cut(PlannedBatch* batch) const {
    batch->room = room();
    batch->counts.assign(static_cast<size_t>(s_.members()) + 1, 0);
    for (int64_t m = 0; m < s_.members(); ++m) {
      cut_member(m, batch);
    }
    batch->counts[0] = static_cast<int>(batch->items.size());
  }

 private:
  int64_t group() const { return s_.call.group(); }
  int64_t row_blocks(int64_t m) const {
    return pieces_of(group() * served_member(s_, m).queries, kDecodeRows);
  }
  // A member without keys also has an item, because its rows are written.
  int64_t tiles_of(int64_t m) const {
    return std::max<int64_t>(1,
                             pieces_of(served_member(s_, m).keys, kDecodeKeys));
  }
  void cut_member(int64_t m, PlannedBatch* batch) const {
    const int64_t tiles = tiles_of(m), keys = served_member(s_, m).keys;
    const int64_t of_part =
        std::max(tiles_, pieces_of(tiles, kDecodeMostParts));
    const int64_t parts = pieces_of(tiles, of_part);
    batch->counts[static_cast<size_t>(m) + 1] = static_cast<int>(parts);
    for (int64_t block = 0; block < row_blocks(m); ++block) {
      for (int64_t part = 0; part < parts; ++part) {
        const int64_t begin = part * of_part * kDecodeKeys;
        const int64_t end = std::min(begin + of_part * kDecodeKeys, keys);
        batch->items.push_back({static_cast<int>(m), static_cast<int>(block),
                                static_cast<int>(part), static_cast<int>(begin),
                                static_cast<int>(end)});
      }
    }
  }

  const ServingCall& s_;
  int64_t wanted_ = 1;
  int64_t tiles_ = 1;  // of an item
};

// Lengths and tables of a call, checked, and the items of their batch.
inline qkvet_status read_batch(const qkvet_kernel* self,
                               const qkvet_forward_args& args, void* stream,
                               PlannedBatch* batch, qkvet_text* why) {
  qkvet_forward_args known = with_addresses(args);
  ServingCall shapes;
  QKVET_TRY(read_served_call(self, &known, kDecodeMostWidth, &shapes, why));
  HostCopy copies[std::size(kBatchTables)];
  for (size_t n = 0; n < std::size(copies); ++n) {
    QKVET_TRY(copies[n].take(&(known.*kBatchTables[n]), stream, why));
  }
  ServingCall s;
  QKVET_TRY(read_served_call(self, &known, kDecodeMostWidth, &s, why));
  QKVET_TRY(check_serving(&s, why));
  batch->numbers.take(known);
  ItemCutter(s).cut(batch);
  return QKVET_OK;
}

// Lays out adjacent blocks of bytes, each at an address that is aligned for all
// types.
class DeviceLayout {
 public:
  size_t add(size_t bytes) {
    constexpr size_t kAlign = 16;
    const size_t at = end_;
    end_ = (end_ + bytes + kAlign - 1) / kAlign * kAlign;
    return at;
  }
  size_t end() const { return end_; }

 private:
  size_t end_ = 0;
};

inline size_t bytes_of_table(const qkvet_tensor& t) {
  int64_t count = t.ndim == 0 ? 0 : t.dtype.bits / 8;
  for (int32_t axis = 0; axis < t.ndim; ++axis) {
    count *= t.shape[axis];
  }
  return static_cast<size_t>(count);
}

// Puts a batch into the memory of a plan: counts, items, tables.
inline qkvet_status upload(PlannedBatch batch, void* stream, DevicePlan* plan,
                           qkvet_text* why) {
  const qkvet_forward_args tables = batch.numbers.with({});
  const size_t counts = batch.counts.size() * sizeof(int);
  size_t at[std::size(kBatchTables)];
  DeviceLayout layout;
  layout.add(counts);
  const size_t items =
      layout.add(static_cast<size_t>(batch.room) * sizeof(DecodeItem));
  for (size_t n = 0; n < std::size(kBatchTables); ++n) {
    at[n] = layout.add(bytes_of_table(tables.*kBatchTables[n]));
  }
  std::vector<char> staged(layout.end());
  const auto put = [&staged](size_t to, const void* from, size_t bytes) {
    if (bytes > 0) {
      std::memcpy(staged.data() + to, from, bytes);
    }
  };
  put(0, batch.counts.data(), counts);
  put(items, batch.items.data(), batch.items.size() * sizeof(DecodeItem));
  for (size_t n = 0; n < std::size(kBatchTables); ++n) {
    const qkvet_tensor& table = tables.*kBatchTables[n];
    put(at[n], table.data, bytes_of_table(table));
  }
  QKVET_TRY(plan->memory.reserve(staged.size(), why));
  QKVET_TRY(copy_to_device(plan->memory.data(), staged.data(), staged.size(),
                           stream, why));
  plan->batch = std::move(batch);
  plan->items = items;
  std::copy(std::begin(at), std::end(at), plan->tables);
  return QKVET_OK;
}

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_CUDA_PLANNED_BATCH_H_
