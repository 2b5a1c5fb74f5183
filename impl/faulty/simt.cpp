// SPDX-License-Identifier: Apache-2.0
// Faults of kernels for GPUs, on the emulator. It runs threads in an order that
// the shape of a call decides, so that a race has the same outcome on every
// run, and it is wrong in all of the orders.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "impl/abi/tensor_view.h"
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
constexpr qkvet_kernel flash_fault(const char* name, const char* description,
                                   Place place) {
  return device_kernel(name, description, place, &kFlashPrecision,
                       flash_forward<Hooks>, &kFlashFaultCapabilities,
                       supports_device<kFlashMostWidth>);
}

// One that a kernel of any kind may have.
template <class Hooks>
constexpr qkvet_kernel flash_fault_of_any(const char* name,
                                          const char* description,
                                          Place place) {
  return device_kernel(name, description, place, &kFlashPrecision,
                       flash_forward<Hooks>, &kAnyFaultCapabilities,
                       supports_device<kFlashMostWidth>);
}

// The largest |q| of a call of f32.
float largest_query(const qkvet_tensor& q) {
  const View<const float> view = view_of<const float>(q);
  float most = 0;
  for (int64_t b = 0; b < q.shape[0]; ++b) {
    for (int64_t h = 0; h < q.shape[1]; ++h) {
      for (int64_t i = 0; i < q.shape[2]; ++i) {
        for (int64_t c = 0; c < q.shape[3]; ++c) {
          most = std::fmax(most, std::fabs(view.at(b, h, i)[c * view.step[3]]));
        }
      }
    }
  }
  return most;
}

}  // namespace

// A tile is read before all of it is there.
struct SharedTileReadEarly : FlashHooks {
  __device__ static void tile_is_there(DeviceRun, int) {}
};
QKVET_FAULT(shared_tile_read_early) = {
    .kernel = flash_fault<SharedTileReadEarly>,
    .mechanism =
        "threads read a tile of shared memory when their own loads are done, "
        "whatever those of others",
    .symptom = "NaN or values of the tile before, in the warps that run first",
    .cause = "the barrier behind the loads of a tile is missing",
    .fix = "a barrier of the block between the loads and the first read",
    .source = "textbook, cf. pengcuo/FlashMLA-ETAP#3",
    .trigger = "any row that sees a key",
    .killed_by = {"weights_sum_to_one", "agrees_with_oracle"},
    .when = "rows(seen > 0)",
};

// The next tile is loaded over one that is read.
struct SharedTileOverwrittenEarly : FlashHooks {
  __device__ static void tile_is_read() {}
};
QKVET_FAULT(shared_tile_overwritten_early) = {
    .kernel = flash_fault<SharedTileOverwrittenEarly>,
    .mechanism =
        "threads load the next tile into shared memory while others still read "
        "the one before",
    .symptom =
        "rows with more keys than a tile are wrong, most of all those of other "
        "warps; seldom twice the same on a GPU",
    .cause = "a block waits until a tile is there, and not until it was read",
    .fix =
        "a barrier in front of the loads of a tile as well as behind them, or "
        "two buffers in turn",
    .source = "pengcuo/FlashMLA-ETAP#3",
    .trigger = "rows of a block that see more keys than a tile has",
    .killed_by = {"every_key_counts_once", "query_heads_read_their_kv_head"},
    .when = "rows(seen > 32)",
};

// Threads without a row end before they loaded their share.
struct ThreadsLeaveBeforeLoading : FlashHooks {
  __device__ static bool leaves(const DeviceCall& call, int b, int row) {
    return row >= call.rows_of(b);
  }
};
QKVET_FAULT(threads_leave_before_loading) = {
    .kernel = flash_fault<ThreadsLeaveBeforeLoading>,
    .mechanism =
        "threads whose rows lie behind the last query return at once, and what "
        "they would have loaded into shared memory is missing",
    .symptom =
        "wrong where the number of queries is no multiple of the block, NaN "
        "where shared memory is fresh",
    .cause =
        "the guard that belongs around the store of o stands in front of the "
        "loads that all threads share",
    .fix =
        "keep all threads until the last barrier, and guard only what is "
        "theirs alone",
    .source = "ggml-org/llama.cpp#13469",
    .trigger = "queries that do not fill a block of 64 rows",
    .killed_by = {"agrees_with_oracle"},
    .when = "Tq % 64 != 0 && rows(seen > 0)",
};

// Only warps that see a tile come to its barrier.
struct BarrierInABranch : FlashHooks {
  __device__ static void tile_is_there(DeviceRun of_warp, int first) {
    if (first < of_warp.end && of_warp.begin < first + kFlashKeys) {
      __syncthreads();
    }
  }
};
QKVET_FAULT(barrier_in_a_branch) = {
    .kernel = flash_fault<BarrierInABranch>,
    .mechanism =
        "a barrier of the block stands in a branch that only warps with a "
        "visible key of the tile take",
    .symptom =
        "a hang on some GPUs; on others barriers pair up wrongly and tiles are "
        "read too early",
    .cause = "the causal skip of a warp encloses the barrier",
    .fix = "all warps come to every barrier; skip only the arithmetic",
    .source = "ggml-org/llama.cpp#13469",
    .trigger = "two tiles or more, of which some warps of a block see one less",
    .killed_by = {"weights_sum_to_one", "every_key_counts_once"},
    .when = "rows(seen > 32)",
};

