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
#include "impl/skeletons/plain_scores.h"

namespace qkvet::impl {

// Keys are attended in partitions from here on.
constexpr int64_t kPartition = 512;

// The last partition is lost unless it is full.
struct LastPartitionLost : OptionHooks {
  static bool in_reach(const ForwardCall& call, int64_t i, int64_t j) {
    const int64_t seen = call.visible(i);
    const int64_t full = seen / kPartition * kPartition;
    return OptionHooks::in_reach(call, i, j) && (full == 0 || j < full);
  }
};
QKVET_FAULT(last_partition_lost) = {
    .kernel = option_fault<LastPartitionLost>,
    .mechanism =
        "the number of partitions of 512 keys is rounded down, where there is "
        "more than one",
    .symptom = "right up to 512 keys; then up to 511 keys count nothing",
    .cause = "keys / partition for (keys + partition - 1) / partition",
    .fix = "round the number of partitions up",
    .source = "textbook (split decoding)",
    .trigger = "a row that sees more than 512 keys, and no multiple of it",
    .killed_by = {"every_key_counts_once", "lse_counts_equal_keys",
                  "agrees_with_oracle"},
    .when = "rows(seen > 512 && seen % 512 != 0)",
    .extents = "Tk=513",
};

// Every partition reads the mask of the first.
struct PartitionsShareMask : OptionHooks {
  static bool allows(const ForwardCall& call, RowAt at, int64_t j) {
    return OptionHooks::allows(call, at, j % kPartition);
  }
};
QKVET_FAULT(partitions_share_mask) = {
    .kernel = option_fault<PartitionsShareMask, QKVET_OPTION_MASK>,
    .mechanism =
        "a partition of 512 keys reads the mask by the number of a key in the "
        "partition",
    .symptom = "right up to 512 keys; then the mask of the first ones repeats",
    .cause = "the mask's pointer is not advanced by the partition's first key",
    .fix = "read the mask by the key's own number",
    .source = "textbook (split decoding)",
    .trigger = "a mask with columns of its own, and more than 512 keys",
    .killed_by = {"every_pair_is_seen_as_asked", "masked_keys_change_nothing",
                  "agrees_with_oracle"},
    .when = "mask && Tk > 512",
    .extents = "Tk=577",
};

// Keys behind a threshold, which is no power of two, go in parts of their own.
constexpr int64_t kThreshold = 1777, kRestPart = 48;

// A first part that is not whole is lost.
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
constexpr qkvet_kernel threshold_fault(const char* name,
                                       const char* description, Place place) {
  qkvet_kernel kernel =
      option_fault<RestBehindThresholdLost>(name, description, place);
  kernel.capabilities = &kF32PastThreshold;
  return kernel;
}
QKVET_FAULT(rest_behind_threshold_lost) = {
    .kernel = threshold_fault,
    .mechanism =
        "keys behind the first 1,777 go in parts of 48, and where there is one "
        "part it is left out unless it is whole",
    .symptom = "right up to 1,777 keys and from 1,825 on; wrong between",
    .cause =
        "a second path from a tuned threshold on, whose loop over parts was "
        "tried with whole ones and with many",
    .fix =
        "try each path at its threshold, one beside it, and with a rest of a "
        "part; declare the threshold (qkvet_capabilities.paths)",
    .source = "textbook (thresholds found by tuning)",
    .trigger = "1,778 to 1,824 keys, and a row that sees one behind 1,777",
    .killed_by = {"every_key_counts_once", "lse_counts_equal_keys",
                  "agrees_with_oracle"},
    .when = "Tk > 1777 && Tk < 1825 && rows(seen > 1777)",
    .extents = "Tk=1778",
};

// One warp of 32 lanes merges, a partition a lane.
struct PartitionsBeyondWarpLost : OptionHooks {
  static bool in_reach(const ForwardCall& call, int64_t i, int64_t j) {
    constexpr int64_t kLanes = 32;
    return OptionHooks::in_reach(call, i, j) && j < kLanes * kSmallPartition;
  }

