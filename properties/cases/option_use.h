// SPDX-License-Identifier: Apache-2.0
// How many calls had each declared item: options, storage types, layouts, page
// sizes, paths, devices. An option that is declared and mostly refused is
// listed separately. An item that no call had was not judged.
#ifndef QKVET_PROPERTIES_CASES_OPTION_USE_H_
#define QKVET_PROPERTIES_CASES_OPTION_USE_H_

#include <map>
#include <string>
#include <vector>

#include "core/base/floors.h"
#include "core/call/call.h"
#include "core/capability/kernel_info.h"
#include "properties/cases/scope.h"

namespace qkvet::properties {

class OptionUse {
 public:
  // One call that the kernel's declaration allows.
  void count(const KernelCall& call, const CallOutcome& outcome);
  // The extents of the steps of an answered story: Tk is the length of the
  // sequence, Tq the number of its tokens that attend.
  void count_story(const Case& value);
  void add(const OptionUse& other);
  // "lse: refused in 31 of 40 calls", option by option.
  std::vector<std::string> hollow() const;

  // The declared items, one after the other, and how many calls with each were
  // answered. The subject is that of the counted calls.
  struct Declared {
    std::string what;  // "storage f32"
    int64_t answered = 0;
    // Cases with smaller extents have none.
    int64_t smallest_extent = 0;
  };
  std::vector<Declared> declared(const KernelInfo& kernel) const;
  // The same as lines: "storage f32 812", and the items that no call had,
  // although cases of this size could have them.
  void tell(const KernelInfo& kernel, SizeClass largest,
            std::vector<std::string>& drawn,
            std::vector<std::string>& never_drawn) const;
  // Only its paths, for a kernel that is a cache or a layer and no attention:
  // "around Tk=64 in caches 31".
  void tell_paths(const KernelInfo& kernel, const std::string& where,
                  SizeClass largest, std::vector<std::string>& drawn,
                  std::vector<std::string>& never_drawn) const;
  // Answered calls at a path or next to it.
  int64_t near(const qkvet_path& path) const;

 private:
  void count_extents(const Shape& shape);
  std::vector<Declared> paths(const KernelInfo& kernel,
                              const std::string& where) const;
  struct Use {
    int64_t asked = 0, refused = 0;

    int64_t answered() const { return asked - refused; }
  };
  Use use_of(uint64_t option) const;
  int64_t repeats_ = 0;                     // equal calls in a row, at most
  std::map<uint64_t, Use> uses_;            // by QKVET_OPTION_*
  std::map<std::string, int64_t> storage_;  // answered calls, by its name
  std::map<Layout, int64_t> layouts_;
  std::map<int64_t, int64_t> page_sizes_;
  std::map<int32_t, std::map<int64_t, int64_t>> extents_;  // by QKVET_AXIS_*
};

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_CASES_OPTION_USE_H_
