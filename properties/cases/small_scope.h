// SPDX-License-Identifier: Apache-2.0
// Every case of a small scope: mistakes of index logic are found there
// exhaustively, not sampled (runs.md, "Small scope").
#ifndef QKVET_PROPERTIES_CASES_SMALL_SCOPE_H_
#define QKVET_PROPERTIES_CASES_SMALL_SCOPE_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "core/case/case.h"
#include "properties/cases/scope.h"

namespace qkvet::properties {

class SmallScope {
 public:
  // The cases that the scope's kernels declare.
  explicit SmallScope(const Scope& scope);

  int64_t size() const { return static_cast<int64_t>(cases_.size()); }
  // Case `number`, 1 .. size().
  Case at(int64_t number) const;

  // The contents of the scope, in one line.
  static const char* text();

 private:
  // One value of one option.
  struct Setting {
    uint64_t option;  // of a case
    std::function<void(Case&)> apply;
  };
  struct Index {
    uint16_t shape = 0;
    uint8_t causal = 0, data = 0;
    int16_t first = -1, second = -1;  // settings; -1: none
  };

  static std::vector<Setting> all_settings();
  Case make(const Index& index) const;
  void add_plain(const Scope& scope);
  void add_options(const Scope& scope);
  void add_if_declared(const Scope& scope, const Index& index);

  std::vector<Shape> shapes_;
  std::vector<Setting> settings_;
  std::vector<Index> cases_;
  StorageTypes dtype_;
  bool needs_scale_ = false;
  bool pages_only_ = false;
  PageTable table_ = PageTable::kBlocks;  // of pages_only_
};

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_CASES_SMALL_SCOPE_H_
