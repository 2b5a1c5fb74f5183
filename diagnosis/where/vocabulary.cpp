// SPDX-License-Identifier: Apache-2.0
#include "diagnosis/where/vocabulary.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>

#include "properties/conditions/condition.h"

namespace qkvet::diagnosis {
namespace {

using Kind = Term::Kind;

// Names that count; those without words that are not among them are flags.
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
// Of a call and not of a case, a number that every case has by chance, one that
// says how a mask was drawn and not what stands in it, or one of which a made
// phrase speaks.
constexpr std::array<std::string_view, 5> kLeftOut = {
    "mistake", "scale.bits", "channel_group", "segments.tokens",
    "tree.children"};

// How people say it: "" is "... is given".
struct Phrase {
  std::string_view name, yes, no;
};
constexpr Phrase kPhrases[] = {
    {"causal", "causal", "not causal"},
    {"top_left", "causal=tl", "not causal=tl"},
    {"bottom_right", "causal=br", "not causal=br"},
    {"mask", "a mask is given", "no mask is given"},
    {"bias", "a bias is given", "no bias is given"},
    {"window", "a window is given", "no window is given"},
    {"share.members", "members share k and v", "members do not share k and v"},
    {"share.heads", "heads share k and v", "heads do not share k and v"},
    {"threads", "more threads than one are allowed", "one thread is allowed"},
    {"lse", "lse is asked for", "lse is not asked for"},
    {"mask.members", "each member has a mask of its own",
     "no member has a mask of its own"},
    {"mask.heads", "each head has a mask of its own",
     "no head has a mask of its own"},
    {"mask.rows", "each row has a mask of its own",
     "no row has a mask of its own"},
    {"segments", "segments are given", "no segments are given"},
    {"segments.wide", "segments are int64", "no segments are int64"},
    {"ranges.wide", "ranges are int64", "no ranges are int64"},
    {"tree", "a tree is given", "no tree is given"},
    {"lists", "lists of keys are given", "no lists of keys are given"},
    {"lists.heads", "each key/value head has lists of its own",
     "no head has lists of its own"},
    {"lists.lengths", "lists of keys have lengths",
     "lists of keys have no lengths"},
    {"bias.members", "each member has a bias of its own",
     "no member has a bias of its own"},
    {"bias.heads", "each head has a bias of its own",
     "no head has a bias of its own"},
    {"bias.rows", "each row has a bias of its own",
     "no row has a bias of its own"},
    {"alibi.members", "each member has slopes of its own",
     "no member has slopes of its own"},
    {"scale.given", "a scale is given", "no scale is given"},
    {"scale.is_one", "the scale is 1", "the scale is not 1"},
    {"scale.negative", "the scale is negative", "the scale is not negative"},
    {"softcap.is_one", "softcap = 1", "softcap is not 1"},
    {"softcap.over_one", "softcap > 1", "no softcap above 1 is given"},
    {"sink", "a sink is given", "no sink is given"},
    {"rope.random", "positions are in no order", "positions are in order"},
    {"packed", "the batch is packed", "the batch is not packed"},
    {"csr", "pages are listed one behind the other",
     "pages are not listed one behind the other"},
    {"int32_lengths", "lengths are int32", "lengths are int64"},
    {"dropout.is_zero", "dropout = 0", "dropout is not 0"}};

// Made of the names, in the language of conditions.
constexpr Phrase kMade[] = {
    // A window that is open on both sides is none to a kernel, and what says in
    // a few numbers which pairs there are is a mask.
    {"(mask || segments || ranges > 0 || chunk > 0 || tree || bias || "
     "window.left >= 0 || window.right >= 0 || softcap || "
     "sink "
     "|| alibi || dropout)",
     "a mask, bias, window, softcap, sink, alibi or dropout is given",
     "no mask, bias, window, softcap, sink, alibi or dropout is given"},
    {"values_in_keys", "the values lie in the keys",
     "the values do not lie in the keys"},
    {"(mask || segments || ranges > 0 || chunk > 0 || tree || bias || "
     "window.left >= 0 || window.right >= 0 || softcap || "
     "sink "
     "|| alibi || dropout || lists)",
     "a mask, bias, window, softcap, sink, alibi, dropout or list is given",
     "no mask, bias, window, softcap, sink, alibi, dropout or list is given"},
    {"(Hkv > 1 && !share.heads || B > 1 && !share.members && !packed)",
     "k and v have several heads or members apart",
     "k and v have one head of one member"},
    {"(channel_group > 0)", "keys lie in groups of channels",
     "keys lie in no groups of channels"},
    {"(ranges > 0)", "ranges are given", "no ranges are given"},
    {"(chunk > 0)", "a chunk is given", "no chunk is given"},
    {"rows(padding)", "a row is padding", "no row is padding"},
    {"rows(alike > 0)",
     "a key of another segment has the same lower 32 bits of its number",
     "no key of another segment has the same lower 32 bits of its number"},
    {"rows(taken_back > 0)",
     "a range shows a row what causal rule or window would hide",
     "no range shows a row what causal rule or window would hide"},
    {"(ranges > 0 && rows(diagonal != row))",
     "ranges are given and a row's position is not its number",
     "no ranges are given or each row's position is its number"},
    {"rows(aside > 0)", "a draft does not follow all in front of it",
     "every draft follows all in front of it"},
    {"rows(chunk > 0 && (diagonal + 1) % chunk != 0)",
     "a row is not the last of its chunk",
     "no row is in a chunk and not its last"},
    {"rows(chunk > 0 && diagonal >= chunk)",
     "keys lie in front of a row's chunk",
     "no keys lie in front of a row's chunk"},
    {"rows(chunk > 0 && diagonal >= chunk && (diagonal + 1) % chunk != 0 && "
     "diagonal - chunk + 1 < keys)",
     "keys lie in front of the chunk of a row that is not its last",
     "no keys lie in front of the chunk of a row that is not its last"},
    {"rows(chunk > 0 && !causal && diagonal >= 0 && (diagonal + 1) % chunk != "
     "0 && diagonal + 1 < keys)",
     "a row sees keys of its chunk behind it",
     "no row sees keys of its chunk behind it"},
    {"rows(border > 0)", "a row's segment begins or ends between two keys",
     "no row's segment begins or ends between two keys"},
    {"rows(border % 2 != 0)",
     "a row's segment begins or ends at a key that 2 does not divide",
     "no row's segment begins or ends at a key that 2 does not divide"},
    {"rows(border % 4 != 0)",
     "a row's segment begins or ends at a key that 4 does not divide",
     "no row's segment begins or ends at a key that 4 does not divide"},
    {"rows(border % 8 != 0)",
     "a row's segment begins or ends at a key that 8 does not divide",
     "no row's segment begins or ends at a key that 8 does not divide"},
    {"rows(border % 16 != 0)",
     "a row's segment begins or ends at a key that 16 does not divide",
     "no row's segment begins or ends at a key that 16 does not divide"},
    {"rows(border % 32 != 0)",
     "a row's segment begins or ends at a key that 32 does not divide",
     "no row's segment begins or ends at a key that 32 does not divide"},
    {"rows(border % 64 != 0)",
     "a row's segment begins or ends at a key that 64 does not divide",
     "no row's segment begins or ends at a key that 64 does not divide"},
    {"rows(border % 128 != 0)",
     "a row's segment begins or ends at a key that 128 does not divide",
     "no row's segment begins or ends at a key that 128 does not divide"},
    {"rows(hidden > 0)", "a row has a masked key", "no row has a masked key"},
    {"rows(seen == 0)", "a row sees no key", "every row sees a key"},
    {"rows(seen > 0)", "a row sees a key", "no row sees a key"},
    {"rows(seen > 0 && diagonal == (keys - queries) * !top_left)",
     "the first row of a member sees a key",
     "the first row of no member sees a key"},
    {"rows(gaps > 0)", "a masked key lies between those that a row sees",
     "no masked key lies between those that a row sees"},
    {"rows(seen % 2 != 0)", "a row sees an odd number of keys",
     "no row sees an odd number of keys"},
    {"rows(seen > 1 && seen % 2 != 0)",
     "a row sees an odd number of keys above 1",
     "no row sees an odd number of keys above 1"},
    {"rows(seen % 4 != 0)", "4 does not divide the keys that a row sees",
     "4 divides the keys that each row sees"},
    {"rows(seen % 8 != 0)", "8 does not divide the keys that a row sees",
     "8 divides the keys that each row sees"},
    {"rows(window && window.left >= 0 && diagonal >= window.left && "
     "diagonal - window.left < keys)",
     "a row's window begins at a key", "no row's window begins at a key"},
    {"rows(window && window.right >= 0 && diagonal + window.right >= 0 && "
     "diagonal + window.right < keys)",
     "a row's window ends at a key", "no row's window ends at a key"},
    {"(causal && !rows(diagonal + 1 >= keys))",
     "the causal rule hides keys from all rows",
     "the causal rule hides no key from all rows"},
    {"(rope && (rope.random || rope.first > 0 || Tq < Tk))",
     "a rotated query stands elsewhere than in its row",
     "every rotated query stands where its row is"},
    {"rows(seen < lists.entries)",
     "a list has more entries than its row sees keys",
     "no list has more entries than its row sees keys"},
    {"members(keys < Tk)", "a member has fewer keys than Tk",
     "no member has fewer keys than Tk"},
    {"members(queries < Tq)", "a member has fewer queries than Tq",
     "no member has fewer queries than Tq"},
    {"members(H / Hkv * queries % 4 != 0)",
     "4 does not divide the rows that meet the same keys",
     "4 divides the rows that meet the same keys"},
    {"members(H / Hkv * queries % 6 != 0)",
     "6 does not divide the rows that meet the same keys",
     "6 divides the rows that meet the same keys"},
    {"members(H / Hkv * queries % 8 != 0)",
     "8 does not divide the rows that meet the same keys",
     "8 divides the rows that meet the same keys"},
    {"members(member > 0 && keys > 0)", "a member behind the first has a key",
     "no member behind the first has a key"},
    {"members(keys % page_size != 0)", "a member's last page is partly filled",
     "no member's last page is partly filled"},
    {"members(page_size > 0 && keys > page_size)",
     "a member has more pages than one", "no member has more pages than one"},
    {"(D > 0 && H * dv == D)", "H * dv = D", "H * dv is not D"},
    {"(D > 0 && D % H == 0)", "H divides D", "H does not divide D"},
    {"(softcap && !softcap.over_one)", "softcap <= 1 is given",
     "no softcap <= 1 is given"},
    {"members(keys == 0)", "a member has no key", "every member has a key"},
    {"commands(verb == append)", "a cache is appended to",
     "no cache is appended to"},
    {"commands(verb == step)", "a cache is stepped", "no cache is stepped"},
    {"commands(verb == truncate)", "a cache is truncated",
     "no cache is truncated"},
    {"commands(verb == evict)", "a token is evicted", "no token is evicted"},
    {"commands(verb == reset)", "a cache is reset", "no cache is reset"},
    {"commands(verb == fork)", "a cache is forked", "no cache is forked"},
    {"commands(verb == reorder)", "caches are reordered",
     "no caches are reordered"},
    {"commands(illegal)", "a command is illegal", "every command is legal"},
    {"commands(queries > 1)", "a command has more than one query",
     "no command has more than one query"},
    {"commands(before > 0 && new > 0)", "tokens come to a cache that has some",
     "no tokens come to a cache that has some"},
    {"commands(new > 1)", "several tokens come at once",
     "tokens come one at a time"},
    {"commands(cache.window > 0 && held > cache.window)",
     "a sequence outgrows the window", "no sequence outgrows the window"},
    {"commands(sequence > 0)", "a second sequence is used",
     "one sequence is used"},
    {"commands(new > 0 && before % 2 != 0)",
     "tokens come behind an odd number of others",
     "no tokens come behind an odd number of others"},
    {"commands(new > 0 && before % 4 != 0)",
     "tokens come within a page of 4 that has some",
     "no tokens come within a page of 4 that has some"},
    {"commands(new > 0 && before % 8 != 0)",
     "tokens come within a page of 8 that has some",
     "no tokens come within a page of 8 that has some"},
    {"commands(new > 0 && after.fork > 0)", "tokens come after a fork",
     "no tokens come after a fork"},
    {"commands(new > 0 && after.reorder > 0)",
     "tokens come after caches were reordered",
     "no tokens come after caches were reordered"},
    {"commands(new > 0 && after.truncate > 0)",
     "tokens come after a cache was truncated",
     "no tokens come after a cache was truncated"},
    {"commands(new > 0 && after.evict > 0)",
     "tokens come after a token was evicted",
     "no tokens come after a token was evicted"},
    {"commands(new > 0 && after.reset > 0)",
     "tokens come after a cache was reset",
     "no tokens come after a cache was reset"},
    {"commands(new > 0 && after.fork + after.reorder > 0)",
     "tokens come after a fork or a reordering",
     "no tokens come after a fork or a reordering"},
    {"commands(new > 0 && before % 4 != 0 && after.fork + after.reorder > 0)",
     "tokens come within a page of 4 after a fork or a reordering",
     "no tokens come within a page of 4 after a fork or a reordering"},
    {"commands(verb == evict && after.fork + after.reorder > 0)",
     "a token is evicted after a fork or a reordering",
     "no token is evicted after a fork or a reordering"},
    {"commands(verb == truncate && after.fork + after.reorder > 0)",
     "a cache is truncated after a fork or a reordering",
     "no cache is truncated after a fork or a reordering"},
    {"commands(queries > 0 && after.fork + after.reorder > 0)",
     "a query comes after a fork or a reordering",
     "no query comes after a fork or a reordering"},
    {"commands(queries > 0 && after.fork > 0)", "a query comes after a fork",
     "no query comes after a fork"},
    {"commands(queries > 0 && after.reorder > 0)",
     "a query comes after caches were reordered",
     "no query comes after caches were reordered"},
    {"commands(queries > 0 && after.truncate > 0)",
     "a query comes after a cache was truncated",
     "no query comes after a cache was truncated"},
    {"commands(queries > 0 && after.evict > 0)",
     "a query comes after a token was evicted",
     "no query comes after a token was evicted"},
    {"commands(new > 0 && shared > 0)",
     "tokens come to a sequence that shares some with another",
     "no tokens come to a sequence that shares some with another"},
    {"commands(new > 0 && shared > 0 && shared == before && before % 4 != 0)",
     "tokens come within a page of 4 that is shared",
     "no tokens come within a page of 4 that is shared"},
    {"commands(verb == evict && shared > 0)",
     "a token is evicted from a sequence that shares some with another",
     "no token is evicted from a sequence that shares some with another"},
    {"commands(verb == evict && first < shared && first < held)",
     "a shared token is evicted that others lie behind",
     "no shared token is evicted that others lie behind"},
    {"commands(queries > 0 && shared > 0 && after.evict > 0)",
     "a query comes to a sequence that shares tokens after one was evicted",
     "no query comes to a sequence that shares tokens after one was evicted"},
    {"commands(verb == evict && first < held)",
     "a token is evicted that others lie behind",
     "no token is evicted that others lie behind"},
    {"commands(verb == evict && first < held && held > 1)",
     "a token is evicted that others lie behind, and two or more are left",
     "no token is evicted that others lie behind with two or more left"},
    {"commands(verb == evict && first < held && (held > first + 1 || first % 4 "
     "!= 0))",
     "a token moves to another slot than the first of a page of 4",
     "no token moves to another slot than the first of a page of 4"},
    {"commands(verb == reorder && shared > 0)",
     "caches are reordered that share tokens",
     "no caches are reordered that share tokens"},
    {"commands(verb == evict && held > 0)",
     "a token is evicted and others are left",
     "no token is evicted with others left"},
    {"commands(verb == evict && before > 4)",
     "a token is evicted from a sequence of more than 4",
     "no token is evicted from a sequence of more than 4"},
    {"commands(verb == truncate && shared > 0)",
     "a sequence is truncated that shares tokens with another",
     "no sequence is truncated that shares tokens with another"},
    {"commands(queries > 0 && shared > 0)",
     "a query comes to a sequence that shares tokens with another",
     "no query comes to a sequence that shares tokens with another"}};

// Numbers that are no extents.
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
  Phrase at_least, at_most;  // formula, words
};
// Of a member, the rows that meet the same keys and values.
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
      "# rows or more of a member meet the same keys", ""},
     {"!members(H / Hkv * queries >= #)",
      "fewer than # rows of a member meet the same keys", ""}},
    {"most seen",
     most_seen,
     {"rows(seen >= #)", "a row sees # keys or more", ""},
     {"!rows(seen >= #)", "no row sees # keys or more", ""}},
    {"least seen",
     least_seen,
     {"!rows(seen < #)", "every row sees # keys or more", ""},
     {"rows(seen < #)", "a row sees fewer than # keys", ""}},
    {"most held",
     most_held,
     {"commands(held >= #)", "a sequence has # tokens or more", ""},
     {"!commands(held >= #)", "no sequence has # tokens or more", ""}},
    {"most new",
     most_new,
     {"commands(new >= #)", "# tokens or more come at once", ""},
     {"!commands(new >= #)", "fewer than # tokens come at once", ""}},
    {"most before",
     most_before_new,
     {"commands(new > 0 && before >= #)", "tokens come behind # others or more",
      ""},
     {"!commands(new > 0 && before >= #)",
      "no tokens come behind # others or more", ""}}};
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
    // Rows that meet the same keys and values.
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
  term.kind = !name.words.empty()            ? Kind::kWord
              : number != std::end(kNumbers) ? Kind::kNumber
                                             : Kind::kFlag;
  term.cost = 0.01 * static_cast<double>(number - std::begin(kNumbers));
  if (term.kind == Kind::kFlag)
    term.cost = name.name.find('.') == std::string_view::npos ? 0 : 0.3;
  term.yes = std::string(name.name) + " is given";
  term.no = "no " + std::string(name.name) + " is given";
  for (const Phrase& phrase : kPhrases)
    if (phrase.name == name.name) term.yes = phrase.yes, term.no = phrase.no;
  return term;
}

