// SPDX-License-Identifier: Apache-2.0
// KernelInfo as bytes, from the worker to the program that started it. Both are
// of one build; only strings and counts need a form of their own.
#ifndef QKVET_CORE_SANDBOX_WIRE_H_
#define QKVET_CORE_SANDBOX_WIRE_H_

#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "core/capability/kernel_info.h"

namespace qkvet {

// Every member, in the order of the struct, goes over the wire. A list that
// misses one does not compile, nor does a struct with a member that no list
// has.
#define QKVET_FAULT_FIELDS when, cause, fix, source, killed_by, extents, tiled
#define QKVET_KERNEL_FIELDS                                                    \
  name, description, source_file, source_line, capabilities, dialect,          \
      precision, has_forward, has_cache, has_truncate, has_evict, has_fork,    \
      has_reorder, has_read_back, has_layer, has_backward, has_layer_backward, \
      has_workspace, has_merge, has_plan, only_plans, orders_threads,          \
      cache_options, layer_options, backward_options, merge_options,           \
      plan_options, min_states, max_states, layer_stage, unavailable, fault
template <class Fault>
auto fault_fields(Fault& all) {
  auto& [QKVET_FAULT_FIELDS] = all;
  return std::tie(QKVET_FAULT_FIELDS);
}
template <class Kernel>
auto kernel_fields(Kernel& all) {
  auto& [QKVET_KERNEL_FIELDS] = all;
  return std::tie(QKVET_KERNEL_FIELDS);
}
#undef QKVET_FAULT_FIELDS
#undef QKVET_KERNEL_FIELDS

std::string pack_kernels(const std::vector<KernelInfo>& kernels);
// False if the bytes are cut off or make no sense.
bool unpack_kernels(std::string_view bytes, std::vector<KernelInfo>* kernels);

}  // namespace qkvet

#endif  // QKVET_CORE_SANDBOX_WIRE_H_
