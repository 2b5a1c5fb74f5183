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

// K [Tk,d] is reshaped to [d,Tk] where its axes had to be swapped: element (c,
// j) is then number c * Tk + j of the block. It stays inside the head, and
// reads rows of K that the row must not see.
struct WrongTransposeOfK : PlainHooks {
  static float key(const KeyHead& k, int64_t j, int64_t c) {
    const int64_t flat = c * k.keys + j;
    return k.at(flat / k.width, flat % k.width);
  }
};
QKVET_FAULT(wrong_transpose_of_k) = {
    .kernel = plain_fault<WrongTransposeOfK>,
    .mechanism = "K is reshaped to [d, Tk], not transposed",
    .symptom =
        "scores between wrong pairs; a shape error if the batch is swapped too",
    .cause = "view or reshape in place of a transpose of the last two axes",
    .fix = "swap the last two axes of K only",
    .source = "textbook",
    .trigger = "Tk > 1 and d > 1",
    .killed_by = {"future_changes_nothing", "permuted_keys_change_nothing",
                  "prefill_equals_decode", "agrees_with_oracle"},
    .when = "Tk > 1 && d > 1",
};

// The rows of one block say that there is one.
struct BlockToldByStrides : OptionHooks {
  static void member(const ForwardCall&, int64_t, ForwardCall* member) {
    const int64_t row = (member->heads + 2 * member->kv_heads) * member->width;
    if (member->queries > 1 && member->q.step[2] == row) {
      member->k.data = member->q.data + member->heads * member->width;
      member->v.data = member->k.data + member->kv_heads * member->width;
    }
  }
};
QKVET_FAULT(block_told_by_strides) = {
    .kernel = option_fault<BlockToldByStrides>,
    .mechanism =
        "where the rows of q lie as far apart as those of one block of q, k "
        "and v, keys and values are read behind the queries",
    .symptom =
        "right for a fused projection; garbage for views of three buffers "
        "that have its strides",
    .cause = "strides are taken to say where other tensors lie",
    .fix = "compare the addresses of k and v, or use them",
    .source = "textbook",
    .trigger = "the strides of [B, T, H + 2 Hkv, d], and T > 1",
    .killed_by = {"layout_changes_nothing"},
    .when = "(layout == qkv || layout == gaps) && Tq > 1",
};

// The stride of a single channel says that K is transposed.
struct ChannelStrideOfOneDecides : OptionHooks {
  static void member(const ForwardCall&, int64_t, ForwardCall* member) {
    if (transposed()) {
      member->k.step[2] = 1;
    }
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
    const qkvet_status status = read_forward(self, args, &call, why);
    if (status != QKVET_OK) {
      return status;
    }
    const int64_t* const strides = args->k.strides;
    transposed() = call.keys > 1 && strides[3] > strides[2];
    return OptionsKernel<ChannelStrideOfOneDecides>::forward(self, context,
                                                             args, exec, why);
  }
};
QKVET_FAULT(channel_stride_of_one_decides) = {
    .kernel = forward_fault<ChannelStrideOfOneDecides::forward>,
    .mechanism =
        "K is taken for transposed if channels lie further apart than keys, "
        "and the stride of a single channel is any number",
    .symptom =
        "right with the strides of a new tensor; other keys are read once a "
        "slice leaves one channel",
    .cause =
        "strides of extents of 1 mean nothing, and take part in a decision "
        "about the layout",
    .fix = "leave extents of 1 out of every decision about strides",
    .source = "ELS-RD/kernl#108",
    .trigger = "d = 1, Tk > 1, and keys that do not lie side by side",
    .killed_by = {"layout_changes_nothing"},
    .when = "d == 1 && Tk > 1 && layout != bhtd",
};

// q is taken for contiguous.
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
QKVET_FAULT(query_strides_assumed) = {
    .kernel = option_fault<QueryStridesAssumed>,
    .mechanism = "the strides of q are not read: it is taken for contiguous",
    .symptom = "queries of other heads and rows as soon as q is a view",
    .cause = "an index written for the layout of the first caller",
    .fix = "use the strides of every tensor, or refuse what is not contiguous",
    .source = "textbook (views)",
    .trigger =
        "another layout than [B, H, T, d], and more than one row; or channels "
        "that lie apart",
    .killed_by = {"layout_changes_nothing"},
    .when =
        "layout != bhtd && (B > 1 || H > 1 || Tq > 1 || (layout == apart && d "
        "> 1))",
};

