// SPDX-License-Identifier: Apache-2.0
// Faults that read or write beyond their tensors or scratch, or keep what was
// there.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <new>
#include <numeric>
#include <vector>

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

// Keys and values are loaded in whole tiles, be there keys or not.
struct LanesBehindLastKeyLoaded : OptionHooks {
  // Those behind the last head of the last member; all others are in front of
  // something. A single key has no stride to follow.
  static void member(const ForwardCall& whole, int64_t, ForwardCall*) {
    if (whole.keys < 2) {
      return;
    }
    const int64_t b = whole.batch - 1, h = whole.kv_heads - 1;
    for (int64_t j = whole.keys; j < whole_lanes(whole.keys, tile()); ++j) {
      read_and_drop(whole.k.at(b, h, j));
      read_and_drop(whole.v.at(b, h, j));
    }
  }
};
QKVET_FAULT(lanes_behind_last_key_loaded) = {
    .kernel = option_fault<LanesBehindLastKeyLoaded>,
    .mechanism =
        "the last tile of 4 keys is loaded whole, and what lies behind the "
        "last key is dropped",
    .symptom =
        "right, until a tensor ends with its page: then the process dies",
    .cause = "the scores of the lanes are masked, and their loads are not",
    .fix = "mask the loads as well, or load the rest of a tile key by key",
    .source = "pytorch/pytorch#169222",
    .trigger = "Tk > 1 that is no multiple of 4",
    .killed_by = {"reads_only_its_inputs"},
    .when = "Tk > 1 && Tk % 4 != 0",
    .tiled = true,
};

// A row of the mask is read in whole tiles.
struct MaskLanesBehindLastKeyRead : OptionHooks {
  // Those behind the very last row.
  static void member(const ForwardCall& whole, int64_t, ForwardCall*) {
    const View<const uint8_t>& mask = whole.options.mask;
    if (mask.data == nullptr) {
      return;
    }
    const uint8_t* const row =
        mask.at(whole.batch - 1, whole.heads - 1, whole.queries - 1);
    for (int64_t j = whole.keys; j < whole_lanes(whole.keys, tile()); ++j) {
      read_and_drop(row + j * mask.step[3]);
    }
  }
};
QKVET_FAULT(mask_lanes_behind_last_key_read) = {
    .kernel = option_fault<MaskLanesBehindLastKeyRead, QKVET_OPTION_MASK>,
    .mechanism =
        "the mask is read 4 keys at a time, beyond its last column in the last "
        "row",
    .symptom = "right, until a mask ends with its page: then the process dies",
    .cause =
        "the border of the last tile is looked at when scores are stored, "
        "after the mask was read",
    .fix = "compare with Tk before the mask is read",
    .source = "flashinfer-ai/flashinfer#1005",
    .trigger = "a mask, and Tk > 1 that is no multiple of 4",
    .killed_by = {"reads_only_its_inputs"},
    .when = "mask && Tk > 1 && Tk % 4 != 0",
    .tiled = true,
};

// A surplus tile looks for a member that is not there.
struct StartsBehindLastMemberRead : OptionHooks {
  // A row of the last tile that no member has asks for the end of the next.
  static void member(const ForwardCall& whole, int64_t n, ForwardCall*) {
    const int64_t last = whole.options.members - 1;
    if (n == last && whole.queries % tile() != 0) {
      read_and_drop(whole.options.cu_q.at(last + 2, 0, 0));
    }
  }
};
QKVET_FAULT(starts_behind_last_member_read) = {
    .kernel = option_fault<StartsBehindLastMemberRead, QKVET_OPTION_PACKED>,
    .mechanism =
        "a packed batch is cut into tiles of 4 rows, and the rest of the last "
        "tile reads the starts of one member too many",
    .symptom =
        "right, until the list of starts ends with its page: then the process "
        "dies",
    .cause =
        "the search for the member of a row ends when a start is larger, which "
        "none is behind the last row",
    .fix =
        "bound the search by the number of members, or the tiles by the last "
        "start",
    .source = "Dao-AILab/flash-attention#2763, Dao-AILab/flash-attention#2862",
    .trigger = "a packed batch whose Tq is no multiple of 4",
    .killed_by = {"reads_only_its_inputs"},
    .when = "packed && Tq % 4 != 0",
    .tiled = true,
};

