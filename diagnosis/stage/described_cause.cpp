// SPDX-License-Identifier: Apache-2.0
#include "diagnosis/stage/described_cause.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <string_view>

namespace qkvet::diagnosis {
namespace {

constexpr int kLeastCases = 3;

struct Fix {
  std::string_view part;  // of a description
  std::string_view fix;
};
// The first that is in the description.
constexpr Fix kFixes[] = {
    {"keys that the row should not see",
     "Read the mask the other way round: attend to the keys that the row may "
     "see."},
    {"without the last key that a row sees",
     "Let the last key in: with Tk > Tq and the causal rule from the bottom "
     "right, row i sees key i + Tk - Tq."},
    {"other pairs of channels rotated",
     "Rotate the pairs that the call asks for: channels 2n and 2n + 1 "
     "(interleaved), or n and n + d/2 (half)."},
    {"no scale",
     "Multiply q k^T by the scale that the caller gives, or by 1/sqrt(d_head) "
     "where none is given."},
    {"the scale times",
     "Multiply q k^T by the scale that the caller gives, or by 1/sqrt(d_head) "
     "where none is given."},
    {"the result without the causal rule", "Apply the causal rule."},
    {"the result without the mask", "Apply the mask."},
    {"the result without the bias", "Add the bias to the scores."},
    {"the result without the sink", "Add the sink to the denominator."},
    {"the result without the window", "Apply the window."},
    {"hidden ones with them", "Mask the scores with -inf before the softmax."},
    {"the right value times", "Take this factor out."},
    {"which is an input, is written to",
     "Leave inputs as they are: work on a copy."}};

// Descriptions that very different mistakes lead to.
constexpr std::string_view kOfManyCauses[] = {
    "of other elements", "stood there", "some mean", "with wrong weights",
    "changed by"};

std::string fix_of(std::string_view description) {
  const auto* found =
      std::find_if(std::begin(kFixes), std::end(kFixes), [&](const Fix& one) {
        return description.find(one.part) != std::string_view::npos;
      });
  return found == std::end(kFixes) ? "" : std::string(found->fix);
}

bool tells_a_cause(const OutputInstead& one) {
  return !one.text.empty() && !one.of_most && !one.is_cheap &&
         one.cases >= kLeastCases &&
         std::none_of(std::begin(kOfManyCauses), std::end(kOfManyCauses),
                      [&one](std::string_view part) {
                        return one.text.find(part) != std::string::npos;
                      });
}

// An input is overwritten, so that there is no number to describe.
std::optional<DescribedCause> written_input(const FactInstead& end) {
  constexpr std::string_view kWritten = "which is an input, is written to";
  if (end.text.find(kWritten) == std::string::npos || !end.is_of_all() ||
      end.cases < kLeastCases)
    return std::nullopt;
  return DescribedCause{end.text,
                        fmt::format("so in all of {} failing cases", end.cases),
                        fix_of(end.text)};
}

}  // namespace

std::optional<DescribedCause> described_cause(const Instead& instead) {
  if (instead.outputs.empty()) return written_input(instead.end);
  if (!instead.end.text.empty() ||
      !std::all_of(instead.outputs.begin(), instead.outputs.end(),
                   tells_a_cause))
    return std::nullopt;
  DescribedCause out;
  int elements = 0, cases = 0;
  for (const OutputInstead& one : instead.outputs) {
    out.cause += fmt::format("{}{} is {}", out.cause.empty() ? "" : ", ",
                             tensor_name(one.output), one.text);
    elements += one.elements;
    cases = std::max(cases, one.cases);
    if (out.fix.empty()) out.fix = fix_of(one.text);
  }
  out.evidence = fmt::format(
      "so are all of {} wrong elements in {} failing cases", elements, cases);
  return out;
}

}  // namespace qkvet::diagnosis