Term made_term(const Phrase& phrase) {
  Term term;
  term.name = phrase.name;
  term.yes = phrase.yes;
  term.no = phrase.no;
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

// Where one extent is taken for another those cases tell in which they are
// alike.
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
      // Of these the difference or quotient is a number.
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
  for (const Phrase& phrase : kMade) terms.push_back(made_term(phrase));
  for (const Between& pair : kBetween) terms.push_back(term_between(pair));
  add_comparisons(terms);
  for (const Counted& row : kCounted) terms.push_back(counted_term(row));
  for (const Product& product : kProducts)
    terms.push_back(product_term(product));
  return terms;
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

// By how much more than queries keys are.
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

TermValues term_values(const Case& value, const Law* law,
                       const KernelInfo* kernel) {
  // Those that a law makes are much alike.
  constexpr size_t kMostSituations = 12;
  const std::vector<Term>& terms = vocabulary();
  TermValues values;
  values.reserve(terms.size());
  const Situation own(value);
  for (const Term& term : terms) values.push_back(term.value(own));
  if (law == nullptr) return values;
  const Plan plan = law->plan(value, *kernel);
  const std::vector<Situation> all = situations_of(value, plan);
  for (size_t n = 0; n < std::min(all.size(), kMostSituations); ++n)
    for (size_t i = 0; i < terms.size(); ++i)
      if (terms[i].kind == Kind::kFlag && values[i] == 0)
        values[i] = terms[i].value(all[n]);
  return values;
}

std::optional<Case> with_term(const Case& value, const Term& term, int64_t to) {
  Case out = value;
  Shape& s = out.shape;
  const bool is_story = value.subject() == Subject::kCache;
  const std::string& name = term.name;
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
  else if (name == "window.left" && out.window)
    out.window->left = to;
  else if (name == "window.right" && out.window)
    out.window->right = to;
  else if (name == "ranges" && out.fields.ranges > 0 && to > 0)
    out.fields.ranges = to;
  else if (name == "chunk" && out.chunk > 0 && to > 0)
    out.chunk = to;
  else if (name == "lists.entries" && out.listed.entries > 0 && to > 0)
    out.listed.entries = to;
  else if (name == "lists.block" && out.listed.block > 1 && to > 1)
    out.listed.block = to;
  else if (name == "page_size" && s.D == 0 && out.paging.size > 0 && to > 0)
    out.paging.size = to;
  else if (name == "new_tokens" && out.append > 0 && to > 0)
    out.append = to;
  else
    return std::nullopt;
  if (s.D > 0) s.D = s.H * s.d;
  return out;
}

}  // namespace qkvet::diagnosis