// Members begin at whole tiles of a buffer that is rounded once.
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
    if (all.memory == nullptr) {
      return sum;
    }
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
    const qkvet_status status =
        exec != nullptr ? read_struct(exec, &known, why) : QKVET_OK;
    sums() = {static_cast<float*>(known.workspace)};
    return status == QKVET_OK
               ? OptionsKernel<MemberOffsetsRoundedAlone>::forward(
                     self, context, args, exec, why)
               : status;
  }

  static constexpr qkvet_kernel kernel(const char* name,
                                       const char* description, Place place) {
    qkvet_kernel made = plain_kernel(name, description, place, &kHooksPrecision,
                                     forward, &kF32With<QKVET_OPTION_PACKED>);
    made.workspace = workspace;
    made.dialect = &kOptionsDialect;
    return made;
  }
};
QKVET_FAULT(member_offsets_rounded_alone) = {
    .kernel = MemberOffsetsRoundedAlone::kernel,
    .mechanism =
        "each member of a packed batch begins at a multiple of 4 rows of "
        "scratch, which is as large as all rows together, rounded up once",
    .symptom =
        "right for one member and for members of whole tiles; else the last "
        "ones write behind the workspace",
    .cause = "two functions round, one the offsets and one the size",
    .fix = "compute the size as the offset behind the last member",
    .source = "Dao-AILab/flash-attention#2337",
    .trigger = "two members of a packed batch whose rows are no multiple of 4",
    .killed_by = {"reads_only_its_inputs"},
    .when = "packed && members(queries % 4 != 0) > 1",
    .tiled = true,
};

// Scratch is as large as f16 or bf16 would need, and holds f32.
struct PartsInScratchOfStorageSize {
  // The memory goes where a kernel with a context has its context.
  static qkvet_status compute(const ForwardCall& call, qkvet_context* memory,
                              qkvet_text*) {
    auto* const scores = reinterpret_cast<float*>(memory);
    for (int64_t h = 0; h < call.heads * call.batch; ++h) {
      for (int64_t i = 0; i < call.queries; ++i) {
        HooksKernel<PlainHooks>::row(call, h / call.heads, h % call.heads, i,
                                     scores);
      }
    }
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
    qkvet_status status = check_exec(exec, why);
    status = status == QKVET_OK ? read_forward(self, args, &call, why) : status;
    if (status != QKVET_OK) {
      return status;
    }
    // A caller that gives none gets what is enough.
    const std::unique_ptr<float[]> own(
        new (std::nothrow) float[static_cast<size_t>(call.keys)]);
    qkvet_exec known = {};
    if (exec != nullptr) {
      status = read_struct(exec, &known, why);
    }
    void* const memory =
        known.workspace != nullptr ? known.workspace : own.get();
    if (memory == nullptr) {
      return refuse(why, QKVET_OUT_OF_MEMORY, "no memory for the scores");
    }
    return status == QKVET_OK
               ? compute_in_f32(
                     call, {compute, static_cast<qkvet_context*>(memory)}, why)
               : status;
  }

  static constexpr qkvet_kernel kernel(const char* name,
                                       const char* description, Place place) {
    qkvet_kernel made = plain_kernel(name, description, place, &kHooksPrecision,
                                     forward, &kCommonCapabilities);
    made.workspace = workspace;
    return made;
  }
};
QKVET_FAULT(parts_in_scratch_of_storage_size) = {
    .kernel = PartsInScratchOfStorageSize::kernel,
    .mechanism =
        "the workspace is counted in elements of o and filled with f32",
    .symptom =
        "right for f32; with f16 and bf16 twice as much is written as was "
        "asked for",
    .cause =
        "one size of an element for what is returned and for what is summed",
    .fix = "size scratch by the type that it holds",
    .source = "vllm-project/vllm#45844",
    .trigger = "f16 or bf16",
    .killed_by = {"reads_only_its_inputs"},
    .when = "dtype == f16 || dtype == bf16",
};

