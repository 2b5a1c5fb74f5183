// SPDX-License-Identifier: Apache-2.0
// The sequence is read back after its answer. The stored values are compared
// with the history, and the answer with attention over the stored values.
#include <algorithm>
#include <cmath>
#include <optional>

#include "properties/judging/compare.h"
#include "properties/sequences/story_fault.h"
#include "properties/sequences/story_run.h"
#include "properties/sequences/story_storage.h"

namespace qkvet::properties {
namespace {

// Keys or values as they were read back, [Hkv,L,width].
struct Stored {
  std::vector<double> values;
  int64_t tokens, width;

  const double* row(int64_t head, int64_t token) const {
    return values.data() + (head * tokens + token) * width;
  }
};

Stored stored_of(const std::vector<std::byte>& bytes, const StoryRun& story,
                 int64_t width) {
  const auto tokens = static_cast<int64_t>(story.snapshot().history.size());
  return {as_doubles(bytes, Dtype::kF32), tokens, width};
}

// The rows that some tokens were given, and how far off each may be stored.
struct Given {
  const std::vector<double>& values;  // [Hkv,N,width]
  const std::vector<double>& errors;  // the same; empty: exact
  int64_t tokens, width;

  // Whether the row holds head `head` of token `token` as given.
  bool is(const double* row, int64_t head, int64_t token) const {
    const auto at = static_cast<size_t>((head * tokens + token) * width);
    for (size_t c = 0; c < static_cast<size_t>(width); ++c)
      if (!is_stored(row[c], values[at + c],
                     errors.empty() ? 0 : errors[at + c]))
        return false;
    return true;
  }
};

// The contents of one token's row: keys, or values.
enum class Row : uint8_t { kRight, kToken, kMixed, kZeros, kNan, kUnknown };
struct Content {
  Row row = Row::kUnknown;
  size_t token = 0;  // kToken: the number of its token
};

// `heads`: those that are compared. A row of another head also counts as that
// of a token, if the cache mixed them.
Content content_of(const Stored& stored, int64_t place, const Given& given,
                   size_t own, const std::vector<int64_t>& heads,
                   int64_t all_heads) {
  const auto each_head = [&](auto holds) {
    return std::all_of(heads.begin(), heads.end(), [&](int64_t h) {
      return holds(h, stored.row(h, place));
    });
  };
  const auto each_number = [&](auto is) {
    return each_head([&](int64_t, const double* row) {
      return std::all_of(row, row + stored.width, is);
    });
  };
  const auto is_token = [&](int64_t t) {
    return each_head(
        [&](int64_t h, const double* row) { return given.is(row, h, t); });
  };
  if (is_token(static_cast<int64_t>(own))) return {Row::kRight, own};
  for (int64_t t = 0; t < given.tokens; ++t)
    if (is_token(t)) return {Row::kToken, static_cast<size_t>(t)};
  if (!each_number([](double x) { return !std::isnan(x); }))
    return {Row::kNan, 0};
  if (each_number([](double x) { return x == 0; })) return {Row::kZeros, 0};
  const bool mixed = each_head([&](int64_t, const double* row) {
    for (int64_t h = 0; h < all_heads; ++h)
      for (int64_t t = 0; t < given.tokens; ++t)
        if (given.is(row, h, t)) return true;
    return false;
  });
  return {mixed ? Row::kMixed : Row::kUnknown, 0};
}

class Storage {
 public:
  Storage(const StoryRun& story, const StoryRun::Ran& ran)
      : story_(story),
        shape_(story.value().shape),
        k_(stored_of(ran.read.stage_k, story, shape_.d)),
        v_(stored_of(ran.read.stage_v, story, shape_.dv)) {}

  // Whether there is anything to compare.
  bool is_known() const {
    const auto rows = static_cast<size_t>(shape_.Hkv * k_.tokens);
    return rows > 0 &&
           k_.values.size() == rows * static_cast<size_t>(shape_.d) &&
           v_.values.size() == rows * static_cast<size_t>(shape_.dv);
  }

  // Places of the history that hold something else than they were given.
  std::vector<int64_t> wrong_places(const Inputs& data) const {
    const Inputs given = story_.inputs_of(story_.snapshot_of(history()), data);
    const Given keys{given.k, given.k_error, k_.tokens, shape_.d};
    const Given values{given.v, given.v_error, v_.tokens, shape_.dv};
    std::vector<int64_t> places;
    for (int64_t t = 0; t < k_.tokens; ++t) {
      if (!is_kept(story_.value().cache, story_.snapshot(), t)) continue;
      bool right = true;
      for (int64_t h = 0; h < shape_.Hkv; ++h)
        right = right && keys.is(k_.row(h, t), h, t) &&
                values.is(v_.row(h, t), h, t);
      if (!right) places.push_back(t);
    }
    return places;
  }

