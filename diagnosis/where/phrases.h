// SPDX-License-Identifier: Apache-2.0
// How people say what the language of conditions writes: of its names, and of
// what is made of them.
#ifndef QKVET_DIAGNOSIS_WHERE_PHRASES_H_
#define QKVET_DIAGNOSIS_WHERE_PHRASES_H_

#include <span>
#include <string_view>

namespace qkvet::diagnosis {

struct Phrase {
  std::string_view name, yes, no;  // in the language; where it holds, or not
};
// Of names; those that are not here are "... is given".
std::span<const Phrase> phrases_of_names();
// Flags that are formulas.
std::span<const Phrase> made_phrases();

}  // namespace qkvet::diagnosis

#endif  // QKVET_DIAGNOSIS_WHERE_PHRASES_H_
