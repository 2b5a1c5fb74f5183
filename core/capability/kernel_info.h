// SPDX-License-Identifier: Apache-2.0
// The declarations of a kernel, copied out of the library that holds it, so
// that the parent process never needs that library.
#ifndef QKVET_CORE_CAPABILITY_KERNEL_INFO_H_
#define QKVET_CORE_CAPABILITY_KERNEL_INFO_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/dtype.h"
#include "core/call/cache_form.h"
#include "qkvet/kernel.h"

namespace qkvet {

// The fields of a qkvet_fault.
struct FaultInfo {
  std::string when;  // "" or the condition without which it cannot show
  std::string cause;
  std::string fix;
  std::string source;
  std::vector<std::string> killed_by;  // ids of laws that must fail
  std::string extents = {};  // "" or pins: hardly any drawn case has such
  bool tiled = false;        // other widths of tiles are worth a try
};

// The flags of a kernel as conventions and plans spell them: the names in lower
// case. `refused`: what a kernel with this flag refuses although it takes each
// part of it; such cases are not drawn, and the verdict reports it. `in_plans`:
// plans contain the word, as they do for refusals.
struct FlagWord {
  const char* word;
  uint64_t flag;
  const char* refused = nullptr;
  bool in_plans = refused != nullptr;
};
inline constexpr FlagWord kFlagWords[] = {
    {"reentrant", QKVET_FLAG_REENTRANT},
    {"nondeterministic", QKVET_FLAG_NONDETERMINISTIC, nullptr, true},
    {"compiles_per_shape", QKVET_FLAG_COMPILES_PER_SHAPE},
    {"allocates", QKVET_FLAG_ALLOCATES},
    {"alignment_invariant", QKVET_FLAG_ALIGNMENT_INVARIANT},
    {"layout_invariant", QKVET_FLAG_LAYOUT_INVARIANT},
    {"batch_invariant", QKVET_FLAG_BATCH_INVARIANT},
    {"batch_mates_invariant", QKVET_FLAG_BATCH_MATES_INVARIANT},
    {"row_invariant", QKVET_FLAG_ROW_INVARIANT},
    {"head_order_invariant", QKVET_FLAG_HEAD_ORDER_INVARIANT},
    {"threads_invariant", QKVET_FLAG_THREADS_INVARIANT},
    {"page_placement_invariant", QKVET_FLAG_PAGE_PLACEMENT_INVARIANT},
    {"chunking_invariant", QKVET_FLAG_CHUNKING_INVARIANT},
    {"pages_only", QKVET_FLAG_PAGES_ONLY},
    {"channel_groups_only", QKVET_FLAG_CHANNEL_GROUPS_ONLY},
    {"values_in_keys_only", QKVET_FLAG_VALUES_IN_KEYS_ONLY},
    {"causal_only", QKVET_FLAG_CAUSAL_ONLY},
    {"positive_scale", QKVET_FLAG_POSITIVE_SCALE, "negative scales"},
    {"mask_or_bias", QKVET_FLAG_MASK_OR_BIAS, "a mask and a bias together"},
    {"bias_or_causal", QKVET_FLAG_BIAS_OR_CAUSAL,
     "a bias and a causal mask together"},
    {"lists_or_pages", QKVET_FLAG_LISTS_OR_PAGES,
     "lists of keys and pages together"},
    {"lists_in_forward_only", QKVET_FLAG_LISTS_IN_FORWARD_ONLY,
     "lists of keys in gradients"},
    {"rope_half_only", QKVET_FLAG_ROPE_HALF_ONLY, "interleaved rotations"},
    {"rope_interleaved_only", QKVET_FLAG_ROPE_INTERLEAVED_ONLY,
     "rotations of halves"},
    {"other_data_invariant", QKVET_FLAG_OTHER_DATA_INVARIANT, nullptr, true},
    {"power_of_two_invariant", QKVET_FLAG_POWER_OF_TWO_INVARIANT, nullptr,
     true},
    {"gpu_threads", QKVET_FLAG_GPU_THREADS},
    {"dropout_broadcast", QKVET_FLAG_DROPOUT_BROADCAST},
    {"dropout_of_member", QKVET_FLAG_DROPOUT_OF_MEMBER},
    {"dropout_of_head", QKVET_FLAG_DROPOUT_OF_HEAD},
    {"refuses_in_call", QKVET_FLAG_REFUSES_IN_CALL},
    {"refuses_malformed", QKVET_FLAG_REFUSES_MALFORMED}};

// Whether a cache with these options (QKVET_CACHE_*) stores numbers like this.
bool declares_stored(uint64_t cache_options, StoredAs stored);

// QKVET_DEVICE_*: where a kernel that declares this is called.
int32_t device_of(const qkvet_capabilities& capabilities);

struct KernelInfo {
  std::string name;  // "family/variant"
  std::string description;
  std::string source_file;  // "" if unknown
  int32_t source_line = 0;  // 0 if unknown
  qkvet_capabilities capabilities{};
  qkvet_dialect dialect{};
  qkvet_precision precision{};  // all zero: generic
  bool has_forward = true;
  bool has_cache = false;
  bool has_truncate = false;
  bool has_evict = false;
  bool has_fork = false;
  bool has_reorder = false;
  bool has_read_back = false;
  bool has_layer = false;
  bool has_backward = false;        // of forward()
  bool has_layer_backward = false;  // of the layer
  bool has_workspace = false;       // of forward()
  bool has_merge = false;
  bool has_plan = false;          // has_forward is then also true
  bool only_plans = false;        // there is no forward(): plans are run
  bool orders_threads = false;    // an emulator in its library takes its GPU
                                  // threads in orders (simt/runtime.h)
  uint64_t cache_options = 0;     // QKVET_CACHE_*
  uint64_t layer_options = 0;     // QKVET_LAYER_*
  uint64_t backward_options = 0;  // QKVET_BACKWARD_*
  uint64_t merge_options = 0;     // QKVET_MERGE_*
  uint64_t plan_options = 0;      // QKVET_PLAN_*
  int64_t min_states = 0;         // of a row without indptr; 0: 1
  int64_t max_states = 0;         // 0: no limit
  qkvet_dtype layer_stage{};      // all zero: the storage type of x
  std::string unavailable;        // why open() failed; "" if it did not
  std::optional<FaultInfo> fault;

  bool has_option(uint64_t option) const {
    return (capabilities.options & option) != 0;
  }
  // The device on which it is called: the CPU, unless it declares a CUDA device
  // and no CPU.
  int32_t device() const { return device_of(capabilities); }
  // Whether blocks of GPU threads do its work, on a device or under an
  // emulator.
  bool has_gpu_threads() const {
    return has_flag(QKVET_FLAG_GPU_THREADS) || orders_threads ||
           device() == QKVET_DEVICE_CUDA;
  }
  // The type of a layer's stages where x is stored as `storage`.
  Dtype stage_dtype(Dtype storage) const;
  bool has_flag(uint64_t flag) const {
    return (capabilities.flags & flag) != 0;
  }
};

// The flags that a kernel has beside its declared ones because its library has
// an older minor version of the ABI: parts that this version does not know.
uint64_t flags_of_version(uint32_t abi_minor, const KernelInfo& kernel);

}  // namespace qkvet

#endif  // QKVET_CORE_CAPABILITY_KERNEL_INFO_H_
