// SPDX-License-Identifier: Apache-2.0
// Faults that read or write beyond their tensors or scratch, or keep what was
// there.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <vector>

#include "impl/call/scratch.h"
#include "impl/faulty/kernels.h"
#include "impl/skeletons/tile.h"

namespace qkvet::impl {
namespace {

// A load that nothing uses, as those of surplus lanes are: what it finds is
// thrown away, and only memory tells that it happened.
template <class T>
void read_and_drop(const T* address) {
  static_cast<void>(*static_cast<const volatile T*>(address));
}

// Up to the next multiple of `lanes`.
int64_t whole_lanes(int64_t extent, int64_t lanes) {
  return (extent + lanes - 1) / lanes * lanes;
}

}  // namespace

struct LanesBehindLastKeyLoaded : OptionHooks {
  // Those behind the last head of the last member; all others are in front of
  // something. A single key has no stride to follow.
  static void member(const ForwardCall& whole, int64_t, ForwardCall*) {
    if (whole.keys < 2) return;
    const int64_t b = whole.batch - 1, h = whole.kv_heads - 1;
    for (int64_t j = whole.keys; j < whole_lanes(whole.keys, tile()); ++j) {
      read_and_drop(whole.k.at(b, h, j));
      read_and_drop(whole.v.at(b, h, j));
    }
  }
};
QKVET_FAULT(lanes_behind_last_key_loaded,
            kOptionFault<LanesBehindLastKeyLoaded>) = {
    .when = "Tk > 1 && Tk % 4 != 0",
    .cause = "the last tile of 4 keys is loaded whole, past the last key: the "
             "scores are masked and the loads are not",
    .fix = "mask the loads as well, or load the rest of a tile key by key",
    .source = "pytorch/pytorch#169222",
    .killed_by = {"reads_only_its_inputs"},
    .tiled = true,
};

struct MaskLanesBehindLastKeyRead : OptionHooks {
  // Those behind the very last row.
  static void member(const ForwardCall& whole, int64_t, ForwardCall*) {
    const View<const uint8_t>& mask = whole.options.mask;
    if (mask.data == nullptr) return;
    const uint8_t* const row =
        mask.at(whole.batch - 1, whole.heads - 1, whole.queries - 1);
    for (int64_t j = whole.keys; j < whole_lanes(whole.keys, tile()); ++j)
      read_and_drop(row + j * mask.step[3]);
  }
};
QKVET_FAULT(mask_lanes_behind_last_key_read,
            kOptionFault<MaskLanesBehindLastKeyRead, QKVET_OPTION_MASK>) = {
    .when = "mask && Tk > 1 && Tk % 4 != 0",
    .cause = "the mask is read 4 keys at a time, past its last column in the "
             "last row: the bound is checked after the read",
    .fix = "compare with Tk before the mask is read",
    .source = "flashinfer-ai/flashinfer#1005",
    .killed_by = {"reads_only_its_inputs"},
    .tiled = true,
};

struct StartsBehindLastMemberRead : OptionHooks {
  // A row of the last tile that no member has asks for the end of the next.
  static void member(const ForwardCall& whole, int64_t n, ForwardCall*) {
    const int64_t last = whole.options.members - 1;
    if (n == last && whole.queries % tile() != 0)
      read_and_drop(whole.options.cu_q.at(last + 2, 0, 0));
  }
};
QKVET_FAULT(starts_behind_last_member_read,
            kOptionFault<StartsBehindLastMemberRead, QKVET_OPTION_PACKED>) = {
    .when = "packed && Tq % 4 != 0",
    .cause = "the rest of the last tile of 4 packed rows reads one start too "
             "many: no start is larger than those rows",
    .fix = "bound the search by the number of sequences",
    .source = "Dao-AILab/flash-attention#2763, Dao-AILab/flash-attention#2862",
    .killed_by = {"reads_only_its_inputs"},
    .tiled = true,
};

struct MemberOffsetsRoundedAlone : OptionHooks {
  // The sums of the rows of all members, in the workspace.
  struct Sums {
    float* memory = nullptr;                   // NULL: a caller that gives none
    int64_t begin = 0, rows = 0, written = 0;  // of the member
  };

  static void member(const ForwardCall&, int64_t n, ForwardCall* member) {
    Sums& all = sums();
    all.begin = n == 0 ? 0 : all.begin + whole_lanes(all.rows, tile());
    all.rows = member->queries;
    all.written = 0;
  }
  static float denominator(float sum, float, int64_t) {
    Sums& all = sums();
    if (all.memory == nullptr) return sum;
    volatile float& place = all.memory[all.begin + all.written++ % all.rows];
    place = sum;
    return place;
  }
  static Sums& sums() {
    thread_local Sums of_this_call;
    return of_this_call;
  }