 private:
  static constexpr int64_t kSmallPartition = 64;
};
QKVET_FAULT(partitions_beyond_warp_lost) = {
    .kernel = option_fault<PartitionsBeyondWarpLost>,
    .mechanism =
        "partitions of 64 keys are merged by one warp, each lane one of them",
    .symptom = "right up to 2,048 keys; those behind count nothing",
    .cause = "a merge without a loop over more partitions than lanes",
    .fix = "let a lane take every 32nd partition",
    .source = "textbook (split decoding)",
    .trigger = "a row that sees more than 2,048 keys",
    .killed_by = {"every_key_counts_once", "agrees_with_oracle"},
    .when = "rows(seen > 2048)",
    .extents = "Tk=2049",
};

// Key numbers wrap at 2^15.
struct KeyNumberInSixteenBits : OptionHooks {
  static int64_t token(const ForwardCall&, RowAt, int64_t j) {
    constexpr int64_t kKeys = 1 << 15;
    return j % kKeys;
  }
};
QKVET_FAULT(key_number_in_sixteen_bits) = {
    .kernel = option_fault<KeyNumberInSixteenBits>,
    .mechanism = "the number of a key is kept in 15 bits and a sign",
    .symptom = "from key 32,768 on the first ones are read again",
    .cause = "a short for an index, to save registers",
    .fix = "32 bits for a key's number, 64 for its offset",
    .source = "textbook (index widths)",
    .trigger = "more than 32,768 keys",
    .killed_by = {"agrees_with_oracle"},
    .when = "Tk > 32768",
    .extents = "Tk=32769,Tq=1,d=1,dv=1,B=1,H=1,Hkv=1",
};

// Rows behind the grid are not computed.
struct RowsBeyondGridLost : OptionHooks {
  static void share(int64_t, ForwardCall* call) {
    constexpr int64_t kRows = 512;
    call->queries = std::min(call->queries, kRows);
  }
};
QKVET_FAULT(rows_beyond_grid_lost) = {
    .kernel = option_fault<RowsBeyondGridLost>,
    .mechanism = "a grid of at most 512 blocks has a row a block, and no loop",
    .symptom = "rows from 512 on are what the memory held before",
    .cause = "a limit of the launch without a stride over the grid",
    .fix = "loop over rows with the size of the grid as the step",
    .source = "textbook (grid-stride loops)",
    .trigger = "more than 512 rows",
    .killed_by = {"reads_only_its_inputs"},
    .when = "Tq > 512",
    .extents = "Tq=513",
};

// The head of keys and values wraps at 2^7.
struct HeadInEightBits : OptionHooks {
  static RowAt kv_head(const ForwardCall& call, RowAt at) {
    constexpr int64_t kHeads = 128;
    const RowAt right = OptionHooks::kv_head(call, at);
    return {right.b, right.h % kHeads, right.i};
  }
};
QKVET_FAULT(head_in_eight_bits) = {
    .kernel = option_fault<HeadInEightBits>,
    .mechanism = "the number of a head of keys is kept in 7 bits and a sign",
    .symptom = "from 129 heads on the first ones are read again",
    .cause = "a char in a packed descriptor",
    .fix = "16 bits at least",
    .source = "textbook (index widths)",
    .trigger = "more than 128 heads of keys and values",
    .killed_by = {"other_heads_change_nothing", "rows_stay_in_hull",
                  "agrees_with_oracle"},
    .when = "Hkv > 128",
    .extents = "H=129,Hkv=129",
};

// The member of the batch wraps at 2^6.
struct MemberInSixBits : OptionHooks {
  static RowAt kv_head(const ForwardCall& call, RowAt at) {
    constexpr int64_t kMembers = 64;
    const RowAt right = OptionHooks::kv_head(call, at);
    return {right.b % kMembers, right.h, right.i};
  }
};
QKVET_FAULT(member_in_six_bits) = {
    .kernel = option_fault<MemberInSixBits>,
    .mechanism = "constants for 64 members are filled, and indexed modulo 64",
    .symptom = "from 65 members on the keys of the first ones are read again",
    .cause = "a table of fixed size for a batch of any size",
    .fix = "refuse larger batches, or loop over them",
    .source = "textbook (index widths)",
    .trigger = "more than 64 members",
    .killed_by = {"nan_stays_in_its_head", "agrees_with_oracle"},
    .when = "B > 64",
    .extents = "B=65",
};

// The left side of the window wraps at 2^8.
struct WindowInEightBits : OptionHooks {
  static bool in_reach(const ForwardCall& call, int64_t i, int64_t j) {
    constexpr int64_t kWidths = 256;
    ForwardCall narrow = call;
    if (narrow.options.window_left > 0) narrow.options.window_left %= kWidths;
    return OptionHooks::in_reach(narrow, i, j);
  }
};
QKVET_FAULT(window_in_eight_bits) = {
    .kernel = option_fault<WindowInEightBits, QKVET_OPTION_WINDOW>,
    .mechanism = "the left side of the window is kept in 8 bits",
    .symptom = "a window of 256 keys or more sees the rest of a division",
    .cause = "a byte in a packed parameter",
    .fix = "as many bits as a position has",
    .source = "textbook (index widths)",
    .trigger = "a window of 256 keys or more to the left that a row reaches",
    .killed_by = {"every_key_counts_once"},
    .when = "window.left >= 256 && rows(diagonal > window.left % 256)",
};

// A member's length wraps at 2^8.
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
QKVET_FAULT(length_in_eight_bits) = {
    .kernel = option_fault<LengthInEightBits, QKVET_OPTION_LENGTHS>,
    .mechanism = "kv_len is kept in 8 bits",
    .symptom = "members of 256 keys or more see the rest of a division",
    .cause = "a byte in a packed descriptor",
    .fix = "as many bits as a position has",
    .source = "textbook (index widths)",
    .trigger = "kv_len of 256 or more",
    .killed_by = {"lengths_equal_shorter_call"},
    .when = "kv_len && members(keys >= 256)",
};

// The offset of a row of K is kept in as many bits as `Narrow` has.
template <class Hooks, class Narrow>
struct RowsOfNarrowOffset : PlainScores<Hooks> {
  using typename PlainScores<Hooks>::Memory;
  using PlainScores<Hooks>::sees;

