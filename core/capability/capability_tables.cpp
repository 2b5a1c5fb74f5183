// SPDX-License-Identifier: Apache-2.0
// The parts of a kernel's tables that a call needs: forward(), its gradient, a
// cache, a layer, and the functions of these that may be left out.
#include <algorithm>

#include "core/call/cache_options.h"
#include "core/capability/capability.h"
#include "core/capability/option_table.h"

namespace qkvet {
namespace {

std::string missing_cache_option(const KernelInfo& kernel,
                                 const KernelCall& call) {
  uint64_t asked = options_in(call);
  if (call.cache.window > 0) asked |= QKVET_OPTION_WINDOW;
  asked &= options_by_cache_bits(~uint64_t{0}) &
           ~options_by_cache_bits(kernel.cache_options);
  for (const OptionRow& row : option_rows())
    if ((asked & row.option) != 0)
      return named(row) + " of a cache is not declared";
  return "";
}

// The functions that a cache may leave out.
std::string missing_cache_part(const KernelInfo& kernel,
                               const KernelCall& call) {
  switch (call.operation) {
    case Operation::kCacheCreate:
      return declares_stored(kernel.cache_options, call.cache.stored)
                 ? ""
                 : "quantised storage (" +
                       form_text({0, 0, 0, call.cache.stored}) +
                       ") is not declared";
    case Operation::kCacheTruncate:
      return kernel.has_truncate ? "" : "truncate is not offered";
    case Operation::kCacheEvict:
      return kernel.has_evict ? "" : "evict is not offered";
    case Operation::kCacheFork:
      return kernel.has_fork ? "" : "fork is not offered";
    case Operation::kCacheReorder:
      return kernel.has_reorder ? "" : "reorder is not offered";
    case Operation::kCacheReadBack:
      return kernel.has_read_back ? "" : "read_back is not offered";
    default:
      return "";
  }
}

std::string missing_backward(const KernelInfo& kernel, const KernelCall& call) {
  const auto lacks = [&](uint64_t option) {
    return (kernel.backward_options & option) == 0;
  };
  if (!kernel.has_backward) return "no backward is declared";
  if (call.dropout && (!kernel.has_forward || kernel.only_plans))
    return "no forward is declared";
  if (call.want_d_bias && lacks(QKVET_BACKWARD_BIAS))
    return "a gradient of the bias is not declared";
  return call.want_d_sink && lacks(QKVET_BACKWARD_SINK)
             ? "a gradient of the sinks is not declared"
             : "";
}

std::string missing_merge(const KernelInfo& kernel, const KernelCall& call) {
  const auto lacks = [&](uint64_t option) {
    return (kernel.merge_options & option) == 0;
  };
  if (!kernel.has_merge) return "no merge is declared";
  const bool ragged = call.indptr != nullptr;
  if (ragged && lacks(QKVET_MERGE_RAGGED))
    return "a number of states for each row (indptr) is not declared";
  if (call.in_place && lacks(QKVET_MERGE_IN_PLACE))
    return "a merge in place is not declared";
  if (call.row_mask != nullptr && lacks(QKVET_MERGE_ROW_MASK))
    return "a row_mask is not declared";
  if (call.layout != Layout::kBthd && !lacks(QKVET_MERGE_LSE_HEADS_FIRST_ONLY))
    return "lse that does not lie as [n, H, T] is not declared";
  if (call.layout != Layout::kBhtd && lacks(QKVET_MERGE_ANY_STRIDES) &&
      (call.layout != Layout::kBthd || lacks(QKVET_MERGE_LSE_HEADS_FIRST)))
    return call.layout == Layout::kBthd
               ? "lse as [n, H, T] is not declared"
               : "any strides of a merge are not declared";
  if (call.kv_dtype == Dtype::kF64 &&
      kernel.dialect.lse_base == QKVET_LSE_BASE2)
    return "states in f64 whose lse counts in base 2: no bound has been "
           "derived";
  const int64_t states = call.shape.Tk;
  if (ragged) return "";
  if (states < std::max<int64_t>(kernel.min_states, 1) && states > 0)
    return "n = " + std::to_string(states) + " is below the declared " +
           std::to_string(kernel.min_states) + " states";
  if (kernel.max_states > 0 && states > kernel.max_states)
    return "n = " + std::to_string(states) + " is above the declared " +
           std::to_string(kernel.max_states) + " states";
  return "";
}

}  // namespace

std::string missing_table(const KernelInfo& kernel, const KernelCall& call) {
  const auto lacks = [&](uint64_t option) {
    return (kernel.layer_options & option) == 0;
  };
  if (call.plan_use != PlanUse::kNone && !kernel.has_plan)
    return "no plan is declared";
  if (call.operation == Operation::kForward)
    return kernel.has_forward ? "" : "no forward is declared";
  if (call.operation == Operation::kBackward)
    return missing_backward(kernel, call);
  if (call.operation == Operation::kMerge) return missing_merge(kernel, call);
  if (!is_layer(call.operation)) {
    if (!kernel.has_cache) return "no cache is declared";
    std::string missing = missing_cache_option(kernel, call);
    return missing.empty() ? missing_cache_part(kernel, call) : missing;
  }
  if (!kernel.has_layer) return "no layer is declared";
  if (call.operation == Operation::kLayerBackward && !kernel.has_layer_backward)
    return "no layer_backward is declared";
  if ((call.b_q != nullptr || call.b_k != nullptr || call.b_v != nullptr ||
       call.b_o != nullptr) &&
      lacks(QKVET_LAYER_BIASES))
    return "biases of a layer are not declared";
  if (call.want_stages && lacks(QKVET_LAYER_STAGES))
    return "stages of a layer are not declared";
  if (call.rope != RopeStyle::kNone && lacks(QKVET_LAYER_ROPE))
    return "a rotation (RoPE) of a layer is not declared";
  if (call.rope != RopeStyle::kNone && call.rope_channels < call.shape.d &&
      lacks(QKVET_LAYER_ROPE_PART))
    return "a rotation of some channels of a layer is not declared";
  if (call.unbatched && lacks(QKVET_LAYER_UNBATCHED))
    return "an unbatched layer is not declared";
  if (call.fused != FusedOrder::kNone && lacks(fused_option(call.fused)))
    return "fused projections (" + std::string(fused_name(call.fused)) +
           ") are not declared";
  if (call.mask_buffer != nullptr && lacks(QKVET_LAYER_MASK_BUFFER))
    return "a mask buffer of a layer is not declared";
  if (call.want_weights && lacks(QKVET_LAYER_WEIGHTS))
    return "weights of a layer are not declared";
  return "";
}

uint64_t flags_of_version(uint32_t abi_minor, const KernelInfo& kernel) {
  constexpr uint32_t kListsAnywhere = 4;
  if (abi_minor >= kListsAnywhere || !kernel.has_option(QKVET_OPTION_KEY_LISTS))
    return 0;
  const bool paged = kernel.has_option(QKVET_OPTION_PAGED) ||
                     kernel.has_option(QKVET_OPTION_PAGED_CSR);
  return (paged ? QKVET_FLAG_LISTS_OR_PAGES : 0) |
         (kernel.has_backward ? QKVET_FLAG_LISTS_IN_FORWARD_ONLY : 0);
}

std::string refused_pair(const KernelInfo& kernel, const KernelCall& call) {
  if (call.scale && *call.scale < 0 &&
      kernel.has_flag(QKVET_FLAG_POSITIVE_SCALE))
    return "a negative scale is declared as refused";
  if (takes_options(call.operation) && call.causal == Causal::kNone &&
      kernel.has_flag(QKVET_FLAG_CAUSAL_ONLY))
    return "calls that are not causal are not declared";
  if (call.operation == Operation::kForward && !call.values_in_keys &&
      kernel.has_flag(QKVET_FLAG_VALUES_IN_KEYS_ONLY))
    return "values apart from keys are not declared";
  if (call.causal != Causal::kNone && call.bias != nullptr &&
      kernel.has_flag(QKVET_FLAG_BIAS_OR_CAUSAL))
    return "a bias together with causal is declared as refused";
  if (call.key_indices != nullptr && call.page_size > 0 &&
      kernel.has_flag(QKVET_FLAG_LISTS_OR_PAGES))
    return "lists of keys together with pages are declared as refused, or not "
           "known to the library's version of the ABI";
  if (call.key_indices != nullptr && call.operation == Operation::kBackward &&
      kernel.has_flag(QKVET_FLAG_LISTS_IN_FORWARD_ONLY))
    return "lists of keys in gradients are declared as refused, or not known "
           "to the library's version of the ABI";
  if ((call.rope == RopeStyle::kInterleaved &&
       kernel.has_flag(QKVET_FLAG_ROPE_HALF_ONLY)) ||
      (call.rope == RopeStyle::kHalf &&
       kernel.has_flag(QKVET_FLAG_ROPE_INTERLEAVED_ONLY)))
    return "the other style of rotation is declared as refused";
  if (call.mask == nullptr) return "";
  if (call.bias != nullptr && kernel.has_flag(QKVET_FLAG_MASK_OR_BIAS))
    return "a mask together with a bias is declared as refused";
  return call.causal != Causal::kNone &&
                 kernel.dialect.mask_and_causal == QKVET_MASK_AND_CAUSAL_REFUSED
             ? "a mask together with causal is declared as refused"
             : "";
}

}  // namespace qkvet