// K read as contiguous [B, Hkv, Tk, d].
struct KeyStridesAssumed : OptionHooks {
  // Every other order of the same extents, and every gap, takes at least as
  // much memory. Shared heads and members take less: they keep their strides.
  static void member(const ForwardCall& whole, int64_t, ForwardCall* member) {
    const bool shared = (whole.k.step[0] == 0 && whole.batch > 1) ||
                        (whole.k.step[1] == 0 && whole.kv_heads > 1);
    if (shared) {
      return;
    }
    member->k.step[3] = 1;
    member->k.step[2] = whole.width;
    member->k.step[1] = whole.keys * whole.width;
    member->k.step[0] = whole.kv_heads * whole.keys * whole.width;
  }
};
QKVET_FAULT(key_strides_assumed) = {
    .kernel = option_fault<KeyStridesAssumed>,
    .mechanism = "the strides of K are not read: it is taken for contiguous",
    .symptom = "keys of other heads and rows as soon as K is a view",
    .cause = "an index written for the layout of the first caller",
    .fix = "use the strides of every tensor, or refuse what is not contiguous",
    .source = "BobMcDear/attorch#14",
    .trigger =
        "another layout than [B, H, T, d], and more than one row; or channels "
        "that lie apart",
    .killed_by = {"layout_changes_nothing"},
    .when =
        "layout != bhtd && (B > 1 || Hkv > 1 || Tk > 1 || (layout == apart && "
        "d > 1))",
};

// The channels of V are taken to lie side by side.
struct ValueChannelsSideBySide : OptionHooks {
  static void member(const ForwardCall& whole, int64_t, ForwardCall* member) {
    if (whole.value_width > 1) {
      member->v.step[3] = 1;
    }
  }
};
QKVET_FAULT(value_channels_side_by_side) = {
    .kernel = option_fault<ValueChannelsSideBySide>,
    .mechanism = "channel c of a value is read c elements behind the first",
    .symptom =
        "right for rows in one piece; a slice of every second channel gives "
        "the wrong half of them",
    .cause =
        "strides are taken for three of four dimensions, the last one being 1 "
        "in every model so far",
    .fix =
        "use the stride of the channels, or refuse another one than 1 in "
        "supports()",
    .source = "pytorch/pytorch#187506",
    .trigger = "channels that lie apart, and dv > 1",
    .killed_by = {"reads_only_its_inputs"},
    .when = "(layout == apart || layout == turned) && dv > 1",
};

// o is taken for contiguous.
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
QKVET_FAULT(output_strides_assumed) = {
    .kernel = option_fault<OutputStridesAssumed>,
    .mechanism =
        "the strides of O are not read: rows are written as if it were "
        "contiguous",
    .symptom =
        "right in one layout; in another heads and tokens are swapped, and "
        "gaps are written",
    .cause =
        "what merges the parts was written for the layout of its own scratch",
    .fix = "use the strides of the caller, or refuse other ones",
    .source = "flagos-ai/FlagGems#5235",
    .trigger =
        "another layout than [B, H, T, d], and more than one row; or channels "
        "that lie apart",
    .killed_by = {"layout_changes_nothing"},
    .when =
        "layout != bhtd && (B > 1 || H > 1 || Tq > 1 || (layout == apart && dv "
        "> 1))",
};

// Two quarters of each tile of O change places.
struct OutputQuartersExchanged : PlainHooks {
  static qkvet_status compute(const ForwardCall& call, qkvet_text* why) {
    const qkvet_status status = HooksKernel<PlainHooks>::compute(call, why);
    for (int64_t b = 0; status == QKVET_OK && b < call.batch; ++b) {
      for (int64_t h = 0; h < call.heads; ++h) {
        for (int64_t i = 0; i + half_tile() < call.queries; ++i) {
          for (int64_t c = half_tile(); c < call.value_width; ++c) {
            const bool is_first = i % tile() < half_tile();
            const bool is_second = c % tile() >= half_tile();
            if (is_first && is_second) {
              std::swap(
                  call.o.at(b, h, i)[c * call.o.step[3]],
                  call.o.at(
                      b, h,
                      i + half_tile())[(c - half_tile()) * call.o.step[3]]);
            }
          }
        }
      }
    }
    return status;
  }
};
QKVET_FAULT(output_quarters_exchanged) = {
    .kernel = forward_fault<forward_in_f32<OutputQuartersExchanged::compute>>,
    .mechanism =
        "in tiles of four rows and four channels of O, the quarter on the "
        "right and the one below on the left are stored in each other's place",
    .symptom = "every number is there, and half of them at another place",
    .cause =
        "an instruction that stores registers which another one has filled: "
        "the two lay a tile out differently",
    .fix = "store by the layout of what computed the tile",
    .source = "Dao-AILab/flash-attention#2553",
    .trigger = "three rows and three channels",
    .killed_by = {"other_rows_change_nothing", "agrees_with_oracle"},
    .when = "Tq > 2 && dv > 2",
    .tiled = true,
};