  static const float* key(const ForwardCall& call, RowAt kv, int64_t j) {
    return call.k.data + Narrow::cut(call.k.at(kv.b, kv.h, j) - call.k.data);
  }

  static float score(const ForwardCall& call, RowAt at, int64_t j) {
    const float* const q = call.q.at(at.b, at.h, at.i);
    const float* const k = key(call, Hooks::kv_head(call, at), j);
    float dot = 0;
    for (int64_t c = 0; c < call.width; ++c) {
      dot += q[c * call.q.step[3]] * k[c * call.k.step[3]];
    }
    return dot * call.scale;
  }

  // Scores become weights; returns their sum, and in *lse what is returned.
  static float weigh(const ForwardCall& call, RowAt at, float* weights,
                     float* lse) {
    float max = OptionHooks::kNone, sum = 0;
    for (int64_t j = 0; j < call.keys; ++j) {
      weights[j] = sees(call, at, j) ? score(call, at, j) : OptionHooks::kNone;
      if (!std::isnan(max) && !(weights[j] <= max)) max = weights[j];
    }
    for (int64_t j = 0; j < call.keys && max != OptionHooks::kNone; ++j) {
      weights[j] = std::exp(weights[j] - max);
      sum += weights[j];
    }
    *lse = sum == 0 ? OptionHooks::kNone : max + std::log(sum);
    return sum;
  }

