// SPDX-License-Identifier: Apache-2.0
// The places of wrong elements: only the first or the last along an axis, or
// all but the first.
#include <algorithm>
#include <iterator>

#include "diagnosis/instead/collector.h"
#include "diagnosis/instead/instead.h"

namespace qkvet::diagnosis {
namespace {

struct PlaceOfWrong {
  const char* text;
  size_t axis;  // of [B,H,T,width]
  bool (*holds)(int64_t at, int64_t extent);
};

bool is_at_first(int64_t at, int64_t) { return at == 0; }
bool is_at_last(int64_t at, int64_t extent) { return at == extent - 1; }
bool is_behind_first(int64_t at, int64_t) { return at > 0; }

constexpr PlaceOfWrong kPlacesOfWrong[] = {
    {"the first head", 1, is_at_first},
    {"the last head", 1, is_at_last},
    {"the first member", 0, is_at_first},
    {"the last member", 0, is_at_last},
    {"the first row", 2, is_at_first},
    {"the last row", 2, is_at_last},
    {"the first channel", 3, is_at_first},
    {"the last channel", 3, is_at_last},
    {"heads after the first", 1, is_behind_first},
    {"members after the first", 0, is_behind_first}};

bool lies_at(const PlaceOfWrong& place, const WrongOutput& output) {
  int64_t inner = 1;
  for (size_t axis = place.axis + 1; axis < output.extents.size(); ++axis)
    inner *= output.extents[axis];
  const int64_t extent = output.extents[place.axis];
  return std::all_of(output.wrong.begin(), output.wrong.end(), [&](size_t n) {
    return place.holds(static_cast<int64_t>(n) / inner % extent, extent);
  });
}

}  // namespace

std::string place_of(const std::vector<WrongAnswer>& answers,
                     const OutputInstead& output) {
  for (const PlaceOfWrong& place : kPlacesOfWrong) {
    int telling = 0;
    bool all = true;
    for (const WrongAnswer& answer : answers) {
      const WrongOutput* wrong = output.in(answer);
      if (wrong == nullptr) continue;
      all &= lies_at(place, *wrong);
      telling += wrong->extents[place.axis] > 1;
    }
    if (all && telling >= kFewestCases) return place.text;
  }
  return "";
}

bool is_at_place(const std::string& place, const WrongOutput& output) {
  const auto* const one = std::find_if(
      std::begin(kPlacesOfWrong), std::end(kPlacesOfWrong),
      [&](const PlaceOfWrong& known) { return known.text == place; });
  return one != std::end(kPlacesOfWrong) && lies_at(*one, output);
}

}  // namespace qkvet::diagnosis
