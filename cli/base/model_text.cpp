// SPDX-License-Identifier: Apache-2.0
#include "cli/base/model_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "core/base/dtype.h"

namespace qkvet::cli {
namespace {

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// "L12" -> "L", "12".
std::pair<std::string, std::string_view> split(std::string_view part) {
  const auto end = std::find_if_not(part.begin(), part.end(), is_letter);
  const auto letters = static_cast<size_t>(end - part.begin());
  return {std::string(part.substr(0, letters)), part.substr(letters)};
}

std::vector<std::string_view> parts_of(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t from = 0; from <= text.size();) {
    const size_t end = std::min(text.find(separator, from), text.size());
    parts.push_back(text.substr(from, end - from));
    from = end + 1;
  }
  return parts;
}

std::optional<int64_t> number_in(std::string_view text) {
  int64_t number = 0;
  const auto [end, code] =
      std::from_chars(text.data(), text.data() + text.size(), number);
  return code == std::errc() && end == text.data() + text.size()
             ? std::optional(number)
             : std::nullopt;
}

std::string read_numbers(std::string_view part, std::string_view text,
                         ModelExtent& extent) {
  const std::string allowed =
      fmt::format("{}: allowed is {} with {} from 1 to {}", part, extent.name,
                  extent.list ? "ascending numbers" : "a number", extent.most);
  std::vector<int64_t> numbers;
  for (const std::string_view one : parts_of(text, '.')) {
    const auto number = number_in(one);
    if (!number || *number < 1 || *number > extent.most ||
        (!numbers.empty() && *number <= numbers.back()))
      return allowed;
    numbers.push_back(*number);
  }
  if (extent.given)
    return fmt::format("{}: {} is given twice", part, extent.name);
  extent.given = true;
  if (extent.list == nullptr && numbers.size() > 1) return allowed;
  if (extent.list != nullptr)
    *extent.list = std::move(numbers);
  else
    *extent.value = numbers[0];
  return "";
}

}  // namespace

bool is_model_text(const std::string& word) {
  const auto parts = parts_of(word, ',');
  return std::all_of(parts.begin(), parts.end(), [&](std::string_view part) {
    if (parts.size() > 1 && dtype_from_name(std::string(part))) return true;
    const auto [letters, number] = split(part);
    return !letters.empty() && !number.empty() &&
           std::all_of(number.begin(), number.end(), [](char c) {
             return (c >= '0' && c <= '9') || c == '.' || c == '-';
           });
  });
}

std::string read_model_text(const std::string& text,
                            std::vector<ModelExtent>& extents,
                            std::string* dtype) {
  for (const std::string_view part : parts_of(text, ',')) {
    if (dtype != nullptr && dtype_from_name(std::string(part))) {
      *dtype = part;
      continue;
    }
    const auto [letters, number] = split(part);
    const std::string& name = letters;
    const auto extent =
        std::find_if(extents.begin(), extents.end(),
                     [&](const ModelExtent& one) { return one.name == name; });
    if (extent == extents.end()) {
      std::string names;
      for (const ModelExtent& one : extents)
        names += (names.empty() ? "" : ", ") + std::string(one.name);
      return fmt::format("{}: {} is no extent; allowed: {}", text,
                         part.empty() ? "\"\"" : part, names);
    }
    if (const std::string error = read_numbers(part, number, *extent);
        !error.empty())
      return error;
  }
  return "";
}

}  // namespace qkvet::cli