// A block loads the tiles that its first row sees.
struct TilesOfFirstRowAlone : FlashHooks {
  __device__ static DeviceRun reach_of_block(const DeviceCall& call, int b,
                                             int first_row) {
    return call.reach_of_rows(b, first_row, 1);
  }
};
QKVET_FAULT(tiles_of_first_row_alone) = {
    .kernel = flash_fault_of_any<TilesOfFirstRowAlone>,
    .mechanism =
        "the causal skip ends where the first row of a block ends, and its "
        "other rows lose the keys behind",
    .symptom = "causal rows behind the first of a block miss keys at the end",
    .cause =
        "the end of a block of rows is computed for its first row instead of "
        "its last",
    .fix = "skip a tile only where the last row of the block sees none of it",
    .source = "textbook",
    .trigger = "causal, and a block of more than one row",
    .killed_by = {"agrees_with_oracle"},
    .when = "causal && Tq > 1",
};

// Where the keys of a head begin is kept in 16 bits.
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
QKVET_FAULT(head_offset_in_16_bits) = {
    .kernel = flash_fault_of_any<HeadOffsetIn16Bits>,
    .mechanism =
        "the offset of the keys of a member and head, in bytes, is kept in 16 "
        "bits",
    .symptom = "heads that lie behind 64 KiB read the keys of others",
    .cause =
        "the pitch of a head is multiplied in the type of the number of the "
        "block",
    .fix = "multiply the numbers of member and head with pitches of 64 bits",
    .source =
        "thu-ml/SageAttention#387, Dao-AILab/flash-attention#772, which are of "
        "32 bits",
    .trigger = "a K of more than 64 KiB, gaps among them, and several heads",
    .killed_by = {"agrees_with_oracle"},
    .when =
        "(layout != qkv && B * Hkv * Tk * d > 16384) || (layout == qkv && B * "
        "Tk * (H + 2 * Hkv) * d > 16384) || (layout == gaps && B * Hkv * Tk * "
        "(d + 15) > 16384) || (layout == apart && B * Hkv * Tk * d > 8192) || "
        "layout == far",
};

