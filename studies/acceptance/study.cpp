// SPDX-License-Identifier: Apache-2.0
#include "studies/acceptance/study.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>

#include "core/base/half.h"

namespace qkvet::studies {
namespace {

// Amounts are tried on a grid of eight steps to a factor of two.
constexpr int kStepsPerOctave = 8;
constexpr int kFirstStep = -20 * kStepsPerOctave;
constexpr int kLastStep = 3 * kStepsPerOctave;
double amount_of(int step) {
  return std::exp2(static_cast<double>(step) / kStepsPerOctave);
}

struct Judge {
  std::function<bool(const Output&)> accepts;
  bool alarms;
};

// One call, the correct kernel on it, and all of its judges.
struct Sample {
  CallData call;
  Kernel kernel;
  Truth truth;
  Evidence evidence;
  std::vector<Judge> judges;  // the bound, the bound with lse, the rules

  Sample(CallData data, Models models, std::span<const Rule* const> rules)
      : call(std::move(data)),
        kernel(call),
        truth(call, models(call.dtype())),
        evidence(call, truth.oracle()) {
    const Output correct = kernel.run({});
    const auto add = [&](std::function<bool(const Output&)> accepts) {
      const bool alarms = !accepts(correct);
      judges.push_back({std::move(accepts), alarms});
    };
    for (const bool with_lse : {false, true})
      add([this, with_lse](const Output& output) {
        return truth.accepts(output, with_lse);
      });
    for (const Rule* rule : rules)
      add([this, rule](const Output& output) {
        return rule->accepts(evidence, output.o);
      });
  }
  Sample(const Sample&) = delete;
  Sample& operator=(const Sample&) = delete;
};

// The verdict of one judge on one sample with one defect.
struct Reading {
  bool noticed = false;
  bool alarm = false;
  std::optional<double> amount;
};

// By bisection: a defect that is noticed at one amount is noticed at every
// larger one.
std::optional<double> smallest_noticed(
    const std::function<bool(int step)>& noticed) {
  if (!noticed(kLastStep)) return std::nullopt;
  int below = kFirstStep - 1, above = kLastStep;
  while (above - below > 1) {
    const int middle = below + (above - below) / 2;
    (noticed(middle) ? above : below) = middle;
  }
  return amount_of(above);
}

std::vector<Reading> read(const Sample& sample, const Defect& defect) {
  std::map<int, Output> outputs;
  const auto output_of = [&](int step, double amount) -> const Output& {
    const auto known = outputs.find(step);
    if (known != outputs.end()) return known->second;
    return outputs[step] = defective_output(sample.kernel, defect, amount);
  };
  std::vector<Reading> readings;
  for (const Judge& judge : sample.judges) {
    Reading& reading = readings.emplace_back();
    reading.alarm = judge.alarms;
    if (judge.alarms) continue;
    if (defect.measure != Measure::kAmount) {
      reading.noticed = !judge.accepts(output_of(0, 0));
      continue;
    }
    reading.amount = smallest_noticed([&](int step) {
      return !judge.accepts(output_of(step, amount_of(step)));
    });
    reading.noticed = reading.amount.has_value();
  }
  return readings;
}

void add(const Reading& reading, int64_t n, Cell& cell) {
  cell.tried.push_back(n);
  if (reading.alarm) cell.alarms.push_back(n);
  if (reading.noticed) cell.noticed.push_back(n);
  cell.amount = reading.amount;
}

struct Study {
  const Effort& effort;
  std::span<const Rule> rules;
  Models models;
  std::vector<Comparison> out;

  Comparison& at(const Defect& defect, const Rule& rule) {
    const auto row = static_cast<size_t>(&defect - defects().data());
    const auto column = static_cast<size_t>(&rule - rules.data());
    return out[row * rules.size() + column];
  }

  std::vector<int64_t> lengths_of(const Defect& defect) const {
    if (defect.measure == Measure::kLengths) return effort.lengths;
    return {kSquare};
  }

  Extents extents_of(const Defect& defect, const Setting& setting,
                     int64_t n) const {
    if (defect.measure == Measure::kLengths)
      return decode_extents(setting.rows, n);
    return square_extents(
        effort.square_heads, n,
        defect.measure == Measure::kSquare ? Causal::kTopLeft : Causal::kNone);
  }

