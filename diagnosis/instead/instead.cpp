// SPDX-License-Identifier: Apache-2.0
#include "diagnosis/instead/instead.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "core/base/half.h"
#include "core/door/call_plan.h"
#include "diagnosis/evidence/nearby.h"
#include "diagnosis/where/fresh_cases.h"
#include "properties/calls/gradient_calls.h"
#include "properties/judging/subject.h"

namespace qkvet::diagnosis {
namespace {

constexpr uint64_t kInsteadSeed = 0x494E;  // any: every diagnosis asks the same
constexpr size_t kMostAnswers = 10;
constexpr int kMostAsked = 48;
// Without so many nothing is said: failing cases, and elements of them that are
// wrong by far.
constexpr int kFewestCases = 3;
constexpr int kFewestTelling = 6;
// What is said must be true of further answers, of another seed, as well.
constexpr uint64_t kSecondSeed = 0x5345;
constexpr size_t kMostFurther = 16;
constexpr int kMostFurtherAsked = 40;
// Multiplications (work_of) of one case, and of all readings of all cases: of a
// reference that takes some ten nanoseconds each, with its bound, a second.
constexpr int64_t kMostWorkOfCase = 300'000;
constexpr int64_t kMostReadingWork = 15'000'000;

using Wrongs = std::vector<std::pair<const WrongAnswer*, const WrongOutput*>>;

// --- failing answers

class Collector {
 public:
  Collector(const KernelUnderTest& kernel, Witness& witness,
            size_t most_answers = kMostAnswers, int most_asked = kMostAsked)
      : kernel_(kernel.judged),
        witness_(witness),
        most_answers_(most_answers),
        most_asked_(most_asked) {}

  bool is_full() const {
    return answers_.size() >= most_answers_ || asked_ >= most_asked_;
  }
  void ask(const Case& value) {
    if (is_full() || work_of(value) > kMostWorkOfCase ||
        !known_.insert(to_string(value)).second)
      return;
    ++asked_;
    auto evidence = witness_.ask(agreement_about(value.subject()), value);
    note_touch(evidence.get());
    auto wrong = wrong_answer(std::move(evidence), kernel_);
    if (wrong) answers_.push_back(std::move(*wrong));
  }
  // Of any law.
  void note_touch(const Evidence* evidence) {
    if (evidence == nullptr || !evidence->failed()) return;
    const bool is_dead = evidence->judgement.kind == FailureKind::kMemory ||
                         evidence->judgement.kind == FailureKind::kCrash;
    const auto tensor = touched_outside(*evidence);
    const bool is_unwritten = std::any_of(
        evidence->outcomes.begin(), evidence->outcomes.end(),
        [](const CallOutcome& one) { return one.unwritten.has_value(); });
    if (tensor || (is_dead && !is_unwritten))
      touches_.push_back({evidence->value(), tensor});
  }
  const std::vector<Touch>& touches() const { return touches_; }
  // The cheapest first: most descriptions are dropped by the first.
  std::vector<WrongAnswer> take() {
    std::stable_sort(answers_.begin(), answers_.end(),
                     [](const WrongAnswer& a, const WrongAnswer& b) {
                       return work_of(a.value()) < work_of(b.value());
                     });
    return std::move(answers_);
  }

