// SPDX-License-Identifier: Apache-2.0
// A mistake of a kernel, as reports say it.
#ifndef QKVET_DIAGNOSIS_EVIDENCE_CAUSE_H_
#define QKVET_DIAGNOSIS_EVIDENCE_CAUSE_H_

#include <string>
#include <vector>

namespace qkvet::diagnosis {

struct Cause {
  std::string name;   // "tail_tile_unmasked"
  std::string cause;  // a sentence
  std::string fix;    // a sentence
  // Laws that name it, the one that explains it best first.
  std::vector<std::string> laws = {};
};

}  // namespace qkvet::diagnosis

#endif  // QKVET_DIAGNOSIS_EVIDENCE_CAUSE_H_
