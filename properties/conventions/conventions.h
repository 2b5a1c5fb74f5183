// SPDX-License-Identifier: Apache-2.0
// Conventions of known libraries, read from conventions.md: the declaration of
// a kernel that takes their calls, in qkvet_capabilities and qkvet_dialect; how
// they store layers and caches; and cases that such a kernel takes.
// conventions.md has the grammar.
#ifndef QKVET_PROPERTIES_CONVENTIONS_CONVENTIONS_H_
#define QKVET_PROPERTIES_CONVENTIONS_CONVENTIONS_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/call/options.h"
#include "core/capability/kernel_info.h"
#include "properties/conventions/convention_storage.h"

namespace qkvet::properties {

// A row of a section's table.
struct ConventionFact {
  std::string what, how, source;
};

struct Convention {
  std::string id, title;
  std::string mind;  // the difference from others that matters
  std::vector<ConventionFact> facts;
  std::vector<std::string> sources;  // repository, version, date
  // The declaration of a kernel of this convention. Not a kernel: it has no
  // name.
  KernelInfo declared;
  std::vector<RopeStyle> ropes;  // with option rope: the styles
  LayerStorage layer;
  PageStorage pages;
  std::vector<std::string> cases;  // canonical spellings
};

struct ParsedConventions {
  std::vector<Convention> values;  // in the order of the list
  std::string error;  // one line: place, mistake, and what is allowed
};
// `name` is used in errors like a file's name.
ParsedConventions parse_conventions(const std::string& name,
                                    std::string_view markdown);

// Those of conventions.md as it was when this was built.
const ParsedConventions& built_in_conventions();
// nullptr if there is no such id.
const Convention* find_convention(std::string_view id);

// A possible replacement for a file of dialect fields: the lines of the
// convention of this name. "" if a file has the name, or if no convention that
// declares fields has it.
std::string convention_dialect(const std::string& name);
// Overwrites the fields that the file or the convention names. "" or one line.
std::string read_dialect_or_convention(const std::string& name,
                                       qkvet_dialect& dialect);

// Replaces what the kernel declares by a convention's dialect, or by a file:
// fields of a dialect, or, with the field `options`, all that a kernel declares
// of its calls. Only where and how it is called stays (undeclared.h). "" or one
// line.
std::string read_declaration(const std::string& name, KernelInfo& info);

// Sets one field of a declaration. "" or one line.
std::string declare(std::string_view key, std::string_view value,
                    Convention& convention);
// The same for lines "field = value"; "like = torch_sdpa" before them takes the
// declaration of a convention. "" or one line.
std::string declare_lines(const std::string& lines, Convention& convention);
// "" or why a kernel of this convention does not take the case.
std::string not_taken_reason(const Convention& convention,
                             std::string_view case_text);

// The kinds of bits and their words: "causal_bottom_right" means
// QKVET_OPTION_CAUSAL_BOTTOM_RIGHT.
enum class BitKind { kOption, kFlag, kLayout, kLayer };
// Words of the bits that are set, in their order.
std::vector<std::string> bit_words(BitKind kind, uint64_t bits);
// "QKVET_OPTION_", ...
const char* bit_prefix(BitKind kind);
// All words of a kind with their bits.
std::vector<std::pair<std::string, uint64_t>> all_bits(BitKind kind);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_CONVENTIONS_CONVENTIONS_H_
