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

#include "impl/call/declare.h"
#include "impl/serving/kernel.h"
#include "impl/serving/rows.h"

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
  float* acc;      // [dv], sum of weight * value
  int64_t h, i;
  Run reach;
  float max;
  float sum;  // of weights; 0: no key and no sink so far
  bool seen;  // a key
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
  row->seen = true;
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

// A sink without keys gives an empty row.
void finish(const ForwardCall& call, Row* row) {
  if (!row->seen) {
    std::fill_n(row->acc, call.value_width, 0.0f);
    row->sum = 1;
    row->max = -kInfinity;
  }
  store_output(call, row->h, row->i, row->acc, row->sum);
  if (call.lse.data != nullptr) {
    *call.lse.at(0, row->h, row->i) = row->max + std::log(row->sum);
  }
}

// Memory of a member.
struct Room {
  float* k;    // [kTileKeys, d]
  float* v;    // [kTileKeys, dv]
  float* q;    // [group * kBlockQueries, d]
  float* acc;  // [group * kBlockQueries, dv]
  Row* rows;   // [group * kBlockQueries]
};

// Queries [first, end) of all heads that share a key/value head.
void attend(const ServingCall& s, const ForwardCall& call, int64_t b,
            int64_t kv, int64_t first, int64_t end, const Room& room) {
  int64_t count = 0;
  for (int64_t h = kv * call.group(); h < (kv + 1) * call.group(); ++h) {
    for (int64_t i = first; i < end; ++i, ++count) {
      const float sink = call.options.sink_of(h);
      float* const q = room.q + count * call.width;
      float* const acc = room.acc + count * call.value_width;
      load_query(call, h, i, q);
      std::fill_n(acc, call.value_width, 0.0f);
      room.rows[count] = {
          q,    acc, h, i, call.in_reach(i), sink, sink > -kInfinity ? 1.f : 0,
          false};
    }
  }
  for (int64_t key = 0; key < call.keys; key += kTileKeys) {
    const Tile tile = {room.k, room.v, key,
                       std::min(kTileKeys, call.keys - key)};
    const auto reaches = [&](const Row& row) {
      return row.reach.begin < key + tile.count && key < row.reach.end;
    };
    if (std::any_of(room.rows, room.rows + count, reaches)) {
      load_keys(s, b, kv, key, tile.count, room.k);
      load_values(s, b, kv, key, tile.count, room.v);
      for (int64_t n = 0; n < count; ++n) {
        add_tile(call, tile, room.rows + n);
      }
    }
  }
  for (int64_t n = 0; n < count; ++n) {
    finish(call, room.rows + n);
  }
}

qkvet_status compute_member(const ServingCall& s, int64_t b, qkvet_text* why) {
  const ForwardCall call = served_member(s, b);
  const int64_t rows = call.group() * kBlockQueries;
  std::unique_ptr<float[]> floats;
  std::unique_ptr<Row[]> memory;
  constexpr const char* kNoMemory = "no memory for a tile of keys";
  QKVET_TRY(allocate((kTileKeys + rows) * (call.width + call.value_width),
                     &floats, why, kNoMemory));
  QKVET_TRY(allocate(rows, &memory, why, kNoMemory));
  Room room = {floats.get(), nullptr, nullptr, nullptr, memory.get()};
  room.v = room.k + kTileKeys * call.width;
  room.q = room.v + kTileKeys * call.value_width;
  room.acc = room.q + rows * call.width;
  for (int64_t kv = 0; kv < call.kv_heads; ++kv) {
    for (int64_t i = 0; i < call.queries; i += kBlockQueries) {
      attend(s, call, b, kv, i, std::min(i + kBlockQueries, call.queries),
             room);
    }
  }
  return QKVET_OK;
}

constexpr qkvet_precision kPrecision = [] {
  qkvet_precision p = sequential_f32();
  p.dot_lanes = kLanes;
  p.tile = static_cast<int32_t>(kTileKeys);
  return p;
}();

constexpr qkvet_capabilities kCapabilities = [] {
  qkvet_capabilities c = capabilities_with(
      (kAllOptions & ~(QKVET_OPTION_PACKED | kRotations)) | kServingOptions |
          QKVET_OPTION_PACKED_PAGES | QKVET_OPTION_PAGED_CSR |
          QKVET_OPTION_PAGED_CHANNEL_GROUPS | QKVET_OPTION_VALUES_IN_KEYS |
          QKVET_OPTION_INT32_LENGTHS | kListOptions | kFieldOptions,
      {kF32, kF16, kBf16});
  c.flags |= QKVET_FLAG_LAYOUT_INVARIANT | QKVET_FLAG_PAGE_PLACEMENT_INVARIANT |
             QKVET_FLAG_BATCH_INVARIANT | QKVET_FLAG_BATCH_MATES_INVARIANT;
  return with_paths(
      c, {{QKVET_AXIS_TK, kTileKeys}, {QKVET_AXIS_TQ, kBlockQueries}});
}();

}  // namespace

extern constinit const qkvet_kernel serving_paged = family_serving(
    QKVET_FAMILY "/paged", "attends where the pages lie, in tiles of 64 keys",
    {"impl/serving/paged.cpp", __LINE__}, &kPrecision,
    serve_members<ServingHooks::append, compute_member>, &kCapabilities);

}  // namespace qkvet::impl
