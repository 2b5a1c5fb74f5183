// SPDX-License-Identifier: Apache-2.0
#include "core/capability/capability.h"

#include <algorithm>
#include <initializer_list>

#include "core/call/layout.h"
#include "core/call/option_numbers.h"
#include "core/capability/extents.h"
#include "core/capability/option_table.h"
#include "core/case/exclusions.h"
#include "core/case/paging.h"

namespace qkvet {
namespace {

bool is_missing(const std::byte* data, std::initializer_list<int64_t> shape) {
  return data == nullptr && std::min(shape) > 0;
}

// Options of scores that a cache declares in its own table.
uint64_t options_of_cache(Operation operation) {
  const bool cache = !takes_options(operation) && !is_layer(operation) &&
                     operation != Operation::kMerge;
  if (operation == Operation::kCacheStep)
    return QKVET_OPTION_SOFTCAP | QKVET_OPTION_MASK | QKVET_OPTION_BIAS;
  return cache ? QKVET_OPTION_SOFTCAP | QKVET_OPTION_SINK | QKVET_OPTION_ALIBI
               : 0;
}

bool has_options(const KernelCall& call) {
  return (options_in(call) & ~kOptionsOfEveryCall &
          ~options_of_cache(call.operation)) != 0 ||
         (call.layout != Layout::kBhtd && call.operation != Operation::kMerge &&
          (takes_options(call.operation) || !is_any_strides(call.layout))) ||
         call.share != 0 || call.members != 0 || call.kv_len != nullptr ||
         call.cu_q != nullptr || call.cu_k != nullptr || call.page_size != 0 ||
         call.new_tokens != 0;
}

bool has_layer_storage(const KernelCall& call) {
  return call.fused != FusedOrder::kNone || call.w_qkv != nullptr ||
         call.mask_buffer != nullptr;
}

std::string list_contradiction(const KernelCall& call) {
  const KeyLists& lists = call.listed;
  if ((lists.entries > 0) != (call.key_indices != nullptr) ||
      (lists.entries > 0 && lists.lengths) != (call.topk_length != nullptr))
    return "lists of keys have entries, and lengths where they have some";
  return lists.block == 1 || (lists.block > 1 && lists.entries > 0)
             ? ""
             : "blocks of keys have keys and are those of lists";
}

std::string field_contradiction(const KernelCall& call) {
  const MaskFields& f = call.fields;
  if (f.segments != (call.segments_q != nullptr) ||
      f.segments != (call.segments_k != nullptr))
    return "segments are those of rows and of keys";
  if ((f.ranges > 0) != (call.full_ranges != nullptr) ||
      f.tree != (call.tree_mask != nullptr))
    return "ranges and trees are given if the call has some";
  return call.chunk >= 0 ? "" : "a chunk has positions";
}

std::string option_contradiction(const KernelCall& call) {
  if (call.window && std::min(call.window->left, call.window->right) < -1)
    return "a side of the window is below -1";
  for (const OptionNumber& number : kOptionNumbers)
    if (!(call.*number.in_call >= 0))
      return "the " + std::string(number.name) + " is no positive number";
  if (call.dropout && !(call.dropout->p >= 0 && call.dropout->p < 1))
    return "dropout is no probability below 1";
  if (call.want_dropout_mask && !call.dropout)
    return "a mask of dropout without dropout";
  const bool packed = call.members > 0, paged = call.page_size > 0;
  if (packed != (call.cu_q != nullptr) ||
      (packed && !paged) != (call.cu_k != nullptr))
    return paged ? "a packed batch over pages has members, cu_seqlens_q and no "
                   "cu_seqlens_k"
                 : "a packed batch has members and both cu_seqlens";
  if (packed && call.shape.B != 1) return "a packed batch has B = 1";
  if (std::string why = list_contradiction(call); !why.empty()) return why;
  if (std::string why = field_contradiction(call); !why.empty()) return why;
  if (std::string why = exclusion_contradiction(call); !why.empty()) return why;
  if (call.layout == Layout::kPacked &&
      !fit_one_block(call.shape, call.q_dtype, call.kv_dtype))
    return "q, k and v in one block have as many rows and channels of one type";
  if (call.values_in_keys &&
      (call.shape.dv > call.shape.d || call.operation != Operation::kForward))
    return "values are in keys of forward() that are as wide";
  return paging_contradiction(call);
}

// Tables are given in full, positions where the operation has them.
std::string rope_contradiction(const KernelCall& call) {
  if (call.rope == RopeStyle::kNone) return "";
  const Shape& s = call.shape;
  const bool rows = takes_options(call.operation);
  const bool layer = is_layer(call.operation);
  if (!rows && !layer && call.operation != Operation::kCacheStep)
    return "only attention, layers and steps take a rotation";
  const int64_t channels = call.rope_channels;
  if (channels % 2 != 0) return "a rotation of an odd number of channels";
  if (channels > s.d) return "a rotation of more channels than there are";
  const bool missing =
      is_missing(call.rope_cos, {call.rope_rows, channels}) ||
      is_missing(call.rope_sin, {call.rope_rows, channels}) ||
      (!rows && !layer ? call.q_positions != nullptr
                       : is_missing(call.q_positions, {s.B, s.Tq})) ||
      (rows ? is_missing(call.k_positions, {s.B, s.Tk})
            : call.k_positions != nullptr);
  return missing ? "tables or positions of a rotation are missing" : "";
}

// A mistake is made in something that is there.
std::string forward_mistake_contradiction(const KernelCall& call) {
  const bool lengths = call.q_len != nullptr || call.cu_q != nullptr;
  const bool any = lengths || call.kv_len != nullptr;
  switch (call.mistake) {
    case Mistake::kMaskExtent:
      return call.mask == nullptr ? "a mistake in a mask without one" : "";
    case Mistake::kBiasExtent:
      return call.bias == nullptr ? "a mistake in a bias without one" : "";
    case Mistake::kLengthsExtent:
      return lengths ? "" : "a mistake in lengths without any";
    case Mistake::kLengthNegative:
    case Mistake::kLengthBeyond:
    case Mistake::kLengthsType:
    case Mistake::kLengthsRank:
      return any ? "" : "a mistake in lengths without any";
    case Mistake::kOffsetsFall:
    case Mistake::kOffsetsStart:
    case Mistake::kOffsetsEnd:
    case Mistake::kBothForms:
      return call.cu_q != nullptr ? ""
                                  : "a mistake in a packed batch without one";
    case Mistake::kPagesFall:
    case Mistake::kPagesStart:
    case Mistake::kPagesEnd:
    case Mistake::kLastPageEmpty:
    case Mistake::kLastPageBeyond:
    case Mistake::kBothTables:
      return call.page_indptr != nullptr
                 ? ""
                 : "a mistake in a list of pages without one";
    case Mistake::kKeyListsExtent:
      return call.key_indices == nullptr ? "a mistake in lists without any"
                                         : "";
    case Mistake::kTopkLengthExtent:
      return call.topk_length == nullptr
                 ? "a mistake in lengths of lists without any"
                 : "";
    case Mistake::kSegmentsExtent:
    case Mistake::kSegmentsAbsent:
      return call.fields.segments ? "" : "a mistake in segments without any";
    case Mistake::kFullRangesExtent:
      return call.fields.ranges > 0 ? "" : "a mistake in ranges without any";
    case Mistake::kTreeMaskExtent:
      return call.fields.tree ? "" : "a mistake in a tree without one";
    case Mistake::kOutputRows:
    case Mistake::kFusedWidth:
      return "there is no such mistake";
    default:
      return "";
  }
}

std::string forward_contradiction(const KernelCall& call) {
  if (std::string why = option_contradiction(call); !why.empty()) return why;
  const Shape& s = call.shape;
  const bool paged = call.page_size > 0;
  const int64_t first = paged ? call.pages : s.B;
  const int64_t tokens = paged ? call.page_size : s.Tk;
  if (is_missing(call.q, {s.B, s.H, s.Tq, s.d}) ||
      is_missing(call.k, {first, s.Hkv, tokens, s.d}) ||
      is_missing(call.v, {first, s.Hkv, tokens, s.dv}))
    return "an input is missing";
  return forward_mistake_contradiction(call);
}

std::string backward_contradiction(const KernelCall& call) {
  const Shape& s = call.shape;
  if (call.mistake != Mistake::kNone) return "there is no such mistake";
  if (is_served(call) || call.share != 0)
    return "backward() takes no pages, new tokens and shared k and v";
  if (call.fields != MaskFields{} || call.chunk != 0)
    return "backward() takes no segments, ranges, chunks and trees";
  if (call.want_lse || call.want_weights)
    return "backward() gives neither lse nor weights";
  if (is_missing(call.d_o, {s.B, s.H, s.Tq, s.dv}) ||
      is_missing(call.given_o, {s.B, s.H, s.Tq, s.dv}) ||
      is_missing(call.given_lse, {s.B, s.H, s.Tq}))
    return "an input is missing";
  if ((call.want_d_bias && call.bias == nullptr) ||
      (call.want_d_sink && call.sink == nullptr))
    return "a gradient of what is not there";
  return forward_contradiction(call);
}

std::string layer_contradiction(const KernelCall& call) {
  const Shape& s = call.shape;
  if (s.Tq != s.Tk) return "a layer has Tq = Tk";
  if (call.unbatched && s.B != 1) return "a batch cannot be unbatched";
  if (call.kv_dtype != call.q_dtype || call.o_dtype != call.q_dtype)
    return "a layer has one storage type";
  if (call.want_lse) return "a layer gives no lse";
  const bool fused = call.fused != FusedOrder::kNone;
  if (fused != (call.w_qkv != nullptr))
    return "a fused layer has an order and w_qkv";
  if (call.b_qkv != nullptr && (!fused || call.b_q == nullptr ||
                                call.b_k == nullptr || call.b_v == nullptr))
    return "b_qkv is b_q, b_k and b_v of a fused layer";
  if (fused && call.b_qkv == nullptr &&
      (call.b_q != nullptr || call.b_k != nullptr || call.b_v != nullptr))
    return "the biases of a fused layer are given all or none";
  if (call.mistake == Mistake::kFusedWidth && !fused)
    return "a mistake in w_qkv without it";
  if (is_missing(call.x, {s.B, s.Tq, s.D}) ||
      is_missing(call.w_q, {s.D, s.H, s.d}) ||
      is_missing(call.w_k, {s.D, s.Hkv, s.d}) ||
      is_missing(call.w_v, {s.D, s.Hkv, s.dv}) ||
      is_missing(call.w_o, {s.H, s.dv, s.D}))
    return "an input is missing";
  if (call.mistake == Mistake::kValueAbsent)
    return "a layer has no such mistake";
  const bool bias = call.mistake == Mistake::kBiasExtent;
  return bias && call.b_q == nullptr ? "an input is missing" : "";
}

std::string layer_backward_contradiction(const KernelCall& call) {
  const Shape& s = call.shape;
  if (call.want_stages) return "a layer's gradient gives no stages";
  if (call.mistake != Mistake::kNone) return "there is no such mistake";
  if (is_missing(call.d_y, {s.B, s.Tq, s.D})) return "an input is missing";
  return layer_contradiction(call);
}

std::string merge_contradiction(const KernelCall& call) {
  const Shape& s = call.shape;
  const bool ragged = call.indptr != nullptr;
  if (s.Tq != 1 || s.d != 1 || s.Hkv != s.H)
    return "a merge has Tq = d = 1 and Hkv = H";
  if (call.in_place && (ragged || s.Tk < 1 || call.kv_dtype != call.o_dtype))
    return "a merge in place has a first state, of the type of o, and no "
           "indptr";
  if (call.row_mask != nullptr && !call.in_place)
    return "rows are left out of a merge in place alone";
  if (call.states == nullptr || call.states_lse == nullptr ||
      (call.in_place && (call.given_o == nullptr || call.given_lse == nullptr)))
    return "an input is missing";
  return call.mistake == Mistake::kNone ? "" : "there is no such mistake";
}

std::string create_contradiction(const KernelCall& call) {
  if (std::string why = form_reason(call.cache); !why.empty()) return why;
  if (call.cache.per_channel() &&
      (is_missing(call.k_scale, {call.shape.Hkv, call.shape.d}) ||
       is_missing(call.v_scale, {call.shape.Hkv, call.shape.dv})))
    return "scales are missing";
  if (call.shape.B > kMostCacheSequences)
    return "more than " + std::to_string(kMostCacheSequences) + " sequences";
  if (call.tokens < 0) return "the capacity is negative";
  return call.mistake == Mistake::kNone ? "" : "create() has no such mistake";
}

// Sequences that are not there, and too many tokens, are for the kernel to
// refuse.
std::string step_contradiction(const KernelCall& call) {
  const Shape& s = call.shape;
  if (s.B != 1) return "a step is one sequence's";
  if (call.want_weights) return "a step gives no weights";
  if (is_missing(call.q, {s.H, s.Tq, s.d}) ||
      is_missing(call.k, {s.Hkv, s.Tk, s.d}) ||
      is_missing(call.v, {s.Hkv, s.Tk, s.dv}))
    return "an input is missing";
  if ((call.mask != nullptr || call.bias != nullptr) &&
      (s.Tq == 0 || call.tokens < s.Tq))
    return "a mask and a bias are those of queries over tokens";
  if (call.mistake == Mistake::kNone) return "";
  if (call.mistake != Mistake::kKeyWidth &&
      call.mistake != Mistake::kValueAbsent)
    return "step() has no such mistake";
  return s.Tk == 0 ? "a mistake of k and v without them" : "";
}

std::string reorder_contradiction(const KernelCall& call) {
  if (static_cast<int64_t>(call.parents.size()) > kMostCacheSequences)
    return "more than " + std::to_string(kMostCacheSequences) + " parents";
  return call.mistake == Mistake::kNone ? "" : "there is no such mistake";
}

// "" if the call belongs together.
std::string contradiction(const KernelCall& call) {
  const Shape& s = call.shape;
  if (std::min({s.B, s.H, s.Hkv, s.Tq, s.Tk, s.d, s.dv, s.D}) < 0)
    return "an extent is negative";
  if (s.Hkv == 0 ? s.H != 0 : s.H % s.Hkv != 0)
    return "H is not a multiple of Hkv";
  if (!takes_options(call.operation) && has_options(call))
    return "only forward() and backward() take masks, lengths and layouts";
  if (call.operation != Operation::kLayer && has_layer_storage(call))
    return "only a layer takes w_qkv and a mask buffer";
  if (std::string why = rope_contradiction(call); !why.empty()) return why;
  switch (call.operation) {
    case Operation::kForward:
      return forward_contradiction(call);
    case Operation::kBackward:
      return backward_contradiction(call);
    case Operation::kLayer:
      return layer_contradiction(call);
    case Operation::kLayerBackward:
      return layer_backward_contradiction(call);
    case Operation::kMerge:
      return merge_contradiction(call);
    case Operation::kCacheCreate:
      return create_contradiction(call);
    case Operation::kCacheStep:
      return step_contradiction(call);
    case Operation::kCacheReorder:
      return reorder_contradiction(call);
    default:
      return call.mistake == Mistake::kNone ? "" : "there is no such mistake";
  }
}

// Options that the bits of a declaration do not cover for such a call: a cache
// is causal by its nature and its scale is fixed when it is created; a layer
// declares its weights and its rotation as stages and parts of a layer.
uint64_t declared_otherwise(Operation operation) {
  uint64_t options = options_of_cache(operation);
  if (operation == Operation::kMerge) return ~uint64_t{0};
  const bool forward = takes_options(operation);
  if (!forward) options |= QKVET_OPTION_ROPE;
  if (!forward && !is_layer(operation))
    options |= QKVET_OPTION_CAUSAL_TOP_LEFT | QKVET_OPTION_CAUSAL_BOTTOM_RIGHT;
  if (operation == Operation::kCacheStep)
    options |= QKVET_OPTION_SCALE | QKVET_OPTION_DEFAULT_SCALE;
  if (operation == Operation::kLayer) options |= QKVET_OPTION_WEIGHTS;
  return options;
}

std::string missing_option(const KernelInfo& kernel, const KernelCall& call) {
  const uint64_t asked = options_in(call) & ~declared_otherwise(call.operation);
  for (const OptionRow& row : option_rows()) {
    if ((asked & row.option) == 0 || kernel.has_option(row.option)) continue;
    return named(row) + " is not declared";
  }
  return "";
}

std::string missing_dtypes(const KernelInfo& kernel, const KernelCall& call) {
  if (takes_storage(kernel, call)) return "";
  return "q " + std::string(dtype_name(call.q_dtype)) + ", kv " +
         std::string(dtype_name(call.kv_dtype)) + ", o " +
         std::string(dtype_name(call.o_dtype)) + " is not declared";
}

std::string undeclared_extent(const qkvet_capabilities& capabilities,
                              const KernelCall& call) {
  Shape shape = call.shape;
  if (call.members > 0) shape.B = call.members;
  const ExtentsOf of = takes_options(call.operation)         ? kOfAttention
                       : is_layer(call.operation)            ? kOfLayers
                       : call.operation == Operation::kMerge ? kOfMerges
                                                             : kOfCaches;
  return broken_extent(extents_of(capabilities), shape, of);
}

// A device runs only forward() and its gradient.
std::string foreign_device(const qkvet_capabilities& capabilities,
                           const KernelCall& call) {
  if (device_of(capabilities) == QKVET_DEVICE_CUDA) {
    if (!takes_options(call.operation))
      return "layers, caches and merges in memory of a device are not judged";
    return call.layout == Layout::kFar
               ? "layout=far in memory of a device is not judged"
               : "";
  }
  const bool cpu = capabilities.devices == 0 ||
                   (capabilities.devices >> QKVET_DEVICE_CPU & 1) != 0;
  return cpu ? "" : "neither CPU nor CUDA memory is declared";
}

// The matrices of a layer are no [B, H, T, d]: contiguous, or of any strides.
std::string foreign_memory(const qkvet_capabilities& capabilities,
                           const KernelCall& call) {
  if (std::string why = foreign_device(capabilities, call); !why.empty())
    return why;
  // The layouts of a merge are options of its own.
  if (call.operation == Operation::kMerge) return "";
  if (is_layer(call.operation) && call.layout == Layout::kBhtd) return "";
  const struct {
    bool wanted;
    uint64_t layout;  // that will do, besides any strides
    const char* text;
  } rows[] = {
      {call.layout == Layout::kBhtd, QKVET_LAYOUT_BHTD,
       "contiguous [B, H, T, d]"},
      {call.layout == Layout::kBthd, QKVET_LAYOUT_BTHD,
       "contiguous [B, T, H, d]"},
      {call.layout == Layout::kPacked, QKVET_LAYOUT_PACKED_QKV,
       "packed q, k and v"},
      {call.layout == Layout::kGaps, 0, "any strides (gaps between rows)"},
      {call.layout == Layout::kApart, 0, "any strides (channels apart)"},
      {call.layout == Layout::kFar, 0, "any strides (members far apart)"},
      {call.layout == Layout::kTurned, 0, "any strides (tokens innermost)"},
      {call.share != 0, 0, "any strides (shared k and v)"},
  };
  const uint64_t declared =
      capabilities.layouts != 0 ? capabilities.layouts : QKVET_LAYOUT_BHTD;
  for (const auto& row : rows)
    if (row.wanted && (declared & (row.layout | QKVET_LAYOUT_ANY_STRIDES)) == 0)
      return std::string(row.text) + " is not declared";
  return "";
}

// Commands to a cache but a step: what they are about was allowed when it was
// made.
bool has_numbers_only(const KernelCall& call) {
  return call.operation > Operation::kCacheStep && !is_layer(call.operation);
}

}  // namespace

bool takes_storage(const KernelInfo& kernel, const KernelCall& call) {
  constexpr qkvet_dtype kF32Abi = {QKVET_DTYPE_FLOAT, 32, 1};
  constexpr qkvet_dtype_rule kDefaultRule = {kF32Abi, kF32Abi, kF32Abi};
  const qkvet_capabilities& capabilities = kernel.capabilities;
  const bool listed = capabilities.dtype_count > 0;
  const auto* rules = listed ? capabilities.dtypes : &kDefaultRule;
  const int count = listed ? std::min(capabilities.dtype_count, 16) : 1;
  return std::any_of(rules, rules + count, [&](const auto& rule) {
    return (call.operation == Operation::kMerge ||  // lse is never a half
            same_dtype(rule.q, dtype_to_abi(call.q_dtype))) &&
           same_dtype(rule.kv, dtype_to_abi(call.kv_dtype)) &&
           same_dtype(rule.o, dtype_to_abi(call.o_dtype));
  });
}

bool capability_allows(const KernelInfo& kernel, const KernelCall& call,
                       std::string* why) {
  *why = contradiction(call);
  if (why->empty()) *why = missing_table(kernel, call);
  if (!why->empty() || has_numbers_only(call)) return why->empty();
  *why = foreign_memory(kernel.capabilities, call);
  if (why->empty()) *why = missing_dtypes(kernel, call);
  if (why->empty()) *why = missing_option(kernel, call);
  if (why->empty()) *why = refused_pair(kernel, call);
  if (why->empty()) *why = undeclared_page_size(kernel.capabilities, call);
  if (why->empty()) *why = undeclared_extent(kernel.capabilities, call);
  return why->empty();
}

}  // namespace qkvet