// Rows that pad a head are stored over the next one.
struct RowPaddingOverNextHead {
  // Behind the last row of head h - 1 lies the first one of head h.
  static void clear_row(const ForwardCall& call, int64_t b, int64_t h,
                        int64_t i) {
    for (int64_t c = 0; c < call.value_width; ++c) {
      call.o.at(b, h, i)[c * call.o.step[3]] = 0;
    }
  }

  // As if the heads had been done from the last to the first.
  static qkvet_status compute(const ForwardCall& call, qkvet_text* why) {
    const qkvet_status status = HooksKernel<PlainHooks>::compute(call, why);
    const int64_t rest = call.queries % half_tile();
    const int64_t padding = rest == 0 ? 0 : half_tile() - rest;
    for (int64_t b = 0; status == QKVET_OK && b < call.batch; ++b) {
      for (int64_t h = 1; h < call.heads; ++h) {
        for (int64_t i = 0; i < std::min(padding, call.queries); ++i) {
          clear_row(call, b, h, i);
        }
      }
    }
    return status;
  }
};
QKVET_FAULT(row_padding_over_next_head) = {
    .kernel = forward_fault<forward_in_f32<RowPaddingOverNextHead::compute>>,
    .mechanism =
        "rows are stored in whole tiles, and those behind the last one land in "
        "the next head",
    .symptom =
        "the first row of a head is 0 if it was done before the head in front "
        "of it",
    .cause = "one address for all heads, and a store without a mask",
    .fix =
        "mask the store by the number of rows, or make a head a dimension of "
        "its own",
    .source = "flagos-ai/FlagGems#898",
    .trigger = "an odd number of rows, the tile being 2, and H > 1",
    .killed_by = {"weights_sum_to_one", "prefill_equals_decode",
                  "agrees_with_oracle"},
    .when = "H > 1 && Tq % 2 == 1",
    .tiled = true,
};

// A bias with one column is read as if it had one for each key.
struct OneBiasColumnReadAsRow : OptionHooks {
  static void member(const ForwardCall& whole, int64_t, ForwardCall* member) {
    Stored& bias = member->options.bias;
    if (bias.present() && bias.step[3] == 0 && whole.keys > 1) {
      bias.step[3] = 1;
    }
  }
};
QKVET_FAULT(one_bias_column_read_as_row) = {
    .kernel = option_fault<OneBiasColumnReadAsRow, QKVET_OPTION_BIAS>,
    .mechanism =
        "a bias with one column for all keys is read as if it had one for each",
    .symptom =
        "the bias of other rows is added, and what lies behind the last row",
    .cause =
        "vector loads along a row, and a check of all strides but the last one",
    .fix = "use the stride of the columns, or expand them first",
    .source = "pytorch/pytorch#128816",
    .trigger = "a bias that is broadcast over keys, and Tk > 1",
    .killed_by = {"reads_only_its_inputs"},
    .when = "bias && !bias.keys && Tk > 1",
};

// Scratch memory outlives the row and the call.
struct ScratchKeptBetweenCalls : OptionHooks {
  static float first_value() { return last(); }
  static float value(float v) {
    last() = v;
    return v;
  }

 private:
  static float& last() {
    thread_local float value = 0;
    return value;
  }
};
QKVET_FAULT(scratch_kept_between_calls) = {
    .kernel = option_fault<ScratchKeptBetweenCalls>,
    .mechanism =
        "a sum of values begins with the last value of the sum before, which "
        "may be one of an earlier call",
    .symptom =
        "small errors everywhere, and other ones when something else was "
        "called in between",
    .cause = "scratch memory kept between sums and calls, and not cleared",
    .fix = "clear what a sum is collected in before it begins",
    .source = "textbook",
    .trigger = "any element but the very first of a process",
    .killed_by = {"same_call_same_bits"},
    .when = "",
};

