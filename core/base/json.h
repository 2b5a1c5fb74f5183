// SPDX-License-Identifier: Apache-2.0
// JSON for reading and writing. The parser and the writer are compiled once, in
// json.cpp: they are more than half of the compile time of a file that uses
// nlohmann-json.
#ifndef QKVET_CORE_BASE_JSON_H_
#define QKVET_CORE_BASE_JSON_H_

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace qkvet {

// For writing: keys stay in the order in which they were given.
using Json = nlohmann::ordered_json;
// For reading: comparison ignores the order of keys.
using ReadJson = nlohmann::json;

// `json` as text, on one line if `indent` is -1. Bytes that are not UTF-8 are
// replaced: a kernel's name may be any bytes, and must not end a run.
std::string json_text(const Json& json, int indent = -1);
std::string json_text(const ReadJson& json);  // keys ascending

// Parses one value; throws Json::parse_error if the text is not JSON.
Json json_of(std::string_view text);

// Reads untrusted text. Text that is not JSON gives a value that
// is_discarded(). If an object repeats a key, the last one is taken, and the
// first such key is written to `twice` unless that is null.
ReadJson read_json(std::string_view text,
                   std::optional<std::string>* twice = nullptr);

}  // namespace qkvet

#endif  // QKVET_CORE_BASE_JSON_H_
