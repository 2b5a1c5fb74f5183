// SPDX-License-Identifier: Apache-2.0
#include "properties/cases/draw.h"

#include <algorithm>

#include "properties/calls/story_calls.h"
#include "properties/conventions/domain.h"

namespace qkvet::properties {
namespace {

int64_t draw_parameter(Draw& draw, RecipeKind kind, const Shape& shape) {
  const int64_t last_key = std::max<int64_t>(shape.Tk, 1) - 1;
  switch (kind) {
    case RecipeKind::kOnehotN:
      return draw.chance(50) ? 0 : draw.range(0, last_key);
    case RecipeKind::kDominantN:
      return draw.range(0, last_key);
    case RecipeKind::kAscendingN:
    case RecipeKind::kDescendingN:
      return draw.range(1, 8);
    case RecipeKind::kLargeN:
      return draw.range(0, 4);
    case RecipeKind::kOffsetN:
      return draw.range(0, 5);
    case RecipeKind::kCancellingN:
      return draw.range(0, 10);
    default:
      return 0;
  }
}

Recipe draw_recipe(Draw& draw, RecipeKind kind, const Shape& shape) {
  return {kind, draw_parameter(draw, kind, shape)};
}

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

// Commands of one story; a law's constrain() drops what is illegal.
Story draw_commands(Draw& draw, const Scope& scope, SizeClass size,
                    int64_t sequences, int64_t capacity) {
  Story story;
  if (size == SizeClass::kLong) {
    StoryCommand prompt;
    prompt.verb = StoryVerb::kAppend;
    prompt.count = capacity - draw.range(0, 40);
    story.push_back(prompt);
  }
  const int64_t commands = draw.range(1, size == SizeClass::kLong ? 4 : 8);
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
  return story;
}

}  // namespace

void draw_data(Draw& draw, Case& value) {
  const auto presets = data_presets();
  draw_data_of(draw,
               presets[static_cast<size_t>(
                   draw.range(0, static_cast<int64_t>(presets.size()) - 1))],
               value);
}

void draw_data_of(Draw& draw, const DataPreset& preset, Case& value) {
  value.q = draw_recipe(draw, preset.q, value.shape);
  value.k = draw_recipe(draw, preset.k, value.shape);
  value.v = draw_recipe(draw, preset.v, value.shape);
  value.seed = draw.bits() >> 44;  // short enough to read in a spelling
}

void draw_dtype(Draw& draw, const Scope& scope, Case& value) {
  // Mixtures are judged in calls and in caches; they stand behind the others.
  const bool mixes = !value.is_layer() && !value.backward;
  auto count = static_cast<int64_t>(scope.dtypes.size());
  while (!mixes && count > 1 &&
         !scope.dtypes[static_cast<size_t>(count - 1)].is_one())
    --count;
  const bool first = count == 1 || draw.chance(50);
  store_as(
      scope.dtypes[static_cast<size_t>(first ? 0 : draw.range(1, count - 1))],
      value);
}

void draw_scale(Draw& draw, Case& value) {
  if (draw.chance(20)) {
    constexpr std::array<float, 7> kScales = {1.0f, 0.125f, 0.3f,   0.0625f,
                                              0.7f, -0.3f,  -0.125f};
    value.scale = draw.of(kScales);
  }
}

Case draw_attention(Draw& draw, const Law& law, const Scope& scope) {
  return constrained(law,
                     draw_unconstrained(draw, law, scope, /*backward=*/false));
}

Case draw_unconstrained(Draw& draw, const Law& law, const Scope& scope,
                        bool backward) {
  Case value;
  value.backward = backward;
  draw_dtype(draw, scope, value);
  value.shape = draw_shape(draw, law, scope, backward);
  const int64_t causal = draw.range(0, 99);
  if (law.domain.causal)
    value.causal = causal < 50 ? Causal::kTopLeft : Causal::kBottomRight;
  else
    value.causal = causal < 40   ? Causal::kNone
                   : causal < 70 ? Causal::kTopLeft
                                 : Causal::kBottomRight;
  draw_scale(draw, value);
  draw_options(draw, law, scope, value);
  keep_to_declared(scope, value);
  apply_pins(scope, value);
  draw_data(draw, value);
  return value;
}

// A window that most stories outgrow, and storage in codes.
CacheForm draw_form(Draw& draw, const Law& law, const Scope& scope) {
  CacheForm form;
  if (draw.chance((law.domain.about & kAllowWindow) != 0 ? 100 : 35)) {
    form.window = draw.range(1, 6);
    if (draw.chance(40)) form.first_tokens = draw.range(1, 3);
    if (draw.chance(60)) form.rollback = draw.range(1, 4);
  }
  if (!draw.chance((law.domain.about & kAllowStored) != 0 ? 100 : 15))
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

// A token is one of two: prompts repeat each other and themselves, and caches
// share what they hold.
void repeat_tokens(const Scope& scope, Case& value) {
  value.shape.H = value.shape.Hkv = value.shape.dv = 1;
  value.k = make_recipe(RecipeKind::kOne);
  value.v = make_recipe(RecipeKind::kCount);
  keep_to_declared(scope, value);
  apply_pins(scope, value);
}

Case draw_story(Draw& draw, const Law& law, const Scope& scope) {
  Case value;
  draw_dtype(draw, scope, value);
  SizeClass size = draw_size(draw, scope.largest);
  // Every command of a long story costs as much as a whole short one.
  if (size == SizeClass::kLong && draw.chance(85)) size = SizeClass::kSmall;
  draw_heads(draw, SizeClass::kSmall, value.shape);
  value.shape.B = draw.chance(50) ? 1 : draw.range(2, 3);
  const SizeClass width = size == SizeClass::kLong ? SizeClass::kSmall : size;
  value.shape.d = draw_extent(draw, width);
  value.shape.dv = draw.chance(70) ? value.shape.d : draw_extent(draw, width);
  if (size == SizeClass::kLong) {
    constexpr int64_t kWidest = 8;
    value.shape.d = std::min(value.shape.d, kWidest);
    value.shape.dv = std::min(value.shape.dv, kWidest);
    constexpr int64_t kMostHeads = 2;
    value.shape.Hkv = std::min(value.shape.Hkv, kMostHeads);
    value.shape.H = value.shape.Hkv * (value.shape.H > value.shape.Hkv ? 2 : 1);
  }
  value.capacity = draw_capacity(draw, size);
  // Stories are as long as the capacity lets them be.
  for (const Pin& pin : scope.pins)
    if (pin.extent == "cap") value.capacity = pin.value;
  value.story = draw_commands(draw, scope, size, value.shape.B, value.capacity);
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
  if (draw.chance(10)) repeat_tokens(scope, value);
  // With large scores the error of a code decides which key wins, and the bound
  // says nothing.
  if (value.cache.stored != StoredAs::kAsGiven)
    value.q = make_recipe(RecipeKind::kSmall);
  return constrained(law, std::move(value));
}

Case draw_layer(Draw& draw, const Law& law, const Scope& scope) {
  return constrained(law,
                     draw_unconstrained_layer(draw, scope, /*backward=*/false));
}

Case draw_unconstrained_layer(Draw& draw, const Scope& scope, bool backward) {
  Case value;
  value.backward = backward;
  value.shape.D = 1;  // a layer, whatever its width
  draw_dtype(draw, scope, value);
  const SizeClass size = draw_size(draw, scope.largest);
  Shape& s = value.shape;
  draw_heads(draw, SizeClass::kSmall, s);
  s.Tq = s.Tk =
      draw_extent(draw, size == SizeClass::kLong ? SizeClass::kSmall : size);
  // Most layers have d = dv = D/H; a head width of its own is legal.
  s.d = draw.range(1, 8);
  s.D = s.H * s.d;
  s.dv = s.d;
  if (draw.chance(30)) {
    s.D = draw.range(1, 24);
    s.dv = draw.chance(50) ? s.d : draw.range(1, 8);
  }
  value.unbatched = draw.chance(25);
  if (draw.chance(50)) value.causal = Causal::kBottomRight;
  if (s.d % 2 == 0 && draw.chance(50)) value.rope = draw_rotation(draw);
  if (draw.chance(60)) value.biases = static_cast<uint8_t>(draw.range(1, 15));
  if (!backward) draw_layer_storage(draw, value);
  draw_scale(draw, value);
  constexpr std::array<Recipe, 6> kInputs = {{{RecipeKind::kNormal, 0},
                                              {RecipeKind::kNormal, 0},
                                              {RecipeKind::kLattice, 0},
                                              {RecipeKind::kSmall, 0},
                                              {RecipeKind::kOnehotN, 0},
                                              {RecipeKind::kCancellingN, 4}}};
  constexpr std::array<Recipe, 5> kMatrices = {{{RecipeKind::kScaledN, 1},
                                                {RecipeKind::kScaledN, 2},
                                                {RecipeKind::kNormal, 0},
                                                {RecipeKind::kLattice, 0},
                                                {RecipeKind::kOnehotN, 0}}};
  value.x = draw.of(kInputs);
  value.w = draw.of(kMatrices);
  if (draw.chance(50)) value.bias = {RecipeKind::kLattice, 0};
  value.seed = draw.bits() >> 44;
  const bool model_follows = s.D == s.H * s.d;
  keep_to_declared(scope, value);
  if (model_follows) s.D = s.H * s.d;
  apply_pins(scope, value);
  return value;
}

}  // namespace qkvet::properties