  static void row(const ForwardCall& call, RowAt at, Memory* memory) {
    float lse = 0;
    const float sum = weigh(call, at, memory->weights, &lse);
    const RowAt kv = Hooks::kv_head(call, at);
    for (int64_t c = 0; c < call.value_width; ++c) {
      float acc = 0;
      for (int64_t j = 0; j < call.keys; ++j) {
        if (sees(call, at, j)) {
          acc +=
              memory->weights[j] * call.v.at(kv.b, kv.h, j)[c * call.v.step[3]];
        }
      }
      call.o.at(at.b, at.h, at.i)[c * call.o.step[3]] =
          sum == 0 ? 0 : acc / sum;
    }
    if (call.lse.data != nullptr) {
      *call.lse.at(at.b, at.h, at.i) = lse;
    }
  }
};
// What wraps round is the offset in bytes: it stays within K.
struct BytesIn16Bits {
  static int64_t cut(int64_t offset) {
    constexpr int64_t kFloat = sizeof(float);
    return static_cast<uint16_t>(offset * kFloat) / kFloat;
  }
};
template <class Hooks>
using RowsOfKeyOffsetIn16Bits = RowsOfNarrowOffset<Hooks, BytesIn16Bits>;
QKVET_FAULT(key_offset_in_16_bits) = {
    .kernel = option_fault_on<RowsOfKeyOffsetIn16Bits, OptionHooks, 0>,
    .mechanism = "the offset of a row of K, in bytes, is kept in 16 bits",
    .symptom = "right for small tensors; behind 64 KiB the keys begin again",
    .cause =
        "an index has the type that was wide enough for the tensors of the "
        "tests",
    .fix = "compute offsets in 64 bits, or refuse what is larger",
    .source = "textbook (index widths)",
    .trigger = "a K of more than 64 KiB, gaps among them",
    .killed_by = {"agrees_with_oracle"},
    .when =
        "(layout != qkv && B * Hkv * Tk * d > 16384) || (layout == qkv && B * "
        "Tk * (H + 2 * Hkv) * d > 16384) || (layout == gaps && B * Hkv * Tk * "
        "(d + 15) > 16384) || (layout == apart && B * Hkv * Tk * d > 8192) || "
        "layout == far",
};

// The same in elements, and in 32 bits.
struct ElementsIn32Bits {
  static int64_t cut(int64_t offset) { return static_cast<uint32_t>(offset); }
};
template <class Hooks>
using RowsOfKeyOffsetIn32Bits = RowsOfNarrowOffset<Hooks, ElementsIn32Bits>;
QKVET_FAULT(key_offset_in_32_bits) = {
    .kernel = option_fault_on<RowsOfKeyOffsetIn32Bits, OptionHooks, 0>,
    .mechanism = "indices of K are multiplied by its strides in 32 bits",
    .symptom =
        "right until a key lies 2^32 elements behind the first: a view of a "
        "wider buffer gets there long before K has so many",
    .cause = "the type of an index decides that of its product",
    .fix = "make one factor 64 bits wide before it is multiplied",
    .source = "thu-ml/SageAttention#387, sgl-project/sglang#20389",
    .trigger = "a row of K that begins 2^32 elements behind the first",
    .killed_by = {"reads_only_its_inputs"},
    .when = "layout == far && B * Hkv * Tk > 1",
};

// The strides of members are ints.
struct MemberStrideInInt : OptionHooks {
  static void member(const ForwardCall&, int64_t, ForwardCall* member) {
    for (int64_t* const stride : {&member->k.step[0], &member->v.step[0]}) {
      *stride = static_cast<int32_t>(*stride);
    }
  }
};
QKVET_FAULT(member_stride_in_int) = {
    .kernel = option_fault<MemberStrideInInt>,
    .mechanism = "the strides of a member of k and v are handed on as ints",
    .symptom =
        "right below 2^31; above it the stride is negative, or begins again at "
        "0, and keys are read where there are none",
    .cause = "an int parameter for a stride of 64 bits, which no warning shows",
    .fix = "hand strides on in 64 bits",
    .source = "ggml-org/llama.cpp#24912, ggml-org/llama.cpp#23610",
    .trigger = "members of k and v that lie 2^31 elements apart",
    .killed_by = {"reads_only_its_inputs"},
    .when = "layout == far && (B == 2 || B == 3) && !share.members",
};

// The strides of heads are unsigned, of 32 bits.
struct HeadStrideIn32Bits : OptionHooks {
  static void member(const ForwardCall&, int64_t, ForwardCall* member) {
    for (int64_t* const stride : {&member->k.step[1], &member->v.step[1]}) {
      *stride = static_cast<uint32_t>(*stride);
    }
  }
};
QKVET_FAULT(head_stride_in_32_bits) = {
    .kernel = option_fault<HeadStrideIn32Bits>,
    .mechanism =
        "the strides of a head of k and v are handed on as unsigned numbers of "
        "32 bits",
    .symptom = "right below 2^32; above it all heads but the first are garbage",
    .cause = "a packed argument block of 32-bit words",
    .fix = "hand strides on in 64 bits",
    .source = "textbook (index widths)",
    .trigger = "two heads of k and v that lie 2^32 elements apart",
    .killed_by = {"reads_only_its_inputs"},
    .when = "layout == far && (B == 1 || share.members) && Hkv == 2",
};

// The index into a mask is an int.
struct MaskIndexInInt : OptionHooks {
  static bool allows(const ForwardCall& call, RowAt at, int64_t j) {
    const View<const uint8_t>& mask = call.options.mask;
    if (mask.data == nullptr) return true;
    const int64_t index =
        mask.at(at.b, at.h, at.i) + j * mask.step[3] - mask.data;
    return mask.data[static_cast<int32_t>(index)] != 0;
  }
};
QKVET_FAULT(mask_index_in_int) = {
    .kernel = option_fault<MaskIndexInInt, QKVET_OPTION_MASK>,
    .mechanism = "the index of an element of the mask is an int",
    .symptom =
        "right up to 2^31 elements, which a square of 46,341 tokens has; then "
        "bytes in front of the mask are read",
    .cause = "a flat index of the loop variable's type",
    .fix = "compute it in 64 bits",
    .source = "ml-explore/mlx#2894, NVIDIA-NeMo/Automodel#3802",
    .trigger = "a mask with an element 2^31 behind the first",
    .killed_by = {"reads_only_its_inputs"},
    .when =
        "layout == far && mask && (mask.members || mask.heads || mask.rows)",
};

// Where a new token is written is computed in an int.
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
      for (Stored* const to : {&narrow.k, &narrow.v}) {
        to->step[0] = static_cast<int32_t>(slot.block * to->step[0]);
      }
      store_new_key(narrow, b, n, {1, slot.row});
      store_new_value(narrow, b, n, {1, slot.row});
    }
  }
};
QKVET_FAULT(serving_append_offset_in_int) = {
    .kernel = serving_fault<ServingAppendOffsetInInt>,
    .mechanism =
        "the number of a member, or of a page, is multiplied by its stride in "
        "an int, where new tokens are written",
    .symptom =
        "right in small caches; in a large one new tokens land in other "
        "members, or nowhere",
    .cause = "both factors are ints in the kernel that appends",
    .fix = "make one factor 64 bits wide before it is multiplied",
    .source = "Dao-AILab/flash-attention#772",
    .trigger = "a slot for a new token 2^31 elements behind the first",
    .killed_by = {"reads_only_its_inputs"},
    .when = "layout == far && new_tokens > 0",
};