  static qkvet_status workspace(const qkvet_kernel*, qkvet_context*,
                                const qkvet_forward_args* args, size_t* bytes) {
    *bytes = static_cast<size_t>(whole_lanes(args->q.shape[2], tile())) *
             sizeof(float);
    return QKVET_OK;
  }

  static qkvet_status forward(const qkvet_kernel* self, qkvet_context* context,
                              const qkvet_forward_args* args,
                              const qkvet_exec* exec, qkvet_text* why) {
    qkvet_exec known = {};
    if (exec != nullptr) QKVET_TRY(read_struct(exec, &known, why));
    sums() = {static_cast<float*>(known.workspace)};
    return OptionsKernel<MemberOffsetsRoundedAlone>::forward(self, context,
                                                             args, exec, why);
  }
};
constexpr qkvet_kernel kMemberOffsetsRoundedAlone =
    with(kOptionFault<MemberOffsetsRoundedAlone, QKVET_OPTION_PACKED>,
         &qkvet_kernel::forward, MemberOffsetsRoundedAlone::forward);
QKVET_FAULT(member_offsets_rounded_alone,
            with(kMemberOffsetsRoundedAlone, &qkvet_kernel::workspace,
                 MemberOffsetsRoundedAlone::workspace)) = {
    .when = "packed && members(queries % 4 != 0) > 1",
    .cause = "sequences begin at multiples of 4 rows of scratch, whose size is "
             "the sum of all rows rounded up once",
    .fix = "compute the size as the offset after the last sequence",
    .source = "Dao-AILab/flash-attention#2337",
    .killed_by = {"reads_only_its_inputs"},
    .tiled = true,
};

struct PartsInScratchOfStorageSize {
  // The memory goes where a kernel with a context has its context.
  static qkvet_status compute(const ForwardCall& call, qkvet_context* memory,
                              qkvet_text*) {
    using Kernel = OptionRows<OptionHooks>;
    Kernel::Memory scores = {reinterpret_cast<float*>(memory), 0};
    for (int64_t h = 0; h < call.heads * call.batch; ++h)
      for (int64_t i = 0; i < call.queries; ++i)
        Kernel::row(call, {h / call.heads, h % call.heads, i}, &scores);
    return QKVET_OK;
  }

  static qkvet_status workspace(const qkvet_kernel*, qkvet_context*,
                                const qkvet_forward_args* args, size_t* bytes) {
    const size_t element = args->o.dtype.bits / 8;
    *bytes = static_cast<size_t>(args->k.shape[2]) * element;
    return QKVET_OK;
  }

  static qkvet_status forward(const qkvet_kernel* self, qkvet_context*,
                              const qkvet_forward_args* args,
                              const qkvet_exec* exec, qkvet_text* why) {
    ForwardCall call;
    QKVET_TRY(check_exec(exec, why));
    QKVET_TRY(read_forward(self, args, &call, why));
    // A caller that gives none gets what is enough.
    std::unique_ptr<float[]> own;
    QKVET_TRY(allocate(call.keys, &own, why));
    qkvet_exec known = {};
    if (exec != nullptr) QKVET_TRY(read_struct(exec, &known, why));
    void* const memory =
        known.workspace != nullptr ? known.workspace : own.get();
    return compute_in_f32(call, {compute, static_cast<qkvet_context*>(memory)},
                          why);
  }
};
QKVET_FAULT(parts_in_scratch_of_storage_size,
            with(kForwardFault<PartsInScratchOfStorageSize::forward,
                               &kCommonCapabilities>,
                 &qkvet_kernel::workspace,
                 PartsInScratchOfStorageSize::workspace)) = {
    .when = "dtype == f16 || dtype == bf16",
    .cause = "the workspace is counted in elements of o and filled with f32",
    .fix = "size scratch by the type that it holds",
    .source = "vllm-project/vllm#45844",
    .killed_by = {"reads_only_its_inputs"},
};

struct RowPaddingOverNextHead {
  // Behind the last row of head h - 1 lies the first one of head h.
  static void clear_row(const ForwardCall& call, int64_t b, int64_t h,
                        int64_t i) {
    for (int64_t c = 0; c < call.value_width; ++c)
      call.o.at(b, h, i)[c * call.o.step[3]] = 0;
  }

