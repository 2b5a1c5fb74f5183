// SPDX-License-Identifier: Apache-2.0
// The limits for the cases of a run.
#ifndef QKVET_PROPERTIES_CASES_SCOPE_H_
#define QKVET_PROPERTIES_CASES_SCOPE_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/dtype.h"
#include "core/base/floors.h"
#include "core/capability/extents.h"
#include "core/case/case.h"

namespace qkvet::properties {

// How large a case may be. Most cases of every run are small, because small
// cases are cheap and show nearly everything; some cross the tiles of real
// kernels, and some the lengths from which on they split keys or count in more
// bits.
enum class SizeClass {
  kSmall,   // T, d <= 24
  kMedium,  // T, d <= 80
  kLarge,   // T, d <= 300
  kLong     // one extent of many: T <= 131,073, B <= 257, H <= 256
};
std::string_view size_class_name(SizeClass size);  // "small"
// The largest extent of a case of this size: 24; INT64_MAX where costs decide.
int64_t largest_extent(SizeClass size);
// Nullopt for any other word.
std::optional<SizeClass> size_class_from_name(std::string_view name);

// An extent that every case has, unless a law needs another: "d" or "Tk", and
// its value.
struct Pin {
  std::string extent;
  int64_t value = 0;
};

// The storage types of the tensors of a call: one type for all, or a mixture.
struct StorageTypes {
  Dtype q = Dtype::kF32, kv = Dtype::kF32, o = Dtype::kF32;

  constexpr StorageTypes() = default;
  constexpr StorageTypes(Dtype all) : q(all), kv(all), o(all) {}
  constexpr StorageTypes(Dtype of_q, Dtype of_kv, Dtype of_o)
      : q(of_q), kv(of_kv), o(of_o) {}
  bool is_one() const { return q == kv && q == o; }
  friend bool operator==(const StorageTypes&, const StorageTypes&) = default;
};
// "f32", or "q=f32,kv=f16,o=f32" as a case spells it.
std::string to_string(const StorageTypes& types);
// "f32", or "f32/f16/f32" for q, for k and v, and for o, as commands and files
// spell it. Nullopt if the text is neither.
std::string slashed(const StorageTypes& types);
std::optional<StorageTypes> slashed_storage(std::string_view text);

StorageTypes storage_of(const Case& value);
void store_as(const StorageTypes& types, Case& value);

// An extent that no kernel declares and that something else mentions, such as
// the source of the judged kernel. It is tried, but not required.
struct Hint {
  qkvet_path path;
  std::string from;  // "the source, line 41"
};

struct Scope {
  SizeClass largest = SizeClass::kLong;
  // The first is drawn for half of the cases, the others share the rest.
  std::vector<StorageTypes> dtypes = {Dtype::kF32};
  std::vector<Pin> pins;
  // QKVET_OPTION_*: cases keep to these, unless a law needs another. With one
  // kernel, or several that agree, to their rules for extents as well.
  uint64_t options = ~uint64_t{0};
  uint64_t layouts = ~uint64_t{0};        // QKVET_LAYOUT_*
  uint64_t cache_options = ~uint64_t{0};  // QKVET_CACHE_*
  uint64_t layer_options = ~uint64_t{0};  // QKVET_LAYER_*
  // QKVET_MERGE_*. Taking only one layout is a property of all kernels
  // together.
  uint64_t merge_options = ~uint64_t{QKVET_MERGE_LSE_HEADS_FIRST_ONLY};
  qkvet_extent_rule states = {};  // of a merge without indptr
  bool plans = true;              // some kernel has them
  bool truncates = true;          // some cache does
  bool evicts = true;
  bool forks = true;
  bool reorders = true;
  DeclaredExtents extents;
  std::vector<int64_t> page_sizes;  // that some kernel takes; empty: any
  std::vector<qkvet_path> paths;    // of all kernels
  // The same of hints, without those that are declared.
  std::vector<qkvet_path> hints;
  bool pages_only = false;    // no kernel takes rows
  bool groups_only = false;   // nor pages of rows
  bool in_keys_only = false;  // no kernel takes values separate from keys
  bool few_shapes = false;    // every kernel compiles for each shape
  bool causal_only = false;   // no kernel takes calls that are not causal
  uint64_t refusals = 0;  // QKVET_FLAG_*, of kFlagWords, that every kernel has

  bool refuses(uint64_t flag) const { return (refusals & flag) != 0; }
};

// The options of attention that some kernel declares, as in Domain::allows.
uint64_t allowed_by(const Scope& scope);

// Gives the keys of a case in pages the form of PageForm::kGroups, and the
// required width.
void in_channel_groups(Case& value);

// Removes what no kernel declares: options, grouped heads, widths, lengths,
// scales.
void keep_to_declared(const Scope& scope, Case& value);

// "d=72,Tk=64"; on failure *error is one line with the allowed values.
std::vector<Pin> parse_pins(std::string_view text, std::string* error);

// Gives the case those pinned extents that its subject has. A width dv that is
// d stays d; a model width D that is H d stays H d.
void apply_pins(const Scope& scope, Case& value);
// Whether its extents are declared, and that it is not causal: a law may have
// set others.
bool is_declared(const Scope& scope, const Case& value);
// Whether the case has the pinned extents.
bool keeps_pins(const Scope& scope, const Case& value);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_CASES_SCOPE_H_