 private:
  const JudgedKernel& kernel_;
  Witness& witness_;
  size_t most_answers_;
  int most_asked_;
  std::set<std::string> known_;
  std::vector<WrongAnswer> answers_;
  std::vector<Touch> touches_;
  int asked_ = 0;
};

// Cases that should fail, of a seed.
void ask_fresh(const Failure& failure, const FailsWhere& where, uint64_t seed,
               int count, Collector& collector) {
  const Law& agreement = agreement_about(failure.law->domain.subject);
  std::vector<Case> failing;
  if (const auto known = parse_case(where.nearest_failure); known.value)
    failing.push_back(*known.value);
  if (where.setting && &where.setting->law() == &agreement)
    for (const Case& value :
         fresh_cases(where.hypothesis, *where.setting, failing, seed, count))
      if (where.hypothesis.predicts_failure(where.setting->values(value)))
        collector.ask(value);
  const auto first = static_cast<int>(seed % 1000);
  for (int n = 1; n <= count && !collector.is_full(); ++n)
    collector.ask(nearby_case(
        agreement, n % 2 == 0 ? failure.smallest : failure.found, first + n));
}

// What goes beyond a tensor in one placement of it alone.
void ask_of_memory(const Failure& failure, Witness& witness,
                   Collector& collector) {
  if (failure.judgement.kind != FailureKind::kMemory) return;
  constexpr int kMost = 6;
  for (int n = 0; n < kMost && collector.touches().size() < kFewestCases; ++n) {
    const Case value = n == 0 ? failure.smallest
                              : nearby_case(*failure.law, failure.smallest, n);
    collector.note_touch(witness.ask(*failure.law, value).get());
  }
}

// Cases that another law has made fail may be right for this one.
void ask_for_failing_answers(const Failure& failure, const FailsWhere& where,
                             const Answered* answered, Witness& witness,
                             Collector& collector) {
  collector.ask(failure.smallest);
  collector.ask(failure.found);
  if (answered == nullptr) {
    ask_fresh(failure, where, kInsteadSeed, kMostAsked, collector);
    ask_of_memory(failure, witness, collector);
  } else {
    for (const AnsweredCase& one : *answered)
      if (one.law->domain.subject == failure.law->domain.subject)
        collector.ask(one.value);
  }
}

// --- what is one number throughout, or written too coarsely

bool all_are(const WrongOutput& output, const std::function<bool(double)>& is) {
  return std::all_of(output.wrong.begin(), output.wrong.end(),
                     [&](size_t n) { return is(output.actual[n]); });
}

using IsTrueOf =
    std::function<bool(const WrongAnswer& answer, const WrongOutput& output)>;
struct Claim {
  std::string text;
  IsTrueOf is_true_of;
  Stage stage = Stage::kUnknown;
};

Claim claim_of_number(std::string text, std::function<bool(double)> is) {
  return {std::move(text),
          [is = std::move(is)](const WrongAnswer&, const WrongOutput& output) {
            return all_are(output, is);
          }};
}

bool is_unwritten(const WrongAnswer& answer, const WrongOutput& output) {
  return answer.evidence->outcomes[0].unwritten == output.name &&
         all_are(output, [](double x) { return std::isnan(x); });
}

// The bits of the narrowest significand that holds a number.
int bits_of(double value) {
  if (value == 0 || !std::isfinite(value)) return 0;
  int exponent = 0;
  auto whole = static_cast<int64_t>(
      std::ldexp(std::fabs(std::frexp(value, &exponent)), 53));
  int bits = 53;
  while (whole % 2 == 0) whole /= 2, --bits;
  return bits;
}

// Numbers that are right as far as `bits` bits can be.
bool are_rounded_to(int bits, const WrongOutput& output) {
  for (const size_t n : output.wrong) {
    const double actual = output.actual[n], right = output.right[n];
    const double step = std::ldexp(std::fabs(right), 1 - bits);
    if (bits_of(actual) > bits ||
        !(std::fabs(actual - right) <= step + output.bound[n]))
      return false;
  }
  return true;
}

std::string rounded_text(int bits) {
  const char* type = bits == 8 ? " (bf16)" : bits == 11 ? " (f16, tf32)" : "";
  return fmt::format("the right value with {} bits{}", bits, type);
}

int bits_of_storage(Dtype dtype) {
  return static_cast<int>(std::lround(-std::log2(unit_roundoff(dtype))));
}

std::optional<Claim> claim_of_rounding(const Wrongs& wrongs) {
  int bits = 0;
  int64_t rows = 0;
  for (const auto& [answer, output] : wrongs)
    for (const size_t n : output->wrong)
      bits = std::max(bits, bits_of(output->actual[n])), ++rows;
  constexpr int kFewestBits = 3, kFewer = 4;
  constexpr int64_t kFewestElements = 12;
  if (bits < kFewestBits || rows < kFewestElements ||
      bits + kFewer > bits_of_storage(wrongs[0].second->dtype))
    return std::nullopt;
  return Claim{rounded_text(bits),
               [bits](const WrongAnswer&, const WrongOutput& output) {
                 return are_rounded_to(bits, output);
               },
               Stage::kOutput};
}

// --- a factor that has no name

// Of the element that tells most about it.
std::optional<double> measured_factor(const Wrongs& wrongs) {
  double best = 0, factor = 0;
  for (const auto& [answer, output] : wrongs)
    for (const size_t n : output->wrong) {
      const double sure =
          std::fabs(output->right[n]) /
          (output->bound[n] +
           unit_roundoff(output->dtype) * std::fabs(output->right[n]) + 1e-300);
      if (!(sure > best) || !std::isfinite(output->actual[n])) continue;
      best = sure;
      factor = output->actual[n] / output->right[n];
    }
  constexpr double kSure = 256;
  return best > kSure && factor != 0 ? std::optional(factor) : std::nullopt;
}

Claim claim_of_factor(double factor) {
  return {fmt::format("the right value times {:.5g}", factor),
          [factor](const WrongAnswer&, const WrongOutput& output) {
            return std::all_of(
                output.wrong.begin(), output.wrong.end(), [&](size_t n) {
                  return is_near(output.actual[n], factor * output.right[n],
                                 std::fabs(factor) * output.bound[n],
                                 output.dtype);
                });
          }};
}

// One that is added.
std::optional<Claim> claim_of_constant(const Wrongs& wrongs) {
  double best = 0, added = 0;
  for (const auto& [answer, output] : wrongs)
    for (const size_t n : output->wrong) {
      const double apart = output->actual[n] - output->right[n];
      const double sure = std::fabs(apart) / (output->bound[n] + 1e-300);
      if (!(sure > best) || !std::isfinite(apart)) continue;
      best = sure;
      added = apart;
    }
  constexpr double kSure = 256;
  if (best <= kSure) return std::nullopt;
  return Claim{fmt::format("the right value {} {:.5g}",
                           added < 0 ? "minus" : "plus", std::fabs(added)),
               [added](const WrongAnswer&, const WrongOutput& output) {
                 return std::all_of(
                     output.wrong.begin(), output.wrong.end(), [&](size_t n) {
                       return is_near(output.actual[n], output.right[n] + added,
                                      output.bound[n], output.dtype);
                     });
               }};
}

// Whether each row is its right one times a factor of its own; counts elements
// that could have been otherwise: not the first of a row, nor one that has the
// same right number, say for equal values.
bool are_rows_scaled(const WrongOutput& output, int64_t* told) {
  const int64_t width = output.extents[3];
  std::map<int64_t, std::vector<size_t>> rows;
  for (const size_t n : output.wrong)
    rows[static_cast<int64_t>(n) / width].push_back(n);
  for (const auto& [row, wrong] : rows) {
    const auto size = [&](size_t n) { return std::fabs(output.right[n]); };
    const size_t largest = *std::max_element(
        wrong.begin(), wrong.end(),
        [&](size_t a, size_t b) { return size(a) < size(b); });
    const double factor = output.actual[largest] / output.right[largest];
    for (const size_t n : wrong)
      if (!is_near(
              output.actual[n], factor * output.right[n],
              std::fabs(factor) * (output.bound[n] + output.bound[largest]),
              output.dtype))
        return false;
    constexpr double kAlike = 0.9;
    *told += std::count_if(wrong.begin(), wrong.end(), [&](size_t n) {
      return output.right[n] / output.right[largest] < kAlike;
    });
  }
  return true;
}

std::optional<Claim> claim_of_rows(const Wrongs& wrongs) {
  constexpr int64_t kFewest = 12;
  int64_t told = 0, telling_cases = 0;
  for (const auto& [answer, output] : wrongs) {
    const int64_t before = told;
    if (!are_rows_scaled(*output, &told)) return std::nullopt;
    telling_cases += told > before;
  }
  if (told < kFewest || telling_cases < kFewestCases) return std::nullopt;
  return Claim{"the right row times a factor of its own",
               [](const WrongAnswer&, const WrongOutput& output) {
                 int64_t of_no_interest = 0;
                 return are_rows_scaled(output, &of_no_interest);
               }};
}

// --- one output

class OutputSearch {
 public:
  OutputSearch(const KernelUnderTest& kernel, TimeUse& time, int64_t& work)
      : kernel_(kernel), time_(time), work_(work) {}

