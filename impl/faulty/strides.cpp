// SPDX-License-Identifier: Apache-2.0
// Faults of addresses: strides, offsets and alignment.
#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <utility>

#include "impl/faulty/kernels.h"
#include "impl/skeletons/tile.h"

namespace qkvet::impl {

struct WrongTransposeOfK : OptionHooks {
  static float key(const KeyRow& k, int64_t c) {
    const View<const float>& keys = k.call.k;
    const int64_t width = k.call.width, flat = c * k.call.keys + k.j;
    return keys.at(k.kv.b, k.kv.h, flat / width)[flat % width * keys.step[3]];
  }
};
QKVET_FAULT(wrong_transpose_of_k, kPlainFault<WrongTransposeOfK>) = {
    .when = "Tk > 1 && d > 1",
    .cause = "K is reshaped to [d, Tk] instead of transposed",
    .fix = "swap the last two axes of K only",
    .killed_by = {"future_changes_nothing", "permuted_keys_change_nothing"},
};

struct BlockToldByStrides : OptionHooks {
  static void member(const ForwardCall&, int64_t, ForwardCall* member) {
    const int64_t row = (member->heads + 2 * member->kv_heads) * member->width;
    if (member->queries > 1 && member->q.step[2] == row) {
      member->k.data = member->q.data + member->heads * member->width;
      member->v.data = member->k.data + member->kv_heads * member->width;
    }
  }
};
QKVET_FAULT(block_told_by_strides, kOptionFault<BlockToldByStrides>) = {
    .when = "(layout == qkv || layout == gaps) && Tq > 1",
    .cause = "keys and values are read after the queries if the strides of q "
             "are those of one block of q, k and v",
    .fix = "compare the addresses of k and v, or use them",
    .killed_by = {"layout_changes_nothing"},
};

struct ChannelStrideOfOneDecides : OptionHooks {
  static void member(const ForwardCall&, int64_t, ForwardCall* member) {
    if (transposed()) member->k.step[2] = 1;
  }
  // Whether k is [.., d, Tk], with the keys side by side. Views forget strides
  // that mean nothing, so the tensor itself is asked.
  static bool& transposed() {
    thread_local bool is_transposed = false;
    return is_transposed;
  }

