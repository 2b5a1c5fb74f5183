// SPDX-License-Identifier: Apache-2.0
#include "properties/checking/workspace_hints.h"

#include <algorithm>
#include <map>
#include <string>

#include "properties/checking/case_work.h"
#include "properties/checking/probe.h"

namespace qkvet::properties {
namespace {

// Four bends and more are a curve.
constexpr size_t kMostBends = 3;
// The most rows with one key, keys with one row, and both at once: for a kernel
// that adds one number after the other, as expensive as the most expensive call
// of a plan.
constexpr int64_t kKeysAsked = 16384, kRowsAsked = 4096, kSquareAsked = 1024;
// More is no size of anything, and its products with extents need more bits.
constexpr int64_t kMostBytes = int64_t{1} << 40;
// Extents that every plan has many of.
constexpr int64_t kLeast = 25;

// The line through two extents, and the largest step above it.
struct Line {
  int64_t from = 0, bytes = 0;  // a point
  int64_t rise = 0, run = 1;    // bytes for extents
  int64_t step = 0;

  bool holds(int64_t extent, int64_t found) const {
    const int64_t above = (found - bytes) * run - rise * (extent - from);
    return above >= 0 && above <= step * run;
  }
};

class Bends {
 public:
  Bends(const BytesOf& bytes_of, int64_t most)
      : bytes_of_(bytes_of), most_(most) {}

  std::vector<Bend> find() {
    std::vector<Bend> bends;
    for (int64_t low = 2; 2 * low <= most_ && !silent_; low *= 2) {
      // A line across a bend is invalid.
      if (!bends.empty() && low / 2 <= bends.back().at) continue;
      const Line line = line_at(low);
      if (silent_ || line.holds(2 * low, bytes(2 * low))) continue;
      int64_t holds = low, bent = 2 * low;
      while (bent - holds > 1) {
        const int64_t middle = (holds + bent) / 2;
        (line.holds(middle, bytes(middle)) ? holds : bent) = middle;
      }
      bends.push_back({holds, bytes(holds), bytes(bent)});
    }
    // An incomplete search finds none.
    if (silent_ || bends.size() > kMostBends) return {};
    return bends;
  }

 private:
  // Through this power of two and the one before. A step is the cost of one
  // more after both of them, as after whole tiles; after only one it is a jump.
  // There is no step if the values between them are on the line itself.
  Line line_at(int64_t low) {
    const int64_t before = low / 2;
    Line line{low, bytes(low), bytes(low) - bytes(before), low - before, 0};
    const int64_t one = bytes(low + 1) - bytes(low);
    const int64_t between = bytes(before + 1) - bytes(before);
    const bool is_straight =
        between * line.run == line.rise && (one == between || before == 1);
    if (!is_straight) line.step = std::max<int64_t>(std::min(one, between), 0);
    return line;
  }

  int64_t bytes(int64_t extent) {
    const auto [at, is_new] = asked_.try_emplace(extent, 0);
    if (!is_new || silent_) return at->second;
    const std::optional<int64_t> answer = bytes_of_(extent);
    if (!answer || *answer < 0 || *answer > kMostBytes) silent_ = true;
    return at->second = silent_ ? 0 : *answer;
  }

  const BytesOf& bytes_of_;
  const int64_t most_;
  std::map<int64_t, int64_t> asked_;
  bool silent_ = false;
};

}  // namespace

std::vector<Bend> bends_of(const BytesOf& bytes_of, int64_t most) {
  return Bends(bytes_of, most).find();
}

std::vector<Hint> workspace_hints(Executor& executor, int kernel,
                                  const KernelInfo& info) {
  std::vector<Hint> hints;
  // A kernel that compiles for each shape would take minutes.
  if (!info.has_workspace || info.has_flag(QKVET_FLAG_COMPILES_PER_SHAPE))
    return hints;
  bool died = false;
  const auto ask = [&](const Case& smallest) -> std::optional<int64_t> {
    if (died) return std::nullopt;
    Case value = smallest;
    if (info.has_flag(QKVET_FLAG_CAUSAL_ONLY))
      value.causal = info.has_option(QKVET_OPTION_CAUSAL_BOTTOM_RIGHT)
                         ? Causal::kBottomRight
                         : Causal::kTopLeft;
    const Inputs inputs = make_inputs(value);
    const KernelCall call = call_of(value, inputs, Operation::kForward);
    const CallOutcome outcome = executor.run(kernel, {&call, 1})[0];
    died = outcome.status >= CallStatus::kFault;
    if (outcome.status != CallStatus::kDone) return std::nullopt;
    return outcome.workspace_bytes;
  };
  const auto add = [&](int32_t axis, const BytesOf& bytes_of, int64_t most) {
    for (const Bend& bend : bends_of(bytes_of, most))
      if (bend.at >= kLeast)
        hints.push_back({{axis, static_cast<int32_t>(bend.at)},
                         "the workspace, " + std::to_string(bend.bytes) +
                             " bytes there and " + std::to_string(bend.beyond) +
                             " beyond"});
  };
  // An extent that the kernel does not take is answered by none.
  const BytesOf of_keys = [&](int64_t Tk) -> std::optional<int64_t> {
    const Case value = smallest_case(info, 1, Tk);
    return value.shape.Tk == Tk ? ask(value) : std::nullopt;
  };
  const BytesOf of_rows = [&](int64_t Tq) -> std::optional<int64_t> {
    constexpr int64_t kKeys = 8;
    const Case value = smallest_case(info, Tq, kKeys);
    return value.shape.Tq == Tq ? ask(value) : std::nullopt;
  };
  if (!info.has_option(QKVET_OPTION_CROSS_LENGTHS)) {
    add(QKVET_AXIS_TK, of_keys, kSquareAsked);
    return hints;
  }
  add(QKVET_AXIS_TK, of_keys, kKeysAsked);
  add(QKVET_AXIS_TQ, of_rows, kRowsAsked);
  return hints;
}

}  // namespace qkvet::properties