  // Nothing: no single description.
  std::optional<Claim> claim(TensorName name, const Wrongs& wrongs) {
    const auto is_true = [&](const Claim& claim) {
      return std::all_of(wrongs.begin(), wrongs.end(), [&](const auto& one) {
        return claim.is_true_of(*one.first, *one.second);
      });
    };
    for (const Claim& one : simple_claims(wrongs))
      if (is_true(one)) return one;
    int telling = 0;
    for (const auto& [answer, output] : wrongs) telling += output->telling;
    if (const auto one = claim_of_rounding(wrongs); one && is_true(*one))
      return one;
    if (telling < kFewestTelling) return std::nullopt;
    if (const auto one = by_description(name, wrongs)) return one;
    if (const auto factor = measured_factor(wrongs))
      if (const Claim one = claim_of_factor(*factor); is_true(one)) return one;
    if (const auto one = claim_of_constant(wrongs); one && is_true(*one))
      return one;
    return name == TensorName::kO ? claim_of_rows(wrongs) : std::nullopt;
  }
  bool has_ended() const { return work_ > kMostReadingWork; }

 private:
  static std::vector<Claim> simple_claims(const Wrongs& wrongs) {
    const double first = wrongs[0].second->actual[wrongs[0].second->wrong[0]];
    std::vector<Claim> claims = {
        {"what stood there before: it is not written", is_unwritten,
         Stage::kOutput},
        claim_of_number("NaN", [](double x) { return std::isnan(x); }),
        claim_of_number("0", [](double x) { return x == 0; })};
    if (std::isfinite(first) || std::isinf(first))
      claims.push_back(
          claim_of_number(fmt::format("{:.8g}, whatever is right", first),
                          [first](double x) { return x == first; }));
    return claims;
  }

