// SPDX-License-Identifier: Apache-2.0
// JSON, as it is written and read here. What reads and writes text is compiled
// once, in json.cpp: of all that a file takes to compile that uses
// nlohmann-json, its parser and its writer are the larger half.
#ifndef QKVET_CORE_BASE_JSON_H_
#define QKVET_CORE_BASE_JSON_H_

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace qkvet {

// What is written: keys stay in the order in which they were given.
using Json = nlohmann::ordered_json;
// What was read: equal whatever the order of its keys was.
using ReadJson = nlohmann::json;

// `json` as text, on one line if `indent` is -1. What is not UTF-8 is replaced:
// kernels may name themselves in anything, and no run may end for it.
std::string json_text(const Json& json, int indent = -1);
std::string json_text(const ReadJson& json);  // keys ascending

// One value out of its text; throws Json::parse_error if it is none.
Json json_of(std::string_view text);

// Reads text that may be anything. What is no JSON is_discarded(). `twice` (or
// null) gets the first key that stands twice in an object, of which the last
// one is taken.
ReadJson read_json(std::string_view text,
                   std::optional<std::string>* twice = nullptr);

}  // namespace qkvet

#endif  // QKVET_CORE_BASE_JSON_H_
