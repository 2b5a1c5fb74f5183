// SPDX-License-Identifier: Apache-2.0
#include "diagnosis/where/setting.h"

#include <algorithm>
#include <set>

#include "diagnosis/evidence/evidence.h"
#include "properties/cases/generate.h"
#include "properties/conventions/domain.h"
#include "properties/judging/subject.h"

namespace qkvet::diagnosis {
namespace {

// The work of one case: a millisecond or two.
constexpr int64_t kMostWork = 300'000;

constexpr int64_t kLadder[] = {
    0,   1,   2,   3,   4,   5,   6,   7,   8,   9,   11,   12,   13,  15, 16,
    17,  19,  23,  24,  25,  31,  32,  33,  40,  48,  63,   64,   65,  80, 96,
    127, 128, 129, 192, 255, 256, 257, 511, 512, 513, 1023, 1024, 1025};
// Heads and members differ only in their number.
constexpr int64_t kMostOfMany = 17;

void make_normal(Case& value) {
  const Recipe normal = make_recipe(RecipeKind::kNormal);
  value.q = value.k = value.v = normal;
  if (value.shape.D > 0) value.x = value.w = value.bias = normal;
  if (value.backward) value.d_o = normal;
  if (value.score_bias) value.score_bias = normal;
}

void take_recipes(const Case& like, Case& value) {
  value.q = like.q;
  value.k = like.k;
  value.v = like.v;
  value.x = like.x;
  value.w = like.w;
  value.bias = like.bias;
  value.d_o = like.d_o;
  if (value.score_bias && like.score_bias) value.score_bias = like.score_bias;
}

// Calls of a law that are tried as cases of their own.
constexpr size_t kMostCallsOfLaw = 8;

std::vector<Case> calls_of_law(const Failure& failure,
                               const KernelUnderTest& kernel) {
  std::vector<Case> out;
  std::set<std::string> known = {to_string(failure.smallest),
                                 to_string(failure.found)};
  for (const Case* of : {&failure.smallest, &failure.found}) {
    const Plan plan = failure.law->plan(*of, kernel.judged.info);
    for (const Situation& one : situations_of(*of, plan))
      if (out.size() < kMostCallsOfLaw &&
          one.value().subject() == failure.law->domain.subject &&
          known.insert(to_string(one.value())).second)
        out.push_back(one.value());
  }
  return out;
}

}  // namespace

std::vector<FailingSetting> settings_of(const Failure& failure,
                                        const KernelUnderTest& kernel) {
  using Data = Setting::Data;
  const Law& agreement = agreement_about(failure.law->domain.subject);
  const std::vector<Case> own = {failure.smallest, failure.found};
  std::vector<std::pair<const Law*, std::vector<Case>>> from = {
      {&agreement, own}};
  if (failure.law != &agreement) {
    from.push_back({&agreement, calls_of_law(failure, kernel)});
    // Other laws make dozens of calls per case for dropout.
    if (const Law& of_answers = law_of_answers(failure.smallest);
        &of_answers != &agreement && &of_answers != failure.law)
      from.push_back({&of_answers, own});
    from.push_back({failure.law, own});
  }
  std::vector<FailingSetting> out;
  for (const Data data : {Data::kNormal, Data::kOfCase})
    for (const auto& [law, cases] : from)
      for (const Case& like : cases)
        out.push_back({Setting(*law, data, like, kernel), like});
  out.push_back({Setting(*failure.law, Data::kOfPlan, failure.found, kernel),
                 failure.found});
  return out;
}

std::vector<FailingSetting> settings_of_scores(const Failure& failure,
                                               const KernelUnderTest& kernel) {
  const Subject subject = failure.law->domain.subject;
  if (subject != Subject::kAttention) return {};
  constexpr int kFar = 5;  // scores of about 2^10
  std::vector<FailingSetting> out;
  for (Case like : {failure.found, failure.smallest}) {
    like.q = like.k = {RecipeKind::kLargeN, kFar};
    out.push_back({Setting(agreement_about(subject), Setting::Data::kOfPlan,
                           like, kernel),
                   like});
  }
  return out;
}

int64_t work_of(const Case& value) {
  const Shape& s = value.shape;
  const int64_t of_layer = s.D > 0 ? s.B * s.Tk * s.D * (4 * s.D) : 0;
  const int64_t calls =
      std::max<int64_t>(1, static_cast<int64_t>(value.story.size()));
  return calls * (s.B * s.H * (s.Tq * s.Tk + s.Tq + s.Tk) * (s.d + s.dv)) +
         of_layer;
}

Setting::Setting(const Law& law, Data data, Case like,
                 const KernelUnderTest& kernel)
    : law_(&law),
      data_(data),
      like_(std::move(like)),
      kernel_(kernel.judged.info) {
  keep_scope_to({kernel}, scope_);
  scope_.largest = SizeClass::kSmall;
  scope_.dtypes = {storage_of(like_)};
  for (const StorageTypes& types : declared_dtypes({kernel}))
    if (!(types == scope_.dtypes[0])) scope_.dtypes.push_back(types);
  const Shape& s = like_.shape;
  make_room_for(std::max({s.Tq, s.Tk, s.d, s.dv}));
}

void Setting::make_room_for(int64_t extent) {
  const SizeClass size = extent <= 24   ? SizeClass::kSmall
                         : extent <= 80 ? SizeClass::kMedium
                                        : SizeClass::kLarge;
  scope_.largest = std::max(scope_.largest, size);
}

Case Setting::dressed(Case value) const {
  value.set.clear();
  if (data_ == Data::kNormal) make_normal(value);
  if (data_ == Data::kOfCase) take_recipes(like_, value);
  value.file = 0;
  return constrained(*law_, std::move(value));
}

bool Setting::allows(const Case& value) const {
  const Shape& s = value.shape;
  const bool is_empty = std::min({s.B, s.Tq, s.Tk}) < 1;
  if (is_empty && (scope_.options & QKVET_OPTION_EMPTY_EXTENTS) == 0)
    return false;
  return work_of(value) <= kMostWork && value.file == 0 &&
         invalid_reason(value).empty() && is_declared(scope_, value);
}

Case Setting::planned(uint64_t seed, int64_t number) const {
  return dressed(planned_case(*law_, seed, number, scope_));
}

TermValues Setting::values(const Case& value) const {
  const bool as_it_stands = law_ == &agreement_about(law_->domain.subject);
  return as_it_stands ? term_values(value) : term_values(value, law_, &kernel_);
}

TermValues Setting::values_of(const std::vector<size_t>& terms,
                              const Case& value) const {
  const bool as_it_stands = law_ == &agreement_about(law_->domain.subject);
  return term_values_of(terms, value, as_it_stands ? nullptr : law_, &kernel_);
}

// "a sink" of "a sink is given": the options that every case of the law has.
std::string Setting::set_by_law() const {
  const std::string_view given = " is given";
  const TermValues values = term_values(dressed(keep_allowed(like_, 0)));
  std::string out;
  for (size_t n = 0; n < vocabulary().size(); ++n) {
    const Term& term = vocabulary()[n];
    if (term.kind != Term::Kind::kFlag || term.cost > 0 || values[n] == 0 ||
        !term.yes.ends_with(given))
      continue;
    out += (out.empty() ? "" : " and ") +
           term.yes.substr(0, term.yes.size() - given.size());
  }
  return out;
}

std::string Setting::data_text() const {
  const std::string text = text_of_data(), set = set_by_law();
  if (set.empty()) return text;
  return (text.empty() ? "cases" : text) + " with " + set +
         ", which the law sets";
}

std::string Setting::text_of_data() const {
  if (data_ == Data::kOfPlan) return "";
  if (data_ == Data::kNormal) return "normal data";
  std::string out;
  const auto add = [&out](const char* name, const Recipe& recipe) {
    if (recipe == Recipe{}) return;
    out += (out.empty() ? "" : ", ") + std::string(name) + "=" +
           recipe_text(recipe);
  };
  if (like_.shape.D == 0) {
    add("q", like_.q);
    add("k", like_.k);
    add("v", like_.v);
  } else {
    add("x", like_.x);
    add("w", like_.w);
  }
  if (like_.backward) add("do", like_.d_o);
  return out.empty() ? "normal data" : out;
}

std::vector<Case> variations(const Case& value, const Setting& setting) {
  std::vector<Case> out;
  const TermValues values = term_values(value);
  for (size_t n = 0; n < vocabulary().size(); ++n) {
    const Term& term = vocabulary()[n];
    if (term.kind != Term::Kind::kNumber) continue;
    for (const int64_t to : kLadder) {
      const bool counts = term.name == "B" || term.name[0] == 'H';
      if (counts && to > kMostOfMany) break;
      if (to == values[n]) continue;
      if (auto other = with_term(value, term, to)) out.push_back(*other);
      if (!term.left.empty() && to > 0)
        if (auto other = with_term(value, term, -to)) out.push_back(*other);
    }
  }
  // The same number of members times heads, arranged differently.
  const Shape& s = value.shape;
  if (value.story.empty() && s.D == 0 && s.B * s.H > kMostOfMany)
    for (const int64_t times : {2, 4}) {
      out.push_back(value);
      Shape& other = out.back().shape;
      other.B = (s.B + times - 1) / times;
      other.H *= times;
      other.Hkv *= times;
    }
  for (size_t n = 0; n < value.story.size(); ++n) {
    out.push_back(value);
    Story& story = out.back().story;
    story.erase(story.begin() + static_cast<ptrdiff_t>(n));
  }
  if (!value.story.empty()) out.push_back(value), out.back().cache = {};
  for (const Case& other : variations_of_options(value, setting))
    out.push_back(other);
  return out;
}

std::vector<Case> variations_of_options(const Case& value,
                                        const Setting& setting) {
  std::vector<Case> out;
  const uint64_t has = options_of(value);
  for (const uint64_t option : single_options(has))
    out.push_back(keep_allowed(value, has & ~option));
  Case other = value;
  if (other.scale) out.push_back(other), out.back().scale.reset();
  const std::pair<Causal, uint64_t> rules[] = {
      {Causal::kNone, ~uint64_t{0}},
      {Causal::kTopLeft, QKVET_OPTION_CAUSAL_TOP_LEFT},
      {Causal::kBottomRight, QKVET_OPTION_CAUSAL_BOTTOM_RIGHT}};
  for (const auto& [rule, option] : rules) {
    other.causal = rule;
    if (rule != value.causal && (setting.options() & option) != 0)
      out.push_back(other);
  }
  return out;
}

Case with_extents_of(Case value, const Case& other) {
  const Shape& from = other.shape;
  if ((from.D > 0) != (value.shape.D > 0)) return value;
  if (value.subject() != Subject::kCache) {
    value.shape = from;
    return value;
  }
  value.shape.H = from.H;
  value.shape.Hkv = from.Hkv;
  value.shape.d = from.d;
  value.shape.dv = from.dv;
  return value;
}

}  // namespace qkvet::diagnosis