// A compiled call is found by its extents and keeps the strides of K.
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
    if (span(extents, kept.step.data()) <= span(extents, whole.k.step)) {
      std::copy(kept.step.begin(), kept.step.end(), std::begin(member->k.step));
    }
  }

 private:
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
    for (size_t axis = 0; axis < extents.size(); ++axis) {
      last += (extents[axis] - 1) * step[axis];
    }
    return last;
  }
};
QKVET_FAULT(strides_kept_while_extents_match) = {
    .kernel = option_fault<StridesKeptWhileExtentsMatch>,
    .mechanism =
        "a compiled call is found by its extents, and has the strides of the "
        "call that it was compiled for",
    .symptom =
        "the first call of some extents is right, and a later one in another "
        "layout is not",
    .cause = "a key of a cache that leaves out what the entry depends on",
    .fix = "make the strides a part of the key",
    .source = "flashinfer-ai/flashinfer#4146",
    .trigger = "two calls of the same extents in different layouts",
    .killed_by = {"layout_changes_nothing"},
    .when = "B > 1 || Hkv > 1 || Tk > 1 || d > 1",
};

// Vector loads of K, where Q alone was found to be aligned.
struct KeysAlignedAsQueries : OptionHooks {
  // An aligned load drops the lowest bits of its address, on machines that have
  // no other: it reads what lies in front of K, on the same page.
  static void member(const ForwardCall& whole, int64_t, ForwardCall* member) {
    if (behind_vector(whole.q.data) == 0) {
      member->k.data -= behind_vector(whole.k.data);
    }
  }

 private:
  static constexpr uintptr_t kVector = 4;  // floats
  // In floats.
  static int64_t behind_vector(const float* data) {
    const auto address = reinterpret_cast<uintptr_t>(data);
    return static_cast<int64_t>(address / sizeof(float) % kVector);
  }
};
QKVET_FAULT(keys_aligned_as_queries) = {
    .kernel = option_fault<KeysAlignedAsQueries>,
    .mechanism =
        "vectors of 16 bytes need addresses that are multiples of it, and only "
        "that of Q is looked at",
    .symptom =
        "right wherever an allocator puts tensors; wrong, or a fault, for a K "
        "that is a slice of something",
    .cause = "one check for a path that loads from several tensors",
    .fix =
        "check the address and the strides of every tensor that the path "
        "loads, or declare the alignment",
    .source = "vllm-project/vllm#45466",
    .trigger = "K does not begin at a multiple of 16 bytes, and Q does",
    .killed_by = {"reads_only_its_inputs"},
    .when =
        "layout != bhtd || share.members || share.heads || B * Hkv * Tk * d % "
        "4 != 0",
};

// The stride of a head is a number of whole tokens.
struct HeadOffsetIsQuotient : OptionHooks {
  static void member(const ForwardCall& whole, int64_t, ForwardCall* member) {
    if (whole.kv_heads > 1 && whole.keys > 1) {
      const int64_t token = whole.k.step[2];
      member->k.step[1] = whole.k.step[1] / token * token;
    }
  }
};
QKVET_FAULT(head_offset_is_quotient) = {
    .kernel = option_fault<HeadOffsetIsQuotient>,
    .mechanism =
        "the offset of a head of K is a quotient of two strides, times one of "
        "them",
    .symptom =
        "right where heads lie in one piece; in [B, T, H, d] all heads read "
        "the keys of the first",
    .cause =
        "the stride of a head is expected to be a multiple of that of a token",
    .fix = "use the stride that the tensor has",
    .source = "BobMcDear/attorch#14",
    .trigger =
        "a layout in which heads are no whole tokens apart, Hkv > 1 and Tk > 1",
    .killed_by = {"layout_changes_nothing"},
    .when = "layout != bhtd && Hkv > 1 && Tk > 1",
};

