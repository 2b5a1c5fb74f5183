// SPDX-License-Identifier: Apache-2.0
// The same call with one of its numbers changed by the amount that fits the
// wrong numbers: the scale times 1.0001, the sink plus 3.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "diagnosis/instead/claims.h"
#include "diagnosis/instead/reading.h"
#include "diagnosis/where/setting.h"

namespace qkvet::diagnosis {
namespace {

// A number of the call that can be changed. False: the call has none.
struct Knob {
  const char* text;
  Stage stage;
  double still;  // leaves all as it is
  bool (*turn)(Problem& p, Room& room, double x);
};
constexpr Knob kKnobs[] = {
    {"the scale times {:.5g}", Stage::kScores, 1,
     [](Problem& p, Room&, double x) {
       turn_scale(p, x);
       return true;
     }},
    {"the cap times {:.5g}", Stage::kScores, 1,
     [](Problem& p, Room&, double x) {
       p.softcap *= std::fabs(x);
       return p.softcap > 0 && x != 0;
     }},
    {"capped scores times {:.5g}", Stage::kScores, 1,
     [](Problem& p, Room&, double x) {
       if (!(p.softcap > 0) || x <= 0) return false;
       p.softcap *= x;
       turn_scale(p, x);
       return true;
     }},
    {"no cap, and the scale times {:.5g} where there is one", Stage::kScores, 1,
     [](Problem& p, Room&, double x) {
       if (!(p.softcap > 0)) return false;
       p.softcap = 0;
       turn_scale(p, x);
       return true;
     }},
    {"the bias times {:.5g}", Stage::kBias, 1,
     [](Problem& p, Room& room, double x) {
       turn_bias(p, room, x);
       return p.bias != nullptr;
     }},
    {"the ALiBi slopes times {:.5g}", Stage::kBias, 1,
     [](Problem& p, Room& room, double x) {
       turn_slopes(p, room, x);
       return p.slopes != nullptr;
     }},
    {"scores, with all that is added to them, times {:.5g}", Stage::kScores, 1,
     [](Problem& p, Room& room, double x) {
       if (p.bias == nullptr && p.slopes == nullptr) return false;
       if (p.softcap > 0) {
         if (x <= 0) return false;
         p.softcap *= x;
       }
       turn_scale(p, x);
       turn_bias(p, room, x);
       turn_slopes(p, room, x);
       return true;
     }},
    {"the sink plus {:.5g}", Stage::kSoftmax, 0,
     [](Problem& p, Room& room, double x) {
       if (p.sink == nullptr) return false;
       p.sink = room.changed(p.sink, p.shape.H,
                             [=](double value) { return value + x; });
       return true;
     }}};

class Turned {
 public:
  Turned(const Knob& knob, const JudgedKernel& kernel, TimeUse& time)
      : knob_(&knob), kernel_(&kernel), time_(&time) {}

  std::optional<Predicted> at(double x, const WrongAnswer& answer,
                              const WrongOutput& output) const {
    bool is_there = false;
    auto out = read_as(
        [&](Problem& p, Room& room) { is_there = knob_->turn(p, room, x); },
        *kernel_, *time_, answer, output);
    return is_there ? out : std::nullopt;
  }