  void own(const Setting& setting, std::span<const Rule* const> judged) {
    for (const Measure measure :
         {Measure::kAmount, Measure::kLengths, Measure::kSquare}) {
      std::map<int64_t, std::vector<const Defect*>> by_length;
      for (const Defect& defect : defects())
        if (defect.measure == measure)
          for (const int64_t n : lengths_of(defect))
            by_length[n].push_back(&defect);
      for (const auto& [n, shown] : by_length) {
        const Extents extents = extents_of(*shown[0], setting, n);
        const Sample sample(CallData(setting, extents), models, judged);
        for (const Defect* defect : shown) {
          const std::vector<Reading> readings = read(sample, *defect);
          for (size_t r = 0; r < judged.size(); ++r) {
            Comparison& comparison = at(*defect, *judged[r]);
            add(readings[0], n, comparison.ours);
            add(readings[1], n, comparison.ours_with_lse);
            add(readings[r + 2], n, comparison.theirs);
          }
        }
      }
    }
  }

  void targeted(const Setting& setting, std::span<const Rule* const> judged) {
    for (const Defect& defect : defects())
      for (const int64_t n : lengths_of(defect)) {
        const Defect* first = first_with_same_data(defect, n, setting.d);
        if (first != &defect) continue;
        const Sample sample(CallData(setting, extents_of(defect, setting, n),
                                     defect.targeted(n, setting.d)),
                            models, judged);
        for (const Defect& same : defects()) {
          if (first_with_same_data(same, n, setting.d) != &defect) continue;
          const std::vector<Reading> readings = read(sample, same);
          for (size_t r = 0; r < judged.size(); ++r) {
            Comparison& comparison = at(same, *judged[r]);
            add(readings[0], n, comparison.ours_targeted);
            add(readings[r + 2], n, comparison.theirs_targeted);
          }
        }
      }
  }

  // They share one sample.
  static const Defect* first_with_same_data(const Defect& defect, int64_t n,
                                            int64_t d) {
    for (const Defect& other : defects())
      if (other.measure == defect.measure &&
          other.targeted(n, d) == defect.targeted(n, d))
        return &other;
    return &defect;
  }

  // Calls visit(setting, rules) for every setting that differs by `key`.
  template <class Key, class Visit>
  void each_setting(Key key, Visit visit) {
    for (const Rule& rule : rules) {
      std::vector<const Rule*> same;
      for (const Rule& other : rules)
        if (key(other.setting) == key(rule.setting)) same.push_back(&other);
      if (same[0] == &rule) visit(rule.setting, same);
    }
  }

  void run() {
    for (const Defect& defect : defects())
      for (const Rule& rule : rules) {
        Comparison& comparison = out.emplace_back();
        comparison.rule = &rule;
        comparison.defect = &defect;
      }
    each_setting(
        [](const Setting& setting) { return setting; },
        [this](const Setting& setting, const std::vector<const Rule*>& judged) {
          own(setting, judged);
        });
    each_setting(
        [](Setting setting) {
          setting.law = InputLaw::kNormal;  // replaced by recipes
          return setting;
        },
        [this](const Setting& setting, const std::vector<const Rule*>& judged) {
          targeted(setting, judged);
        });
  }
};

}  // namespace

double noticed_octaves(const Cell& cell, Measure measure) {
  if (measure == Measure::kAmount)
    return -std::log2(cell.amount.value_or(2 * kLargestAmount));
  return static_cast<double>(cell.noticed.size());
}

Effort quick_effort() { return {{32, 64, 128, 256, 512}, 1}; }

Effort full_effort() {
  Effort effort{{}, 4};
  for (int64_t n = 32; n <= 65536; n *= 2) effort.lengths.push_back(n);
  return effort;
}

std::vector<Comparison> compare_rules(const Effort& effort,
                                      std::span<const Rule> rules,
                                      Models models) {
  Study study{effort, rules, models, {}};
  study.run();
  return std::move(study.out);
}

int64_t alarms_of_ours(std::span<const Comparison> comparisons) {
  int64_t count = 0;
  for (const Comparison& c : comparisons)
    for (const Cell* cell : {&c.ours, &c.ours_with_lse, &c.ours_targeted})
      count += !cell->alarms.empty();
  return count;
}

int64_t alarms_of_theirs(std::span<const Comparison> comparisons) {
  int64_t count = 0;
  for (const Comparison& c : comparisons) count += !c.theirs.alarms.empty();
  return count;
}

int exit_code(std::span<const Comparison> comparisons) {
  return alarms_of_ours(comparisons) + alarms_of_theirs(comparisons) > 0;
}

}  // namespace qkvet::studies
