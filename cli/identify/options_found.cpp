// SPDX-License-Identifier: Apache-2.0
// Finds the options that a kernel takes and answers as intended, and for
// others, what it computes instead.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "cli/identify/parts_found.h"
#include "core/call/option_numbers.h"
#include "core/capability/option_table.h"
#include "properties/cases/scope.h"
#include "properties/judging/law.h"

namespace qkvet::cli {
namespace {

struct Question {
  uint64_t option = 0;
  std::vector<std::function<void(Case&)>> calls;  // all of them must agree
  uint64_t outputs = 0;                           // QKVET_OPTION_LSE, _WEIGHTS
};

void cross(Case& value, int64_t Tq, int64_t Tk) {
  value.shape.Tq = Tq;
  value.shape.Tk = Tk;
}

// Rows and keys that show how a rule is counted, as far as extents may differ.
void offset(const Asker& asker, Case& value) {
  if (asker.takes_cross_lengths)
    cross(value, asker.base.shape.Tq, asker.base.shape.Tq + 3);
}

void add_causal(const Asker& asker, std::vector<Question>& all) {
  const auto ruled = [&asker](Causal rule) {
    return [&asker, rule](Case& c) {
      offset(asker, c);
      c.causal = rule;
    };
  };
  all.push_back({QKVET_OPTION_CAUSAL_TOP_LEFT, {ruled(Causal::kTopLeft)}});
  all.push_back(
      {QKVET_OPTION_CAUSAL_BOTTOM_RIGHT, {ruled(Causal::kBottomRight)}});
}

void add_scales(std::vector<Question>& all) {
  all.push_back(
      {QKVET_OPTION_DEFAULT_SCALE, {[](Case& c) { c.scale = std::nullopt; }}});
  all.push_back(
      {QKVET_OPTION_SCALE,
       {[](Case& c) { c.scale = 0.75f; }, [](Case& c) { c.scale = 0.0625f; }}});
}

void add_extents(const Asker& asker, std::vector<Question>& all) {
  all.push_back({QKVET_OPTION_GROUPED_HEADS,
                 {[](Case& c) { c.shape.H = 4, c.shape.Hkv = 2; },
                  [](Case& c) { c.shape.H = 3, c.shape.Hkv = 1; }}});
  const int64_t width = asker.base.shape.d;
  all.push_back({QKVET_OPTION_VALUE_WIDTH,
                 {[width](Case& c) { c.shape.dv = width * 2; },
                  [width](Case& c) { c.shape.dv = width / 2; }}});
  const int64_t T = asker.base.shape.Tq;
  all.push_back({QKVET_OPTION_CROSS_LENGTHS,
                 {[T](Case& c) { cross(c, T, 2 * T); },
                  [T](Case& c) { cross(c, 2 * T, T); }}});
  all.push_back(
      {QKVET_OPTION_EMPTY_EXTENTS,
       {[](Case& c) { c.shape.B = 0; }, [](Case& c) { c.shape.Tq = 0; }}});
}

void add_outputs(std::vector<Question>& all) {
  const auto unchanged = [](Case&) {};
  all.push_back({QKVET_OPTION_LSE, {unchanged}, QKVET_OPTION_LSE});
  all.push_back({QKVET_OPTION_WEIGHTS, {unchanged}, QKVET_OPTION_WEIGHTS});
}

void add_masks(const Asker& asker, std::vector<Question>& all) {
  const auto windowed = [&asker](int64_t left, int64_t right) {
    return [&asker, left, right](Case& c) {
      offset(asker, c);
      c.window = Window{left, right};
    };
  };
  all.push_back(
      {QKVET_OPTION_WINDOW, {windowed(2, 4), windowed(2, 1), windowed(1, -1)}});
  all.push_back({QKVET_OPTION_MASK,
                 {[](Case& c) {
                    c.mask = {MaskKind::kButN, 1, kOwnAll};
                  },
                  [](Case& c) {
                    c.mask = {MaskKind::kBandN, 1, kOwnAll};
                  }}});
  all.push_back({QKVET_OPTION_BIAS, {[](Case& c) {
                   c.score_bias = make_recipe(RecipeKind::kNormal);
                 }}});
}

void add_scores(std::vector<Question>& all) {
  const Recipe normal = make_recipe(RecipeKind::kNormal);
  for (const OptionNumber& number : kOptionNumbers)
    all.push_back({number.option,
                   {[&](Case& c) { c.*number.in_call = 0.5f; },
                    [&](Case& c) { c.*number.in_call = 2; }}});
  all.push_back({QKVET_OPTION_SINK, {[normal](Case& c) { c.sink = normal; }}});
  all.push_back(
      {QKVET_OPTION_ALIBI, {[normal](Case& c) { c.slopes = normal; }}});
  all.push_back({QKVET_OPTION_ALIBI_PER_MEMBER, {[normal](Case& c) {
                   c.shape.B = 2;
                   c.slopes = normal;
                   c.member_slopes = true;
                 }}});
  all.push_back({QKVET_OPTION_KEY_LISTS,
                 {[](Case& c) { c.listed = {2}; },
                  [](Case& c) {
                    c.listed = {2, /*per_head=*/true};
                  }}});
  all.push_back({QKVET_OPTION_KEY_LIST_LENGTHS, {[](Case& c) {
                   c.listed = {3, false, /*lengths=*/true};
                 }}});
  all.push_back({QKVET_OPTION_KEY_LIST_BLOCKS, {[](Case& c) {
                   c.listed = {2, false, false, false, /*block=*/2};
                 }}});
  const auto turned = [](RopeStyle style) {
    return [style](Case& c) { c.rope.style = style; };
  };
  all.push_back({QKVET_OPTION_ROPE,
                 {turned(RopeStyle::kHalf), turned(RopeStyle::kInterleaved)}});
  all.push_back({QKVET_OPTION_ROPE_PART,
                 {[](Case& c) {
                    c.rope = {RopeStyle::kHalf, false, 0, 2};
                  },
                  [](Case& c) {
                    c.rope = {RopeStyle::kInterleaved, false, 0, 2};
                  }}});
}

void add_members(const Asker& asker, std::vector<Question>& all) {
  const int64_t T = asker.base.shape.Tk;
  const auto lengths = [T](Case& c) {
    c.shape.B = 2;
    c.kv_len = {T, T - 2};
  };
  all.push_back({QKVET_OPTION_LENGTHS, {lengths, [T](Case& c) {
                                          c.shape.B = 2;
                                          c.q_len = {T - 1, T};
                                        }}});
  const auto packed = [T](Case& c) {
    c.shape.Tq = c.shape.Tk = 2 * T;
    c.cu_q = c.cu_k = {0, T - 1, 2 * T};
  };
  all.push_back({QKVET_OPTION_PACKED, {packed}});
  const auto paged = [lengths](Case& c) {
    lengths(c);
    c.paging.size = 4;
  };
  all.push_back({QKVET_OPTION_PAGED, {paged}});
  all.push_back({QKVET_OPTION_PAGED_CHANNEL_GROUPS, {[paged](Case& c) {
                   paged(c);
                   properties::in_channel_groups(c);
                 }}});
  all.push_back({QKVET_OPTION_SEGMENTS,
                 {[](Case& c) {
                    c.fields.segments = true;
                    c.fields.tokens = 2;
                  },
                  [](Case& c) {
                    c.fields.segments = true;
                    c.fields.tokens = 3;
                    c.fields.wide_segments = true;
                  }}});
  all.push_back({QKVET_OPTION_FULL_RANGES, {[](Case& c) {
                   c.fields.ranges = 1;
                   c.causal = Causal::kBottomRight;
                 }}});
  all.push_back({QKVET_OPTION_CHUNK,
                 {[](Case& c) { c.chunk = 2; }, [](Case& c) { c.chunk = 3; }}});
  all.push_back({QKVET_OPTION_TREE_MASK, {[](Case& c) {
                   c.fields.tree = true;
                   c.fields.children = 2;
                 }}});
  all.push_back({QKVET_OPTION_VALUES_IN_KEYS, {[](Case& c) {
                   c.values_in_keys = true;
                   c.v = {};
                 }}});
  all.push_back({QKVET_OPTION_APPEND, {[T](Case& c) {
                   c.shape.B = 2;
                   c.kv_len = {T, T - 1};
                   c.append = 2;
                 }}});
  all.push_back({QKVET_OPTION_PACKED_PAGES, {[packed](Case& c) {
                   packed(c);
                   c.paging.size = 4;
                 }}});
}

std::string word_of(uint64_t option) {
  for (const OptionRow& row : option_rows())
    if (row.option == option) return std::string(row.word);
  return "";
}

// What the answer is instead, in words; "" if nothing is kNearer times nearer
// than the intended meaning.
std::string taken_for(Asker& asker, const Question& question, const Case& value,
                      const Reply& reply) {
  // Computations are of o alone.
  if (question.outputs != 0) return "";
  const std::string text = asker.computed_instead(reply, value);
  if (!text.empty()) return "computes " + text;
  Case without = value;
  for (const CaseOption& row : case_options())
    if (row.option == question.option) row.drop(without);
  const bool is_ignored = !(without == value) &&
                          invalid_reason(without).empty() &&
                          std::isfinite(asker.off_from(reply, without));
  return is_ignored ? "ignored" : "";
}

// True if all calls agree; otherwise adds the evidence to `found`.
bool is_taken(Asker& asker, const Question& question, Identified& found) {
  const std::string word = word_of(question.option);
  std::string agrees;
  int asked = 0;
  for (const auto& change : question.calls) {
    Case value = asker.base;
    change(value);
    if (!invalid_reason(value).empty()) continue;
    ++asked;
    const Reply reply = asker.judged(value, question.outputs);
    const std::string words = reply.done() && !reply.is_sure()
                                  ? taken_for(asker, question, value, reply)
                                  : "";
    if (reply.agrees() && words.empty()) {
      if (agrees.empty()) agrees = to_string(value);
      continue;
    }
    NotFound no{NotFound::Why::kRefused, word, reply.said};
    if (reply.answered == Answered::kDied) {
      no.why = NotFound::Why::kWrong;
      no.evidence = "the kernel died: " + reply.said + ": " + to_string(value);
    } else if (reply.done()) {
      no.why = NotFound::Why::kWrong;
      no.evidence =
          (words.empty() ? "taken, and " + reply.said : "taken, and " + words) +
          ": " + to_string(value);
    }
    found.rest.push_back(std::move(no));
    return false;
  }
  if (asked == 0) return false;
  found.fields.push_back(
      {Part::kCapabilities, "options", word,
       fmt::format("{} of {} calls agree, as {}", asked, asked, agrees)});
  return true;
}

}  // namespace

uint64_t find_options(Asker& asker, Identified& found) {
  // The base needs some options first: a scale, and the extents that rules are
  // counted from.
  const auto first = static_cast<int64_t>(found.fields.size());
  std::vector<Question> all;
  add_scales(all);
  add_extents(asker, all);
  uint64_t options = 0;
  for (const Question& question : all) {
    if (!is_taken(asker, question, found)) continue;
    options |= question.option;
    if (question.option == QKVET_OPTION_CROSS_LENGTHS)
      asker.takes_cross_lengths = true;
  }
  find_lse_base(asker);
  all.clear();
  add_causal(asker, all);
  add_outputs(all);
  add_masks(asker, all);
  add_scores(all);
  add_members(asker, all);
  for (const Question& question : all)
    if (is_taken(asker, question, found)) options |= question.option;
  found.rest.push_back({NotFound::Why::kNotTold, "dropout",
                        "its generator is the kernel's own; not asked"});
  // In the order of the bits, as declarations are written.
  const auto place = [](const FoundField& field) {
    size_t n = 0;
    for (const OptionRow& row : option_rows()) {
      if (row.word == field.value) return n;
      ++n;
    }
    return n;
  };
  std::sort(found.fields.begin() + first, found.fields.end(),
            [&](const FoundField& a, const FoundField& b) {
              return place(a) < place(b);
            });
  return options;
}

}  // namespace qkvet::cli
