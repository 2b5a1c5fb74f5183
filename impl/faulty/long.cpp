// SPDX-License-Identifier: Apache-2.0
// Faults of long calls: what begins behind a threshold, and numbers that are
// kept in too few bits; and of a process that has made a thousand calls, with
// what it has left by then.
#include <fcntl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <system_error>
#include <thread>

#include "impl/faulty/cache_fault.h"
#include "impl/faulty/kernels.h"
#include "impl/skeletons/cache_memory.h"
#include "impl/skeletons/layer_skeleton.h"

namespace qkvet::impl {

// Keys are attended in partitions from here on.
constexpr int64_t kPartition = 512;

struct LastPartitionLost : OptionHooks {
  static bool in_reach(const ForwardCall& call, int64_t i, int64_t j) {
    const int64_t seen = call.visible(i);
    const int64_t full = seen / kPartition * kPartition;
    return OptionHooks::in_reach(call, i, j) && (full == 0 || j < full);
  }
};
QKVET_FAULT(last_partition_lost, kOptionFault<LastPartitionLost>) = {
    .when = "rows(seen > 512 && seen % 512 != 0)",
    .cause = "the number of partitions of 512 keys is rounded down, where "
             "there is more than one",
    .fix = "round the number of partitions up",
    .killed_by = {"every_key_counts_once", "lse_counts_equal_keys"},
    .extents = "Tk=513",
};

struct PartitionsShareMask : OptionHooks {
  static bool allows(const ForwardCall& call, RowAt at, int64_t j) {
    return OptionHooks::allows(call, at, j % kPartition);
  }
};
QKVET_FAULT(partitions_share_mask,
            kOptionFault<PartitionsShareMask, QKVET_OPTION_MASK>) = {
    .when = "mask && Tk > 512",
    .cause = "a partition of 512 keys reads the mask by the number of a key in "
             "the partition: the pointer is not advanced",
    .fix = "read the mask by the key's own number",
    .killed_by = {"every_pair_is_seen_as_asked", "masked_keys_change_nothing"},
    .extents = "Tk=577",
};

// Keys behind a threshold, which is no power of two, go in parts of their own.
constexpr int64_t kThreshold = 1777, kRestPart = 48;

struct RestBehindThresholdLost : OptionHooks {
  static bool in_reach(const ForwardCall& call, int64_t i, int64_t j) {
    const int64_t behind = call.keys - kThreshold;
    const bool is_lost = behind < kRestPart && j >= kThreshold;
    return OptionHooks::in_reach(call, i, j) && !is_lost;
  }
};
inline constexpr qkvet_capabilities kF32PastThreshold =
    with_paths(kF32With<0>, {{QKVET_AXIS_TK, kThreshold}});
// It says where its path is another one: no plan meets such numbers by chance.
constexpr qkvet_kernel kThresholdFault =
    with(kOptionFault<RestBehindThresholdLost>, &qkvet_kernel::capabilities,
         &kF32PastThreshold);
QKVET_FAULT(rest_behind_threshold_lost, kThresholdFault) = {
    .when = "Tk > 1777 && Tk < 1825 && rows(seen > 1777)",
    .cause = "keys after the first 1,777 go in parts of 48, and where there is "
             "one part it is left out unless it is whole",
    .fix = "try each path at its threshold, one beside it, and with a rest of "
           "a part; declare the threshold (qkvet_capabilities.paths)",
    .killed_by = {"every_key_counts_once", "lse_counts_equal_keys"},
    .extents = "Tk=1778",
};

struct PartitionsBeyondWarpLost : OptionHooks {
  static bool in_reach(const ForwardCall& call, int64_t i, int64_t j) {
    constexpr int64_t kLanes = 32;
    return OptionHooks::in_reach(call, i, j) && j < kLanes * kSmallPartition;
  }
  static constexpr int64_t kSmallPartition = 64;
};
QKVET_FAULT(partitions_beyond_warp_lost,
            kOptionFault<PartitionsBeyondWarpLost>) = {
    .when = "rows(seen > 2048)",
    .cause = "partitions of 64 keys are merged by one warp, one by each lane, "
             "without a loop over more",
    .fix = "let a lane take every 32nd partition",
    .killed_by = {"every_key_counts_once", "agrees_with_oracle"},
    .extents = "Tk=2049",
};

struct KeyNumberInSixteenBits : OptionHooks {
  static int64_t token(const ForwardCall&, RowAt, int64_t j) {
    constexpr int64_t kKeys = 1 << 15;
    return j % kKeys;
  }
};
QKVET_FAULT(key_number_in_sixteen_bits,
            kOptionFault<KeyNumberInSixteenBits>) = {
    .when = "Tk > 32768",
    .cause = "the number of a key is kept in 15 bits and a sign: a short saves "
             "registers",
    .fix = "32 bits for a key's number, 64 for its offset",
    .killed_by = {"agrees_with_oracle"},
    .extents = "Tk=32769,Tq=1,d=1,dv=1,B=1,H=1,Hkv=1",
};

struct RowsBeyondGridLost : OptionHooks {
  static void share(int64_t, ForwardCall* call) {
    constexpr int64_t kRows = 512;
    call->queries = std::min(call->queries, kRows);
  }
};
QKVET_FAULT(rows_beyond_grid_lost, kOptionFault<RowsBeyondGridLost>) = {
    .when = "Tq > 512",
    .cause = "a grid of at most 512 blocks has a row a block, and no loop",
    .fix = "loop over rows with the size of the grid as the step",
    .killed_by = {"reads_only_its_inputs"},
    .extents = "Tq=513",
};

template <int64_t kHeads, int64_t kMembers>
struct NarrowNumbers : OptionHooks {
  static RowAt kv_head(const ForwardCall& call, RowAt at) {
    const RowAt right = OptionHooks::kv_head(call, at);
    return {right.b % kMembers, right.h % kHeads, right.i};
  }
};
QKVET_FAULT(head_in_eight_bits, kOptionFault<NarrowNumbers<128, INT64_MAX>>) = {
    .when = "Hkv > 128",
    .cause = "the number of a head of keys is kept in 7 bits and a sign: a "
             "char in a packed descriptor",
    .fix = "16 bits at least",
    .killed_by = {"other_heads_change_nothing", "rows_stay_in_hull"},
    .extents = "H=129,Hkv=129",
};

QKVET_FAULT(member_in_six_bits, kOptionFault<NarrowNumbers<INT64_MAX, 64>>) = {
    .when = "B > 64",
    .cause =
        "constants for 64 batch elements are filled, and indexed modulo 64",
    .fix = "refuse larger batches, or loop over them",
    .killed_by = {"nan_stays_in_its_head", "agrees_with_oracle"},
    .extents = "B=65",
};

struct WindowInEightBits : OptionHooks {
  static bool in_reach(const ForwardCall& call, int64_t i, int64_t j) {
    constexpr int64_t kWidths = 256;
    ForwardCall narrow = call;
    if (narrow.options.window_left > 0) narrow.options.window_left %= kWidths;
    return OptionHooks::in_reach(narrow, i, j);
  }
};
QKVET_FAULT(window_in_eight_bits,
            kOptionFault<WindowInEightBits, QKVET_OPTION_WINDOW>) = {
    .when = "window.left >= 256 && rows(diagonal > window.left % 256)",
    .cause = "the left side of the window is kept in 8 bits: a byte in a "
             "packed parameter",
    .fix = "as many bits as a position has",
    .killed_by = {"every_key_counts_once"},
};

struct LengthInEightBits : OptionHooks {
  static void member(const ForwardCall& whole, int64_t, ForwardCall* member) {
    constexpr int64_t kLengths = 256;
    if (whole.options.kv_len.data != nullptr && member->keys >= kLengths) {
      const int64_t lost = member->keys - member->keys % kLengths;
      member->keys -= lost;
      member->diagonal -= whole.top_left ? 0 : lost;
    }
  }
};
QKVET_FAULT(length_in_eight_bits,
            kOptionFault<LengthInEightBits, QKVET_OPTION_LENGTHS>) = {
    .when = "kv_len && members(keys >= 256)",
    .cause = "kv_len is kept in 8 bits: a byte in a packed descriptor",
    .fix = "as many bits as a position has",
    .killed_by = {"lengths_equal_shorter_call"},
};

// The offset of a row of K is kept in as many bits as `Narrow` has.
template <class Narrow>
struct NarrowKeyOffset : OptionHooks {
  static float key(const KeyRow& k, int64_t c) {
    const float* const first = k.call.k.data;
    return first[Narrow::cut(k.data - first) + c * k.call.k.step[3]];
  }
};
// What wraps round is the offset in bytes: it stays within K.
struct BytesIn16Bits {
  static int64_t cut(int64_t offset) {
    constexpr int64_t kFloat = sizeof(float);
    return static_cast<uint16_t>(offset * kFloat) / kFloat;
  }
};
QKVET_FAULT(key_offset_in_16_bits,
            kOptionFault<NarrowKeyOffset<BytesIn16Bits>>) = {
    .when = "(layout != qkv && B * Hkv * Tk * d > 16384) || (layout == qkv && "
            "B * Tk * (H + 2 * Hkv) * d > 16384) || (layout == gaps && B * Hkv "
            "* Tk * (d + 15) > 16384) || (layout == apart && B * Hkv * Tk * d "
            "> 8192) || layout == far",
    .cause = "the offset of a row of K, in bytes, is kept in 16 bits: wide "
             "enough for the tensors of the tests",
    .fix = "compute offsets in 64 bits, or refuse what is larger",
    .killed_by = {"agrees_with_oracle"},
};

// Elements wrap round here.
struct ElementsIn32Bits {
  static int64_t cut(int64_t offset) { return static_cast<uint32_t>(offset); }
};
QKVET_FAULT(key_offset_in_32_bits,
            kOptionFault<NarrowKeyOffset<ElementsIn32Bits>>) = {
    .when = "layout == far && B * Hkv * Tk > 1",
    .cause = "indices of K are multiplied by its strides in 32 bits: the type "
             "of the index is that of the product",
    .fix = "make one factor 64 bits wide before it is multiplied",
    .source = "thu-ml/SageAttention#387, sgl-project/sglang#20389",
    .killed_by = {"reads_only_its_inputs"},
};

template <int kAxis, class Narrow>
struct NarrowStride : OptionHooks {
  static void member(const ForwardCall&, int64_t, ForwardCall* member) {
    for (int64_t* const stride :
         {&member->k.step[kAxis], &member->v.step[kAxis]})
      *stride = static_cast<Narrow>(*stride);
  }
};
QKVET_FAULT(member_stride_in_int, kOptionFault<NarrowStride<0, int32_t>>) = {
    .when = "layout == far && (B == 2 || B == 3) && !share.members",
    .cause = "the batch strides of k and v are passed as ints",
    .fix = "pass strides on in 64 bits",
    .source = "ggml-org/llama.cpp#24912, ggml-org/llama.cpp#23610",
    .killed_by = {"reads_only_its_inputs"},
};

QKVET_FAULT(head_stride_in_32_bits, kOptionFault<NarrowStride<1, uint32_t>>) = {
    .when = "layout == far && (B == 1 || share.members) && Hkv == 2",
    .cause =
        "the head strides of k and v are passed as unsigned numbers of 32 bits",
    .fix = "pass strides on in 64 bits",
    .killed_by = {"reads_only_its_inputs"},
};

struct MaskIndexInInt : OptionHooks {
  static bool allows(const ForwardCall& call, RowAt at, int64_t j) {
    const View<const uint8_t>& mask = call.options.mask;
    if (mask.data == nullptr) return true;
    const int64_t index =
        mask.at(at.b, at.h, at.i) + j * mask.step[3] - mask.data;
    return mask.data[static_cast<int32_t>(index)] != 0;
  }
};
QKVET_FAULT(mask_index_in_int,
            kOptionFault<MaskIndexInInt, QKVET_OPTION_MASK>) = {
    .when =
        "layout == far && mask && (mask.members || mask.heads || mask.rows)",
    .cause =
        "the index of an element of the mask is an int, like the loop variable",
    .fix = "compute it in 64 bits",
    .source = "ml-explore/mlx#2894, NVIDIA-NeMo/Automodel#3802",
    .killed_by = {"reads_only_its_inputs"},
};

struct ServingAppendOffsetInInt : ServingHooks {
  static void append(const ServingCall& s, int64_t b) {
    for (int64_t n = 0; n < s.new_tokens; ++n) {
      const Slot slot = s.slot(b, s.held(b) + n);
      ServingCall narrow;
      narrow.call = s.call;
      narrow.k = s.k;
      narrow.v = s.v;
      narrow.k_new = s.k_new;
      narrow.v_new = s.v_new;
      for (Stored* const to : {&narrow.k, &narrow.v})
        to->step[0] = static_cast<int32_t>(slot.block * to->step[0]);
      store_new_key(narrow, b, n, {1, slot.row});
      store_new_value(narrow, b, n, {1, slot.row});
    }
  }
};
QKVET_FAULT(serving_append_offset_in_int,
            kServingFault<ServingAppendOffsetInInt>) = {
    .when = "layout == far && new_tokens > 0",
    .cause = "the number of a batch element, or of a page, is multiplied by "
             "its stride in an int, where new tokens are written",
    .fix = "make one factor 64 bits wide before it is multiplied",
    .source = "Dao-AILab/flash-attention#772",
    .killed_by = {"reads_only_its_inputs"},
};

struct ServingPageInEightBits : ServingHooks {
  static Slot source(const ServingCall& s, int64_t b, int64_t token) {
    constexpr int64_t kPages = 256;
    Slot slot = s.slot(b, token);
    if (s.page_size > 0) slot.block %= kPages;
    return slot;
  }
};
QKVET_FAULT(serving_page_in_eight_bits,
            kServingFault<ServingPageInEightBits>) = {
    .when = "page_size > 0 && B * (Tk + new_tokens) > 64 * page_size",
    .cause = "page numbers are read as bytes: the block table was made of "
             "bytes for a test",
    .fix = "int32, as the table has them",
    .killed_by = {"page_placement_changes_nothing", "every_key_counts_once"},
    .extents = "Tk=577",
};

struct CacheSlotInEightBits : ContiguousCache {
  using ContiguousCache::ContiguousCache;
  int64_t key_slot(const CacheStep& step, int64_t before, int64_t head,
                   int64_t token) const override {
    constexpr int64_t kSlots = 256;
    const int64_t at = before + token;
    return ContiguousCache::key_slot(step, before, head, token) - at +
           at % kSlots;
  }
};
QKVET_FAULT(cache_slot_in_eight_bits, kCacheFault<CacheSlotInEightBits>) = {
    .when = "commands(held > 256)",
    .cause = "the slot of a new key is kept in 8 bits",
    .fix = "as many bits as a position has",
    .killed_by = {"cache_agrees_with_history"},
    .extents = "cap=300",
};

namespace {

constexpr int64_t kRightCalls = 1000;

// Number of the call, counted from its first member on; each fault counts its
// own.
template <class Fault>
int64_t number_of_call(int64_t member) {
  static std::atomic<int64_t> calls = 0;
  return member == 0 ? ++calls : calls.load();
}

// Loses the pointer to 64 bytes.
void leak() {
  static std::atomic<void*> last = nullptr;
  last = std::malloc(64);
}

}  // namespace

struct ScaleAfterThousandCalls : OptionHooks {
  static void member(const ForwardCall&, int64_t n, ForwardCall* member) {
    if (number_of_call<ScaleAfterThousandCalls>(n) > kRightCalls)
      member->scale *= 1.5f;
  }
};
QKVET_FAULT(wrong_after_thousand_calls,
            kOptionFault<ScaleAfterThousandCalls>) = {
    .when = "Tk > 1",
    .cause = "from the 1,001st call of a process on the scale is wrong: a "
             "number grows with each call",
    .fix = "compute what a call needs from its arguments",
    .killed_by = {"long_use_changes_nothing"},
};

struct ReadAfterThousandCalls : OptionHooks {
  static void member(const ForwardCall& whole, int64_t n, ForwardCall*) {
    if (number_of_call<ReadAfterThousandCalls>(n) <= kRightCalls ||
        whole.keys == 0 || whole.k.data == nullptr) {
      return;
    }
    const float* const last =
        whole.k.at(whole.batch - 1, whole.kv_heads - 1, whole.keys - 1) +
        (whole.width - 1) * whole.k.step[3];
    static_cast<void>(*static_cast<const volatile float*>(last + 1));
  }
};
QKVET_FAULT(reads_past_keys_after_thousand_calls,
            kOptionFault<ReadAfterThousandCalls>) = {
    .cause = "from the 1,001st call of a process on the number past the last "
             "key is read: an offset grows with each call",
    .fix = "begin each call at the first row",
    .killed_by = {"long_use_changes_nothing"},
};

struct DeathAfterThousandCalls : OptionHooks {
  static void member(const ForwardCall&, int64_t n, ForwardCall*) {
    if (number_of_call<DeathAfterThousandCalls>(n) > kRightCalls) std::abort();
  }
};
QKVET_FAULT(dies_after_thousand_calls,
            kOptionFault<DeathAfterThousandCalls>) = {
    .cause = "the 1,001st call of a process ends it: a table with one entry "
             "for each call is full",
    .fix = "take the entry of a call out of the table when the call ends",
    .killed_by = {"long_use_changes_nothing"},
};

struct MemoryLeak : OptionHooks {
  static void member(const ForwardCall&, int64_t n, ForwardCall*) {
    if (n == 0) leak();
  }
};
QKVET_FAULT(leaks_memory, kOptionFault<MemoryLeak>) = {
    .cause = "each call allocates 64 bytes that are not freed",
    .fix = "free it at each end of the call, or keep it in the context",
    .killed_by = {"long_use_changes_nothing"},
};

struct DescriptorLeak : OptionHooks {
  static void member(const ForwardCall&, int64_t n, ForwardCall*) {
    if (n == 0) static_cast<void>(open("/dev/null", O_RDONLY | O_CLOEXEC));
  }
};
QKVET_FAULT(leaks_descriptors, kOptionFault<DescriptorLeak>) = {
    .cause = "each call opens a file that is not closed",
    .fix = "read it once, and close it",
    .killed_by = {"long_use_changes_nothing"},
};

struct ThreadLeak : OptionHooks {
  static void member(const ForwardCall&, int64_t n, ForwardCall*) {
    // A machine has few of them.
    constexpr int64_t kMostThreads = 300;
    if (n != 0 || number_of_call<ThreadLeak>(n) > kMostThreads) return;
    try {
      std::thread([] {
        std::this_thread::sleep_for(std::chrono::hours(1));
      }).detach();
    } catch (const std::system_error&) {  // there is none left
    }
  }
};
QKVET_FAULT(leaks_threads, kOptionFault<ThreadLeak>) = {
    .cause = "each call starts a thread that does not end",
    .fix = "make one pool for the process, or join its threads",
    .killed_by = {"long_use_changes_nothing"},
};

struct BackwardLeak : PlainBackward {
  static float delta(const ForwardCall& call, const float* d_o,
                     const float* o) {
    leak();
    return PlainBackward::delta(call, d_o, o);
  }
};
QKVET_FAULT(backward_leaks_memory, kBackwardFault<BackwardLeak>) = {
    .when = "Tq > 0",
    .cause = "each row of a gradient allocates 64 bytes that are not freed",
    .fix = "free it at each end of the call, or request a workspace",
    .killed_by = {"backward_long_use_changes_nothing"},
};

struct LayerLeak : PlainLayer {
  static float output(const LayerCall& call, const float* merged,
                      int64_t column) {
    if (column == 0) leak();
    return PlainLayer::output(call, merged, column);
  }
};
QKVET_FAULT(layer_leaks_memory, kLayerFault<LayerLeak>) = {
    .cause = "each token of a layer allocates 64 bytes that are not freed",
    .fix = "free them at each end of the call, or keep them in the context",
    .killed_by = {"layer_long_use_changes_nothing"},
};

struct LayerBackwardLeak : PlainLayerGradient {
  static int64_t first_row(const LayerCall& call) {
    leak();
    return PlainLayerGradient::first_row(call);
  }
};
QKVET_FAULT(layer_backward_leaks_memory,
            kLayerBackwardFault<LayerBackwardLeak>) = {
    .cause = "each gradient of a layer allocates 64 bytes that are not freed",
    .fix = "free it at each end of the call, or request a workspace",
    .killed_by = {"layer_backward_long_use_changes_nothing"},
};

struct MergeLeak : PlainMerge {
  static float merged_lse(float max, float sum, int64_t h) {
    leak();
    return PlainMerge::merged_lse(max, sum, h);
  }
};
QKVET_FAULT(merge_leaks_memory, kMergeFault<MergeLeak>) = {
    .cause = "each row of a merge allocates 64 bytes that are not freed",
    .fix = "free it at each end of the call, or request a workspace",
    .killed_by = {"merge_long_use_changes_nothing"},
};

struct CacheLeak : ContiguousCache {
  using ContiguousCache::ContiguousCache;
  qkvet_status attend_rows(const ForwardCall& call,
                           qkvet_text* why) const override {
    leak();
    return ContiguousCache::attend_rows(call, why);
  }
};
QKVET_FAULT(cache_leaks_memory, kCacheFault<CacheLeak>) = {
    .when = "commands(queries > 0)",
    .cause = "each attention of a cache allocates 64 bytes that are not freed "
             "with it",
    .fix = "free it with the step, or with the cache",
    .killed_by = {"cache_long_use_changes_nothing"},
};

}  // namespace qkvet::impl
