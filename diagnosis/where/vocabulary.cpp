// SPDX-License-Identifier: Apache-2.0
#include "diagnosis/where/vocabulary.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>

#include "core/case/option_fields.h"
#include "diagnosis/where/phrases.h"
#include "properties/conditions/condition.h"

namespace qkvet::diagnosis {
namespace {

using Kind = Term::Kind;

// Names that are numbers, the most common first; numbers of option fields
// follow. A name that is no number and has no choices is a flag.
constexpr std::string_view kNumbers[] = {"Tk",
                                         "Tq",
                                         "d",
                                         "H",
                                         "B",
                                         "Hkv",
                                         "dv",
                                         "D",
                                         "page_size",
                                         "window.left",
                                         "window.right",
                                         "new_tokens",
                                         "lists.entries",
                                         "lists.block",
                                         "capacity",
                                         "cache.window",
                                         "cache.first_tokens",
                                         "cache.rollback",
                                         "rope.first",
                                         "context",
                                         "ranges",
                                         "chunk"};
// Terms that are left out: they are about a call and not a case, a number that
// every case has by chance, the way a mask was drawn and not its contents, or
// part of a made phrase.
constexpr std::array<std::string_view, 5> kLeftOut = {
    "mistake", "scale.bits", "channel_group", "segments.tokens",
    "tree.children"};

// Larger than every extent.
constexpr int64_t kNoRow = int64_t{1} << 30;

template <class Better>
int64_t seen_by_rows(const Situation& situation, int64_t best, Better better) {
  const Case& value = situation.value();
  if (!value.has_options()) return best;
  const Visibility& visibility = situation.visibility();
  for (int64_t b = 0; b < value.shape.B; ++b)
    for (int64_t i = 0; i < value.shape.Tq; ++i)
      for (int64_t h = 0; visibility.counted(b, i) && h < value.shape.H; ++h)
        best = better(best, visibility.keys(b, h, i));
  return best;
}
int64_t most_seen(const Situation& situation) {
  return seen_by_rows(situation, 0,
                      [](int64_t a, int64_t b) { return std::max(a, b); });
}
int64_t least_seen(const Situation& situation) {
  return seen_by_rows(situation, kNoRow,
                      [](int64_t a, int64_t b) { return std::min(a, b); });
}
template <class Better>
int64_t score_by_rows(const Situation& situation, int64_t best, Better better) {
  const Case& value = situation.value();
  if (!value.has_options()) return best;
  static const ConditionName& score =
      *find_condition_name("score", ConditionScope::kRow);
  ConditionPlace place;
  place.situation = &situation;
  for (place.b = 0; place.b < value.shape.B; ++place.b)
    for (place.row = 0; place.row < value.shape.Tq; ++place.row)
      for (place.h = 0; place.h < value.shape.H; ++place.h)
        if (situation.visibility().counted(place.b, place.row))
          best = better(best, score.value(place));
  return best;
}
int64_t most_score(const Situation& situation) {
  return score_by_rows(situation, -kNoRow,
                       [](int64_t a, int64_t b) { return std::max(a, b); });
}
int64_t least_score(const Situation& situation) {
  return score_by_rows(situation, kNoRow,
                       [](int64_t a, int64_t b) { return std::min(a, b); });
}
template <class Count>
int64_t most_of_commands(const Situation& situation, Count count) {
  int64_t most = 0;
  for (const CommandAt& command : situation.commands())
    most = std::max<int64_t>(most, count(command));
  return most;
}
int64_t most_held(const Situation& situation) {
  return most_of_commands(situation,
                          [](const CommandAt& at) { return at.held; });
}
int64_t most_asked(const Situation& situation) {
  return most_of_commands(situation, [](const CommandAt& at) {
    return at.snapshot.queries > 0 ? at.held : 0;
  });
}
int64_t most_new(const Situation& situation) {
  return most_of_commands(
      situation, [](const CommandAt& at) { return at.snapshot.new_tokens; });
}
int64_t most_before_new(const Situation& situation) {
  return most_of_commands(situation, [](const CommandAt& at) {
    return at.snapshot.new_tokens > 0 ? at.before : 0;
  });
}

struct Counted {
  const char* name;
  int64_t (*value)(const Situation&);
  Phrase at_least, at_most;  // formula and words
};
// The most rows of a member that use the same keys and values.
int64_t most_rows(const Situation& situation) {
  const Case& value = situation.value();
  const Shape& s = value.shape;
  if (!value.has_options() || s.Hkv == 0) return 0;
  int64_t most = 0;
  for (int64_t b = 0; value.cu_q.empty() && b < s.B; ++b)
    most = std::max(most, counted_queries(value, b));
  for (size_t n = 1; n < value.cu_q.size(); ++n)
    most = std::max(most, value.cu_q[n] - value.cu_q[n - 1]);
  return s.H / s.Hkv * most;
}
constexpr Counted kCounted[] = {
    {"most rows",
     most_rows,
     {"members(H / Hkv * queries >= #)",
      "# rows or more of a member meet the same keys"},
     {"!members(H / Hkv * queries >= #)",
      "fewer than # rows of a member meet the same keys"}},
    {"most seen",
     most_seen,
     {"rows(seen >= #)", "a row sees # keys or more"},
     {"!rows(seen >= #)", "no row sees # keys or more"}},
    {"least seen",
     least_seen,
     {"!rows(seen < #)", "every row sees # keys or more"},
     {"rows(seen < #)", "a row sees fewer than # keys"}},
    {"most score",
     most_score,
     {"rows(score >= #)", "a score is # or more"},
     {"!rows(score >= #)", "no score is # or more"}},
    {"least score",
     least_score,
     {"!rows(score < #)", "each row has a score of # or more"},
     {"rows(score < #)", "all scores of a row are below #"}},
    {"most held",
     most_held,
     {"commands(held >= #)", "a sequence has # tokens or more"},
     {"!commands(held >= #)", "no sequence has # tokens or more"}},
    {"most asked",
     most_asked,
     {"commands(queries > 0 && held >= #)",
      "a query comes to # tokens or more"},
     {"!commands(queries > 0 && held >= #)",
      "no query comes to # tokens or more"}},
    {"most new",
     most_new,
     {"commands(new >= #)", "# tokens or more come at once"},
     {"!commands(new >= #)", "fewer than # tokens come at once"}},
    {"most before",
     most_before_new,
     {"commands(new > 0 && before >= #)", "tokens come after # others or more"},
     {"!commands(new > 0 && before >= #)",
      "no tokens come after # others or more"}}};
int64_t rows_of_group(const Shape& s) {
  return s.Hkv == 0 ? 0 : s.H / s.Hkv * s.Tq;
}
struct Product {
  std::string_view name;
  int64_t (*of)(const Shape& s);
};
constexpr Product kProducts[] = {
    {"B * H", [](const Shape& s) { return s.B * s.H; }},
    {"B * Hkv", [](const Shape& s) { return s.B * s.Hkv; }},
    {"B * H * Tq", [](const Shape& s) { return s.B * s.H * s.Tq; }},
    {"H * Tq", [](const Shape& s) { return s.H * s.Tq; }},
    // Rows that share keys and values.
    {"H / Hkv * Tq", [](const Shape& s) { return rows_of_group(s); }},
    {"B * H * Tq * Tk",
     [](const Shape& s) { return s.B * s.H * s.Tq * s.Tk; }}};

struct Between {
  const char *left, *right;
  char sign;  // - or /
};
constexpr Between kBetween[] = {{"Tk", "Tq", '-'},
                                {"H", "Hkv", '/'},
                                {"d", "dv", '-'},
                                {"context", "Tq", '-'}};

std::function<int64_t(const Situation&)> value_of(const ConditionName& name) {
  return [&name](const Situation& situation) {
    ConditionPlace place;
    place.situation = &situation;
    return name.value(place);
  };
}

Term named_term(const ConditionName& name) {
  Term term;
  term.name = name.name;
  term.value = value_of(name);
  term.words = name.words;
  const auto number =
      std::find(std::begin(kNumbers), std::end(kNumbers), name.name);
  const OptionField* const field = find_option_field(name.name);
  const bool counts =
      number != std::end(kNumbers) || (field != nullptr && field->counts);
  term.kind = !name.words.empty() ? Kind::kWord
              : counts            ? Kind::kNumber
                                  : Kind::kFlag;
  term.cost = 0.01 * static_cast<double>(number - std::begin(kNumbers));
  if (term.kind == Kind::kFlag)
    term.cost = name.name.find('.') == std::string_view::npos ? 0 : 0.3;
  term.yes = std::string(name.name) + " is given";
  term.no = "no " + std::string(name.name) + " is given";
  for (const Phrase& phrase : phrases_of_names())
    if (phrase.name == name.name)
      term.yes = phrase.yes, term.no = negated(phrase);
  return term;
}

Term made_term(const Phrase& phrase) {
  Term term;
  term.name = phrase.name;
  term.yes = phrase.yes;
  term.no = negated(phrase);
  term.cost = 0.2;
  const Condition condition = *parse_condition(phrase.name).value;
  term.value = [condition](const Situation& situation) {
    return int64_t{condition.holds(situation)};
  };
  return term;
}

Term term_between(const Between& pair) {
  Term term;
  term.name = std::string(pair.left) + " " + pair.sign + " " + pair.right;
  if (pair.sign == '-') term.left = pair.left, term.right = pair.right;
  term.kind = Kind::kNumber;
  term.cost = 0.3;
  const auto left =
      value_of(*find_condition_name(pair.left, ConditionScope::kCase));
  const auto right =
      value_of(*find_condition_name(pair.right, ConditionScope::kCase));
  term.value = [left, right, sign = pair.sign](const Situation& situation) {
    const int64_t a = left(situation), b = right(situation);
    return sign == '-' ? a - b : b == 0 ? 0 : a / b;
  };
  return term;
}

// If a kernel exchanges two extents, cases in which they are equal show it.
constexpr const char* kExtents[] = {"B", "H", "Hkv", "Tq", "Tk", "d", "dv"};

Term comparison(const std::string& left, bool is_equal,
                const std::string& right) {
  Term term;
  term.yes = left + (is_equal ? " = " : " < ") + right;
  term.no = left + (is_equal ? " != " : " >= ") + right;
  term.name = "(" + left + (is_equal ? " == " : " < ") + right + ")";
  term.cost = 0.9;
  const auto a = value_of(*find_condition_name(left, ConditionScope::kCase));
  const auto b = value_of(*find_condition_name(right, ConditionScope::kCase));
  term.value = [a, b, is_equal](const Situation& situation) {
    return int64_t{is_equal ? a(situation) == b(situation)
                            : a(situation) < b(situation)};
  };
  return term;
}

void add_comparisons(std::vector<Term>& terms) {
  for (size_t a = 0; a < std::size(kExtents); ++a)
    for (size_t b = a + 1; b < std::size(kExtents); ++b) {
      const std::string left = kExtents[a], right = kExtents[b];
      // For these pairs the difference or quotient is a term already.
      const bool is_known = std::any_of(
          std::begin(kBetween), std::end(kBetween), [&](const Between& one) {
            return (one.left == left && one.right == right) ||
                   (one.left == right && one.right == left);
          });
      if (is_known) continue;
      for (const bool is_equal : {true, false})
        terms.push_back(comparison(left, is_equal, right));
    }
}

Term counted_term(const Counted& row) {
  Term term;
  term.name = row.name;
  term.kind = Kind::kNumber;
  term.cost = 0.35;
  term.value = row.value;
  term.at_least = {std::string(row.at_least.name),
                   std::string(row.at_least.yes)};
  term.at_most = {std::string(row.at_most.name), std::string(row.at_most.yes)};
  return term;
}

Term product_term(const Product& product) {
  Term term;
  term.name = product.name;
  term.kind = Kind::kNumber;
  term.cost = 0.4;
  term.value = [of = product.of](const Situation& situation) {
    return of(situation.value().shape);
  };
  return term;
}

std::vector<Term> all_terms() {
  std::vector<Term> terms;
  std::string text = condition_names(ConditionScope::kCase) + ", ";
  for (size_t end; (end = text.find(", ")) != std::string::npos;
       text.erase(0, end + 2)) {
    const std::string name = text.substr(0, end);
    if (std::find(kLeftOut.begin(), kLeftOut.end(), name) == kLeftOut.end())
      terms.push_back(
          named_term(*find_condition_name(name, ConditionScope::kCase)));
  }
  for (const Phrase& phrase : made_phrases())
    terms.push_back(made_term(phrase));
  for (const Between& pair : kBetween) terms.push_back(term_between(pair));
  add_comparisons(terms);
  for (const Counted& row : kCounted) terms.push_back(counted_term(row));
  for (const Product& product : kProducts)
    terms.push_back(product_term(product));
  return terms;
}

// Another scale gives a score the wanted value, apart from bias and cap.
std::optional<float> scale_for(const Case& value, const Term& term,
                               int64_t to) {
  if (!is_of_scores(term)) return std::nullopt;
  const int64_t now = term.value(Situation(value));
  if (now == 0 || to == 0 || (now < 0) != (to < 0)) return std::nullopt;
  return static_cast<float>(scale_of(value) * (static_cast<double>(to) + 0.5) /
                            (static_cast<double>(now) + 0.5));
}

void set_heads(Shape& s, int64_t heads) {
  s.Hkv = s.H == s.Hkv ? heads : std::gcd(heads, s.Hkv);
  s.H = heads;
}

void set_length(Shape& s, int64_t Shape::*extent, int64_t to) {
  s.*extent = to;
  if (s.D > 0) s.Tq = s.Tk = to;
}

void set_width(Shape& s, int64_t to) {
  if (s.d == s.dv) s.dv = to;
  s.d = to;
}

// The excess of keys over queries.
void set_surplus(Shape& s, int64_t surplus) {
  s.Tk = s.Tq + surplus;
  if (s.Tk >= 1) return;
  s.Tk = 1;
  s.Tq = 1 - surplus;
}

}  // namespace

const std::vector<Term>& vocabulary() {
  static const std::vector<Term> terms = all_terms();
  return terms;
}

bool is_of_scores(const Term& term) {
  return term.name == "most score" || term.name == "least score";
}

TermValues term_values_of(const std::vector<size_t>& wanted, const Case& value,
                          const Law* law, const KernelInfo* kernel) {
  // The calls of a law are mostly similar.
  constexpr size_t kMostSituations = 12;
  const std::vector<Term>& terms = vocabulary();
  TermValues values(terms.size());
  const Situation own(value);
  for (const size_t i : wanted) values[i] = terms[i].value(own);
  if (law == nullptr) return values;
  const Plan plan = law->plan(value, *kernel);
  const std::vector<Situation> all = situations_of(value, plan);
  for (size_t n = 0; n < std::min(all.size(), kMostSituations); ++n)
    for (const size_t i : wanted)
      if (terms[i].kind == Kind::kFlag && values[i] == 0)
        values[i] = terms[i].value(all[n]);
  return values;
}

TermValues term_values(const Case& value, const Law* law,
                       const KernelInfo* kernel) {
  std::vector<size_t> all(vocabulary().size());
  std::iota(all.begin(), all.end(), size_t{0});
  return term_values_of(all, value, law, kernel);
}

std::optional<Case> with_term(const Case& value, const Term& term, int64_t to) {
  Case out = value;
  Shape& s = out.shape;
  const bool is_story = value.subject() == Subject::kCache;
  const std::string& name = term.name;
  const OptionField* const field = find_option_field(name);
  if (name == "H")
    set_heads(s, to);
  else if (name == "Hkv")
    s.H = s.group() * to, s.Hkv = to;
  else if (name == "H / Hkv")
    s.H = s.Hkv * to;
  else if (name == "d")
    set_width(s, to);
  else if (name == "dv" && s.D == 0)
    s.dv = to;
  else if (name == "d - dv" && s.D == 0)
    s.d = s.dv + to;
  else if (is_story)
    return std::nullopt;
  else if (name == "B")
    s.B = to;
  else if (name == "Tk" || name == "most seen" || name == "least seen")
    set_length(s, &Shape::Tk, to);
  else if (name == "Tq")
    set_length(s, &Shape::Tq, to);
  else if (name == "Tk - Tq" && s.D == 0)
    set_surplus(s, to);
  else if (name == "H / Hkv * Tq" && s.Hkv > 0 && to % s.group() == 0)
    set_length(s, &Shape::Tq, to / s.group());
  else if (name == "context - Tq" && out.context > 0 && s.Tq + to > 0)
    out.context = s.Tq + to;
  else if (field != nullptr && field->counts && field->given(out) &&
           to >= field->least)
    field->set(out, to);
  else if (const auto scale = scale_for(value, term, to))
    out.scale = scale;
  else
    return std::nullopt;
  if (s.D > 0) s.D = s.H * s.d;
  return out;
}

std::optional<Case> with_term_or_product(const Case& value, const Term& term,
                                         int64_t to) {
  const bool is_of_heads = term.name == "B * H";
  if (!is_of_heads && term.name != "B * Hkv") return with_term(value, term, to);
  if (value.subject() == Subject::kCache || to < 1) return std::nullopt;
  Case out = value;
  Shape& s = out.shape;
  const int64_t heads = is_of_heads ? s.H : s.Hkv;
  if (heads > 0 && to % heads == 0) {
    s.B = to / heads;
  } else {
    set_heads(s, 1);
    s.B = to;
  }
  if (s.D > 0) s.D = s.H * s.d;
  return out;
}

}  // namespace qkvet::diagnosis
