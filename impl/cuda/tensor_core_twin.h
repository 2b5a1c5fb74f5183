// SPDX-License-Identifier: Apache-2.0
// tensor_core.h on the emulator. Errors that no GPU allows are faults: an
// address that is not a multiple of 16, a warp with ended lanes.
#ifndef QKVET_IMPL_CUDA_TENSOR_CORE_TWIN_H_
#define QKVET_IMPL_CUDA_TENSOR_CORE_TWIN_H_

#include <cstdint>
#include <cstring>
#include <vector>

#include "impl/cuda/numbers.h"
#include "impl/cuda/simt/simt.h"

#define SIMT_UNROLL
// The place of a call to a primitive.
#define SIMT_CALLER \
  ::simt::Place { __builtin_FILE(), __builtin_LINE() }

namespace qkvet::impl {

inline constexpr uint32_t kWholeWarp = 0xffffffffu;
inline constexpr unsigned kRowBytes = 16;

inline void need_whole_warp(const simt::Lanes& lanes, simt::Place place) {
  if (lanes.mask != kWholeWarp) {
    simt::fault("an instruction of a whole warp that lacks lanes", place);
  }
}

inline void need_aligned(const void* at, simt::Place place) {
  if (reinterpret_cast<uintptr_t>(at) % kRowBytes != 0) {
    simt::fault("an address that is not a multiple of 16", place);
  }
}

struct MmaLane {
  float* c;
  const uint32_t* a;
  const uint32_t* b;
  simt::Place place;
};

template <class T>
SIMT_UNSEEN inline void mma_of_warp(const simt::Lanes& lanes) {
  constexpr int kRows = 16, kColumns = 8, kTerms = 16;
  float a[kRows][kTerms], b[kTerms][kColumns], c[kRows][kColumns];
  for (int l = 0; l < static_cast<int>(simt::kWarp); ++l) {
    const MmaLane& lane = *static_cast<const MmaLane*>(lanes.data[l]);
    const int g = l / 4, t = l % 4 * 2;
    for (int e = 0; e < 2; ++e) {
      for (int r = 0; r < 4; ++r) {
        a[g + 8 * (r % 2)][t + 8 * (r / 2) + e] =
            to_f32(T{static_cast<uint16_t>(lane.a[r] >> 16 * e)});
      }
      for (int r = 0; r < 2; ++r) {
        b[t + 8 * r + e][g] =
            to_f32(T{static_cast<uint16_t>(lane.b[r] >> 16 * e)});
        c[g + 8 * r][t + e] = lane.c[2 * r + e];
      }
    }
  }
  for (int i = 0; i < kRows; ++i) {
    for (int k = 0; k < kTerms; ++k) {
      for (int n = 0; n < kColumns; ++n) {
        c[i][n] += a[i][k] * b[k][n];
      }
    }
  }
  for (int l = 0; l < static_cast<int>(simt::kWarp); ++l) {
    const MmaLane& lane = *static_cast<const MmaLane*>(lanes.data[l]);
    for (int i = 0; i < 4; ++i) {
      lane.c[i] = c[l / 4 + 8 * (i / 2)][l % 4 * 2 + i % 2];
    }
  }
}

template <class T>
inline void mma_m16n8k16(float* c, const uint32_t* a, const uint32_t* b,
                         simt::Place place = SIMT_CALLER) {
  MmaLane lane = {c, a, b, place};
  simt::together(
      kWholeWarp, &lane,
      [](const simt::Lanes& lanes) {
        need_whole_warp(lanes, SIMT_HERE);
        mma_of_warp<T>(lanes);
      },
      place);
}

struct MatrixLane {
  uint16_t row[8];  // that the lane read
  uint32_t* to;
};

template <bool kTransposed>
SIMT_UNSEEN inline void matrices_of_warp(const simt::Lanes& lanes) {
  for (int l = 0; l < static_cast<int>(simt::kWarp); ++l) {
    const int g = l / 4, t = l % 4 * 2;
    for (int r = 0; r < 4; ++r) {
      uint32_t both = 0;
      for (int e = 0; e < 2; ++e) {
        const int row = kTransposed ? t + e : g;
        const int column = kTransposed ? g : t + e;
        both |= uint32_t{static_cast<const MatrixLane*>(lanes.data[8 * r + row])
                             ->row[column]}
                << 16 * e;
      }
      static_cast<const MatrixLane*>(lanes.data[l])->to[r] = both;
    }
  }
}

// Each lane reads its row itself, so that sanitizers know the reader.
template <bool kTransposed>
inline void load_matrices(uint32_t* to, const void* row, simt::Place place) {
  need_aligned(row, place);
  MatrixLane lane;
  std::memcpy(lane.row, row, sizeof(lane.row));
  lane.to = to;
  simt::together(
      kWholeWarp, &lane,
      [](const simt::Lanes& lanes) {
        need_whole_warp(lanes, SIMT_HERE);
        matrices_of_warp<kTransposed>(lanes);
      },
      place);
}

inline void ldmatrix_x4(uint32_t* to, const void* row,
                        simt::Place place = SIMT_CALLER) {
  load_matrices<false>(to, row, place);
}

inline void ldmatrix_x4_trans(uint32_t* to, const void* row,
                              simt::Place place = SIMT_CALLER) {
  load_matrices<true>(to, row, place);
}

inline void make_copy(const simt::LateCopy& copy) {
  char row[kRowBytes] = {};
  std::memcpy(row, copy.from, copy.bytes);
  std::memcpy(copy.to, row, kRowBytes);
}

// A GPU may copy at any time until the wait: too late for early reads, too
// early for late reads of the old values. Both errors must show.
inline bool copies_at_once(unsigned nth) {
  const simt::Order order = simt::schedule().order;
  return order == simt::Order::kReverse ||
         (order == simt::Order::kRandom && (nth + simt::lane_index()) % 2 == 0);
}

inline void cp_async_16(void* to, const void* from, int bytes,
                        simt::Place place = SIMT_CALLER) {
  need_aligned(to, place);
  need_aligned(from, place);
  if (bytes < 0 || bytes > static_cast<int>(kRowBytes)) {
    simt::fault("a copy of 16 bytes that reads more or less than 0 to 16",
                place);
  }
  simt::LateCopies& late = simt::late_copies();
  const simt::LateCopy copy = {to, from, static_cast<unsigned>(bytes),
                               late.group};
  if (copies_at_once(late.begun++)) {
    make_copy(copy);
  } else {
    late.list.push_back(copy);
  }
}

inline void cp_async_commit() { ++simt::late_copies().group; }

template <int kNewest>
inline void cp_async_wait() {
  simt::LateCopies& late = simt::late_copies();
  size_t kept = 0;
  for (const simt::LateCopy& copy : late.list) {
    if (copy.group + kNewest < late.group) {
      make_copy(copy);
    } else {
      late.list[kept++] = copy;
    }
  }
  late.list.resize(kept);
}

template <class T>
inline uint32_t pack_halves(float low, float high) {
  return from_f32<T>(low).bits | uint32_t{from_f32<T>(high).bits} << 16;
}

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_CUDA_TENSOR_CORE_TWIN_H_
