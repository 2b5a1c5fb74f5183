// SPDX-License-Identifier: Apache-2.0
#include "fuzz/input/mutate.h"

#include <algorithm>
#include <vector>

#include "core/case/case_options.h"

namespace qkvet::fuzz {
namespace {

// What two cases can swap. Where one piece does not go with the rest, the
// nearest legal case is taken.
using Piece = void (*)(const Case& from, Case& to);

// And each option (case_options.h).
constexpr Piece kAttentionPieces[] = {
    [](const Case& from, Case& to) { to.shape = from.shape; },
    [](const Case& from, Case& to) { to.causal = from.causal; },
};
constexpr Piece kStoryPieces[] = {
    [](const Case& from, Case& to) { to.rope = from.rope; },
    [](const Case& from, Case& to) {
      to.shape.B = from.shape.B;
      to.story = from.story, to.capacity = from.capacity;
    },
    [](const Case& from, Case& to) { to.cache = from.cache; },
    [](const Case& from, Case& to) {
      to.shape.d = from.shape.d, to.shape.dv = from.shape.dv;
      to.shape.H = from.shape.H, to.shape.Hkv = from.shape.Hkv;
    },
};
constexpr Piece kLayerPieces[] = {
    [](const Case& from, Case& to) { to.rope = from.rope; },
    [](const Case& from, Case& to) { to.shape = from.shape; },
    [](const Case& from, Case& to) { to.biases = from.biases; },
    [](const Case& from, Case& to) { to.unbatched = from.unbatched; },
    [](const Case& from, Case& to) { to.fused = from.fused; },
    [](const Case& from, Case& to) { to.context = from.context; },
    [](const Case& from, Case& to) { to.causal = from.causal; },
    [](const Case& from, Case& to) {
      to.x = from.x, to.w = from.w, to.bias = from.bias;
    },
};
constexpr Piece kCommonPieces[] = {
    [](const Case& from, Case& to) {
      to.q_dtype = from.q_dtype, to.kv_dtype = from.kv_dtype;
      to.o_dtype = from.o_dtype;
    },
    [](const Case& from, Case& to) { to.scale = from.scale; },
    [](const Case& from, Case& to) {
      to.q = from.q, to.k = from.k, to.v = from.v;
    },
    [](const Case& from, Case& to) { to.seed = from.seed; },
    [](const Case& from, Case& to) { to.set = from.set; },
};

std::vector<Piece> pieces_of(const Case& value) {
  std::vector<Piece> pieces(std::begin(kCommonPieces), std::end(kCommonPieces));
  const auto add = [&pieces](std::span<const Piece> own) {
    pieces.insert(pieces.end(), own.begin(), own.end());
  };
  if (value.is_layer()) {
    add(kLayerPieces);
  } else if (value.subject() == Subject::kCache) {
    add(kStoryPieces);
  } else {
    add(kAttentionPieces);
    for (const CaseOption& option : case_options())
      pieces.push_back(option.copy);
  }
  return pieces;
}

void take_piece(const Case& from, Case& to, Draw& draw) {
  const std::vector<Piece> pieces = pieces_of(to);
  pieces[draw.bits() % pieces.size()](from, to);
}

// Where vectors and tiles begin and end.
constexpr std::array<int64_t, 22> kEdges = {0,  1,  2,  3,  4,   7,  8,  9,
                                            15, 16, 17, 31, 32,  33, 47, 48,
                                            49, 63, 64, 65, 127, 129};

int64_t changed_number(int64_t now, Draw& draw) {
  switch (draw.range(0, 5)) {
    case 0:
      return now + 1;
    case 1:
      return now - 1;
    case 2:
      return 2 * now;
    case 3:
      return now / 2;
    case 4:
      return draw.of(kEdges);
    default:
      return now + draw.range(-4, 4);
  }
}

// Not below `least`.
void change(int64_t& number, int64_t least, Draw& draw) {
  number = std::clamp(changed_number(number, draw), least, int64_t{4096});
}

void change_heads(Shape& s, Draw& draw) {
  constexpr std::array<int64_t, 6> kFew = {1, 1, 2, 3, 4, 5};
  s.Hkv = draw.of(kFew);
  s.H = s.Hkv * draw.of(kFew);
}

void change_extent(Case& value, Draw& draw) {
  Shape& s = value.shape;
  const Subject subject = value.subject();
  switch (draw.range(0, 6)) {
    case 0:
      return change(s.B, subject == Subject::kAttention ? 0 : 1, draw);
    case 1:
      return change_heads(s, draw);
    case 2:
      if (subject == Subject::kCache) return change(value.capacity, 1, draw);
      return change(s.Tq, subject == Subject::kAttention ? 0 : 1, draw);
    case 3:
      return change(s.Tk, subject == Subject::kAttention ? 0 : 1, draw);
    case 4:
      return change(s.d, 1, draw);
    case 5:
      return change(s.dv, 1, draw);
    default:
      if (value.is_layer()) return change(s.D, 1, draw);
      s.Tq = s.Tk, s.dv = s.d;
  }
}

// One of the numbers that options have.
void change_option(Case& value, Draw& draw) {
  std::vector<int64_t*> numbers;
  if (value.window)
    numbers.insert(numbers.end(), {&value.window->left, &value.window->right});
  if (value.mask.kind != MaskKind::kNone)
    numbers.push_back(&value.mask.parameter);
  for (auto* lengths : {&value.q_len, &value.kv_len})
    for (int64_t& length : *lengths) numbers.push_back(&length);
  for (auto* ends : {&value.cu_q, &value.cu_k})
    for (size_t i = 1; i + 1 < ends->size(); ++i)
      numbers.push_back(&(*ends)[i]);
  if (value.paging.size > 0) numbers.push_back(&value.paging.size);
  if (value.append > 0) numbers.push_back(&value.append);
  if (value.cache.window > 0) numbers.push_back(&value.cache.window);
  if (value.cache.first_tokens > 0)
    numbers.push_back(&value.cache.first_tokens);
  if (value.cache.rollback > 0) numbers.push_back(&value.cache.rollback);
  if (value.rope.style != RopeStyle::kNone)
    numbers.push_back(&value.rope.first);
  if (!numbers.empty()) change(*numbers[draw.bits() % numbers.size()], 0, draw);
}

void change_story(Case& value, Draw& draw) {
  Story& story = value.story;
  const size_t at = draw.bits() % story.size();
  const auto place = story.begin() + static_cast<ptrdiff_t>(at);
  switch (draw.range(0, 5)) {
    case 0: {
      const StoryCommand again = *place;
      story.insert(place, again);
      return;
    }
    case 1:
      if (story.size() > 1) story.erase(place);
      return;
    case 2:
      std::swap(story[at], story[draw.bits() % story.size()]);
      return;
    case 3:
      return change(place->count, 0, draw);
    case 4:
      place->sequence = draw.range(0, value.shape.B - 1);
      return;
    default:
      return change(place->first, 0, draw);
  }
}

void change_structure(const Law& law, const InputRules& rules, Case& value,
                      Draw& draw) {
  if (value.subject() == Subject::kCache && draw.chance(40))
    return change_story(value, draw);
  const int64_t which = draw.range(0, 99);
  if (which < 45) return change_extent(value, draw);
  if (which < 65) return change_option(value, draw);
  take_piece(draw_case(draw, law, rules.scope), value, draw);
}

}  // namespace

FuzzInput mutated(const FuzzInput& input, const InputRules& rules,
                  int values_percent, Draw& draw) {
  FuzzInput next = input;
  if (draw.chance(5)) next.law = rules.laws[draw.bits() % rules.laws.size()];
  // As many legal cases look alike behind constrain(), the change may be none.
  constexpr int kMostTries = 4;
  for (int n = 0; n < kMostTries; ++n) {
    do {
      if (draw.chance(values_percent))
        change_values(next.value, rules.recipes, draw);
      else
        change_structure(*next.law, rules, next.value, draw);
    } while (draw.chance(35));
    next.value = nearest_legal(*next.law, std::move(next.value), rules);
    if (!(next.value == input.value)) break;
  }
  return next;
}

FuzzInput crossed(const FuzzInput& a, const FuzzInput& b,
                  const InputRules& rules, Draw& draw) {
  FuzzInput next = a;
  if (draw.chance(20)) next.law = b.law;
  do {
    take_piece(b.value, next.value, draw);
  } while (draw.chance(50));
  next.value = nearest_legal(*next.law, std::move(next.value), rules);
  return next;
}

}  // namespace qkvet::fuzz