// A member begins one token behind the one before.
struct MemberStrideOfToken : OptionHooks {
  static void member(const ForwardCall& whole, int64_t, ForwardCall* member) {
    // The strides of single tokens mean nothing, and members may share theirs.
    if (whole.batch > 1 && whole.keys > 1 && whole.k.step[0] != 0) {
      member->k.step[0] = whole.k.step[2];
      member->v.step[0] = whole.v.step[2];
    }
  }
};
QKVET_FAULT(member_stride_of_token) = {
    .kernel = option_fault<MemberStrideOfToken>,
    .mechanism = "the stride of a token is used as that of a member",
    .symptom =
        "the first member is right, the next ones see it one token, two tokens "
        "later",
    .cause = "strides are handed on in another order than they are taken",
    .fix = "name them, or take the tensor",
    .source = "flashinfer-ai/flashinfer#3801",
    .trigger = "B > 1 and Tk > 1",
    .killed_by = {"other_members_change_nothing",
                  "permuted_members_permute_output", "agrees_with_oracle"},
    .when = "B > 1 && Tk > 1",
};

// The batch index does not reach k and v.
struct KeysOfFirstMember : OptionHooks {
  static RowAt kv_head(const ForwardCall& call, RowAt at) {
    return {0, at.h / call.group(), 0};
  }
};
QKVET_FAULT(keys_of_first_member) = {
    .kernel = option_fault<KeysOfFirstMember>,
    .mechanism = "all batch members read keys and values of the first",
    .symptom =
        "every member but the first answers from the context of the first",
    .cause = "the batch index missing from the address of k and v",
    .fix = "k + b * stride of the batch, as for q",
    .source = "flashinfer-ai/flashinfer#3801",
    .trigger = "B > 1",
    .killed_by = {"other_members_change_nothing", "nan_stays_in_its_head",
                  "permuted_members_permute_output", "rows_stay_in_hull",
                  "agrees_with_oracle"},
    .when = "B > 1",
};

// ---- Values in keys ---------------------------------------------------------
//
// The first dv channels of the keys (kernel.h: VALUES_IN_KEYS).
namespace {

bool has_values_in_keys(const ForwardCall& whole) {
  return whole.k.data == whole.v.data;
}

}  // namespace

// The channels that carry positions are taken to come first.
struct ValuesAtEndOfKeys : OptionHooks {
  static void member(const ForwardCall& whole, int64_t, ForwardCall* member) {
    if (has_values_in_keys(whole)) {
      member->v.data += (whole.width - whole.value_width) * whole.k.step[3];
    }
  }
};
QKVET_FAULT(values_at_end_of_keys) = {
    .kernel = option_fault<ValuesAtEndOfKeys, QKVET_OPTION_VALUES_IN_KEYS>,
    .mechanism = "values are the last dv channels of the keys, not the first",
    .symptom =
        "right where a key is all value; else the rotated channels of "
        "keys are summed as if they were values",
    .cause =
        "a cache that holds the latent and the rotated part of a key is read "
        "in the other order",
    .fix = "v = k[..., :dv]",
    .source = "textbook (MLA's latent cache)",
    .trigger = "values in keys, and dv below d",
    .killed_by = {"values_in_keys_equal_own_values", "agrees_with_oracle"},
    .when = "values_in_keys && dv < d",
};