  // As if the heads had been done from the last to the first.
  static qkvet_status compute(const ForwardCall& call, qkvet_text* why) {
    QKVET_TRY(OptionsKernel<OptionHooks>::compute_whole(call, why));
    const int64_t rest = call.queries % half_tile();
    const int64_t padding = rest == 0 ? 0 : half_tile() - rest;
    for (int64_t b = 0; b < call.batch; ++b)
      for (int64_t h = 1; h < call.heads; ++h)
        for (int64_t i = 0; i < std::min(padding, call.queries); ++i)
          clear_row(call, b, h, i);
    return QKVET_OK;
  }
};
QKVET_FAULT(row_padding_over_next_head,
            kForwardFault<forward_in_f32<RowPaddingOverNextHead::compute>>) = {
    .when = "H > 1 && Tq % 2 == 1",
    .cause = "rows are stored in whole tiles without a mask, and the surplus "
             "rows land in the next head",
    .fix = "mask the store by the number of rows, or make a head a dimension "
           "of its own",
    .source = "flagos-ai/FlagGems#898",
    .killed_by = {"weights_sum_to_one", "prefill_equals_decode"},
    .tiled = true,
};

struct OneBiasColumnReadAsRow : OptionHooks {
  static void member(const ForwardCall& whole, int64_t, ForwardCall* member) {
    Stored& bias = member->options.bias;
    if (bias.present() && bias.step[3] == 0 && whole.keys > 1) bias.step[3] = 1;
  }
};
QKVET_FAULT(one_bias_column_read_as_row,
            kOptionFault<OneBiasColumnReadAsRow, QKVET_OPTION_BIAS>) = {
    .when = "bias && !bias.keys && Tk > 1",
    .cause = "a bias with one column for all keys is read as if it had one for "
             "each: its last stride is not checked",
    .fix = "use the stride of the columns, or expand them first",
    .source = "pytorch/pytorch#128816",
    .killed_by = {"reads_only_its_inputs"},
};

struct ScratchKeptBetweenCalls : OptionHooks {
  static float first_value() { return last(); }
  static float value(float v) {
    last() = v;
    return v;
  }
  static float& last() {
    thread_local float value = 0;
    return value;
  }
};
QKVET_FAULT(scratch_kept_between_calls,
            kOptionFault<ScratchKeptBetweenCalls>) = {
    .cause = "a sum of values begins with the last value of the previous sum, "
             "maybe of an earlier call: scratch is not cleared",
    .fix = "clear the memory of a sum before it begins",
    .killed_by = {"same_call_same_bits"},
};

struct ScratchTailOfLargerCall : OptionHooks {
  static float weight(const ForwardCall& call, int64_t j, float weight) {
    std::vector<float>& weights = scratch();
    const int64_t whole = whole_lanes(call.keys, tile());
    if (weights.size() < static_cast<size_t>(whole))
      weights.resize(static_cast<size_t>(whole));
    weights[static_cast<size_t>(j)] = weight;
    tail() = std::accumulate(weights.begin() + call.keys,
                             weights.begin() + whole, 0.0f);
    return weight;
  }
  static float denominator(float sum, float, int64_t) { return sum + tail(); }
  static std::vector<float>& scratch() {
    thread_local std::vector<float> weights;
    return weights;
  }
  static float& tail() {
    thread_local float sum = 0;
    return sum;
  }
};
QKVET_FAULT(scratch_tail_of_larger_call,
            kOptionFault<ScratchTailOfLargerCall>) = {
    .when = "Tk % 4 != 0",
    .cause = "whole tiles of 4 weights are added up, and the rest of a tile "
             "may be from a larger call: scratch is cleared when it grows",
    .fix = "clear the rest of the last tile in every row, or do not add it",
    .killed_by = {"same_call_same_bits"},
    .tiled = true,
};

namespace {

// What a kernel that remembers calls takes for the same call.
struct CallKey {
  const float* address = nullptr;
  int64_t batch = 0, heads = 0, queries = 0, keys = 0, width = 0;

