// SPDX-License-Identifier: Apache-2.0
// Cooperative groups for both compilers: under nvcc those of CUDA, else the
// blocks and tiles of threads that a kernel creates with
//
//   namespace cg = cooperative_groups;
//   const auto block = cg::this_thread_block();
//   const auto tile = cg::tiled_partition<16>(block);
//   float sum = cg::reduce(tile, x, cg::plus<float>());
//   block.sync();
//
// A tile has a power of two of lanes, 32 at most, of one warp. There are no
// grids, clusters, coalesced groups and larger tiles here.
#ifndef QKVET_IMPL_CUDA_SIMT_GROUPS_H_
#define QKVET_IMPL_CUDA_SIMT_GROUPS_H_

#include "simt.h"

#if defined(__CUDACC__)

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

#else

// The place of a call, as the last argument of the function.
#define SIMT_CALLED ::simt::Place place = {__builtin_FILE(), __builtin_LINE()}

// Names are NVIDIA's.
// NOLINTBEGIN(readability-identifier-naming)
namespace cooperative_groups {

class thread_block {
 public:
  static void sync(SIMT_CALLED) { simt::block_barrier(false, place); }
  static unsigned thread_rank() {
    const simt::Index at = simt::thread_index();
    const simt::Extent all = simt::block_extent();
    return (at.z * all.y + at.y) * all.x + at.x;
  }
  static unsigned num_threads() {
    const simt::Extent all = simt::block_extent();
    return all.x * all.y * all.z;
  }
  static unsigned size() { return num_threads(); }
  static simt::Index group_index() { return simt::block_index(); }
  static simt::Index thread_index() { return simt::thread_index(); }
  static simt::Extent dim_threads() { return simt::block_extent(); }
  static simt::Extent group_dim() { return simt::block_extent(); }
};

inline thread_block this_thread_block() { return {}; }

template <unsigned kSize, class Parent = void>
class thread_block_tile {
  static_assert(kSize >= 1 && kSize <= 32 && (kSize & (kSize - 1)) == 0,
                "a tile has 1, 2, 4, 8, 16 or 32 lanes");

 public:
  thread_block_tile(unsigned rank, unsigned count)
      : meta_rank_(rank), meta_size_(count) {}
  template <class Other>
  thread_block_tile(const thread_block_tile<kSize, Other>& other)
      : meta_rank_(other.meta_group_rank()),
        meta_size_(other.meta_group_size()) {}

  void sync(SIMT_CALLED) const { simt::warp_barrier(mask(), place); }
  static unsigned thread_rank() { return simt::lane_index() % kSize; }
  static constexpr unsigned num_threads() { return kSize; }
  static constexpr unsigned size() { return kSize; }
  // Which of the parent's tiles this is, and how many there are.
  unsigned meta_group_rank() const { return meta_rank_; }
  unsigned meta_group_size() const { return meta_size_; }

  template <class T>
  T shfl(T value, int rank, SIMT_CALLED) const {
    return simt::WarpAt{place}.shuffle(mask(), value, rank, kWidth);
  }
  template <class T>
  T shfl_up(T value, unsigned by, SIMT_CALLED) const {
    return simt::WarpAt{place}.shuffle_up(mask(), value, by, kWidth);
  }
  template <class T>
  T shfl_down(T value, unsigned by, SIMT_CALLED) const {
    return simt::WarpAt{place}.shuffle_down(mask(), value, by, kWidth);
  }
  template <class T>
  T shfl_xor(T value, unsigned bits, SIMT_CALLED) const {
    return simt::WarpAt{place}.shuffle_xor(mask(), value,
                                           static_cast<int>(bits), kWidth);
  }
  // Bit n is the vote of the lane of rank n.
  unsigned ballot(int yes, SIMT_CALLED) const {
    return simt::WarpAt{place}.ballot(mask(), yes != 0) >> first();
  }
  int any(int yes, SIMT_CALLED) const {
    return simt::WarpAt{place}.any(mask(), yes != 0) ? 1 : 0;
  }
  int all(int yes, SIMT_CALLED) const {
    return simt::WarpAt{place}.all(mask(), yes != 0) ? 1 : 0;
  }

 private:
  static constexpr int kWidth = static_cast<int>(kSize);

  static unsigned first() { return simt::lane_index() / kSize * kSize; }
  static uint32_t mask() { return (0xffffffffu >> (32 - kSize)) << first(); }

  unsigned meta_rank_, meta_size_;
};

// Tiles of a block; its number of threads is a multiple of the tile.
template <unsigned kSize>
thread_block_tile<kSize, thread_block> tiled_partition(const thread_block&,
                                                       SIMT_CALLED) {
  const unsigned threads = thread_block::num_threads();
  if (threads % kSize != 0) {
    simt::fault("divides its block into tiles that leave threads over", place);
  }
  return {thread_block::thread_rank() / kSize, threads / kSize};
}

template <unsigned kSize, unsigned kOf, class Parent>
thread_block_tile<kSize, thread_block_tile<kOf, Parent>> tiled_partition(
    const thread_block_tile<kOf, Parent>& tile) {
  static_assert(kSize <= kOf, "a part of a tile is no larger than the tile");
  return {tile.thread_rank() / kSize, kOf / kSize};
}

template <class Group>
void sync(const Group& group, SIMT_CALLED) {
  group.sync(place);
}

template <class T>
struct plus {
  T operator()(T a, T b) const { return a + b; }
};
template <class T>
struct less {
  T operator()(T a, T b) const { return b < a ? b : a; }
};
template <class T>
struct greater {
  T operator()(T a, T b) const { return a < b ? b : a; }
};
template <class T>
struct bit_and {
  T operator()(T a, T b) const { return a & b; }
};
template <class T>
struct bit_or {
  T operator()(T a, T b) const { return a | b; }
};
template <class T>
struct bit_xor {
  T operator()(T a, T b) const { return a ^ b; }
};

// All lanes get the result. Pairs at half of the tile first, then at a quarter
// of it; the order on a GPU is not documented.
template <unsigned kSize, class Parent, class T, class Operation>
T reduce(const thread_block_tile<kSize, Parent>& tile, T value,
         const Operation& operation, SIMT_CALLED) {
  for (unsigned bits = kSize / 2; bits > 0; bits /= 2) {
    value = operation(value, tile.shfl_xor(value, bits, place));
  }
  return value;
}

}  // namespace cooperative_groups
   // NOLINTEND(readability-identifier-naming)

#undef SIMT_CALLED

#endif

#endif  // QKVET_IMPL_CUDA_SIMT_GROUPS_H_