// The row of a value is as long as it is wide.
struct ValuesInRowsOfTheirOwn : OptionHooks {
  // Rows of dv end before those of d do.
  static void member(const ForwardCall& whole, int64_t, ForwardCall* member) {
    if (has_values_in_keys(whole) && whole.value_width < whole.width) {
      member->v.step[2] = whole.value_width * whole.k.step[3];
    }
  }
};
QKVET_FAULT(values_in_rows_of_their_own) = {
    .kernel = option_fault<ValuesInRowsOfTheirOwn, QKVET_OPTION_VALUES_IN_KEYS>,
    .mechanism =
        "the values in a cache of keys are read as rows of dv, where they are "
        "as far apart as keys",
    .symptom = "the first key is right, all others have parts of two rows",
    .cause = "the pitch of a value is computed from its width",
    .fix = "use the stride of k for both",
    .source = "textbook (MLA's latent cache)",
    .trigger = "values in keys, dv below d, and two keys",
    .killed_by = {"values_in_keys_equal_own_values", "agrees_with_oracle"},
    .when = "values_in_keys && dv < d && Tk > 1",
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

// The groups of a type of two bytes, whatever the type is.
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
QKVET_FAULT(channel_groups_of_eight) = {
    .kernel = serving_fault<GroupsOfEight, &kServingGroupCapabilities>,
    .mechanism =
        "keys in pages are read in groups of 8 channels, also where 16 bytes "
        "are 4",
    .symptom =
        "right for f16 and bf16; in f32 a key has channels of its neighbour",
    .cause = "x is 16 / sizeof(type), and was written down as a number",
    .fix = "x from the type of the cache, or from its shape",
    .source = "textbook (vLLM's key cache)",
    .trigger = "keys of f32 in groups of channels, and pages of two tokens",
    .killed_by = {"channel_groups_change_nothing"},
    .when = "channel_group == 4 && page_size > 1",
};

// [d / x, x, page]
struct GroupBeforeSlot : ServingHooks {
  static int64_t channel(const ServingCall& s, int64_t h, Slot slot,
                         int64_t c) {
    return s.group == 0 ? s.key_at(h, slot, c)
                        : of_page(s, h, slot, c * s.page_size + slot.row);
  }
};
QKVET_FAULT(channel_group_and_slot_swapped) = {
    .kernel = serving_fault<GroupBeforeSlot, &kServingGroupCapabilities>,
    .mechanism =
        "keys are read as values lie, [pages, Hkv, d, page], where they are "
        "[pages, Hkv, d / x, page, x]",
    .symptom = "right for pages of one token; else keys are mixed up",
    .cause = "one reshape for both halves of the cache",
    .fix = "channel c of slot j is at ((c / x) * page_size + j) * x + c % x",
    .source = "textbook (vLLM's key cache)",
    .trigger = "keys in groups of channels, and pages of two tokens",
    .killed_by = {"channel_groups_change_nothing"},
    .when = "channel_group > 0 && page_size > 1",
};

// Groups come four at a time; the loop over the rest begins anew.
struct RestOfGroupsFromStart : ServingHooks {
  static int64_t channel(const ServingCall& s, int64_t h, Slot slot,
                         int64_t c) {
    const int64_t step = 4 * s.group;
    const bool rest = s.group > 0 && c >= s.call.width / step * step;
    return s.key_at(h, slot, rest ? c % step : c);
  }
};
QKVET_FAULT(last_channel_groups_from_start) = {
    .kernel = serving_fault<RestOfGroupsFromStart, &kServingGroupCapabilities>,
    .mechanism =
        "groups of channels are read four at a time, and the ones that are "
        "left from the beginning of the key",
    .symptom = "right for d = 64 and 128; wrong for 80, 112 and 120 of f16",
    .cause = "the loop over the rest counts from 0",
    .fix = "go on where the groups of four end",
    .source = "textbook (a loop and its rest)",
    .trigger = "more groups than four, and not a multiple of them",
    .killed_by = {"channel_groups_change_nothing", "agrees_with_oracle"},
    .when =
        "channel_group > 0 && d > 4 * channel_group && "
        "d % (4 * channel_group) != 0",
};

// A new key is stored as a row of its page.
struct NewKeyAsRow : ServingHooks {
  static void append(const ServingCall& s, int64_t b) {
    ServingHooks::append(s, b);
    for (int64_t n = 0; n < s.new_tokens && s.group > 0; ++n) {
      const Slot slot = s.slot(b, s.held(b) + n);
      for (int64_t h = 0; h < s.call.kv_heads; ++h) {
        for (int64_t c = 0; c < s.call.width; ++c) {
          store(s.k.type, s.k.data,
                of_page(s, h, slot, slot.row * s.call.width + c),
                s.k_new.get(b, h, n, c));
        }
      }
    }
  }
};
QKVET_FAULT(new_key_stored_as_row) = {
    .kernel = serving_fault<NewKeyAsRow, &kServingGroupCapabilities>,
    .mechanism =
        "a new key is stored d channels side by side, in a page whose keys lie "
        "in groups of channels",
    .symptom = "channels of older keys of the page are overwritten",
    .cause = "the store and the attention know two forms of page",
    .fix = "store channel c of slot j at ((c / x) * page_size + j) * x + c % x",
    .source = "textbook (vLLM's key cache)",
    .trigger =
        "new tokens, keys in groups of channels, two groups and pages of two "
        "tokens",
    .killed_by = {"append_writes_only_its_tokens"},
    .when =
        "channel_group > 0 && new_tokens > 0 && page_size > 1 && "
        "d > channel_group",
};

}  // namespace qkvet::impl
