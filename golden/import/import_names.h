// SPDX-License-Identifier: Apache-2.0
// Tensors of other people's files under the names and in the extents of QKVet:
// q [B,H,Tq,d], k [B,Hkv,Tk,d], v [B,Hkv,Tk,dv], mask and bias [B,H,Tq,Tk] with
// 1 where they are broadcast, o [B,H,Tq,dv], lse [B,H,Tq], weights
// [B,H,Tq,Tk]; sink, slopes and the tensors of a layer as they are.
//
// Names. The user's mapping comes first; for all other tensors well-known names
// are tried, in any case of letters (import_aliases()). Tensors without such a
// name are left out. A mask is mask if its numbers are bools or integers
// (nonzero: attends), and bias if they are floating: those are added to the
// scores. It may have only the last of the four extents, as NumPy broadcasts.
//
// Layouts. lse is [B,H,Tq] in every layout, and [B,Tq,H] where only that fits
// q; weights are [B,H,Tq,Tk] in every layout; without B where q has none.
#ifndef QKVET_GOLDEN_IMPORT_IMPORT_NAMES_H_
#define QKVET_GOLDEN_IMPORT_IMPORT_NAMES_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/files/named_tensors.h"

namespace qkvet::golden {

enum class ImportLayout : uint8_t {
  kBhtd,  // [B,H,T,d]
  kBthd,  // [B,T,H,d]
  kThd    // [T,H,d], of one member
};

// The user's rules for reading a file.
struct ImportRules {
  // QKVet's name -> the file's.
  std::map<std::string, std::string, std::less<>> names;
  ImportLayout layout = ImportLayout::kBhtd;
  // The heads of q, k, v and o that are [B,T,H*d]; 0: there are none.
  int64_t heads = 0;
  int64_t kv_heads = 0;
};

// Each reads one argument: "q=query,k=key"; "bthd", "H8,Hkv2" or both with a
// comma between them. "" or one line with what is allowed.
std::string parse_name_map(std::string_view text, ImportRules& rules);
std::string parse_import_layout(std::string_view text, ImportRules& rules);

// Both; "" leaves the rules as they are.
struct ImportWords {
  std::string map, layout;
};
std::string parse_import_words(const ImportWords& words, ImportRules& rules);

// The names, in small letters, that are taken for QKVet's name; itself first.
struct ImportAliases {
  std::string_view name;
  std::vector<std::string_view> aliases;
};
std::span<const ImportAliases> import_aliases();

struct ImportedTensors {
  NamedTensors tensors;              // by QKVet's names
  std::vector<std::string> ignored;  // unused names of the file
};

// On failure *error is one line, without the file's name.
std::optional<ImportedTensors> import_tensors(const NamedTensors& file,
                                              const ImportRules& rules,
                                              std::string* error);

}  // namespace qkvet::golden

#endif  // QKVET_GOLDEN_IMPORT_IMPORT_NAMES_H_
