// SPDX-License-Identifier: Apache-2.0
// serving/paged: reads the pages in place (Kwon et al. 2023, 4.3). Keys come in
// tiles of 64, independent of page borders; a tile of one key/value head is
// converted to f32 rows once and meets all query heads that share it, with an
// online softmax. q.k is summed in eight lanes and a tree.
//
// A tile does not depend on the source of its rows, so neither placement nor
// page size changes a bit. Tiles that no row reaches are not read.
//
// Contract: that of serving_call.h; new tokens are stored before any of them
// is read. Every option except rotations; packed batches over pages only.
// Cost: k and v are read once for 32 queries; memory (64 + 32 group) (d + dv)
// floats.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <new>

#include "impl/abi/declare.h"
#include "impl/serving/kernel.h"
#include "impl/skeletons/serving_skeleton.h"

namespace qkvet::impl {
namespace {

constexpr int64_t kTileKeys = 64;
constexpr int64_t kBlockQueries = 32;
constexpr int kLanes = 8;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

float dot_in_lanes(const float* q, const float* k, int64_t n) {
  float lane[kLanes] = {};
  int64_t c = 0;
  for (; c + kLanes <= n; c += kLanes) {
    for (int l = 0; l < kLanes; ++l) {
      lane[l] += q[c + l] * k[c + l];
    }
  }
  for (int l = 0; c < n; ++c, ++l) {
    lane[l] += q[c] * k[c];
  }
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int l = 0; l < half; ++l) {
      lane[l] += lane[l + half];
    }
  }
  return lane[0];
}

// One query row on its way through the tiles.
struct Row {
  const float* q;  // [d]
  float* acc;      // [dv]
  int64_t h, i;
  Run reach;
  float max;
  float sum;
};

struct Tile {
  const float* k;  // [count, d]
  const float* v;  // [count, dv]
  int64_t first;
  int64_t count;
};

void add_tile(const ForwardCall& call, const Tile& tile, Row* row) {
  float scores[kTileKeys];
  int64_t seen[kTileKeys];
  int64_t count = 0;
  float max = -kInfinity;
  const int64_t end = std::min(row->reach.end, tile.first + tile.count);
  for (int64_t j = std::max(row->reach.begin, tile.first); j < end; ++j) {
    if (!call.options.allows(0, row->h, row->i, j)) {
      continue;
    }
    const float dot = dot_in_lanes(
        row->q, tile.k + (j - tile.first) * call.width, call.width);
    scores[count] = with_options(call, 0, row->h, row->i, j, dot * call.scale);
    max = std::fmax(max, scores[count]);
    seen[count++] = j - tile.first;
  }
  if (count == 0) {
    return;
  }
  if (row->sum == 0) {
    row->max = max;
  } else if (!(max <= row->max)) {
    const float factor = std::exp(row->max - max);
    row->sum *= factor;
    for (int64_t c = 0; c < call.value_width; ++c) {
      row->acc[c] *= factor;
    }
    row->max = max;
  }
  for (int64_t n = 0; n < count; ++n) {
    const float weight = std::exp(scores[n] - row->max);
    const float* const v = tile.v + seen[n] * call.value_width;
    row->sum += weight;
    for (int64_t c = 0; c < call.value_width; ++c) {
      row->acc[c] += weight * v[c];
    }
  }
}

// Some queries of all heads that share a key/value head.
class Block {
 public:
  Block(const ServingCall& serving, const ForwardCall& member, int64_t b,
        float* memory)
      : serving_(serving),
        call_(member),
        b_(b),
        k_(memory),
        v_(k_ + kTileKeys * call_.width),
        q_(v_ + kTileKeys * call_.value_width),
        acc_(q_ + call_.group() * kBlockQueries * call_.width) {}

  static int64_t floats(const ForwardCall& call) {
    return (kTileKeys + call.group() * kBlockQueries) *
           (call.width + call.value_width);
  }
  static int64_t rows(const ForwardCall& call) {
    return call.group() * kBlockQueries;
  }

  void compute(int64_t kv_head, int64_t first, int64_t queries, Row* rows) {
    int64_t count = 0;
    for (int64_t h = 0; h < call_.group(); ++h) {
      for (int64_t i = first; i < first + queries; ++i) {
        rows[count] = begin(kv_head * call_.group() + h, i, count);
        ++count;
      }
    }
    for (int64_t key = 0; key < call_.keys; key += kTileKeys) {
      const int64_t end = std::min(key + kTileKeys, call_.keys);
      const auto reaches = [&](const Row& row) {
        return row.reach.begin < end && key < row.reach.end;
      };
      if (std::any_of(rows, rows + count, reaches)) {
        const Tile tile = load(kv_head, key, end - key);
        for (int64_t n = 0; n < count; ++n) {
          add_tile(call_, tile, rows + n);
        }
      }
    }
    for (int64_t n = 0; n < count; ++n) {
      finish(rows[n]);
    }
  }

 private:
  Row begin(int64_t h, int64_t i, int64_t n) {
    float* const q = q_ + n * call_.width;
    const Storage type = call_.storage;
    const void* const from = type == Storage::kF32
                                 ? static_cast<const void*>(call_.q.at(0, h, i))
                                 : call_.half.q.at(0, h, i);
    const int64_t step =
        type == Storage::kF32 ? call_.q.step[3] : call_.half.q.step[3];
    for (int64_t c = 0; c < call_.width; ++c) {
      q[c] = impl::load(type, from, c * step);
    }
    float* const acc = acc_ + n * call_.value_width;
    std::fill_n(acc, call_.value_width, 0.0f);
    const float sink = call_.options.sink_of(h);
    return {q, acc, h, i, call_.in_reach(i), sink, sink > -kInfinity ? 1.f : 0};
  }