// A page's number wraps at 2^8.
struct ServingPageInEightBits : ServingHooks {
  static Slot source(const ServingCall& s, int64_t b, int64_t token) {
    constexpr int64_t kPages = 256;
    Slot slot = s.slot(b, token);
    if (s.page_size > 0) slot.block %= kPages;
    return slot;
  }
};
QKVET_FAULT(serving_page_in_eight_bits) = {
    .kernel = serving_fault<ServingPageInEightBits>,
    .mechanism = "page numbers are read as bytes",
    .symptom = "right in a small pool; in a large one other members' pages",
    .cause = "a block table that was made of bytes for a test",
    .fix = "int32, as the table has them",
    .source = "textbook (index widths)",
    .trigger = "a pool of more than 256 pages",
    .killed_by = {"page_placement_changes_nothing", "every_key_counts_once",
                  "agrees_with_oracle"},
    .when = "page_size > 0 && B * (Tk + new_tokens) > 64 * page_size",
    .extents = "Tk=577",
};

// Positions of tokens wrap at 2^8 in a cache.
class CacheSlotInEightBits : public ContiguousCache {
 public:
  using ContiguousCache::ContiguousCache;

 protected:
  int64_t key_slot(const CacheStep& step, int64_t before, int64_t head,
                   int64_t token) const override {
    constexpr int64_t kSlots = 256;
    const int64_t at = before + token;
    return ContiguousCache::key_slot(step, before, head, token) - at +
           at % kSlots;
  }
};
QKVET_FAULT(cache_slot_in_eight_bits) = {
    .kernel = cache_fault<CacheSlotInEightBits>,
    .mechanism = "the slot of a new key is kept in 8 bits",
    .symptom = "from the 257th token on keys overwrite the first ones",
    .cause = "a byte for a position",
    .fix = "as many bits as a position has",
    .source = "textbook (index widths)",
    .trigger = "a sequence of more than 256 tokens",
    .killed_by = {"cache_agrees_with_history"},
    .when = "commands(held > 256)",
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

// The counter of calls has three digits.
struct ScaleAfterThousandCalls : OptionHooks {
  static void member(const ForwardCall&, int64_t n, ForwardCall* member) {
    if (number_of_call<ScaleAfterThousandCalls>(n) > kRightCalls) {
      member->scale *= 1.5f;
    }
  }
};
QKVET_FAULT(wrong_after_thousand_calls) = {
    .kernel = option_fault<ScaleAfterThousandCalls>,
    .mechanism = "from the 1,001st call of a process on the scale is wrong",
    .symptom = "right in every test, wrong in a server after some seconds",
    .cause = "a number is kept between calls and grows with each of them",
    .fix = "compute what a call needs from its arguments",
    .source = "textbook",
    .trigger = "more than 1,000 calls in one process",
    .killed_by = {"long_use_changes_nothing"},
    .when = "Tk > 1",
};

// The slot of a call in a ring of a thousand is its number.
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
QKVET_FAULT(reads_past_keys_after_thousand_calls) = {
    .kernel = option_fault<ReadAfterThousandCalls>,
    .mechanism =
        "from the 1,001st call of a process on the number past the last key is "
        "read",
    .symptom = "right in every test; a server dies after some seconds",
    .cause = "an offset is kept between calls and grows",
    .fix = "begin each call at the first row",
    .source = "textbook",
    .trigger = "more than 1,000 calls in one process",
    .killed_by = {"long_use_changes_nothing"},
    .when = "",
};

// The table of calls is full.
struct DeathAfterThousandCalls : OptionHooks {
  static void member(const ForwardCall&, int64_t n, ForwardCall*) {
    if (number_of_call<DeathAfterThousandCalls>(n) > kRightCalls) {
      std::abort();
    }
  }
};
QKVET_FAULT(dies_after_thousand_calls) = {
    .kernel = option_fault<DeathAfterThousandCalls>,
    .mechanism = "the 1,001st call of a process ends it",
    .symptom = "right in every test; a server dies after some seconds",
    .cause = "a table with one entry for each call is full",
    .fix = "take the entry of a call out of the table when the call ends",
    .source = "textbook",
    .trigger = "more than 1,000 calls in one process",
    .killed_by = {"long_use_changes_nothing"},
    .when = "",
};

struct MemoryLeak : OptionHooks {
  static void member(const ForwardCall&, int64_t n, ForwardCall*) {
    if (n == 0) {
      leak();
    }
  }
};
QKVET_FAULT(leaks_memory) = {
    .kernel = option_fault<MemoryLeak>,
    .mechanism = "each call allocates 64 bytes that nothing frees",
    .symptom = "answers are right; a server is out of memory after a week",
    .cause = "scratch is allocated in the call and its pointer is forgotten",
    .fix = "free it at each end of the call, or keep it in the context",
    .source = "textbook",
    .trigger = "any call",
    .killed_by = {"long_use_changes_nothing"},
    .when = "",
};

struct DescriptorLeak : OptionHooks {
  static void member(const ForwardCall&, int64_t n, ForwardCall*) {
    if (n == 0) {
      static_cast<void>(open("/dev/null", O_RDONLY | O_CLOEXEC));
    }
  }
};
QKVET_FAULT(leaks_descriptors) = {
    .kernel = option_fault<DescriptorLeak>,
    .mechanism = "each call opens a file that nothing closes",
    .symptom =
        "answers are right; after a thousand calls the process can open no "
        "file and accept no connection",
    .cause = "a file with tuned parameters is opened in the call",
    .fix = "read it once, and close it",
    .source = "textbook",
    .trigger = "any call",
    .killed_by = {"long_use_changes_nothing"},
    .when = "",
};

struct ThreadLeak : OptionHooks {
  static void member(const ForwardCall&, int64_t n, ForwardCall*) {
    // A machine has few of them.
    constexpr int64_t kMostThreads = 300;
    if (n != 0 || number_of_call<ThreadLeak>(n) > kMostThreads) {
      return;
    }
    try {
      std::thread([] {
        std::this_thread::sleep_for(std::chrono::hours(1));
      }).detach();
    } catch (const std::system_error&) {  // there is none left
    }
  }
};
QKVET_FAULT(leaks_threads) = {
    .kernel = option_fault<ThreadLeak>,
    .mechanism = "each call starts a thread that does not end",
    .symptom = "answers are right; a server slows down and dies after an hour",
    .cause = "a pool of threads is made for each call and never told to stop",
    .fix = "make one pool for the process, or join its threads",
    .source = "textbook",
    .trigger = "any call",
    .killed_by = {"long_use_changes_nothing"},
    .when = "",
};

// The sum of a row's products with its gradient is kept.
struct BackwardLeak : PlainBackward {
  static float delta(const ForwardCall& call, const float* d_o,
                     const float* o) {
    leak();
    return PlainBackward::delta(call, d_o, o);
  }
};
QKVET_FAULT(backward_leaks_memory) = {
    .kernel = backward_fault<BackwardLeak>,
    .mechanism = "each row of a gradient allocates 64 bytes that nothing frees",
    .symptom = "gradients are right; training is out of memory after a day",
    .cause = "scratch is allocated in the call and its pointer is forgotten",
    .fix = "free it at each end of the call, or ask for a workspace",
    .source = "textbook",
    .trigger = "any call of backward()",
    .killed_by = {"backward_long_use_changes_nothing"},
    .when = "Tq > 0",
};

// A row of the layer.
struct LayerLeak : PlainLayer {
  static float output(const LayerCall& call, const float* merged,
                      int64_t column) {
    if (column == 0) {
      leak();
    }
    return PlainLayer::output(call, merged, column);
  }
};
constexpr qkvet_kernel leaking_layer(const char* name, const char* description,
                                     Place place) {
  return layer_kernel(name, description, place, &kLayerPrecision,
                      &kLayerTable<LayerLeak>);
}
QKVET_FAULT(layer_leaks_memory) = {
    .kernel = leaking_layer,
    .mechanism = "each token of a layer allocates 64 bytes that nothing frees",
    .symptom = "layers are right; a server is out of memory after a day",
    .cause = "activations are allocated in the call and forgotten",
    .fix = "free them at each end of the call, or keep them in the context",
    .source = "textbook",
    .trigger = "any call of a layer",
    .killed_by = {"layer_long_use_changes_nothing"},
    .when = "",
};

struct LayerBackwardLeak : PlainLayerGradient {
  static int64_t first_row(const LayerCall& call) {
    leak();
    return PlainLayerGradient::first_row(call);
  }
};
QKVET_FAULT(layer_backward_leaks_memory) = {
    .kernel = layer_backward_fault<LayerBackwardLeak>,
    .mechanism = "each gradient of a layer allocates 64 bytes and loses them",
    .symptom = "gradients are right; training is out of memory after a day",
    .cause = "activations are computed again into memory that is forgotten",
    .fix = "free it at each end of the call, or ask for a workspace",
    .source = "textbook",
    .trigger = "any call of layer_backward()",
    .killed_by = {"layer_backward_long_use_changes_nothing"},
    .when = "",
};

struct MergeLeak : PlainMerge {
  static float merged_lse(float max, float sum, int64_t h) {
    leak();
    return PlainMerge::merged_lse(max, sum, h);
  }
};
QKVET_FAULT(merge_leaks_memory) = {
    .kernel = merge_fault<MergeLeak>,
    .mechanism = "each row of a merge allocates 64 bytes that nothing frees",
    .symptom = "answers are right; a server is out of memory after a day",
    .cause = "the table of states is allocated in the call and forgotten",
    .fix = "free it at each end of the call, or ask for a workspace",
    .source = "textbook",
    .trigger = "any merge",
    .killed_by = {"merge_long_use_changes_nothing"},
    .when = "",
};

class CacheLeak : public ContiguousCache {
 public:
  using ContiguousCache::ContiguousCache;

 protected:
  qkvet_status attend_rows(const ForwardCall& call,
                           qkvet_text* why) const override {
    leak();
    return ContiguousCache::attend_rows(call, why);
  }
};
QKVET_FAULT(cache_leaks_memory) = {
    .kernel = cache_fault<CacheLeak>,
    .mechanism =
        "each attention of a cache allocates 64 bytes that are not freed with "
        "it",
    .symptom = "answers are right; a server is out of memory after a day",
    .cause = "scratch of a step belongs to no cache",
    .fix = "free it with the step, or with the cache",
    .source = "textbook",
    .trigger = "any step with queries",
    .killed_by = {"cache_long_use_changes_nothing"},
    .when = "commands(queries > 0)",
};

}  // namespace qkvet::impl
