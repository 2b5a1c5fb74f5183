// SPDX-License-Identifier: Apache-2.0
#include "core/base/json.h"

#include <set>
#include <vector>

namespace qkvet {
namespace {

// Finds repeated keys in an object.
class Doubles {
 public:
  bool hear(ReadJson::parse_event_t event, const ReadJson& parsed) {
    using Event = ReadJson::parse_event_t;
    if (event == Event::object_start) open_.emplace_back();
    if (event == Event::object_end && !open_.empty()) open_.pop_back();
    if (event != Event::key) return true;
    const auto& key = parsed.get_ref<const std::string&>();
    if (!open_.back().insert(key).second && !first_) first_ = key;
    return true;
  }
  const std::optional<std::string>& first() const { return first_; }

 private:
  std::vector<std::set<std::string>> open_;
  std::optional<std::string> first_;
};

}  // namespace

std::string json_text(const Json& json, int indent) {
  return json.dump(indent, ' ', /*ensure_ascii=*/false,
                   Json::error_handler_t::replace);
}

std::string json_text(const ReadJson& json) {
  return json.dump(-1, ' ', /*ensure_ascii=*/false,
                   ReadJson::error_handler_t::replace);
}

Json json_of(std::string_view text) { return Json::parse(text); }

ReadJson read_json(std::string_view text, std::optional<std::string>* twice) {
  if (twice == nullptr)
    return ReadJson::parse(text, nullptr, /*allow_exceptions=*/false);
  Doubles doubles;
  ReadJson json = ReadJson::parse(
      text,
      [&doubles](int, ReadJson::parse_event_t event, ReadJson& parsed) {
        return doubles.hear(event, parsed);
      },
      /*allow_exceptions=*/false);
  *twice = doubles.first();
  return json;
}

}  // namespace qkvet