  void load_keys(int64_t head, int64_t first, int64_t count) const {
    const Stored& from = serving_.k;
    float* to = k_;
    for (int64_t j = first; j < first + count; ++j) {
      const Slot slot = serving_.slot(b_, j);
      for (int64_t c = 0; c < call_.width; ++c) {
        *to++ =
            impl::load(from.type, from.data, serving_.key_at(head, slot, c));
      }
    }
  }

  void load_values(int64_t head, int64_t first, int64_t count) const {
    const Stored& from = serving_.v;
    float* to = v_;
    for (int64_t j = first; j < first + count; ++j) {
      const Slot slot = serving_.slot(b_, j);
      const int64_t at = from.index(slot.block, head, slot.row, 0);
      for (int64_t c = 0; c < call_.value_width; ++c) {
        *to++ = impl::load(from.type, from.data, at + c * from.step[3]);
      }
    }
  }

  Tile load(int64_t head, int64_t first, int64_t count) const {
    load_keys(head, first, count);
    load_values(head, first, count);
    return {k_, v_, first, count};
  }

  // A sink without keys gives an empty row.
  void finish(const Row& row) const {
    bool any = row.sum != 0;
    if (any && call_.options.sink.present()) {
      any = false;
      for (int64_t j = row.reach.begin; j < row.reach.end && !any; ++j) {
        any = call_.options.allows(0, row.h, row.i, j);
      }
    }
    for (int64_t c = 0; c < call_.value_width; ++c) {
      const float value = any ? row.acc[c] / row.sum : 0;
      if (call_.storage == Storage::kF32) {
        call_.o.at(0, row.h, row.i)[c * call_.o.step[3]] = value;
      } else {
        store(call_.storage, call_.half.o.at(0, row.h, row.i),
              c * call_.half.o.step[3], value);
      }
    }
    if (call_.lse.data != nullptr) {
      *call_.lse.at(0, row.h, row.i) =
          any ? row.max + std::log(row.sum) : -kInfinity;
    }
  }

  const ServingCall& serving_;
  const ForwardCall& call_;
  int64_t b_;
  float* k_;
  float* v_;
  float* q_;
  float* acc_;
};

qkvet_status compute_member(const ServingCall& serving, int64_t b,
                            qkvet_text* why) {
  const ForwardCall member = served_member(serving, b);
  const std::unique_ptr<float[]> memory(
      new (std::nothrow) float[static_cast<size_t>(Block::floats(member))]);
  const std::unique_ptr<Row[]> rows(
      new (std::nothrow) Row[static_cast<size_t>(Block::rows(member))]);
  if (memory == nullptr || rows == nullptr) {
    return refuse(why, QKVET_OUT_OF_MEMORY, "no memory for a tile of keys");
  }
  Block block(serving, member, b, memory.get());
  for (int64_t head = 0; head < member.kv_heads; ++head) {
    for (int64_t i = 0; i < member.queries; i += kBlockQueries) {
      block.compute(head, i, std::min(kBlockQueries, member.queries - i),
                    rows.get());
    }
  }
  return QKVET_OK;
}

qkvet_status forward(const qkvet_kernel* self, qkvet_context*,
                     const qkvet_forward_args* args, const qkvet_exec* exec,
                     qkvet_text* why) {
  ServingCall serving;
  qkvet_status status = check_exec(exec, why);
  if (status == QKVET_OK) {
    status = read_serving(self, args, &serving, why);
  }
  if (status == QKVET_OK) {
    status = check_serving(&serving, why);
  }
  const int64_t batch = status == QKVET_OK ? serving.members() : 0;
  for (int64_t b = 0; b < batch; ++b) {
    ServingHooks::append(serving, b);
  }
  for (int64_t b = 0; b < batch && status == QKVET_OK; ++b) {
    status = compute_member(serving, b, why);
  }
  return status;
}

constexpr qkvet_precision kPrecision = [] {
  qkvet_precision p = sequential_f32();
  p.dot_lanes = kLanes;
  p.tile = static_cast<int32_t>(kTileKeys);
  return p;
}();

constexpr qkvet_capabilities kCapabilities = [] {
  qkvet_capabilities c = capabilities_with(
      (kAllOptions & ~(QKVET_OPTION_PACKED | QKVET_OPTION_ROPE)) |
          kServingOptions | QKVET_OPTION_PACKED_PAGES | QKVET_OPTION_PAGED_CSR |
          QKVET_OPTION_PAGED_CHANNEL_GROUPS | QKVET_OPTION_VALUES_IN_KEYS |
          QKVET_OPTION_INT32_LENGTHS | kListOptions | kFieldOptions,
      {kF32, kF16, kBf16});
  c.flags |= QKVET_FLAG_LAYOUT_INVARIANT | QKVET_FLAG_PAGE_PLACEMENT_INVARIANT |
             QKVET_FLAG_BATCH_INVARIANT;
  return with_paths(
      c, {{QKVET_AXIS_TK, kTileKeys}, {QKVET_AXIS_TQ, kBlockQueries}});
}();

}  // namespace

extern constinit const qkvet_kernel serving_paged = family_serving(
    QKVET_FAMILY "/paged", "attends where the pages lie, in tiles of 64 keys",
    {"impl/serving/paged.cpp", __LINE__}, &kPrecision, forward, &kCapabilities);

}  // namespace qkvet::impl