 private:
  const Knob* knob_;
  const JudgedKernel* kernel_;
  TimeUse* time_;
};

// The change, and its uncertainty.
struct Measure {
  double x = 0, apart = 0;
};

// A slope over this step is off by as much of itself, which costs a step more
// and no digit of where the steps end.
constexpr double kStep = 1e-4;
// Elements are weighted by their bounds, but by no more than f32 can resolve: a
// bound of 0 would outweigh everything else.
constexpr double kFinest = 1e-7;
// The search ends with a step of less than this part of the uncertainty by the
// bounds.
constexpr double kStill = 0.1;

// One step of least squares over the wrong elements of an answer.
std::optional<Measure> step_from(double x, const Turned& turned,
                                 const WrongAnswer& answer,
                                 const WrongOutput& output) {
  const double step = kStep * std::max(1.0, std::fabs(x));
  const auto here = turned.at(x, answer, output);
  const auto there = turned.at(x + step, answer, output);
  if (!here || !there) return std::nullopt;
  double of_slopes = 0, of_both = 0, apart = INFINITY;
  for (const size_t n : output.wrong) {
    const double slope = (there->values[n] - here->values[n]) / step;
    const double left = output.actual[n] - here->values[n];
    const double bound =
        output.bound[n] + kFinest * std::fabs(output.actual[n]);
    if (!std::isfinite(slope * left) || !(bound > 0)) return std::nullopt;
    of_slopes += slope * slope / (bound * bound);
    of_both += slope * left / (bound * bound);
    if (slope != 0) apart = std::min(apart, bound / std::fabs(slope));
  }
  if (!(of_slopes > 0) || !std::isfinite(apart)) return std::nullopt;
  return Measure{x + of_both / of_slopes, apart};
}

std::optional<Measure> measured_from(double start, const Turned& turned,
                                     const WrongAnswer& answer,
                                     const WrongOutput& output) {
  constexpr int kMostSteps = 8;
  constexpr double kFarthest = 1e4;
  Measure known{start, 0};
  for (int n = 0; n < kMostSteps; ++n) {
    const auto next = step_from(known.x, turned, answer, output);
    if (!next || !(std::fabs(next->x) < kFarthest)) return std::nullopt;
    const double moved = std::fabs(next->x - known.x);
    known = *next;
    if (moved < kStill * known.apart) return known;
  }
  return std::nullopt;
}

Description described(const Knob& knob, const Measure& measure,
                      const Turned& turned) {
  return {
      std::string("the result of ") +
          fmt::format(fmt::runtime(knob.text), measure.x),
      knob.stage,
      [turned, measure](const WrongAnswer& answer, const WrongOutput& output) {
        auto out = turned.at(measure.x, answer, output);
        const auto beside =
            turned.at(measure.x + measure.apart, answer, output);
        if (!out || !beside) return std::optional<Predicted>();
        for (size_t n = 0; n < out->values.size(); ++n)
          out->bounds[n] += std::fabs(beside->values[n] - out->values[n]);
        // The rest of the answer is as inaccurate as the measured number.
        out->lse.clear(), out->weights.clear();
        return out;
      }};
}

}  // namespace

std::optional<Claim> claim_of_measure(const Wrongs& wrongs,
                                      const JudgedKernel& kernel, TimeUse& time,
                                      int64_t most_work) {
  // The cheapest case that is informative.
  const auto telling =
      std::find_if(wrongs.begin(), wrongs.end(),
                   [](const auto& one) { return one.second->telling > 0; });
  if (telling == wrongs.end()) return std::nullopt;
  int64_t work = 0;
  for (const auto& [answer, output] : wrongs) work += work_of(answer->value());
  constexpr int kMostReadings = 48;
  work += kMostReadings * work_of(telling->first->value());
  if (work * std::ssize(kKnobs) > most_work) return std::nullopt;
  std::optional<Claim> found;
  for (const Knob& knob : kKnobs) {
    const Turned turned(knob, kernel, time);
    std::optional<Claim> said;
    for (const double from : {0.0, -1.0, 1.0}) {
      const auto measure = measured_from(knob.still + from, turned,
                                         *telling->first, *telling->second);
      if (!measure) continue;
      Description one = described(knob, *measure, turned);
      if (!fits(one, *telling->first, *telling->second)) continue;
      said = claim_of(one);
      break;
    }
    if (!said || !is_true_of_all(*said, wrongs)) continue;
    if (found) {
      if (found->stage != said->stage) found->stage = Stage::kUnknown;
      continue;
    }
    found = std::move(said);
  }
  return found;
}

}  // namespace qkvet::diagnosis
