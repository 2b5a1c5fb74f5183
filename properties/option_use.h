// SPDX-License-Identifier: Apache-2.0
// How often a kernel takes the calls that use an option which it declares. One
// that it mostly refuses is hollow: declared, and hardly there.
#ifndef QKVET_PROPERTIES_OPTION_USE_H_
#define QKVET_PROPERTIES_OPTION_USE_H_

#include <array>
#include <string>
#include <vector>

#include "core/call.h"

namespace qkvet {

class OptionUse {
 public:
  // One call that the kernel's declaration allows.
  void count(const KernelCall& call, const CallOutcome& outcome);
  void add(const OptionUse& other);
  // "lse: refused in 31 of 40 calls", option by option.
  std::vector<std::string> hollow() const;

 private:
  static constexpr size_t kOptions = 21;
  struct Use {
    int64_t asked = 0, refused = 0;
  };
  std::array<Use, kOptions> uses_{};
};

}  // namespace qkvet

#endif  // QKVET_PROPERTIES_OPTION_USE_H_
