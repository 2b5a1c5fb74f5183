// SPDX-License-Identifier: Apache-2.0
// A folder of golden sets: NAME.safetensors each, and MANIFEST.jsonl with a row
// for each. Nothing is believed that the two do not agree on.
#ifndef QKVET_GOLDEN_FORMAT_MANIFEST_H_
#define QKVET_GOLDEN_FORMAT_MANIFEST_H_

#include <string>
#include <vector>

#include "core/base/floors.h"
#include "golden/format/set.h"

namespace qkvet::golden {

inline constexpr const char* kManifestName = "MANIFEST.jsonl";
inline constexpr const char* kSetEnding = ".safetensors";

struct ManifestRow {
  std::string set;    // name
  std::string value;  // the case, without file=
  std::string pins, source;
  std::string sha256;  // of the file

  friend bool operator==(const ManifestRow&, const ManifestRow&) = default;
};

// The whole text; rows in the order of their names.
std::string manifest_text(const std::vector<ManifestRow>& rows);
// "" or one line, with the number of the line.
std::string parse_manifest(std::string_view text,
                           std::vector<ManifestRow>* rows);

struct GoldenFolder {
  std::vector<GoldenSet> sets;  // in the order of the manifest
  std::vector<ManifestRow> rows;
};

// Reads and checks everything: the manifest, every file and its hash, that no
// row is without its file and no file without its row. "" or one line that
// names the file.
std::string read_golden_folder(const std::string& path, GoldenFolder* folder);

// Reads one file, without a manifest.
std::string read_golden_file(const std::string& path, GoldenSet* set);

}  // namespace qkvet::golden

#endif  // QKVET_GOLDEN_FORMAT_MANIFEST_H_