  std::optional<Claim> by_description(TensorName name, const Wrongs& wrongs) {
    std::vector<Description> all = descriptions_by_number(name);
    if (name == TensorName::kO || name == TensorName::kLse)
      for (Description& one : descriptions_by_reading(kernel_.judged, time_))
        all.push_back(std::move(one));
    std::optional<Claim> found;
    for (const Description& one : all) {
      if (has_ended()) break;
      if (!is_true_of_all(one, wrongs)) continue;
      // Of several the first is as true as the others; the stage is not.
      if (found) {
        if (found->stage != one.stage) found->stage = Stage::kUnknown;
        continue;
      }
      found =
          Claim{one.text,
                [one](const WrongAnswer& answer, const WrongOutput& output) {
                  return fits(one, answer, output);
                },
                one.stage};
    }
    return found;
  }

  bool is_true_of_all(const Description& one, const Wrongs& wrongs) {
    for (const auto& [answer, output] : wrongs) {
      work_ += work_of(answer->value());
      if (has_ended() || !fits(one, *answer, *output)) return false;
    }
    return true;
  }

  const KernelUnderTest& kernel_;
  TimeUse& time_;
  int64_t& work_;
};

// "dk and dv"
std::string listed(const std::vector<std::string>& names) {
  std::string out;
  for (size_t n = 0; n < names.size(); ++n)
    out += (n == 0 ? "" : n + 1 == names.size() ? " and " : ", ") + names[n];
  return out;
}

std::string gradients_text(const std::vector<WrongAnswer>& answers) {
  std::vector<std::string> wrong, right;
  for (const TensorName name : kGradients) {
    bool is_given = false, is_wrong = false;
    for (const WrongAnswer& answer : answers) {
      is_given |= answer.has(name);
      is_wrong |= answer.find(name) != nullptr;
    }
    if (is_given) (is_wrong ? wrong : right).push_back(tensor_name(name));
  }
  if (wrong.empty()) return "";
  return listed(wrong) +
         (right.empty()
              ? ", all gradients"
              : " (" + listed(right) +
                    (right.size() == 1 ? " is right)" : " are right)"));
}

// The description of o, held against probes, and what was gone beyond.
Stage stage_of(const Instead& instead, const std::vector<WrongAnswer>& answers,
               const std::vector<Touch>& touches, Witness* witness) {
  const OutputInstead* o = nullptr;
  for (const OutputInstead& one : instead.outputs)
    if (one.output == TensorName::kO) o = &one;
  const Stage told = o == nullptr ? Stage::kUnknown : o->stage;
  if (witness == nullptr) return told;
  const Stage touched = stage_of_touches(touches, *witness);
  // Where each number comes from is not told by what one stage makes of it.
  const bool is_moved =
      o != nullptr && told == Stage::kUnknown &&
      std::all_of(answers.begin(), answers.end(), [](const WrongAnswer& one) {
        const WrongOutput* output = one.find(TensorName::kO);
        return output == nullptr || is_moved_around(*output);
      });
  const Stage probed =
      is_moved ? Stage::kUnknown : probed_stage(answers, *witness);
  Stage stage = Stage::kUnknown;
  for (const Stage one : {told, probed, touched}) {
    if (one == Stage::kUnknown || one == stage) continue;
    // Probes do not tell a product from what is stored of it.
    const bool is_refined = one == Stage::kValues && stage == Stage::kOutput;
    if (stage != Stage::kUnknown && !is_refined) return Stage::kUnknown;
    if (!is_refined) stage = one;
  }
  return stage;
}

// What is not true of further answers is not said.
void keep_the_true(const Failure& failure, const FailsWhere& where,
                   const KernelUnderTest& kernel, Witness& witness,
                   Instead& instead) {
  if (std::all_of(instead.outputs.begin(), instead.outputs.end(),
                  [](const OutputInstead& one) { return one.text.empty(); }))
    return;
  Collector collector(kernel, witness, kMostFurther, kMostFurtherAsked);
  ask_fresh(failure, where, kSecondSeed, kMostFurtherAsked, collector);
  for (const WrongAnswer& answer : collector.take())
    for (OutputInstead& one : instead.outputs) {
      const WrongOutput* output = answer.find(one.output);
      if (output == nullptr || one.is_true_of == nullptr ||
          one.is_true_of(answer, *output))
        continue;
      one.text.clear();
      one.is_true_of = nullptr;
      one.stage = Stage::kUnknown;
    }
}

}  // namespace

Instead look_what_it_is_instead(const Failure& failure, const FailsWhere& where,
                                const KernelUnderTest& kernel,
                                Executor& executor, TimeUse& time,
                                const Answered* answered) {
  Instead instead;
  const Subject subject = failure.law->domain.subject;
  Witness witness(kernel.judged, kernel.index, executor, time,
                  kMostInsteadCalls);
  if (subject != Subject::kAttention && subject != Subject::kBackward) {
    if (answered == nullptr)
      instead.stage = stage_of_other_subject(failure, witness);
    instead.calls = witness.calls_made();
    return instead;
  }
  Collector collector(kernel, witness);
  ask_for_failing_answers(failure, where, answered, witness, collector);
  const std::vector<WrongAnswer> answers = collector.take();
  instead.calls = witness.calls_made();
  instead.cases = static_cast<int>(answers.size());
  if (instead.cases < kFewestCases) {
    if (subject == Subject::kAttention && answered == nullptr)
      instead.stage = collector.touches().empty()
                          ? stage_of_dropout(failure, witness)
                          : stage_of_touches(collector.touches(), witness);
    instead.calls = witness.calls_made();
    return instead;
  }
  int64_t work = 0;
  OutputSearch search(kernel, time, work);
  std::vector<TensorName> names = {TensorName::kO, TensorName::kLse};
  // Wrong weights explain a wrong o, and are no news beside one.
  if (std::none_of(answers.begin(), answers.end(), [](const WrongAnswer& one) {
        return one.find(TensorName::kO) != nullptr;
      }))
    names.push_back(TensorName::kWeights);
  names.insert(names.end(), std::begin(kGradients), std::end(kGradients));
  for (const TensorName name : names) {
    Wrongs wrongs;
    OutputInstead out;
    out.output = name;
    for (const WrongAnswer& answer : answers)
      if (const WrongOutput* output = answer.find(name)) {
        wrongs.push_back({&answer, output});
        out.elements += static_cast<int>(output->wrong.size());
      }
    out.cases = static_cast<int>(wrongs.size());
    if (out.cases < kFewestCases) continue;
    if (const auto claim = search.claim(name, wrongs)) {
      out.text = claim->text;
      out.stage = claim->stage;
      out.is_true_of = claim->is_true_of;
    }
    instead.outputs.push_back(std::move(out));
  }
  if (search.has_ended())
    instead.left_out = "the cases take too long to be read in every other way";
  if (answered == nullptr)
    keep_the_true(failure, where, kernel, witness, instead);
  if (subject == Subject::kBackward)
    instead.gradients = gradients_text(answers);
  else
    instead.stage = stage_of(instead, answers, collector.touches(),
                             answered == nullptr ? &witness : nullptr);
  instead.calls = witness.calls_made();
  return instead;
}

InsteadScore score_instead(const Instead& instead, const Failure& failure,
                           const FailsWhere& where,
                           const KernelUnderTest& kernel, Executor& executor,
                           TimeUse& time, uint64_t seed, int count) {
  Witness witness(kernel.judged, kernel.index, executor, time, count);
  Collector collector(kernel, witness);
  ask_fresh(failure, where, seed, count, collector);
  InsteadScore score;
  for (const WrongAnswer& answer : collector.take())
    for (const OutputInstead& one : instead.outputs) {
      const WrongOutput* output = answer.find(one.output);
      if (output == nullptr || one.is_true_of == nullptr) continue;
      ++score.all;
      score.right += one.is_true_of(answer, *output);
    }
  return score;
}

std::string Instead::text() const {
  struct Said {
    std::vector<std::string> names;
    int elements = 0, most_cases = 0;
  };
  std::vector<std::string> texts;  // in their order
  std::map<std::string, Said> said;
  for (const OutputInstead& one : outputs) {
    if (said.count(one.text) == 0) texts.push_back(one.text);
    Said& of = said[one.text];
    of.names.push_back(tensor_name(one.output));
    of.elements += one.elements;
    of.most_cases = std::max(of.most_cases, one.cases);
  }
  std::string out;
  for (const std::string& text : texts) {
    const Said& of = said[text];
    const std::string which = listed(of.names);
    const std::string counts =
        fmt::format("{} wrong element{} in {} failing cases.", of.elements,
                    of.elements == 1 ? "" : "s", of.most_cases);
    const char* begin = out.empty() ? "no" : " No";
    out += text.empty()
               ? fmt::format("{} single description fits {}: {}", begin, which,
                             counts)
               : fmt::format("{}{} {} {}: all of {}", out.empty() ? "" : " ",
                             which, of.names.size() > 1 ? "are" : "is", text,
                             counts);
  }
  if (!out.empty() && !left_out.empty())
    out += " Not all was looked at: " + left_out + ".";
  return out;
}

std::string Instead::stage_sentence() const {
  if (!gradients.empty())
    return fmt::format("{}, in {} failing cases", gradients, cases);
  return stage_text(stage);
}

}  // namespace qkvet::diagnosis
