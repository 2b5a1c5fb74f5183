// SPDX-License-Identifier: Apache-2.0
// What the cases of a run may be like.
#ifndef QKVET_PROPERTIES_SCOPE_H_
#define QKVET_PROPERTIES_SCOPE_H_

#include <string>
#include <string_view>
#include <vector>

#include "core/case.h"
#include "core/dtype.h"

namespace qkvet {

// How large a case may be. Most cases of every run are small, because small
// cases are cheap and show nearly everything; some cross the tiles of real
// kernels.
enum class SizeClass {
  kSmall,   // T, d <= 24
  kMedium,  // T, d <= 80
  kLarge    // T, d <= 300
};

// An extent that every case has, unless a law needs another: "d" or "Tk" and
// its value.
struct Pin {
  std::string extent;
  int64_t value = 0;
};

struct Scope {
  SizeClass largest = SizeClass::kLarge;
  // Storage types, the same for all tensors of a case; the first is drawn for
  // half of the cases, the others share the rest.
  std::vector<Dtype> dtypes = {Dtype::kF32};
  std::vector<Pin> pins;
  // QKVET_OPTION_*: cases keep to these, unless a law needs another. With one
  // kernel, or several that agree, to their rules for d and dv as well.
  uint64_t options = ~uint64_t{0};
  uint64_t layouts = ~uint64_t{0};        // QKVET_LAYOUT_*
  uint64_t cache_options = ~uint64_t{0};  // QKVET_CACHE_*
  uint64_t layer_options = ~uint64_t{0};  // QKVET_LAYER_*
  bool evicts = true;                     // some cache does
  bool forks = true;
  bool reorders = true;
  qkvet_extent_rule d = {};
  qkvet_extent_rule dv = {};
  std::vector<int64_t> page_sizes;  // that some kernel takes; empty: any
  bool pages_only = false;          // no kernel takes rows
  bool positive_scale = false;      // no kernel takes a negative one
  bool mask_or_bias = false;        // no kernel takes both
};

// The options of attention that some kernel declares, as Aim::admits has them.
uint32_t admitted_by(const Scope& scope);

// Takes away what no kernel declares: options, grouped heads, widths, lengths,
// scales.
void keep_to_declared(const Scope& scope, Case& value);

// "d=72,Tk=64"; on failure *error is one line that names what is allowed.
std::vector<Pin> parse_pins(std::string_view text, std::string* error);

// Gives the case the pinned extents that its subject has. A width dv that is d
// stays d; a model width D that is H d stays H d.
void apply_pins(const Scope& scope, Case& value);
// Whether it has them.
bool keeps_pins(const Scope& scope, const Case& value);

}  // namespace qkvet

#endif  // QKVET_PROPERTIES_SCOPE_H_