  static qkvet_status forward(const qkvet_kernel* self, qkvet_context* context,
                              const qkvet_forward_args* args,
                              const qkvet_exec* exec, qkvet_text* why) {
    ForwardCall call;
    QKVET_TRY(read_forward(self, args, &call, why));
    const int64_t* const strides = args->k.strides;
    transposed() = call.keys > 1 && strides[3] > strides[2];
    return OptionsKernel<ChannelStrideOfOneDecides>::forward(self, context,
                                                             args, exec, why);
  }
};
QKVET_FAULT(channel_stride_of_one_decides,
            kForwardFault<ChannelStrideOfOneDecides::forward>) = {
    .when = "d == 1 && Tk > 1 && layout != bhtd",
    .cause = "K is taken for transposed if channels are further apart than "
             "keys, though the stride of a single channel means nothing",
    .fix = "leave extents of 1 out of every decision about strides",
    .source = "ELS-RD/kernl#108",
    .killed_by = {"layout_changes_nothing"},
};

struct QueryStridesAssumed : OptionHooks {
  // Every other order of the same extents, and every gap, takes at least as
  // much memory.
  static void share(int64_t, ForwardCall* call) {
    call->q.step[3] = 1;
    call->q.step[2] = call->width;
    call->q.step[1] = call->queries * call->width;
    call->q.step[0] = call->heads * call->queries * call->width;
  }
};
QKVET_FAULT(query_strides_assumed, kOptionFault<QueryStridesAssumed>) = {
    .when = "layout != bhtd && (B > 1 || H > 1 || Tq > 1 || (layout == apart "
            "&& d > 1))",
    .cause = "the strides of q are not read: it is taken for contiguous",
    .fix = "use the strides of every tensor, or refuse what is not contiguous",
    .source = "pytorch/pytorch#163597, pytorch/pytorch#181133, "
              "huggingface/candle#3703",
    .killed_by = {"layout_changes_nothing"},
};

struct KeyStridesAssumed : OptionHooks {
  // Every other order of the same extents, and every gap, takes at least as
  // much memory. Shared heads and members take less: they keep their strides.
  static void member(const ForwardCall& whole, int64_t, ForwardCall* member) {
    const bool shared = (whole.k.step[0] == 0 && whole.batch > 1) ||
                        (whole.k.step[1] == 0 && whole.kv_heads > 1);
    if (shared) return;
    member->k.step[3] = 1;
    member->k.step[2] = whole.width;
    member->k.step[1] = whole.keys * whole.width;
    member->k.step[0] = whole.kv_heads * whole.keys * whole.width;
  }
};
QKVET_FAULT(key_strides_assumed, kOptionFault<KeyStridesAssumed>) = {
    .when = "layout != bhtd && (B > 1 || Hkv > 1 || Tk > 1 || (layout == apart "
            "&& d > 1))",
    .cause = "the strides of K are not read: it is taken for contiguous",
    .fix = "use the strides of every tensor, or refuse what is not contiguous",
    .source = "BobMcDear/attorch#14",
    .killed_by = {"layout_changes_nothing"},
};

struct ValueChannelsSideBySide : OptionHooks {
  static void member(const ForwardCall& whole, int64_t, ForwardCall* member) {
    if (whole.value_width > 1) member->v.step[3] = 1;
  }
};
QKVET_FAULT(value_channels_side_by_side,
            kOptionFault<ValueChannelsSideBySide>) = {
    .when = "(layout == apart || layout == turned) && dv > 1",
    .cause = "channel c of a value is read c elements after the first: the "
             "last stride is taken to be 1",
    .fix = "use the stride of the channels, or refuse another one than 1 in "
           "supports()",
    .source = "pytorch/pytorch#187506",
    .killed_by = {"reads_only_its_inputs"},
};

struct OutputStridesAssumed : OptionHooks {
  // Every other order of the same extents, and every gap, takes at least as
  // much memory.
  static void member(const ForwardCall& whole, int64_t, ForwardCall* member) {
    member->o.step[3] = 1;
    member->o.step[2] = whole.value_width;
    member->o.step[1] = whole.queries * whole.value_width;
    member->o.step[0] = whole.heads * whole.queries * whole.value_width;
  }
};
QKVET_FAULT(output_strides_assumed, kOptionFault<OutputStridesAssumed>) = {
    .when = "layout != bhtd && (B > 1 || H > 1 || Tq > 1 || (layout == apart "
            "&& dv > 1))",
    .cause = "the strides of O are not read: the merge of the parts writes "
             "rows as if it were contiguous",
    .fix = "use the strides of the caller, or refuse other ones",
    .source = "flagos-ai/FlagGems#5235",
    .killed_by = {"layout_changes_nothing"},
};

struct OutputQuartersExchanged : OptionHooks {
  static qkvet_status compute(const ForwardCall& call, qkvet_text* why) {
    QKVET_TRY(OptionsKernel<OptionHooks>::compute_whole(call, why));
    for (int64_t b = 0; b < call.batch; ++b) {
      for (int64_t h = 0; h < call.heads; ++h) {
        for (int64_t i = 0; i + half_tile() < call.queries; ++i) {
          for (int64_t c = half_tile(); c < call.value_width; ++c) {
            const bool is_first = i % tile() < half_tile();
            const bool is_second = c % tile() >= half_tile();
            if (is_first && is_second)
              std::swap(
                  call.o.at(b, h, i)[c * call.o.step[3]],
                  call.o.at(
                      b, h,
                      i + half_tile())[(c - half_tile()) * call.o.step[3]]);
          }
        }
      }
    }
    return QKVET_OK;
  }
};
QKVET_FAULT(output_quarters_exchanged,
            kForwardFault<forward_in_f32<OutputQuartersExchanged::compute>>) = {
    .when = "Tq > 2 && dv > 2",
    .cause = "tiles of four rows and four channels of O are stored with two "
             "quarters exchanged: the store lays out registers differently",
    .fix = "store by the layout of the instruction that computed the tile",
    .source = "Dao-AILab/flash-attention#2553",
    .killed_by = {"other_rows_change_nothing", "agrees_with_oracle"},
    .tiled = true,
};

struct StridesKeptWhileExtentsMatch : OptionHooks {
  static void member(const ForwardCall& whole, int64_t, ForwardCall* member) {
    const Extents extents = {whole.batch, whole.kv_heads, whole.keys,
                             whole.width};
    Kept& kept = compiled();
    if (kept.extents != extents) {
      kept.extents = extents;
      std::copy(std::begin(whole.k.step), std::end(whole.k.step),
                kept.step.begin());
    }
    // Within what the call has.
    if (span(extents, kept.step.data()) <= span(extents, whole.k.step))
      std::copy(kept.step.begin(), kept.step.end(), std::begin(member->k.step));
  }
  using Extents = std::array<int64_t, 4>;
  struct Kept {
    Extents extents = {}, step = {};
  };
  static Kept& compiled() {
    thread_local Kept kept;
    return kept;
  }
  static int64_t span(const Extents& extents, const int64_t* step) {
    int64_t last = 0;
    for (size_t axis = 0; axis < extents.size(); ++axis)
      last += (extents[axis] - 1) * step[axis];
    return last;
  }
};
QKVET_FAULT(strides_kept_while_extents_match,
            kOptionFault<StridesKeptWhileExtentsMatch>) = {
    .when = "B > 1 || Hkv > 1 || Tk > 1 || d > 1",
    .cause = "a compiled call is found by its extents and uses the strides of "
             "the call that it was compiled for",
    .fix = "make the strides a part of the key",
    .source = "flashinfer-ai/flashinfer#4146, flashinfer-ai/flashinfer#4270",
    .killed_by = {"layout_changes_nothing"},
};

struct KeysAlignedAsQueries : OptionHooks {
  // An aligned load drops the lowest bits of its address, on machines that have
  // no other: it reads what lies in front of K, on the same page.
  static void member(const ForwardCall& whole, int64_t, ForwardCall* member) {
    if (behind_vector(whole.q.data) == 0)
      member->k.data -= behind_vector(whole.k.data);
  }
  static constexpr uintptr_t kVector = 4;  // floats
  // In floats.
  static int64_t behind_vector(const float* data) {
    const auto address = reinterpret_cast<uintptr_t>(data);
    return static_cast<int64_t>(address / sizeof(float) % kVector);
  }
};
QKVET_FAULT(keys_aligned_as_queries, kOptionFault<KeysAlignedAsQueries>) = {
    .when = "layout != bhtd || share.members || share.heads || B * Hkv * Tk * "
            "d % 4 != 0",
    .cause = "loads of 16 bytes need aligned addresses, and only the address "
             "of Q is checked",
    .fix = "check the address and the strides of every tensor that the path "
           "loads, or declare the alignment",
    .source = "vllm-project/vllm#45466",
    .killed_by = {"reads_only_its_inputs"},
};

struct HeadOffsetIsQuotient : OptionHooks {
  static void member(const ForwardCall& whole, int64_t, ForwardCall* member) {
    if (whole.kv_heads > 1 && whole.keys > 1) {
      const int64_t token = whole.k.step[2];
      member->k.step[1] = whole.k.step[1] / token * token;
    }
  }
};
QKVET_FAULT(head_offset_is_quotient, kOptionFault<HeadOffsetIsQuotient>) = {
    .when = "layout != bhtd && Hkv > 1 && Tk > 1",
    .cause = "the offset of a head of K is a rounded quotient of two strides "
             "times one: a head stride is taken for a multiple of a token's",
    .fix = "use the stride that the tensor has",
    .source = "BobMcDear/attorch#14",
    .killed_by = {"layout_changes_nothing"},
};

struct MemberStrideOfToken : OptionHooks {
  static void member(const ForwardCall& whole, int64_t, ForwardCall* member) {
    // The strides of single tokens mean nothing, and members may share theirs.
    if (whole.batch > 1 && whole.keys > 1 && whole.k.step[0] != 0) {
      member->k.step[0] = whole.k.step[2];
      member->v.step[0] = whole.v.step[2];
    }
  }
};
QKVET_FAULT(member_stride_of_token, kOptionFault<MemberStrideOfToken>) = {
    .when = "B > 1 && Tk > 1",
    .cause = "the stride of a token is used as that of a batch element: "
             "strides are passed in another order",
    .fix = "name them, or take the tensor",
    .source = "flashinfer-ai/flashinfer#3801",
    .killed_by = {"other_members_change_nothing",
                  "permuted_members_permute_output"},
};

struct KeysOfFirstMember : OptionHooks {
  static RowAt kv_head(const ForwardCall& call, RowAt at) {
    return {0, at.h / call.group(), 0};
  }
};
QKVET_FAULT(keys_of_first_member, kOptionFault<KeysOfFirstMember>) = {
    .when = "B > 1",
    .cause = "all batch elements read keys and values of the first: the "
             "address of k and v lacks the batch index",
    .fix = "k + b * stride of the batch, as for q",
    .source = "flashinfer-ai/flashinfer#3801, ggml-org/llama.cpp#6646",
    .killed_by = {"other_members_change_nothing", "nan_stays_in_its_head"},
};

// ---- Values in keys ---------------------------------------------------------
//
// The first dv channels of the keys (kernel.h: VALUES_IN_KEYS).
namespace {

bool has_values_in_keys(const ForwardCall& whole) {
  return whole.k.data == whole.v.data;
}

}  // namespace

struct ValuesAtEndOfKeys : OptionHooks {
  static void member(const ForwardCall& whole, int64_t, ForwardCall* member) {
    if (has_values_in_keys(whole))
      member->v.data += (whole.width - whole.value_width) * whole.k.step[3];
  }
};
QKVET_FAULT(values_at_end_of_keys,
            kOptionFault<ValuesAtEndOfKeys, QKVET_OPTION_VALUES_IN_KEYS>) = {
    .when = "values_in_keys && dv < d",
    .cause = "values are the last dv channels of the keys instead of the "
             "first: the parts of a latent key are read in the other order",
    .fix = "v = k[..., :dv]",
    .source = "textbook (MLA's latent cache)",
    .killed_by = {"values_in_keys_equal_own_values", "agrees_with_oracle"},
};

struct ValuesInRowsOfTheirOwn : OptionHooks {
  // Rows of dv end before those of d do.
  static void member(const ForwardCall& whole, int64_t, ForwardCall* member) {
    if (has_values_in_keys(whole) && whole.value_width < whole.width)
      member->v.step[2] = whole.value_width * whole.k.step[3];
  }
};
QKVET_FAULT(
    values_in_rows_of_their_own,
    kOptionFault<ValuesInRowsOfTheirOwn, QKVET_OPTION_VALUES_IN_KEYS>) = {
    .when = "values_in_keys && dv < d && Tk > 1",
    .cause = "values inside a cache of keys are read in rows of dv, though "
             "they are as far apart as keys",
    .fix = "use the stride of k for both",
    .source = "textbook (MLA's latent cache)",
    .killed_by = {"values_in_keys_equal_own_values", "agrees_with_oracle"},
};

// ---- Keys in groups of channels ---------------------------------------------
//
// Pages of keys [pages, Hkv, d / x, page, x]. Pages of rows, and what else
// these kernels take, are right.
namespace {

// Where element `flat` of a page of a head lies that is [d / x, page, x] in one
// piece. What a fault reads stays inside of the page.
int64_t of_page(const ServingCall& s, int64_t h, Slot slot, int64_t flat) {
  const int64_t x = s.group, in_group = s.page_size * x;
  const int64_t at = flat % (s.page_size * s.call.width);
  const Slot row = {slot.block, at / x % s.page_size};
  return s.key_at(h, row, at / in_group * x + at % x);
}

}  // namespace

struct GroupsOfEight : ServingHooks {
  static int64_t channel(const ServingCall& s, int64_t h, Slot slot,
                         int64_t c) {
    constexpr int64_t kX = 8;
    return s.group == 0
               ? s.key_at(h, slot, c)
               : of_page(s, h, slot,
                         (c / kX * s.page_size + slot.row) * kX + c % kX);
  }
};
QKVET_FAULT(channel_groups_of_eight,
            kServingFault<GroupsOfEight, &kServingGroupCapabilities>) = {
    .when = "channel_group == 4 && page_size > 1",
    .cause = "keys in pages are read in groups of 8 channels, also where 16 "
             "bytes are 4: 16 / sizeof(type) is hard-coded",
    .fix = "x from the type of the cache, or from its shape",
    .source = "textbook (vLLM's key cache)",
    .killed_by = {"channel_groups_change_nothing"},
};

// [d / x, x, page]
struct GroupBeforeSlot : ServingHooks {
  static int64_t channel(const ServingCall& s, int64_t h, Slot slot,
                         int64_t c) {
    return s.group == 0 ? s.key_at(h, slot, c)
                        : of_page(s, h, slot, c * s.page_size + slot.row);
  }
};
QKVET_FAULT(channel_group_and_slot_swapped,
            kServingFault<GroupBeforeSlot, &kServingGroupCapabilities>) = {
    .when = "channel_group > 0 && page_size > 1",
    .cause = "keys are read like values, [pages, Hkv, d, page], instead of "
             "[pages, Hkv, d / x, page, x]",
    .fix = "channel c of slot j is at ((c / x) * page_size + j) * x + c % x",
    .source = "textbook (vLLM's key cache)",
    .killed_by = {"channel_groups_change_nothing"},
};

struct RestOfGroupsFromStart : ServingHooks {
  static int64_t channel(const ServingCall& s, int64_t h, Slot slot,
                         int64_t c) {
    const int64_t step = 4 * s.group;
    const bool rest = s.group > 0 && c >= s.call.width / step * step;
    return s.key_at(h, slot, rest ? c % step : c);
  }
};
QKVET_FAULT(
    last_channel_groups_from_start,
    kServingFault<RestOfGroupsFromStart, &kServingGroupCapabilities>) = {
    .when = "channel_group > 0 && d > 4 * channel_group && d % (4 * "
            "channel_group) != 0",
    .cause = "groups of channels are read four at a time, and the rest from "
             "the beginning of the key: its loop counts from 0",
    .fix = "go on where the groups of four end",
    .killed_by = {"channel_groups_change_nothing", "agrees_with_oracle"},
};

struct NewKeyAsRow : ServingHooks {
  static void append(const ServingCall& s, int64_t b) {
    ServingHooks::append(s, b);
    for (int64_t n = 0; n < s.new_tokens && s.group > 0; ++n) {
      const Slot slot = s.slot(b, s.held(b) + n);
      for (int64_t h = 0; h < s.call.kv_heads; ++h)
        for (int64_t c = 0; c < s.call.width; ++c)
          store(s.k.type, s.k.data,
                of_page(s, h, slot, slot.row * s.call.width + c),
                s.k_new.get(b, h, n, c));
    }
  }
};
QKVET_FAULT(new_key_stored_as_row,
            kServingFault<NewKeyAsRow, &kServingGroupCapabilities>) = {
    .when = "channel_group > 0 && new_tokens > 0 && page_size > 1 && d > "
            "channel_group",
    .cause = "a new key is stored d channels side by side, in a page whose "
             "keys are in groups of channels",
    .fix = "store channel c of slot j at ((c / x) * page_size + j) * x + c % x",
    .source = "textbook (vLLM's key cache)",
    .killed_by = {"append_writes_only_its_tokens"},
};

}  // namespace qkvet::impl