// What undoes the division of q by its largest element lies in constant memory
// of the module from one call to its launch.
struct FactorInConstantMemory : FlashHooks {
  static qkvet_status forward(const qkvet_kernel* self, qkvet_context* context,
                              const qkvet_forward_args* args,
                              const qkvet_exec* exec, qkvet_text* why) {
    qkvet_forward_args launched = {};
    qkvet_status status = supports_device<kFlashMostWidth>(self, args, why);
    status = status == QKVET_OK ? read_struct(args, &launched, why) : status;
    if (status != QKVET_OK) {
      return status;
    }
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

 private:
  static float scale_of(const qkvet_forward_args& args) {
    return args.scale_given != 0
               ? args.scale
               : 1 / std::sqrt(static_cast<float>(args.q.shape[3]));
  }
};
constexpr qkvet_kernel factor_kernel(const char* name, const char* description,
                                     Place place) {
  return device_kernel(name, description, place, &kFlashPrecision,
                       FactorInConstantMemory::forward,
                       &kFlashFaultCapabilities,
                       supports_device<kFlashMostWidth>);
}
QKVET_FAULT(factor_in_constant_memory) = {
    .kernel = factor_kernel,
    .mechanism =
        "q is divided by its largest element, and the factor that undoes it is "
        "written to constant memory of the module, which all launches read",
    .symptom =
        "right one by one; of calls from several threads at once one may be "
        "scaled by the factor of another",
    .cause =
        "what belongs to a launch is copied to a symbol of the module in front "
        "of it",
    .fix = "pass it to the kernel, or keep it in the workspace of the call",
    .source = "textbook",
    .trigger = "two calls at once, each with a context of its own",
    .killed_by = {"calls_at_once_change_nothing"},
    .when = "",
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
constexpr qkvet_kernel decode_fault(const char* name, const char* description,
                                    Place place) {
  return decode_kernel<Hooks>(name, description, place, kCapabilities);
}

template <class Hooks>
constexpr qkvet_kernel device_plan_fault(const char* name,
                                         const char* description, Place place) {
  return device_planned_kernel<Hooks>(name, description, place,
                                      &kPlannedDecode);
}

// Rows of a packed batch that are those of a member.
__device__ int rows_of_members(const DeviceCall& call) {
  return call.cu_q[call.batch];
}

}  // namespace

// Where the rows of a member begin is computed from its number.
struct PackedRowsInEvenShares : DecodeHooks {
  template <class T>
  __device__ static const T* query(const DeviceCall& call, int b, int head,
                                   int i) {
    if (!call.cu_q.given()) {
      return DecodeHooks::query<T>(call, b, head, i);
    }
    const int rows = rows_of_members(call);
    const int row = b * rows / call.batch + i;
    return call.q.at<const T>(0, head, min(row, rows - 1));
  }
};
QKVET_FAULT(packed_rows_in_even_shares) = {
    .kernel = decode_fault<PackedRowsInEvenShares>,
    .mechanism =
        "a block takes the queries of its member from where they would begin "
        "if all members had as many rows",
    .symptom =
        "right while all members decode; beside a prompt members answer the "
        "queries of others",
    .cause =
        "the grid has a row of blocks for each member, and its number is "
        "multiplied with a stride as in a batch that is not packed",
    .fix = "begin at cu_seqlens_q[member]",
    .source = "textbook (packed batches)",
    .trigger =
        "a packed batch over pages whose members have other numbers of rows",
    .killed_by = {"packed_members_equal_calls", "agrees_with_oracle"},
    .when =
        "packed && page_size > 0 && members(member > 0) && "
        "members(queries != 1)",
};

// The causal offset is counted from all rows of the batch.
struct PackedDiagonalOfAllRows : DecodeHooks {
  __device__ static int position(const DeviceCall& call, int b, int i) {
    return call.cu_q.given() && !call.top_left
               ? i + call.keys_of(b) - rows_of_members(call)
               : call.position(b, i);
  }
};
QKVET_FAULT(packed_diagonal_of_all_rows) = {
    .kernel = decode_fault<PackedDiagonalOfAllRows>,
    .mechanism =
        "the rows of all members are subtracted where the causal rule counts "
        "those of one",
    .symptom =
        "in a packed batch rows see too few of their last keys, steps of "
        "decoding as many less as there are rows beside them",
    .cause = "Tq of the call is the number of packed rows, and of no member",
    .fix = "kv_len[m] - (cu_seqlens_q[m + 1] - cu_seqlens_q[m])",
    .source = "textbook (packed batches)",
    .trigger =
        "a packed batch over pages of two members with rows, and the causal "
        "rule from the bottom right",
    .killed_by = {"packed_members_equal_calls", "agrees_with_oracle"},
    .when = "packed && page_size > 0 && bottom_right && members(member > 0)",
};

// Tiles are skipped that the first row of a block does not list.
struct ListedTilesOfFirstRow : DecodeHooks {
  __device__ static bool needs_tile(unsigned listed, int own) {
    return own == 0 && listed != 0;
  }
};
QKVET_FAULT(listed_tiles_of_first_row) = {
    .kernel = decode_fault<ListedTilesOfFirstRow, &kListedDecode>,
    .mechanism =
        "whether a tile is read is decided by the list of the first row of a "
        "block",
    .symptom =
        "steps of one row are right; rows of a draft or a prompt lose keys "
        "that no other row has chosen",
    .cause =
        "in decoding all rows of a block are heads of one token, with one list",
    .fix = "skip a tile that no row of the block has in its list",
    .source = "textbook (lists of each row)",
    .trigger = "lists, and two rows of a member",
    .killed_by = {"agrees_with_oracle"},
    .when = "lists && Tq > 1",
};

// The groups of channels of a key are taken to lie side by side.
struct GroupsSideBySide : DecodeHooks {
  // The last channel of the last slot is the last of the page, at most.
  __device__ static DeviceKeys keys(const DeviceCall& call) {
    DeviceKeys k = call.k;
    k.group_step = k.group * k.step[3];
    return k;
  }
};
QKVET_FAULT(channel_groups_side_by_side) = {
    .kernel = decode_fault<GroupsSideBySide, &kGroupedDecode>,
    .mechanism =
        "the groups of channels of a key are read one behind the other, where "
        "the other slots of the page lie between them",
    .symptom =
        "right for pages of one token; else a key begins where it does and "
        "goes on in its neighbours",
    .cause =
        "the tile of a page is loaded with d channels a row, as one of pages "
        "[pages, Hkv, page, d]",
    .fix = "group c / x lies (c / x) * page_size * x behind the first",
    .source = "textbook (vLLM's key cache)",
    .trigger = "keys in groups of channels, two groups and pages of two tokens",
    .killed_by = {"channel_groups_change_nothing", "agrees_with_oracle"},
    .when = "channel_group > 0 && page_size > 1 && d > channel_group",
};

// The merge adds up as many parts of a member as plan() made.
struct PlanPartsKept : DevicePlanHooks {
  static void renew(const PlannedBatch& before, PlannedBatch* next) {
    std::copy(before.counts.begin() + 1, before.counts.end(),
              next->counts.begin() + 1);
  }
};
QKVET_FAULT(plan_parts_kept) = {
    .kernel = device_plan_fault<PlanPartsKept>,
    .mechanism =
        "update() writes other items of work, and the merge of a member still "
        "adds up as many parts as plan() had cut its keys into",
    .symptom =
        "the first batch is right; behind a longer one parts are merged that "
        "nobody has written, behind a shorter one the last parts are lost",
    .cause = "the number of parts is an argument of a captured launch",
    .fix = "read it from memory that update() fills, as the items are",
    .source = "textbook (captured graphs)",
    .trigger = "an update that cuts the keys of a member into other parts",
    .killed_by = {"updated_plan_equals_new_plan"},
    .when = "",
};

}  // namespace qkvet::impl