  friend bool operator==(const CallKey&, const CallKey&) = default;
};

CallKey key_of(const ForwardCall& call, const float* address) {
  return {address,      call.batch, call.kv_heads,
          call.queries, call.keys,  call.width};
}

// What a thread keeps of a call.
struct KeptKeys {
  CallKey key;
  std::vector<float> packed;
};
KeptKeys& kept_keys() {
  thread_local KeptKeys keys;
  return keys;
}

}  // namespace

struct KeysKeptByAddress : OptionHooks {
  static void member(const ForwardCall& whole, int64_t, ForwardCall* member) {
    if (whole.options.has_lengths() || whole.k.data == nullptr) return;
    KeptKeys& keys = kept_keys();
    if (keys.key != key_of(whole, whole.k.data)) {
      keys.key = key_of(whole, whole.k.data);
      pack(whole, &keys.packed);
    }
    const int64_t head = whole.keys * whole.width;
    member->k = {keys.packed.data(),
                 {whole.kv_heads * head, head, whole.width, 1}};
  }
  static void pack(const ForwardCall& call, std::vector<float>* packed) {
    packed->clear();
    for (int64_t b = 0; b < call.batch; ++b)
      for (int64_t h = 0; h < call.kv_heads; ++h)
        for (int64_t j = 0; j < call.keys; ++j)
          for (int64_t c = 0; c < call.width; ++c)
            packed->push_back(call.k.at(b, h, j)[c * call.k.step[3]]);
  }
};
QKVET_FAULT(keys_kept_by_address, kOptionFault<KeysKeptByAddress>) = {
    .cause = "a packed copy of k is reused in the next call with k at the same "
             "address and with the same extents",
    .fix = "pack in every call, or let the caller say when k has changed",
    .killed_by = {"calls_before_change_nothing"},
};

struct RuleKeptByAddress : OptionHooks {
  static void member(const ForwardCall& whole, int64_t n, ForwardCall* member) {
    thread_local CallKey key;
    thread_local ForwardCall planned;
    if (n == 0 && key != key_of(whole, whole.q.data)) {
      key = key_of(whole, whole.q.data);
      planned = whole;
    }
    if (whole.options.has_lengths() || planned.options.has_lengths()) return;
    member->causal = planned.causal;
    member->top_left = planned.top_left;
    member->diagonal = planned.diagonal;
  }
};
QKVET_FAULT(rule_kept_by_address, kOptionFault<RuleKeptByAddress>) = {
    .cause = "whether a call is causal is taken from the last call with q at "
             "the same address and with the same extents",
    .fix = "everything that a plan depends on is part of its key",
    .killed_by = {"calls_before_change_nothing"},
};

namespace {

// Elements from the first to behind the last.
int64_t span_of(const int64_t (&extents)[4], const int64_t (&steps)[4]) {
  int64_t span = 1;
  for (int i = 0; i < 4; ++i) span += (extents[i] - 1) * steps[i];
  return span;
}

}  // namespace

struct StridesOfFirstCall : OptionHooks {
  static void member(const ForwardCall& whole, int64_t, ForwardCall* member) {
    if (whole.options.has_lengths() || whole.keys == 0) return;
    thread_local std::map<std::array<int64_t, 6>, std::array<int64_t, 4>> known;
    const int64_t extents[] = {whole.batch, whole.kv_heads, whole.keys,
                               whole.width};
    const int64_t(&own)[4] = whole.k.step;
    const auto& steps =
        known
            .try_emplace({whole.batch, whole.heads, whole.kv_heads,
                          whole.queries, whole.keys, whole.width},
                         std::array{own[0], own[1], own[2], own[3]})
            .first->second;
    const int64_t kept[] = {steps[0], steps[1], steps[2], steps[3]};
    // No read leaves K.
    if (span_of(extents, kept) <= span_of(extents, own))
      std::copy_n(kept, 4, member->k.step);
  }
};
QKVET_FAULT(strides_of_first_call, kOptionFault<StridesOfFirstCall>) = {
    .when = "B > 1 || Hkv > 1 || Tk > 1 || d > 1",
    .cause = "K is read with the strides of the first call of the process that "
             "had the same extents: they are not in the plan's key",
    .fix = "put strides and storage types into the key",
    .source = "flashinfer-ai/flashinfer#4146",
    .killed_by = {"calls_before_change_nothing", "layout_changes_nothing"},
};

struct RoomOfFirstCall : OptionHooks {
  static void member(const ForwardCall& whole, int64_t, ForwardCall*) {
    if (room() == 0) room() = whole.keys;
  }
  static bool allows(const ForwardCall& call, RowAt at, int64_t j) {
    return j < room() && OptionHooks::allows(call, at, j);
  }
  static int64_t& room() {
    thread_local int64_t keys = 0;
    return keys;
  }
};
QKVET_FAULT(room_of_first_call, kOptionFault<RoomOfFirstCall>) = {
    .when = "Tk > 1",
    .cause = "the scores of a row have the room that the first call of the "
             "process needed, and later keys are left out",
    .fix = "check in every call whether there is room for it",
    .killed_by = {"calls_before_change_nothing"},
};

// Values are read from where their data begins.
void without_offset(qkvet_forward_args* args) { args->v.byte_offset = 0; }
QKVET_FAULT(byte_offset_dropped, kArgumentFault<without_offset, 0>) = {
    .when = "B > 0 && Tk > 0",
    .cause = "byte_offset of v is not added to its data: most producers of "
             "tensors leave it at 0",
    .fix = "begin at data + byte_offset, for every tensor",
    .source = "dmlc/dlpack, DLTensor: the offset is part of the address",
    .killed_by = {"reads_only_its_inputs"},
};

}  // namespace qkvet::impl
