// SPDX-License-Identifier: Apache-2.0
// Faults of kernels for GPUs, on the emulator. It runs threads in an order that
// the shape of a call decides, so that a race has the same outcome on every
// run, and it is wrong in all of the orders.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "impl/call/tensor_view.h"
#include "impl/cuda/decode_forward.h"
#include "impl/cuda/flash_skeleton.h"
#include "impl/cuda/planned_skeleton.h"
#include "impl/faulty/fault.h"
#include "impl/skeletons/race_window.h"

namespace qkvet::impl {
namespace {

constexpr qkvet_capabilities kFlashFaultCapabilities =
    device_capabilities(kCommonOptions, {kF32}, kFlashMostWidth);
constexpr qkvet_capabilities kAnyFaultCapabilities = [] {
  qkvet_capabilities c = kFlashFaultCapabilities;
  c.flags &= ~QKVET_FLAG_GPU_THREADS;
  return c;
}();

// The kernel of a fault: Hooks derives from FlashHooks (cuda/flash_skeleton.h)
// and replaces one hook. What it does wrong takes threads of a GPU, so that it
// is no cause of what a kernel without them does.
template <class Hooks>
constexpr qkvet_kernel kFlashFault =
    device_kernel("", "", {}, &kFlashPrecision, flash_forward<Hooks>,
                  &kFlashFaultCapabilities, supports_device<kFlashMostWidth>);

// One that a kernel of any kind may have.
template <class Hooks>
constexpr qkvet_kernel kFlashFaultOfAny =
    device_kernel("", "", {}, &kFlashPrecision, flash_forward<Hooks>,
                  &kAnyFaultCapabilities, supports_device<kFlashMostWidth>);

// The largest |q| of a call of f32.
float largest_query(const qkvet_tensor& q) {
  const View<const float> view = view_of<const float>(q);
  float most = 0;
  for (int64_t b = 0; b < q.shape[0]; ++b)
    for (int64_t h = 0; h < q.shape[1]; ++h)
      for (int64_t i = 0; i < q.shape[2]; ++i)
        for (int64_t c = 0; c < q.shape[3]; ++c)
          most = std::fmax(most, std::fabs(view.at(b, h, i)[c * view.step[3]]));
  return most;
}

}  // namespace

struct SharedTileReadEarly : FlashHooks {
  __device__ static void tile_is_there(DeviceRun, int) {}
};
QKVET_FAULT(shared_tile_read_early, kFlashFault<SharedTileReadEarly>) = {
    .when = "rows(seen > 0)",
    .cause = "threads read a tile of shared memory after their own loads: the "
             "barrier after the loads is missing",
    .fix = "a barrier of the block between the loads and the first read",
    .source = "textbook, cf. pengcuo/FlashMLA-ETAP#3",
    .killed_by = {"weights_sum_to_one", "agrees_with_oracle"},
};

struct SharedTileOverwrittenEarly : FlashHooks {
  __device__ static void tile_is_read() {}
};
QKVET_FAULT(shared_tile_overwritten_early,
            kFlashFault<SharedTileOverwrittenEarly>) = {
    .when = "rows(seen > 32)",
    .cause = "threads load the next tile into shared memory while others still "
             "read the last one: the barrier after the reads is missing",
    .fix =
        "add a barrier before the loads of a tile, or use two buffers in turn",
    .source = "pengcuo/FlashMLA-ETAP#3, ashalliants/ninfer-3090#49, "
              "tile-ai/tilelang-ascend#1591",
    .killed_by = {"every_key_counts_once", "query_heads_read_their_kv_head"},
};

struct ThreadsLeaveBeforeLoading : FlashHooks {
  __device__ static bool leaves(const DeviceCall& call, int b, int row) {
    return row >= call.rows_of(b);
  }
};
QKVET_FAULT(threads_leave_before_loading,
            kFlashFault<ThreadsLeaveBeforeLoading>) = {
    .when = "Tq % 64 != 0 && rows(seen > 0)",
    .cause = "threads whose rows are past the last query return before they "
             "load their share of shared memory",
    .fix = "keep all threads until the last barrier, and guard only the store",
    .source = "ggml-org/llama.cpp#13469",
    .killed_by = {"agrees_with_oracle"},
};

struct BarrierInABranch : FlashHooks {
  __device__ static void tile_is_there(DeviceRun of_warp, int first) {
    if (first < of_warp.end && of_warp.begin < first + kFlashKeys)
      __syncthreads();
  }
};
QKVET_FAULT(barrier_in_a_branch, kFlashFault<BarrierInABranch>) = {
    .when = "rows(seen > 32)",
    .cause = "a barrier of the block is in a branch that only warps with a "
             "visible key of the tile take",
    .fix = "all warps come to every barrier; skip only the arithmetic",
    .source = "ggml-org/llama.cpp#13469",
    .killed_by = {"weights_sum_to_one", "every_key_counts_once"},
};

struct TilesOfFirstRowAlone : FlashHooks {
  __device__ static DeviceRun reach_of_block(const DeviceCall& call, int b,
                                             int first_row) {
    return call.reach_of_rows(b, first_row, 1);
  }
};
QKVET_FAULT(tiles_of_first_row_alone,
            kFlashFaultOfAny<TilesOfFirstRowAlone>) = {
    .when = "causal && Tq > 1",
    .cause = "the causal skip ends where the first row of a block ends, and "
             "its other rows lose later keys",
    .fix = "skip a tile only where the last row of the block sees none of it",
    .killed_by = {"agrees_with_oracle"},
};

struct HeadOffsetIn16Bits : FlashHooks {
  // What wraps round is the offset in bytes: it stays within K.
  __device__ static DeviceTensor keys(const DeviceCall& call, int b, int kv) {
    DeviceTensor head = call.k;
    const auto bytes =
        static_cast<uint16_t>((b * call.k.step[0] + kv * call.k.step[1]) *
                              static_cast<int64_t>(sizeof(float)));
    head.data = static_cast<float*>(call.k.data) + bytes / sizeof(float);
    head.step[0] = head.step[1] = 0;
    return head;
  }
};
QKVET_FAULT(head_offset_in_16_bits, kFlashFaultOfAny<HeadOffsetIn16Bits>) = {
    .when = "(layout != qkv && B * Hkv * Tk * d > 16384) || (layout == qkv && "
            "B * Tk * (H + 2 * Hkv) * d > 16384) || (layout == gaps && B * Hkv "
            "* Tk * (d + 15) > 16384) || (layout == apart && B * Hkv * Tk * d "
            "> 8192) || layout == far",
    .cause = "the byte offset of the keys of a head is kept in 16 bits: it is "
             "multiplied in the type of the block number",
    .fix = "multiply with pitches of 64 bits",
    .source = "thu-ml/SageAttention#387, Dao-AILab/flash-attention#772, which "
              "are of 32 bits",
    .killed_by = {"agrees_with_oracle"},
};

struct FactorInConstantMemory : FlashHooks {
  static qkvet_status forward(const qkvet_kernel* self, qkvet_context* context,
                              const qkvet_forward_args* args,
                              const qkvet_exec* exec, qkvet_text* why) {
    qkvet_forward_args launched = {};
    QKVET_TRY(supports_device<kFlashMostWidth>(self, args, why));
    QKVET_TRY(read_struct(args, &launched, why));
    const float own = largest_query(launched.q);
    const bool divides = own > 0 && std::isfinite(own);
    const float found =
        divides ? SharedNumber<FactorInConstantMemory>::pass(own) : own;
    if (found != own) {
      launched.scale = scale_of(launched) * (found / own);
      launched.scale_given = 1;
    }
    return flash_forward<FlashHooks>(self, context, &launched, exec, why);
  }
  static float scale_of(const qkvet_forward_args& args) {
    return args.scale_given != 0
               ? args.scale
               : 1 / std::sqrt(static_cast<float>(args.q.shape[3]));
  }
};
constexpr qkvet_kernel kFactorKernel =
    device_kernel("", "", {}, &kFlashPrecision, FactorInConstantMemory::forward,
                  &kFlashFaultCapabilities, supports_device<kFlashMostWidth>);
QKVET_FAULT(factor_in_constant_memory, kFactorKernel) = {
    .cause = "q is divided by its largest element, and the factor that undoes "
             "it is in constant memory that all launches share",
    .fix = "pass it to the kernel, or keep it in the workspace of the call",
    .killed_by = {"calls_at_once_change_nothing"},
};

// ---- Decoding: packed rows, lists and plans --------------------------------
//
// Hooks derives from DecodeHooks (cuda/decode_skeleton.h) or DevicePlanHooks
// (cuda/planned_skeleton.h). Calls without the option that brings a fault out
// are right.
namespace {

constexpr qkvet_capabilities decode_fault_capabilities(uint64_t options) {
  qkvet_capabilities c =
      device_capabilities(kCommonOptions | options, {kF32}, kDecodeMostWidth);
  c.flags &= ~QKVET_FLAG_GPU_THREADS;
  return c;
}
constexpr qkvet_capabilities kPackedDecode =
    decode_fault_capabilities(kServingOptions | QKVET_OPTION_PACKED_PAGES);
constexpr qkvet_capabilities kListedDecode =
    decode_fault_capabilities(kListOptions);
constexpr qkvet_capabilities kGroupedDecode = decode_fault_capabilities(
    kServingOptions | QKVET_OPTION_PAGED_CHANNEL_GROUPS);
constexpr qkvet_capabilities kPlannedDecode = [] {
  qkvet_capabilities c = decode_fault_capabilities(
      QKVET_OPTION_LENGTHS | QKVET_OPTION_PAGED | QKVET_OPTION_PACKED_PAGES);
  c.flags |= QKVET_FLAG_ALLOCATES;
  return c;
}();

template <class Hooks, const qkvet_capabilities* kCapabilities = &kPackedDecode>
constexpr qkvet_kernel kDecodeFault = decode_kernel<Hooks>("", "", {},
                                                           kCapabilities);

template <class Hooks>
constexpr qkvet_kernel kDevicePlanFault =
    device_planned_kernel<Hooks>("", "", {}, &kPlannedDecode);

// Rows of a packed batch that are those of a member.
__device__ int rows_of_members(const DeviceCall& call) {
  return call.cu_q[call.batch];
}

}  // namespace

struct PackedRowsInEvenShares : DecodeHooks {
  template <class T>
  __device__ static const T* query(const DeviceCall& call, int b, int head,
                                   int i) {
    if (!call.cu_q.given()) return DecodeHooks::query<T>(call, b, head, i);
    const int rows = rows_of_members(call);
    const int row = b * rows / call.batch + i;
    return call.q.at<const T>(0, head, min(row, rows - 1));
  }
};
QKVET_FAULT(packed_rows_in_even_shares,
            kDecodeFault<PackedRowsInEvenShares>) = {
    .when = "packed && page_size > 0 && members(member > 0) && members(queries "
            "!= 1)",
    .cause = "a block takes rows where they would begin if all sequences had "
             "as many rows: a stride replaces the starts",
    .fix = "begin at cu_seqlens_q of the sequence",
    .killed_by = {"packed_members_equal_calls", "agrees_with_oracle"},
};

struct PackedDiagonalOfAllRows : DecodeHooks {
  __device__ static int position(const DeviceCall& call, int b, int i) {
    return call.cu_q.given() && !call.top_left
               ? i + call.keys_of(b) - rows_of_members(call)
               : call.position(b, i);
  }
};
QKVET_FAULT(packed_diagonal_of_all_rows,
            kDecodeFault<PackedDiagonalOfAllRows>) = {
    .when = "packed && page_size > 0 && bottom_right && members(member > 0)",
    .cause = "the causal rule subtracts the rows of all sequences instead of "
             "one: Tq of a packed call is their sum",
    .fix = "kv_len[m] - (cu_seqlens_q[m + 1] - cu_seqlens_q[m])",
    .killed_by = {"packed_members_equal_calls", "agrees_with_oracle"},
};

struct ListedTilesOfFirstRow : DecodeHooks {
  __device__ static bool needs_tile(unsigned listed, int own) {
    return own == 0 && listed != 0;
  }
};
QKVET_FAULT(listed_tiles_of_first_row,
            kDecodeFault<ListedTilesOfFirstRow, &kListedDecode>) = {
    .when = "lists && Tq > 1",
    .cause = "the list of the first row of a block decides whether a tile is "
             "read: decoding has one list a block",
    .fix = "skip a tile that no row of the block has in its list",
    .killed_by = {"agrees_with_oracle"},
};

struct GroupsSideBySide : DecodeHooks {
  // The last channel of the last slot is the last of the page, at most.
  __device__ static DeviceKeys keys(const DeviceCall& call) {
    DeviceKeys k = call.k;
    k.group_step = k.group * k.step[3];
    return k;
  }
};
QKVET_FAULT(channel_groups_side_by_side,
            kDecodeFault<GroupsSideBySide, &kGroupedDecode>) = {
    .when = "channel_group > 0 && page_size > 1 && d > channel_group",
    .cause = "the channel groups of a key are read one after the other, where "
             "the other slots of the page are between them",
    .fix = "read group c / x at (c / x) * page_size * x after the first",
    .source = "textbook (vLLM's key cache)",
    .killed_by = {"channel_groups_change_nothing", "agrees_with_oracle"},
};

struct PlanPartsKept : DevicePlanHooks {
  static void renew(const PlannedBatch& before, PlannedBatch* next) {
    std::copy(before.counts.begin() + 1, before.counts.end(),
              next->counts.begin() + 1);
  }
};
QKVET_FAULT(plan_parts_kept, kDevicePlanFault<PlanPartsKept>) = {
    .cause = "update() writes other items of work, and the merge still adds up "
             "as many parts as plan() made: their number is captured",
    .fix = "read it from memory that update() fills, as the items are",
    .killed_by = {"updated_plan_equals_new_plan"},
};

}  // namespace qkvet::impl