  // "b1's key and value"; `tokens` are all of the story, with `data`. "" if the
  // contents are right.
  std::string content_text(int64_t place, const std::vector<Token>& tokens,
                           const Inputs& data) const;

 private:
  const std::vector<Token>& history() const {
    return story_.snapshot().history;
  }
  std::string part_text(const Content& content, const char* part,
                        const std::vector<Token>& tokens) const;
  std::string both_text(const Content& key, const Content& value,
                        const std::vector<Token>& tokens) const;

  const StoryRun& story_;
  const Shape& shape_;
  Stored k_, v_;
};

// "b1's key", "the key of the NaN of call 5", "zeros as value"
std::string Storage::part_text(const Content& content, const char* part,
                               const std::vector<Token>& tokens) const {
  switch (content.row) {
    case Row::kRight:
    case Row::kToken: {
      const std::string name = story_.name_of(tokens[content.token]);
      return name.starts_with("the ")
                 ? std::string("the ") + part + " of " + name
                 : name + "'s " + part;
    }
    case Row::kZeros:
      return std::string("zeros as ") + part;
    case Row::kNan:
      return std::string("NaN as ") + part;
    case Row::kMixed:
      return std::string("rows of other tokens or heads as ") + part;
    case Row::kUnknown:
      break;
  }
  return std::string("the ") + part + " of no token of this story";
}

std::string Storage::content_text(int64_t place,
                                  const std::vector<Token>& tokens,
                                  const Inputs& data) const {
  const Inputs given = story_.inputs_of(story_.snapshot_of(tokens), data);
  const auto n = static_cast<int64_t>(tokens.size());
  const Given keys{given.k, given.k_error, n, shape_.d};
  const Given values{given.v, given.v_error, n, shape_.dv};
  const auto own = std::find(tokens.begin(), tokens.end(),
                             history()[static_cast<size_t>(place)]) -
                   tokens.begin();
  std::vector<int64_t> wrong;
  for (int64_t h = 0; h < shape_.Hkv; ++h)
    if (!keys.is(k_.row(h, place), h, own) ||
        !values.is(v_.row(h, place), h, own))
      wrong.push_back(h);
  if (wrong.empty()) return "";
  const auto number = static_cast<size_t>(own);
  std::string text = both_text(
      content_of(k_, place, keys, number, wrong, shape_.Hkv),
      content_of(v_, place, values, number, wrong, shape_.Hkv), tokens);
  if (static_cast<int64_t>(wrong.size()) == shape_.Hkv) return text;
  return text + (wrong.size() == 1
                     ? " in kv head " + std::to_string(wrong[0])
                     : " in " + std::to_string(wrong.size()) + " kv heads");
}

// At least one of the two is wrong.
std::string Storage::both_text(const Content& key, const Content& value,
                               const std::vector<Token>& tokens) const {
  if (value.row == Row::kRight) return part_text(key, "key", tokens);
  if (key.row == Row::kRight) return part_text(value, "value", tokens);
  if (key.row != value.row || key.token != value.token)
    return part_text(key, "key", tokens) + " and " +
           part_text(value, "value", tokens);
  switch (key.row) {
    case Row::kToken: {
      const std::string name = story_.name_of(tokens[key.token]);
      return name.starts_with("the ") ? name : name + "'s key and value";
    }
    case Row::kZeros:
      return "zeros";
    case Row::kNan:
      return "NaN";
    case Row::kMixed:
      return "rows of other tokens or heads";
    default:
      return "no token of this story";
  }
}

// "token 1 of sequence a holds b1's key and value". The stored rows are
// identified with data in which no two rows are alike.
std::string storage_text(const StoryRun& story, const Storage& storage,
                         const std::vector<int64_t>& wrong,
                         const Inputs& data) {
  std::vector<Token> tokens;
  for (const BroughtToken& one : story.tokens())
    if (one.token.sequence < story.value().shape.B) tokens.push_back(one.token);
  std::string content;
  const Inputs moderate = story.moderate_data();
  if (const auto ran = story.run(moderate)) {
    const Storage distinct(story, *ran);
    if (distinct.is_known())
      content = distinct.content_text(wrong[0], tokens, moderate);
  }
  if (content.empty()) content = storage.content_text(wrong[0], tokens, data);
  std::string text =
      "token " + std::to_string(wrong[0]) + " of sequence " +
      static_cast<char>('a' + story.snapshot().command.sequence) + " holds " +
      content;
  if (wrong.size() > 1)
    text += ", and " + std::to_string(wrong.size() - 1) +
            (wrong.size() == 2 ? " token more is wrong" : " more are wrong");
  return text;
}

// The answer of the last queries, which only see kept tokens; nullopt if there
// are none.
struct LastQueries {
  PlannedCall planned;
  CallOutcome outcome;
};
std::optional<LastQueries> last_queries(const StoryRun& story,
                                        const CallOutcome& answer) {
  const Case& value = story.value();
  LastQueries last{story.calls().back(), answer};
  Snapshot& snapshot = *last.planned.snapshot;
  const int64_t all = snapshot.queries;
  while (snapshot.queries > 0 && !is_all_kept(value.cache, snapshot))
    --snapshot.queries, ++snapshot.first_query;
  const int64_t gone = all - snapshot.queries;
  if (snapshot.queries == 0) return std::nullopt;
  const auto keep = [&](std::vector<std::byte>& bytes) {
    const size_t row = bytes.size() / static_cast<size_t>(value.shape.H * all);
    for (int64_t h = value.shape.H - 1; h >= 0; --h) {
      const auto from = bytes.begin() + static_cast<ptrdiff_t>(row) *
                                            static_cast<ptrdiff_t>(h * all);
      bytes.erase(from, from + static_cast<ptrdiff_t>(row) *
                                   static_cast<ptrdiff_t>(gone));
    }
  };
  keep(last.outcome.o);
  keep(last.outcome.lse);
  return last;
}

// The answer compared with attention over the stored values. Unknown: there was
// no query, NaN is stored, or tokens that the queries saw may be gone.
enum class Attention : uint8_t { kRight, kWrong, kUnknown };
Attention attention_of(const StoryRun& story, const StoryRun::Ran& ran,
                       const Inputs& data) {
  const Case& value = story.value();
  const auto last = last_queries(story, ran.answer);
  if (!last) return Attention::kUnknown;
  const Snapshot& snapshot = *last->planned.snapshot;
  Inputs inputs = stored_inputs(
      value, snapshot, story.inputs_of(snapshot, data), ran.read,
      (story.kernel().info.cache_options & QKVET_CACHE_NEW_AS_GIVEN) != 0);
  // These are the stored numbers themselves.
  inputs.k_error.clear();
  inputs.v_error.clear();
  const auto finite = [](double x) { return std::isfinite(x); };
  for (const auto* values : {&inputs.k, &inputs.v})
    if (!std::all_of(values->begin(), values->end(), finite))
      return Attention::kUnknown;
  const Judgement judgement =
      judge_answer(value, last->planned, inputs, last->outcome, story.kernel(),
                   plain_forward, /*with_twin=*/false);
  if (judgement.verdict == Verdict::kFailed) return Attention::kWrong;
  return judgement.verdict == Verdict::kPassed && judgement.compared > 0
             ? Attention::kRight
             : Attention::kUnknown;
}

// "The storage is wrong: sequence a holds 1 token and should hold 2."; "" if
// the length is right.
std::string length_text(const StoryRun& story, const CallOutcome& answer) {
  const auto s = static_cast<size_t>(story.snapshot().command.sequence);
  const size_t due = story.snapshot().history.size();
  if (s >= answer.lengths.size() ||
      answer.lengths[s] == static_cast<int64_t>(due))
    return "";
  const std::string found = std::to_string(answer.lengths[s]);
  return std::string("The storage is wrong: sequence ") +
         static_cast<char>('a' + s) + " holds " + found +
         (found == "1" ? " token" : " tokens") + " and should hold " +
         std::to_string(due) + ".";
}

std::string whose_with(const StoryRun& story, const Inputs& data) {
  const auto ran = story.run(data);
  if (!ran) return "";
  if (std::string text = length_text(story, ran->answer); !text.empty())
    return text;
  const Storage storage(story, *ran);
  if (!storage.is_known()) return "";
  const std::vector<int64_t> wrong = storage.wrong_places(data);
  const Attention attention = attention_of(story, *ran, data);
  if (wrong.empty()) {
    if (attention != Attention::kWrong) return "";
    return std::string("The storage is right: sequence ") +
           static_cast<char>('a' + story.snapshot().command.sequence) +
           " holds its history. The attention over it is wrong.";
  }
  const std::string what = storage_text(story, storage, wrong, data);
  if (attention == Attention::kUnknown)
    return "The storage is wrong: " + what + ".";
  if (attention == Attention::kRight)
    return "The attention is right: over what the cache holds its output is "
           "within the bound. The storage is wrong: " +
           what + ".";
  return "Both are wrong. The storage: " + what +
         ". The attention: its output is not that over what the cache holds.";
}

}  // namespace

std::string whose_fault(const StoryRun& story) {
  std::string text = whose_with(story, story.own_data(/*finite=*/true));
  if (text.empty()) text = whose_with(story, story.own_data(/*finite=*/false));
  return text;
}

}  // namespace qkvet::properties
