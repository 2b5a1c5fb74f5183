// SPDX-License-Identifier: Apache-2.0
// English phrases for the names of the language of conditions, and for formulas
// made of them.
#ifndef QKVET_DIAGNOSIS_WHERE_PHRASES_H_
#define QKVET_DIAGNOSIS_WHERE_PHRASES_H_

#include <span>
#include <string>
#include <string_view>

namespace qkvet::diagnosis {

struct Phrase {
  std::string_view name, yes;  // in the language; if it holds
  std::string_view no = "";    // if it does not; "": as below
};
// "no row sees a key" for "a row sees a key", if the phrase has no other.
std::string negated(const Phrase& phrase);
// Phrases of names; for other names "... is given".
std::span<const Phrase> phrases_of_names();
// Flags that are formulas.
std::span<const Phrase> made_phrases();

}  // namespace qkvet::diagnosis

#endif  // QKVET_DIAGNOSIS_WHERE_PHRASES_H_