// Scratch as long as the largest call needed, of which a row writes what it has
// and adds up whole tiles.
struct ScratchTailOfLargerCall : OptionHooks {
  static float weight(const ForwardCall& call, int64_t j, float weight) {
    std::vector<float>& weights = scratch();
    const int64_t whole = whole_lanes(call.keys, tile());
    if (weights.size() < static_cast<size_t>(whole)) {
      weights.resize(static_cast<size_t>(whole));
    }
    weights[static_cast<size_t>(j)] = weight;
    tail() = std::accumulate(weights.begin() + call.keys,
                             weights.begin() + whole, 0.0f);
    return weight;
  }
  static float denominator(float sum, float, int64_t) { return sum + tail(); }

 private:
  static std::vector<float>& scratch() {
    thread_local std::vector<float> weights;
    return weights;
  }
  static float& tail() {
    thread_local float sum = 0;
    return sum;
  }
};
QKVET_FAULT(scratch_tail_of_larger_call) = {
    .kernel = option_fault<ScratchTailOfLargerCall>,
    .mechanism =
        "scratch grows with the calls and is zero where it is new; a row "
        "writes its weights there and adds up whole tiles of 4",
    .symptom =
        "right until a call with more keys comes; from then on the weights "
        "that it left behind the last key count in every sum",
    .cause = "the rest of a tile is cleared once, when scratch grows",
    .fix = "clear the rest of the last tile in every row, or do not add it",
    .source = "textbook",
    .trigger = "Tk is no multiple of 4, and a larger call came before",
    .killed_by = {"same_call_same_bits"},
    .when = "Tk % 4 != 0",
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

// A packed copy of K is taken for that of the next call, if that has its keys
// at the same address.
struct KeysKeptByAddress : OptionHooks {
  static void member(const ForwardCall& whole, int64_t, ForwardCall* member) {
    if (whole.options.has_lengths() || whole.k.data == nullptr) {
      return;
    }
    KeptKeys& keys = kept_keys();
    if (keys.key != key_of(whole, whole.k.data)) {
      keys.key = key_of(whole, whole.k.data);
      pack(whole, &keys.packed);
    }
    const int64_t head = whole.keys * whole.width;
    member->k = {keys.packed.data(),
                 {whole.kv_heads * head, head, whole.width, 1}};
  }

 private:
  static void pack(const ForwardCall& call, std::vector<float>* packed) {
    packed->clear();
    for (int64_t b = 0; b < call.batch; ++b) {
      for (int64_t h = 0; h < call.kv_heads; ++h) {
        for (int64_t j = 0; j < call.keys; ++j) {
          for (int64_t c = 0; c < call.width; ++c) {
            packed->push_back(call.k.at(b, h, j)[c * call.k.step[3]]);
          }
        }
      }
    }
  }
};
QKVET_FAULT(keys_kept_by_address) = {
    .kernel = option_fault<KeysKeptByAddress>,
    .mechanism =
        "a packed copy of k is used again where the next call has k at the "
        "same address, in the same extents",
    .symptom =
        "right in every test that allocates its tensors anew, wrong in a "
        "server whose buffers stay where they are",
    .cause = "a cache of packed operands whose key is a pointer",
    .fix = "pack in every call, or let the caller say when k has changed",
    .source = "textbook",
    .trigger = "two calls with other keys at one address",
    .killed_by = {"calls_before_change_nothing"},
    .when = "",
};

// What a call is planned with is found again by where q lies.
struct RuleKeptByAddress : OptionHooks {
  static void member(const ForwardCall& whole, int64_t n, ForwardCall* member) {
    thread_local CallKey key;
    thread_local ForwardCall planned;
    if (n == 0 && key != key_of(whole, whole.q.data)) {
      key = key_of(whole, whole.q.data);
      planned = whole;
    }
    if (whole.options.has_lengths() || planned.options.has_lengths()) {
      return;
    }
    member->causal = planned.causal;
    member->top_left = planned.top_left;
    member->diagonal = planned.diagonal;
  }
};
QKVET_FAULT(rule_kept_by_address) = {
    .kernel = option_fault<RuleKeptByAddress>,
    .mechanism =
        "whether a call is causal is what it was in the last call with q at "
        "the same address, in the same extents",
    .symptom =
        "an encoder behind a decoder in one process sees the past alone, if "
        "their buffers are shared",
    .cause = "plans are cached, and their key leaves an option out",
    .fix = "everything that a plan depends on is part of its key",
    .source = "textbook",
    .trigger = "two calls at one address, of which one is causal",
    .killed_by = {"calls_before_change_nothing"},
    .when = "",
};

namespace {

// Elements from the first to behind the last.
int64_t span_of(const int64_t (&extents)[4], const int64_t (&steps)[4]) {
  int64_t span = 1;
  for (int i = 0; i < 4; ++i) {
    span += (extents[i] - 1) * steps[i];
  }
  return span;
}

}  // namespace

// A compiled call is found again by extents alone.
struct StridesOfFirstCall : OptionHooks {
  static void member(const ForwardCall& whole, int64_t, ForwardCall* member) {
    if (whole.options.has_lengths() || whole.keys == 0) {
      return;
    }
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
    if (span_of(extents, kept) <= span_of(extents, own)) {
      std::copy_n(kept, 4, member->k.step);
    }
  }
};
QKVET_FAULT(strides_of_first_call) = {
    .kernel = option_fault<StridesOfFirstCall>,
    .mechanism =
        "K is read with the strides of the first call of the process that had "
        "the same extents",
    .symptom =
        "right as long as all callers lay out their tensors alike; the second "
        "layout reads keys of other heads and rows",
    .cause =
        "a compiled graph, or a plan, whose key has extents and no strides",
    .fix = "put strides and storage types into the key",
    .source = "flashinfer-ai/flashinfer#4146",
    .trigger = "two calls of the same extents in two layouts",
    .killed_by = {"calls_before_change_nothing", "layout_changes_nothing"},
    .when = "B > 1 || Hkv > 1 || Tk > 1 || d > 1",
};

// Scores have the room that the first call needed.
struct RoomOfFirstCall : OptionHooks {
  static void member(const ForwardCall& whole, int64_t, ForwardCall*) {
    if (room() == 0) {
      room() = whole.keys;
    }
  }
  static bool allows(const ForwardCall& call, RowAt at, int64_t j) {
    return j < room() && OptionHooks::allows(call, at, j);
  }

 private:
  static int64_t& room() {
    thread_local int64_t keys = 0;
    return keys;
  }
};
QKVET_FAULT(room_of_first_call) = {
    .kernel = option_fault<RoomOfFirstCall>,
    .mechanism =
        "the scores of a row have the room that the first call of the process "
        "needed, and keys beyond it are left out",
    .symptom = "right as long as no prompt is longer than the first one",
    .cause = "scratch memory is made once, and its size is not asked again",
    .fix = "ask in every call whether there is room for it",
    .source = "textbook",
    .trigger = "a call with more keys than the first one had",
    .killed_by = {"calls_before_change_nothing"},
    .when = "Tk > 1",
};

// Values are read from where their data begins.
void without_offset(qkvet_forward_args* args) { args->v.byte_offset = 0; }
QKVET_FAULT(byte_offset_dropped) = {
    .kernel = argument_fault<without_offset, 0>,
    .mechanism = "byte_offset of v is not added to its data",
    .symptom = "right but for slices of a larger array, which read its start",
    .cause = "most producers of tensors leave the offset at 0",
    .fix = "begin at data + byte_offset, for every tensor",
    .source = "dmlc/dlpack, DLTensor: the offset is part of the address",
    .trigger = "a byte_offset that is not 0",
    .killed_by = {"reads_only_its_inputs"},
    .when = "",
};

}  // namespace qkvet::impl
