// SPDX-License-Identifier: Apache-2.0
#include "cli/kernels/source_hints.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <iterator>
#include <map>
#include <optional>
#include <set>

#include "core/base/read_file.h"

namespace qkvet::cli {
namespace {

// Nine of ten cases have up to 24 keys and rows anyway: a hint would add
// nothing.
constexpr int64_t kLeast = 25, kMost = 65536;
// Each further one takes cases from the earlier ones.
constexpr size_t kMostConstants = 12;
// Calls are drawn at so many times a hint, too.
constexpr int64_t kMostTimes = 3;
// Words and characters in the first column that do not begin a statement.
constexpr auto kContinued = std::to_array<std::string_view>(
    {"else", "elif", "except", "finally", ")", "]", "}"});
// Larger sources are more than one kernel: only this much is read.
constexpr size_t kMostBytes = size_t{1} << 22;

// How likely another path begins at a number.
enum Likely : int { kCompared, kSize, kOther };

template <size_t n>
bool is_one_of(std::string_view text,
               const std::array<std::string_view, n>& words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

// Directives are no tokens, but contain constants of C. This drops the word
// that makes them directives, so that the rest is read as code.
std::string with_directives(std::string text) {
  static constexpr auto kRead =
      std::to_array<std::string_view>({"define", "if", "elif"});
  for (size_t line = 0; line < text.size();) {
    const size_t end = std::min(text.find('\n', line), text.size());
    size_t at = std::min(text.find_first_not_of(" \t", line), end);
    if (at < end && text[at] == '#') {
      const size_t word = std::min(text.find_first_not_of(" \t", at + 1), end);
      size_t behind = word;
      while (behind < end &&
             std::isalpha(static_cast<unsigned char>(text[behind])) != 0)
        ++behind;
      if (is_one_of(std::string_view(text).substr(word, behind - word), kRead))
        std::fill(text.begin() + static_cast<std::ptrdiff_t>(at),
                  text.begin() + static_cast<std::ptrdiff_t>(behind), ' ');
    }
    line = end + 1;
  }
  return text;
}

// Absent for numbers that are not whole: 1e4, 0.5f, 64f32.
std::optional<int64_t> integer_of(std::string_view written) {
  std::string text;
  for (const char c : written)
    if (c != '\'' && c != '_') text += c;
  int base = 10;
  size_t digits = 0;
  if (text.size() > 2 && text[0] == '0') {
    const char kind = static_cast<char>(text[1] | 0x20);
    base = kind == 'x' ? 16 : kind == 'b' ? 2 : kind == 'o' ? 8 : 10;
    if (base != 10) digits = 2;
  }
  int64_t value = 0;
  const char* const last = text.data() + text.size();
  const auto [end, code] =
      std::from_chars(text.data() + digits, last, value, base);
  if (code != std::errc()) return std::nullopt;
  constexpr std::string_view kSuffixes = "uUlLzZi";
  if (end != last && kSuffixes.find(*end) == std::string_view::npos)
    return std::nullopt;
  return value;
}

struct Constant {
  int64_t value = 0;
  int line = 0;
  int likely = kOther;
};

class Constants {
 public:
  Constants(const std::string& text, Language language)
      : tokens_(text, language) {
    find_names();
    for (size_t i = 0; i < tokens_.size();) {
      const auto chain = chain_at(i);
      if (chain) add(*chain);
      i = chain ? chain->last + 1 : i + 1;
    }
  }

  // The likeliest first, then in the order of the source.
  std::vector<Constant> all() const {
    std::vector<Constant> all = found_;
    std::stable_sort(all.begin(), all.end(),
                     [](const Constant& a, const Constant& b) {
                       return a.likely < b.likely;
                     });
    return all;
  }

 private:
  // Numbers and names of such, multiplied or shifted: 4 * kTile, 1 << 10.
  struct Chain {
    int64_t value = 0;
    size_t first = 0, last = 0;
  };

  std::optional<int64_t> operand_at(size_t i) const {
    if (tokens_.is_number(i)) return integer_of(tokens_.text(i));
    if (!tokens_.is_word(i)) return std::nullopt;
    const auto named = names_.find(tokens_.text(i));
    if (named == names_.end()) return std::nullopt;
    return found_of_names_[named->second].value;
  }

  std::optional<Chain> chain_at(size_t first) const {
    const auto value = operand_at(first);
    if (!value) return std::nullopt;
    Chain chain{*value, first, first};
    for (;;) {
      const std::string_view by = tokens_.text(chain.last + 1);
      const auto next = operand_at(chain.last + 2);
      constexpr int64_t kFar = int64_t{1} << 31;
      constexpr int64_t kMostShift = 31;
      if (!next || *next < 0 || *next > kFar || chain.value > kFar) break;
      if (by == "*")
        chain.value *= *next;
      else if (by == "<<" && *next <= kMostShift)
        chain.value <<= *next;
      else
        break;
      chain.last += 2;
    }
    return chain;
  }

  bool begins_line(size_t i) const {
    return i == 0 || tokens_[i - 1].line != tokens_[i].line;
  }

  // What "name = 64" and "#define NAME 64" name, and no other number.
  void find_names() {
    static constexpr auto kEnds =
        std::to_array<std::string_view>({";", ",", ")", "}"});
    for (size_t i = 0; i + 1 < tokens_.size(); ++i) {
      if (!tokens_.is_word(i) || tokens_.is_keyword(i)) continue;
      // In Rust and Python a type may come between.
      size_t equals = i + 1;
      if (tokens_.text(equals) == ":")
        while (equals < i + 6 && tokens_.text(equals) != "=") ++equals;
      const bool assigned = tokens_.text(equals) == "=";
      const bool defined = begins_line(i) && tokens_.is_number(i + 1);
      if (!assigned && !defined) continue;
      const auto chain = chain_at(assigned ? equals + 1 : i + 1);
      if (!chain) continue;
      const size_t behind = chain->last + 1;
      if (behind < tokens_.size() && !begins_line(behind) &&
          !is_one_of(tokens_.text(behind), kEnds))
        continue;
      if (names_.emplace(std::string(tokens_.text(i)), found_of_names_.size())
              .second)
        found_of_names_.push_back(
            {chain->value, tokens_[chain->first].line, kOther});
    }
  }

  int likely_at(const Chain& chain) const {
    static constexpr auto kCompares =
        std::to_array<std::string_view>({"<", "<=", ">", ">=", "==", "!="});
    static constexpr auto kSizes = std::to_array<std::string_view>(
        {"%", "/", "//", "+=", "-=", "=", "*", "+", "-"});
    int likely = kOther;
    for (const size_t beside : {chain.first - 1, chain.last + 1}) {
      if (beside >= tokens_.size()) continue;
      const std::string_view text = tokens_.text(beside);
      if (is_one_of(text, kCompares))
        likely = std::min<int>(
            likely, tokens_[beside].of_type ? int{kSize} : int{kCompared});
      if (is_one_of(text, kSizes)) likely = std::min<int>(likely, kSize);
    }
    return likely;
  }

  // One record for a value, at its first place in the source.
  void add(const Chain& chain) {
    Constant now{chain.value, tokens_[chain.first].line, likely_at(chain)};
    if (chain.first == chain.last && tokens_.is_word(chain.first))
      now.line =
          found_of_names_[names_.find(tokens_.text(chain.first))->second].line;
    const auto had = std::find_if(
        found_.begin(), found_.end(),
        [&now](const Constant& one) { return one.value == now.value; });
    if (had == found_.end())
      found_.push_back(now);
    else
      had->likely = std::min(had->likely, now.likely);
  }

  const Tokens tokens_;
  std::map<std::string, size_t, std::less<>> names_;
  std::vector<Constant> found_of_names_;
  std::vector<Constant> found_;
};

// A statement at the outermost level of a Python file, with its decorators.
struct Statement {
  size_t first = 0, end = 0;  // tokens
  size_t at = 0, end_at = 0;  // bytes
  int first_line = 0, last_line = 0;
  std::set<std::string, std::less<>> names = {};  // that it defines
};

// Adds the names that a statement defines: functions and classes, also under a
// condition, or the variable that it assigns.
void add_names(const Tokens& tokens, Statement& one) {
  for (size_t i = one.first; i + 1 < one.end; ++i) {
    const bool defines = tokens.text(i) == "def" || tokens.text(i) == "class";
    const std::string_view next = tokens.text(i + 1);
    if (defines)
      one.names.emplace(next);
    else if (tokens[i].column == 1 && tokens.is_word(i) &&
             (next == "=" || next == ":"))
      one.names.emplace(tokens.text(i));
  }
}

std::vector<Statement> statements_of(const Tokens& tokens) {
  std::vector<Statement> all;
  bool decorated = false;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const bool begins = tokens[i].column == 1 && tokens[i].inside == kNoToken &&
                        !is_one_of(tokens.text(i), kContinued);
    if (begins && !decorated) {
      all.push_back({.first = i, .at = tokens[i].at});
      all.back().first_line = tokens[i].line;
    }
    if (begins) decorated = tokens.text(i) == "@";
    if (all.empty()) continue;
    all.back().end = i + 1;
    all.back().end_at = tokens[i].at + tokens[i].size;
    all.back().last_line = tokens[i].line;
  }
  for (Statement& one : all) add_names(tokens, one);
  return all;
}

}  // namespace

std::vector<Hint> source_hints(const std::string& text, Language language) {
  const bool has_directives =
      language == Language::kC || language == Language::kCxx;
  std::vector<int64_t> kept;
  std::vector<Hint> hints;
  const Constants constants(has_directives ? with_directives(text) : text,
                            language);
  for (const Constant& one : constants.all()) {
    if (one.value < kLeast || one.value > kMost ||
        kept.size() == kMostConstants)
      continue;
    if (std::any_of(kept.begin(), kept.end(), [&one](int64_t had) {
          return one.value % had == 0 && one.value / had <= kMostTimes;
        }))
      continue;
    kept.push_back(one.value);
    for (const int32_t axis : {QKVET_AXIS_TK, QKVET_AXIS_TQ})
      hints.push_back({{axis, static_cast<int32_t>(one.value)},
                       "the source, line " + std::to_string(one.line)});
  }
  return hints;
}

std::string python_part(const std::string& text, int line) {
  const Tokens tokens(text, Language::kPython);
  const std::vector<Statement> all = statements_of(tokens);
  std::vector<size_t> wanted;
  for (size_t n = 0; n < all.size(); ++n)
    if (all[n].first_line <= line && line <= all[n].last_line)
      wanted.push_back(n);
  if (wanted.empty()) return text;
  std::set<size_t> kept(wanted.begin(), wanted.end());
  while (!wanted.empty()) {
    const Statement now = all[wanted.back()];
    wanted.pop_back();
    for (size_t i = now.first; i < now.end; ++i)
      for (size_t n = 0; n < all.size() && tokens.is_word(i); ++n)
        if (all[n].names.contains(tokens.text(i)) && kept.insert(n).second)
          wanted.push_back(n);
  }
  // Blank, so that lines keep their numbers.
  std::string part = text;
  for (size_t n = 0; n < all.size(); ++n)
    for (size_t at = all[n].at; !kept.contains(n) && at < all[n].end_at; ++at)
      if (part[at] != '\n') part[at] = ' ';
  return part;
}

std::vector<Hint> source_hints_of_file(const std::string& path,
                                       Language language, int line) {
  std::string text;
  if (!read_file(path, &text).empty()) return {};
  text.resize(std::min(text.size(), kMostBytes));
  const bool is_part = language == Language::kPython && line > 0;
  return source_hints(is_part ? python_part(text, line) : text, language);
}

}  // namespace qkvet::cli
