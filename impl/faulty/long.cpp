// SPDX-License-Identifier: Apache-2.0
// Faults of long calls: what begins behind a threshold, and numbers that are
// kept in too few bits.
#include <algorithm>
#include <cstdint>

#include "impl/faulty/cache_fault.h"
#include "impl/faulty/kernels.h"
#include "impl/skeletons/cache_memory.h"

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

}  // namespace qkvet::impl
