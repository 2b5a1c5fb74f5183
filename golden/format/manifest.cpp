// SPDX-License-Identifier: Apache-2.0
#include "golden/format/manifest.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "core/base/json.h"
#include "core/base/read_file.h"
#include "core/base/sha256.h"

namespace qkvet::golden {
namespace {

namespace fs = std::filesystem;

constexpr const char* kManifestFormat = "golden manifest 1";

struct Field {
  const char* key;
  std::string ManifestRow::*text;
};
constexpr Field kFields[] = {{"name", &ManifestRow::set},
                             {"case", &ManifestRow::value},
                             {"pins", &ManifestRow::pins},
                             {"source", &ManifestRow::source},
                             {"sha256", &ManifestRow::sha256}};

bool is_sha256(std::string_view text) {
  constexpr size_t kDigits = 64;
  return text.size() == kDigits &&
         text.find_first_not_of("0123456789abcdef") == text.npos;
}

// A row is an object of strings, without a repeated key.
std::string read_object(std::string_view line,
                        std::vector<std::pair<std::string, std::string>>* out) {
  std::optional<std::string> twice;
  const ReadJson json = read_json(line, &twice);
  if (json.is_discarded() || !json.is_object()) return "no JSON object";
  if (twice) return "a key is there twice";
  for (const auto& [key, value] : json.items()) {
    if (!value.is_string()) return shown(key) + " is no string";
    out->emplace_back(key, value.get<std::string>());
  }
  return "";
}

std::string read_row(std::string_view line, ManifestRow* row) {
  std::vector<std::pair<std::string, std::string>> object;
  if (std::string wrong = read_object(line, &object); !wrong.empty())
    return wrong;
  for (const auto& [key, value] : object) {
    const auto* const field = std::find_if(
        std::begin(kFields), std::end(kFields),
        [&, &name = key](const Field& one) { return one.key == name; });
    if (field == std::end(kFields))
      return shown(key) + ": unknown; allowed: name case pins source sha256";
    row->*field->text = value;
  }
  for (const Field& field : kFields)
    if ((row->*field.text).empty())
      return std::string("\"") + field.key + "\" is missing or empty";
  if (!is_set_name(row->set))
    return "name " + shown(row->set) +
           ": a name has up to 64 of a-z, 0-9 and _";
  return is_sha256(row->sha256)
             ? ""
             : "sha256 " + shown(row->sha256) + ": 64 digits 0-9 a-f";
}

std::string check_order(const std::vector<ManifestRow>& rows,
                        const ManifestRow& row) {
  if (rows.empty() || rows.back().set < row.set) return "";
  return "set " + row.set +
         (rows.back().set == row.set
              ? ": listed twice"
              : ": rows must be in the order of their names");
}

std::string unlisted_file(const fs::path& folder,
                          const std::vector<ManifestRow>& rows) {
  std::set<std::string> known = {kManifestName};
  for (const ManifestRow& row : rows) known.insert(row.set + kSetEnding);
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (!known.contains(name))
      return (folder / name).string() + ": no row of " + kManifestName +
             " lists it";
  }
  return "";
}

// A row must have the same values as its file.
std::string difference(const ManifestRow& row, const GoldenSet& set) {
  const std::pair<const char*, const std::string*> pairs[] = {
      {"case", &row.value}, {"pins", &row.pins}, {"source", &row.source}};
  for (const auto& [key, text] : pairs)
    if (set.metadata.at(key) != *text)
      return std::string("its \"") + key + "\" is " +
             shown(set.metadata.at(key)) + ", in " + kManifestName + " " +
             shown(*text);
  return "";
}

}  // namespace

std::string manifest_text(const std::vector<ManifestRow>& rows) {
  std::string text = json_text(Json{{"qkvet", kManifestFormat}}) + "\n";
  for (const ManifestRow& row : rows) {
    Json json;
    for (const Field& field : kFields) json[field.key] = row.*field.text;
    text += json_text(json) + "\n";
  }
  return text;
}

std::string parse_manifest(std::string_view text,
                           std::vector<ManifestRow>* rows) {
  for (int at = 1; !text.empty(); ++at) {
    const size_t end = text.find('\n');
    const std::string place = "line " + std::to_string(at) + ": ";
    if (end == text.npos) return place + "does not end with a newline";
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    if (at == 1) {
      std::vector<std::pair<std::string, std::string>> head;
      if (!read_object(line, &head).empty() || head.size() != 1 ||
          head[0] !=
              std::pair<std::string, std::string>("qkvet", kManifestFormat))
        return place + "allowed {\"qkvet\":\"" + kManifestFormat + "\"}";
      continue;
    }
    ManifestRow row;
    std::string wrong = read_row(line, &row);
    if (wrong.empty()) wrong = check_order(*rows, row);
    if (!wrong.empty()) return place + wrong;
    rows->push_back(std::move(row));
    if (text.empty()) return "";
  }
  return "it lists no set";
}

std::string read_golden_file(const std::string& path, GoldenSet* set) {
  std::vector<std::byte> bytes;
  if (std::string wrong = read_file(path, &bytes); !wrong.empty()) return wrong;
  std::string error;
  auto read =
      read_golden_set(bytes, fs::path(path).stem().string(), path, &error);
  if (!read) return path + ": " + error;
  *set = std::move(*read);
  return "";
}

std::string read_golden_folder(const std::string& path, GoldenFolder* folder) {
  const fs::path manifest = fs::path(path) / kManifestName;
  std::vector<std::byte> text;
  if (std::string wrong = read_file(manifest.string(), &text); !wrong.empty())
    return wrong;
  std::string wrong = parse_manifest(
      {reinterpret_cast<const char*>(text.data()), text.size()}, &folder->rows);
  if (!wrong.empty()) return manifest.string() + ": " + wrong;
  if (wrong = unlisted_file(path, folder->rows); !wrong.empty()) return wrong;
  for (const ManifestRow& row : folder->rows) {
    const std::string file = (fs::path(path) / (row.set + kSetEnding)).string();
    std::vector<std::byte> bytes;
    if (wrong = read_file(file, &bytes); !wrong.empty())
      return wrong + ", and " + kManifestName + " lists it";
    if (const std::string hash = sha256_hex(bytes); hash != row.sha256)
      return file + ": its SHA-256 is " + hash.substr(0, 16) + "..., in " +
             kManifestName + " " + row.sha256.substr(0, 16) + "...";
    auto set = read_golden_set(bytes, row.set, file, &wrong);
    if (set) wrong = difference(row, *set);
    if (!wrong.empty()) return file + ": " + wrong;
    folder->sets.push_back(std::move(*set));
  }
  return "";
}

}  // namespace qkvet::golden
