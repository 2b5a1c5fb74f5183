// SPDX-License-Identifier: Apache-2.0
// Stories of caches: which commands, on which sequence, with how many tokens.
#include <algorithm>

#include "properties/cases/draw.h"
#include "properties/sequences/story_calls.h"

namespace qkvet::properties {
namespace {

StoryVerb draw_verb(Draw& draw, const Scope& scope, int64_t sequences) {
  const int64_t percent = draw.range(0, 99);
  if (sequences > 1 && percent >= 86 && scope.forks)
    return percent < 95 || !scope.reorders ? StoryVerb::kFork
                                           : StoryVerb::kReorder;
  const int64_t rest = draw.range(0, 99);
  return rest < 55                      ? StoryVerb::kStep
         : rest < 70                    ? StoryVerb::kAppend
         : rest < 82                    ? StoryVerb::kAttend
         : rest < 89 && scope.truncates ? StoryVerb::kTruncate
         : rest < 93 || !scope.evicts   ? StoryVerb::kReset
                                        : StoryVerb::kEvict;
}

// Half of all steps decode one token.
void draw_counts(Draw& draw, int64_t sequences, int64_t capacity,
                 StoryCommand& command) {
  // In a long cache the prompt is all that is long.
  constexpr int64_t kMost = 256;
  int64_t most = std::clamp<int64_t>(capacity / 2, 1, kMost);
  switch (command.verb) {
    case StoryVerb::kReset:
    case StoryVerb::kReorder:
      return;
    case StoryVerb::kFork:
      command.count = draw.range(0, sequences - 1);
      return;
    case StoryVerb::kEvict:  // near the front, where there are tokens
      most = std::clamp<int64_t>(capacity / 4, 1, kMost);
      command.first = draw.range(0, most);
      break;
    default:
      break;
  }
  command.count = draw.chance(50) ? 1 : draw.range(1, most);
}

// At most this many commands in one story; a law's constrain() drops illegal
// ones.
void draw_commands(Draw& draw, const Scope& scope, int64_t most,
                   int64_t sequences, int64_t capacity, Story& story) {
  const int64_t commands = draw.range(1, most);
  for (int64_t i = 0; i < commands; ++i) {
    StoryCommand command;
    command.sequence = draw.range(0, sequences - 1);
    command.verb = draw_verb(draw, scope, sequences);
    if (command.verb == StoryVerb::kReorder) {
      command.sequence = 0;
      for (int64_t s = 0; s < sequences; ++s)
        command.parents +=
            static_cast<char>('a' + draw.range(0, sequences - 1));
    }
    draw_counts(draw, sequences, capacity, command);
    story.push_back(command);
  }
}

constexpr int64_t kMostOfShort = 8, kMostOfLong = 4;  // commands

// Every command of a long story costs as much as a whole short one.
void keep_narrow(Shape& s) {
  constexpr int64_t kMostWidth = 8, kMostHeads = 2;
  s.d = std::min(s.d, kMostWidth);
  s.dv = std::min(s.dv, kMostWidth);
  s.Hkv = std::min(s.Hkv, kMostHeads);
  s.H = s.Hkv * (s.H > s.Hkv ? 2 : 1);
}

// Stories are as long as the capacity lets them be.
void pin_capacity(const Scope& scope, Case& value) {
  for (const Pin& pin : scope.pins)
    if (pin.extent == "cap") value.capacity = pin.value;
}

void draw_extents(Draw& draw, const Scope& scope, Case& value) {
  SizeClass size = draw_size(draw, scope.largest);
  if (size == SizeClass::kLong && draw.chance(85)) size = SizeClass::kSmall;
  const bool is_long = size == SizeClass::kLong;
  Shape& s = value.shape;
  draw_heads(draw, SizeClass::kSmall, s);
  s.B = draw.chance(50) ? 1 : draw.range(2, 3);
  const SizeClass width = is_long ? SizeClass::kSmall : size;
  s.d = draw_extent(draw, width);
  s.dv = draw.chance(70) ? s.d : draw_extent(draw, width);
  if (is_long) keep_narrow(s);
  value.capacity = draw_capacity(draw, size);
  pin_capacity(scope, value);
  if (is_long)
    value.story.push_back(
        {StoryVerb::kAppend, 0, value.capacity - draw.range(0, 40)});
  draw_commands(draw, scope, is_long ? kMostOfLong : kMostOfShort, s.B,
                value.capacity, value.story);
}

// A sequence of steps that ends at this number of tokens: all of them at once,
// or a prompt that stops before it.
void reach_length(Draw& draw, int64_t length, Story& story) {
  constexpr int64_t kMostAtOnce = 300, kMostSteps = 4;
  const int64_t behind = std::min(draw.range(1, kMostSteps), length - 1);
  if (behind == 0 || (length <= kMostAtOnce && draw.chance(30))) {
    story.push_back({StoryVerb::kStep, 0, length});
    return;
  }
  story.push_back({draw.chance(80) ? StoryVerb::kAppend : StoryVerb::kStep, 0,
                   length - behind});
  if (length > kMostAtOnce) story.back().verb = StoryVerb::kAppend;
  if (draw.chance(30)) {
    story.push_back({StoryVerb::kStep, 0, behind});
    return;
  }
  for (int64_t n = 0; n < behind; ++n)
    story.push_back({StoryVerb::kStep, 0, 1});
}

// A length that a sequence reaches, tokens that come in one call, or another
// extent. Returns whether stories can have it at their usual cost.
bool draw_near(Draw& draw, const Scope& scope, const NearPath& near,
               Case& value) {
  constexpr int64_t kLongFrom = 300, kFew = 24, kSpare = 9;
  if (near.axis == QKVET_AXIS_B && near.extent > kMostSequences) return false;
  Shape& s = value.shape;
  draw_heads(draw, SizeClass::kSmall, s);
  s.d = draw_extent(draw, SizeClass::kSmall);
  s.dv = draw.chance(70) ? s.d : draw_extent(draw, SizeClass::kSmall);
  const bool in_tokens =
      near.axis == QKVET_AXIS_TQ || near.axis == QKVET_AXIS_TK;
  value.capacity = in_tokens ? near.extent + draw.range(0, kSpare)
                             : draw_capacity(draw, SizeClass::kSmall);
  pin_capacity(scope, value);
  if (near.axis == QKVET_AXIS_TK) reach_length(draw, near.extent, value.story);
  if (near.axis == QKVET_AXIS_TQ)
    value.story.push_back({StoryVerb::kStep, 0, near.extent});
  if (!in_tokens) put_extent(draw, scope, near.axis, near.extent, s);
  const bool is_long = value.capacity > kLongFrom;
  if (is_long) keep_narrow(s);
  draw_commands(draw, scope, is_long ? kMostOfLong : kMostOfShort, s.B,
                std::min(value.capacity, kFew), value.story);
  constrain_extents_to_story(value);
  return is_drawn_at_its_cost(draw, work_of(s), near.most_work);
}

// A window that most stories outgrow, and storage in codes.
CacheForm draw_form(Draw& draw, const Law& law, const Scope& scope) {
  CacheForm form;
  if (draw.chance((law.domain.about & QKVET_OPTION_WINDOW) != 0 ? 100 : 35)) {
    form.window = draw.range(1, 6);
    if (draw.chance(40)) form.first_tokens = draw.range(1, 3);
    if (draw.chance(60)) form.rollback = draw.range(1, 4);
  }
  if (!draw.chance((law.domain.about & kOptionStored) != 0 ? 100 : 15))
    return form;
  std::vector<StoredAs> declared;
  for (int stored = 1; stored < kStoredAsCount; ++stored)
    if (declares_stored(scope.cache_options, static_cast<StoredAs>(stored)))
      declared.push_back(static_cast<StoredAs>(stored));
  if (!declared.empty())
    form.stored = declared[static_cast<size_t>(
        draw.range(0, static_cast<int64_t>(declared.size()) - 1))];
  return form;
}

// Drawn from a separate stream: a story without them keeps its bytes.
void draw_scores(const Scope& scope, Case& value) {
  constexpr uint32_t kStream = 0x5C0E;
  constexpr uint64_t kOfForm =
      QKVET_OPTION_ROPE | QKVET_OPTION_ROPE_PART | QKVET_OPTION_WINDOW;
  uint32_t next = 0;
  Draw draw([&] { return philox_u64(value.seed, kStream, next++, 0); });
  for (const auto& [declared, option] : kCacheOptions)
    if ((option & kOfForm) == 0 && (scope.cache_options & declared) != 0 &&
        draw.chance(30))
      draw_option(draw, option, value);
  if (value.rope.style != RopeStyle::kNone &&
      (scope.cache_options & QKVET_CACHE_ROPE_PART) != 0 && value.shape.d > 2 &&
      draw.chance(30))
    draw_rope_part(draw, value);
  draw_any_strides(scope, value);
}

// Most windows have first tokens, because a ring begins after them. Drawn from
// a separate stream.
void draw_first_tokens(Case& value) {
  constexpr uint32_t kStream = 0xF125;
  uint32_t next = 0;
  Draw draw([&] { return philox_u64(value.seed, kStream, next++, 0); });
  if (value.cache.window > 0 && value.cache.first_tokens == 0 &&
      draw.chance(60))
    value.cache.first_tokens = draw.range(1, 3);
}

// A token is one of two: prompts repeat each other and themselves, and caches
// share their pages.
void repeat_tokens(const Scope& scope, Case& value) {
  value.shape.H = value.shape.Hkv = value.shape.dv = 1;
  value.k = make_recipe(RecipeKind::kOne);
  value.v = make_recipe(RecipeKind::kCount);
  keep_to_declared(scope, value);
  apply_pins(scope, value);
}

}  // namespace

Case draw_story(Draw& draw, const Law& law, const Scope& scope) {
  // That of a case of medium size.
  constexpr int64_t kMostWork = int64_t{1} << 21;
  Case value;
  draw_dtype(draw, scope, value);
  const auto near = draw_near_path_of(draw, scope, scope.largest, kMostWork);
  if (!near || !draw_near(draw, scope, *near, value)) {
    value.story.clear();
    draw_extents(draw, scope, value);
  }
  value.cache = draw_form(draw, law, scope);
  if (draw.chance(30)) {
    if (value.shape.dv == value.shape.d) value.shape.dv += value.shape.d % 2;
    value.shape.d += value.shape.d % 2;
    value.rope = {draw_rotation(draw).style};
  }
  constrain_extents_to_story(value);
  draw_scale(draw, value);
  keep_to_declared(scope, value);
  apply_pins(scope, value);
  draw_data(draw, value);
  draw_scores(scope, value);
  draw_first_tokens(value);
  if (draw.chance(10)) repeat_tokens(scope, value);
  // With large scores the error of a code decides which key wins, and the bound
  // is uninformative.
  if (value.cache.stored != StoredAs::kAsGiven)
    value.q = make_recipe(RecipeKind::kSmall);
  return constrained(law, std::move(value));
}

}  // namespace qkvet::properties
