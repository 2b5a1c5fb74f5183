// SPDX-License-Identifier: Apache-2.0
#include "diagnosis/instead/instead.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "diagnosis/evidence/tiles.h"
#include "diagnosis/instead/claims.h"
#include "diagnosis/instead/collector.h"
#include "diagnosis/instead/output_search.h"
#include "properties/calls/gradient_calls.h"
#include "properties/conventions/domain.h"
#include "properties/judging/compare.h"
#include "properties/judging/subject.h"

namespace qkvet::diagnosis {
namespace {

// Descriptions must also hold for further answers, of another seed.
constexpr uint64_t kSecondSeed = 0x5345;
constexpr uint64_t kThirdSeed = 0x5448;
constexpr size_t kMostFurther = 16;
constexpr int kMostFurtherAsked = 40;
// Factor for descriptions that often fit by chance.
constexpr int kMoreOfCheap = 3;
// With so many cases that end in a call, no further one is needed.
constexpr int kEnoughAlone = 10;
// Stored tokens vary more than ends of calls, so the fact must hold for so many
// further answers.
constexpr int kFewestStoredFurther = 4;

int calls_of(Subject subject) {
  return subject == Subject::kCache ? kCallsOfStory : 1;
}

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

// A description of o alone does not explain the error in lse.
bool is_at_odds_with_lse(const Instead& instead, const OutputInstead& o) {
  return std::any_of(instead.outputs.begin(), instead.outputs.end(),
                     [&](const OutputInstead& one) {
                       return one.output == TensorName::kLse &&
                              (one.text.empty() || one.stage != o.stage);
                     });
}

// The same cases with finite numbers in unwritten memory, if their answers are
// still wrong with these.
std::vector<WrongAnswer> with_finite_memory(std::vector<WrongAnswer> answers,
                                            Witness& witness) {
  const auto has_nan = [](const WrongAnswer& answer) {
    return std::any_of(
        answer.outputs.begin(), answer.outputs.end(),
        [](const WrongOutput& output) {
          return std::any_of(
              output.wrong.begin(), output.wrong.end(),
              [&](size_t n) { return std::isnan(output.actual[n]); });
        });
  };
  for (WrongAnswer& answer : answers) {
    if (!has_nan(answer) || answer.evidence->calls.size() != 1) continue;
    auto again = wrong_answer(
        witness.ask(*answer.evidence->law, answer.value(), use_finite_memory),
        witness.kernel());
    if (again) answer = std::move(*again);
  }
  return answers;
}

// Whether repeated calls give other wrong numbers: state between calls belongs
// to no stage of one call.
bool depend_on_calls(const std::vector<WrongAnswer>& answers,
                     Witness& witness) {
  constexpr int kMostRepeated = 3;
  int repeated = 0;
  // The largest call comes first, because it leaves most for the others.
  for (auto one = answers.rbegin();
       one != answers.rend() && repeated < kMostRepeated; ++one) {
    const WrongOutput* o = one->find(TensorName::kO);
    if (o == nullptr || one->evidence->calls.size() != 1) continue;
    const auto again = witness.ask(*one->evidence->law, one->value());
    if (again == nullptr || again->outcomes[0].o.empty()) continue;
    ++repeated;
    const std::vector<double> now = as_doubles(again->outcomes[0].o, o->dtype);
    const bool is_same =
        std::all_of(o->wrong.begin(), o->wrong.end(), [&](size_t n) {
          return (std::isnan(now[n]) && std::isnan(o->actual[n])) ||
                 is_near(now[n], o->actual[n], o->bound[n], o->dtype);
        });
    if (!is_same) return true;
  }
  return false;
}

// The stage that follows from the description of o, from probes, and from
// accesses outside a tensor.
Stage stage_of(const Instead& instead, const std::vector<WrongAnswer>& answers,
               const std::vector<Touch>& touches, Witness* witness) {
  const OutputInstead* o = nullptr;
  for (const OutputInstead& one : instead.outputs)
    if (one.output == TensorName::kO) o = &one;
  const Stage told = o == nullptr                       ? Stage::kUnknown
                     : is_at_odds_with_lse(instead, *o) ? Stage::kUnknown
                                                        : o->stage;
  if (witness == nullptr) return told;
  const Stage touched = stage_of_touches(touches, *witness);
  // If o holds the right numbers of other places, probes of a stage do not show
  // where these come from.
  const bool is_moved =
      o != nullptr && told == Stage::kUnknown &&
      std::all_of(answers.begin(), answers.end(), [](const WrongAnswer& one) {
        const WrongOutput* output = one.find(TensorName::kO);
        return output == nullptr || is_moved_around(*output);
      });
  const Stage probed =
      is_moved
          ? Stage::kUnknown
          : probed_stage(answers, *witness, o != nullptr && o->of_other_scores);
  Stage stage = Stage::kUnknown;
  for (const Stage one : {told, probed, touched}) {
    if (one == Stage::kUnknown || one == stage) continue;
    // Probes do not distinguish a product from the way it is stored.
    const bool is_refined = one == Stage::kValues && stage == Stage::kOutput;
    if (stage != Stage::kUnknown && !is_refined) return Stage::kUnknown;
    if (!is_refined) stage = one;
  }
  // An equal addition to all scores of a row leaves o unchanged.
  if (o == nullptr && stage != Stage::kLse)
    for (const OutputInstead& one : instead.outputs)
      if (one.output == TensorName::kLse && one.stage == Stage::kScores)
        return one.stage;
  return stage;
}

// Outputs of [B,H,Tq,...], and none of layers.
bool is_of_heads(TensorName output) {
  return output == TensorName::kO || output == TensorName::kLse ||
         output == TensorName::kDQ || output == TensorName::kDK ||
         output == TensorName::kDV;
}

// If a layer returns no stages, the description of y alone names the stage.
Stage told_of_layer(const Instead& instead) {
  return instead.stage == Stage::kUnknown && instead.outputs.size() == 1
             ? instead.outputs[0].stage
             : instead.stage;
}

// The outputs to describe. If in all answers only rows without a visible key
// are wrong, these rows are described; else answers with only such rows are
// dropped.
std::vector<WrongAnswer> of_one_kind(std::vector<WrongAnswer> answers,
                                     std::vector<OutputInstead>* outputs) {
  const bool of_empty_rows =
      std::all_of(answers.begin(), answers.end(),
                  [](const auto& one) { return one.outputs.empty(); });
  if (!of_empty_rows)
    std::erase_if(answers, [](const auto& one) { return one.outputs.empty(); });
  const auto add = [&](TensorName name) {
    OutputInstead out;
    out.output = name;
    out.of_empty_rows = of_empty_rows;
    const auto wrong =
        std::count_if(answers.begin(), answers.end(),
                      [&](const auto& one) { return out.in(one) != nullptr; });
    if (wrong >= kFewestCases) outputs->push_back(out);
    return wrong > 0;
  };
  const bool has_o = add(TensorName::kO);
  add(TensorName::kLse);
  // Wrong weights explain a wrong o, and are not reported next to one.
  if (!has_o) add(TensorName::kWeights);
  for (const TensorName name : kGradients) add(name);
  for (const TensorName name :
       {TensorName::kStageQ, TensorName::kStageK, TensorName::kStageV,
        TensorName::kAttended, TensorName::kY})
    add(name);
  return answers;
}

bool is_of_empty_rows_alone(const std::vector<WrongAnswer>& answers) {
  return !answers.empty() &&
         std::all_of(answers.begin(), answers.end(),
                     [](const auto& one) { return one.outputs.empty(); });
}

// A mask that hides whole rows does not show whether it is ignored elsewhere:
// runs the same cases with masks that hide a part of each row, on normal data.
// Returns their failing answers; none if rows without a visible key are a
// separate case.
std::vector<WrongAnswer> with_other_masks(
    const std::vector<WrongAnswer>& answers, Witness& witness) {
  constexpr int kMostOfMasks = 16;
  Collector collector(witness, kMostAnswers, kMostOfMasks);
  const Recipe normal = make_recipe(RecipeKind::kNormal);
  for (const WrongAnswer& answer : answers)
    for (const MaskKind kind : {MaskKind::kButN, MaskKind::kRandomN}) {
      Case value = answer.value();
      if (value.mask.kind == MaskKind::kNone || !value.has_options()) continue;
      value.mask.kind = kind;
      value.mask.parameter = kind == MaskKind::kButN ? 0 : 50;
      value.set.clear();
      value.q = value.k = value.v = normal;
      Shape& s = value.shape;
      if (value.kv_len.empty() && value.cu_k.empty() && value.paging.size == 0)
        s.Tk = std::max<int64_t>(s.Tk, 5);
      value = constrained(law_of_answers(value), std::move(value));
      if (invalid_reason(value).empty()) collector.ask(value);
    }
  std::vector<WrongAnswer> out = collector.take();
  std::erase_if(out, [](const auto& one) { return one.outputs.empty(); });
  return out;
}

// The description of one output may hold for another that has too few clearly
// wrong elements to be described by itself.
void describe_as_others(const std::vector<WrongAnswer>& answers,
                        Instead& instead) {
  for (OutputInstead& out : instead.outputs) {
    int telling = 0;
    for (const WrongAnswer& answer : answers)
      if (const WrongOutput* output = out.in(answer))
        telling += output->telling;
    if (!out.text.empty() || telling < kFewestTelling) continue;
    for (const OutputInstead& other : instead.outputs) {
      if (other.text.empty() || other.of_empty_rows != out.of_empty_rows ||
          other.is_about != nullptr ||
          !std::all_of(
              answers.begin(), answers.end(), [&](const WrongAnswer& answer) {
                const WrongOutput* output = out.in(answer);
                return output == nullptr || other.is_true_of(answer, *output);
              }))
        continue;
      out.say(other);
      break;
    }
  }
}

void say(const Claim& claim, const Wrongs& wrongs, OutputInstead& out) {
  out.say(claim);
  out.elements = out.cases = 0;
  for (const auto& [answer, output] : wrongs) {
    if (out.is_about != nullptr && !out.is_about(*answer)) continue;
    out.elements += static_cast<int>(output->wrong.size());
    ++out.cases;
  }
}

void describe(const std::vector<WrongAnswer>& answers, const EvidencePool& pool,
              Instead& instead) {
  bool has_ended = false;
  for (OutputInstead& out : instead.outputs) {
    if (!out.text.empty()) continue;
    OutputSearch search(pool);
    Wrongs wrongs;
    out.elements = 0;
    for (const WrongAnswer& answer : answers)
      if (const WrongOutput* output = out.in(answer)) {
        wrongs.push_back({&answer, output});
        out.elements += static_cast<int>(output->wrong.size());
      }
    out.cases = static_cast<int>(wrongs.size());
    const auto claim = out.of_empty_rows ? search.claim_of_empty_rows(wrongs)
                                         : search.claim(out.output, wrongs);
    has_ended |= search.has_ended() && !claim;
    if (claim) say(*claim, wrongs, out);
  }
  describe_as_others(answers, instead);
  if (has_ended && instead.left_out.empty())
    instead.left_out = "the cases take too long";
}

// Numbers without any description may be no function of the inputs, or be
// computed from other inputs, or from the right values alone. A constant may
// come from memory, as NaN does: then it is no description.
void describe_by_asking(const std::vector<WrongAnswer>& answers,
                        const EvidencePool& pool, Instead& instead) {
  for (OutputInstead& out : instead.outputs) {
    if ((!out.text.empty() && !out.of_one_number) || out.of_empty_rows)
      continue;
    Wrongs wrongs;
    for (const WrongAnswer& answer : answers)
      if (const WrongOutput* output = out.in(answer))
        wrongs.push_back({&answer, output});
    const auto of_memory = [&](const Wrongs& of) {
      return claim_of_memory(of, pool, &instead.calls);
    };
    const ClaimOfMemory memory = of_memory(wrongs);
    if (memory.is_of_any) out.say_nothing();
    if (!out.text.empty()) continue;
    const auto again = [&](const Wrongs& of) {
      return claim_of_asking_again(of, pool, &instead.calls);
    };
    auto claim = memory.claim;
    if (!claim) claim = again(wrongs);
    if (!claim)
      claim = OutputSearch::claim_where_finite(wrongs, [&](const Wrongs& of) {
        auto one = of_memory(of).claim;
        return one ? one : again(of);
      });
    if (!claim) claim = claim_of_sums(wrongs);
    if (!claim) claim = OutputSearch::claim_where_finite(wrongs, claim_of_sums);
    if (claim) say(*claim, wrongs, out);
  }
}

// Descriptions use the words of attention; these are the words of other
// subjects.
struct Word {
  Subject subject;
  std::string_view of_attention, own;
};
constexpr Word kWords[] = {
    {Subject::kCache, "the mask", "the window"},
    {Subject::kMerge, "number of keys", "number of states"},
    {Subject::kMerge, "the bias", "the lse of the states"}};

std::string in_words_of(Subject subject, std::string text) {
  for (const Word& word : kWords)
    if (const size_t at = text.find(word.of_attention);
        word.subject == subject && at != std::string::npos)
      text.replace(at, word.of_attention.size(), word.own);
  return text;
}

FactInstead said_of(const std::vector<Facts>& cases) {
  FactInstead fact;
  fact.cases = static_cast<int>(cases.size());
  if (fact.cases >= kFewestCases) fact.say(common_facts(cases));
  return fact;
}

// Drops what does not hold for the further cases; the rest is less specific.
void drop_untrue(const std::vector<Facts>& further, FactInstead& fact) {
  std::vector<Facts> all = further;
  all.insert(all.begin(), fact.common);
  fact.say(common_facts(all));
}

// Adds answers at one, two and three times the numbers in the description, the
// hints and the failing case.
void add_answers_at_tiles(const Failure& failure, const FailsWhere& where,
                          const KernelUnderTest& kernel, Witness& witness,
                          const Instead& instead,
                          std::vector<WrongAnswer>& answers) {
  constexpr size_t kMostAtTiles = 10;
  constexpr int kMostAskedAtTiles = 24;
  const Law& agreement = law_of_answers(failure.smallest);
  std::vector<int64_t> tiles = tiles_near(kernel.hints, failure.smallest);
  for (const OutputInstead& one : instead.outputs)
    for (const int64_t number : numbers_in(one.text))
      tiles.insert(tiles.begin(), number);
  Collector collector(witness, kMostAtTiles, kMostAskedAtTiles);
  const auto known = parse_case(where.nearest_failure);
  for (const Case& value :
       at_tiles(agreement, known.value.value_or(failure.smallest), tiles))
    if (!collector.is_full()) collector.ask(value);
  for (WrongAnswer& answer : collector.take())
    answers.push_back(std::move(answer));
}

// Drops descriptions that do not hold for further answers, and facts that no
// further answer confirms where this is required. Returns the answers that
// contradict a description.
std::vector<WrongAnswer> keep_the_true(const Failure& failure,
                                       const FailsWhere& where, uint64_t seed,
                                       const KernelUnderTest& kernel,
                                       Witness& witness, Instead& instead) {
  std::vector<WrongAnswer> against;
  const bool has_place =
      std::any_of(instead.outputs.begin(), instead.outputs.end(),
                  [](const OutputInstead& one) { return !one.place.empty(); });
  if (!instead.is_description() && instead.end.text.empty() && !has_place)
    return against;
  const bool is_cheap =
      std::any_of(instead.outputs.begin(), instead.outputs.end(),
                  [](const OutputInstead& one) { return one.is_cheap; });
  const int times = is_cheap ? kMoreOfCheap : 1;
  Collector collector(witness, kMostFurther * static_cast<size_t>(times),
                      kMostFurtherAsked * times);
  ask_fresh(failure, where, seed, kMostFurtherAsked * times, collector);
  instead.end.further += static_cast<int>(collector.ends().size());
  instead.stored.further += static_cast<int>(collector.stored().size());
  if (instead.end.further == 0 && instead.end.cases < kEnoughAlone)
    instead.end.say({});
  if (instead.stored.further < kFewestStoredFurther) instead.stored.say({});
  drop_untrue(collector.ends(), instead.end);
  drop_untrue(collector.stored(), instead.stored);
  std::vector<WrongAnswer> answers = collector.take();
  instead.end.count(collector.ends().size(), answers.size());
  add_answers_at_tiles(failure, where, kernel, witness, instead, answers);
  for (WrongAnswer& answer : answers) {
    bool is_against = false;
    for (OutputInstead& one : instead.outputs) {
      const WrongOutput* output = one.in(answer);
      if (output != nullptr && !is_at_place(one.place, *output))
        one.place.clear();
      if (!one.says_of(answer)) continue;
      ++one.held_against;
      if (one.is_true_of(answer, *one.in(answer))) continue;
      one.say_nothing();
      is_against = true;
    }
    if (is_against) against.push_back(std::move(answer));
  }
  return against;
}

// Describes the answers again, together with those that contradicted the first
// description.
void describe_again(const Failure& failure, const FailsWhere& where,
                    const EvidencePool& pool, Witness& witness,
                    std::vector<WrongAnswer>& answers,
                    std::vector<WrongAnswer> against, Instead& instead) {
  if (against.empty()) return;
  // They come first because most other descriptions fail on them.
  answers.insert(answers.begin(), std::make_move_iterator(against.begin()),
                 std::make_move_iterator(against.end()));
  for (OutputInstead& one : instead.outputs) one.held_against = 0;
  describe(answers, pool, instead);
  describe_by_asking(answers, pool, instead);
  keep_the_true(failure, where, kThirdSeed, pool.kernel, witness, instead);
  for (OutputInstead& one : instead.outputs)
    if (one.held_against < kFewestCases) one.say_nothing();
}

}  // namespace

Instead look_what_it_is_instead(const Failure& failure, const FailsWhere& where,
                                const EvidencePool& pool) {
  const Answered* const answered = pool.answered;
  Instead instead;
  const Subject subject = failure.law->domain.subject;
  Witness witness(pool,
                  (kMostInsteadCalls - kMostCallsAgain) * calls_of(subject));
  const bool is_row = subject == Subject::kAttention;
  if (!is_row && subject != Subject::kBackward && answered == nullptr)
    instead.stage = stage_of_other_subject(failure, where, witness);
  Collector collector(witness);
  ask_for_failing_answers(failure, where, answered, witness, collector);
  std::vector<WrongAnswer> answers = collector.take();
  if (is_row && answered == nullptr && is_of_empty_rows_alone(answers)) {
    auto others = with_other_masks(answers, witness);
    if (std::ssize(others) >= kFewestCases) answers = std::move(others);
  }
  answers = of_one_kind(std::move(answers), &instead.outputs);
  instead.cases = static_cast<int>(answers.size());
  // If other stories often give wrong numbers, memory decides whether and how a
  // story ends.
  instead.end = said_of(collector.ends());
  instead.end.of = instead.end.cases + instead.cases;
  if (subject == Subject::kCache && !instead.end.is_of_most())
    instead.end.say({});
  instead.stored = said_of(collector.stored());
  if (witness.is_too_slow()) instead.left_out = "calls take too long";
  if (instead.cases < kFewestCases) {
    instead.outputs.clear();
    if (answered == nullptr)
      keep_the_true(failure, where, kSecondSeed, pool.kernel, witness, instead);
    if (is_row && answered == nullptr)
      instead.stage = collector.touches().empty()
                          ? stage_of_dropout(failure, witness)
                          : stage_of_touches(collector.touches(), witness);
    instead.calls += witness.calls_made();
    return instead;
  }
  describe(answers, pool, instead);
  for (OutputInstead& one : instead.outputs)
    if (answered == nullptr && is_of_heads(one.output))
      one.place = place_of(answers, one);
  if (answered == nullptr) {
    describe_by_asking(answers, pool, instead);
    describe_again(failure, where, pool, witness, answers,
                   keep_the_true(failure, where, kSecondSeed, pool.kernel,
                                 witness, instead),
                   instead);
  }
  for (OutputInstead& one : instead.outputs)
    one.text = in_words_of(subject, std::move(one.text));
  const bool is_of_empty_rows =
      std::any_of(instead.outputs.begin(), instead.outputs.end(),
                  [](const OutputInstead& one) { return one.of_empty_rows; });
  if (subject == Subject::kBackward)
    instead.gradients = gradients_text(answers);
  else if (subject == Subject::kLayer)
    instead.stage = told_of_layer(instead);
  else if (is_row && is_of_empty_rows)
    instead.stage = Stage::kEmptyRows;
  else if (is_row && !answers[0].kept.empty())
    instead.stage = stage_of_dropout(failure, witness);
  else if (is_row && answered == nullptr && depend_on_calls(answers, witness))
    instead.depends_on_calls = true;
  else if (is_row)
    instead.stage =
        answered == nullptr
            ? stage_of(instead, with_finite_memory(std::move(answers), witness),
                       collector.touches(), &witness)
            : stage_of(instead, answers, collector.touches(), nullptr);
  // For large scores, only the exponentials give NaN or infinities.
  if (is_row && instead.stage == Stage::kUnknown && where.is_of_scores())
    instead.stage = Stage::kSoftmax;
  instead.calls += witness.calls_made();
  return instead;
}

InsteadScore score_instead(const Instead& instead, const Failure& failure,
                           const FailsWhere& where, const EvidencePool& pool,
                           uint64_t seed, int count, int answers) {
  Witness witness(pool, count * calls_of(failure.law->domain.subject));
  Collector collector(witness, static_cast<size_t>(answers),
                      std::max(count, kMostAsked));
  ask_fresh(failure, where, seed, count, collector);
  InsteadScore score;
  const auto count_facts = [&](const std::vector<Facts>& cases,
                               const FactInstead& fact) {
    if (fact.text.empty()) return;
    score.all += static_cast<int>(cases.size());
    for (const Facts& facts : cases) score.right += shows(facts, fact.text);
  };
  count_facts(collector.ends(), instead.end);
  count_facts(collector.stored(), instead.stored);
  const std::vector<WrongAnswer> numbers = collector.take();
  // Answers with numbers contradict a claim that all calls end. They contradict
  // a claim that most end only if most do not.
  if (!instead.end.text.empty() && instead.end.is_of_most()) {
    constexpr size_t kMost = 3;  // to one
    const bool is_so = !instead.end.is_of_all() &&
                       collector.ends().size() >= kMost * numbers.size();
    score.all += static_cast<int>(numbers.size());
    score.right += is_so ? static_cast<int>(numbers.size()) : 0;
  }
  for (const WrongAnswer& answer : numbers)
    for (const OutputInstead& one : instead.outputs) {
      if (!one.says_of(answer)) continue;
      ++score.all;
      score.right += one.is_true_of(answer, *one.in(answer));
    }
  return score;
}

const WrongOutput* OutputInstead::in(const WrongAnswer& answer) const {
  return find_in(of_empty_rows ? answer.empty_rows : answer.outputs, output);
}

std::string Instead::text() const {
  struct Said {
    std::vector<std::string> names;
    int elements = 0, most_cases = 0;
    bool of_most = false;
    std::string place;
  };
  std::vector<std::string> texts;  // in their order
  const auto is_elsewhere = [](const Said& of, const OutputInstead& one) {
    return !of.names.empty() && of.place != one.place;
  };
  std::map<std::string, Said> said;
  for (const OutputInstead& one : outputs) {
    if (said.count(one.text) == 0) texts.push_back(one.text);
    Said& of = said[one.text];
    of.place = is_elsewhere(of, one) ? "" : one.place;
    of.names.push_back(std::string(tensor_name(one.output)) +
                       (one.of_empty_rows ? " of rows that see no key" : ""));
    of.elements += one.elements;
    of.most_cases = std::max(of.most_cases, one.cases);
    of.of_most |= one.of_most;
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
               : fmt::format("{}{} {} {}: {} of {}", out.empty() ? "" : " ",
                             which, of.names.size() > 1 ? "are" : "is", text,
                             of.of_most ? "most" : "all", counts);
    if (!of.place.empty())
      out += fmt::format(" {} in {} alone.",
                         of.elements == 1 ? "It lies" : "They lie", of.place);
  }
  const auto add = [&](const FactInstead& fact) {
    if (fact.text.empty()) return;
    out +=
        fmt::format("{}In {} of {} failing cases {}.", out.empty() ? "" : " ",
                    fact.is_of_all() ? "all" : std::to_string(fact.cases),
                    std::max(fact.cases, fact.of), fact.text);
  };
  add(stored);
  add(end);
  if (!out.empty() && !left_out.empty())
    out += " The search ended early: " + left_out + ".";
  return out;
}

bool Instead::is_description() const {
  return (!end.text.empty() && end.is_of_most()) || !stored.text.empty() ||
         std::any_of(
             outputs.begin(), outputs.end(),
             [](const OutputInstead& one) { return !one.text.empty(); });
}

std::string Instead::stage_sentence() const {
  if (gradients.empty()) return stage_text(stage);
  return fmt::format("{}, in {} failing cases{}{}", gradients, cases,
                     stage == Stage::kUnknown ? "" : ": ", stage_text(stage));
}

}  // namespace qkvet::diagnosis
