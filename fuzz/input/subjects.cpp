// SPDX-License-Identifier: Apache-2.0
#include "fuzz/input/subjects.h"

#include <algorithm>

namespace qkvet::fuzz {
namespace {

constexpr size_t kMostFuzzedCommands = 24;
constexpr int64_t kMostCount = 24;  // tokens and queries of one command
constexpr int64_t kMostTokensHeld = 48;
constexpr int64_t kMostWidth = 48;  // of heads where there are many calls
constexpr int64_t kMostHeads = 8;
constexpr int64_t kMostMembers = 4;
constexpr int64_t kMostTokensOfLayer = 24;

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
constexpr Piece kMergePieces[] = {
    [](const Case& from, Case& to) { to.shape = from.shape; },
    [](const Case& from, Case& to) { to.score_bias = from.score_bias; },
    [](const Case& from, Case& to) {
      to.shape.B = from.shape.B, to.kv_len = from.kv_len;
    },
    [](const Case& from, Case& to) { to.layout = from.layout; },
};
constexpr TensorName kAttentionTensors[] = {
    TensorName::kQ, TensorName::kK,    TensorName::kV,   TensorName::kQ,
    TensorName::kK, TensorName::kBias, TensorName::kSink};
constexpr TensorName kMergeTensors[] = {TensorName::kV, TensorName::kBias};
constexpr TensorName kStoryTensors[] = {TensorName::kQ, TensorName::kK,
                                        TensorName::kV};
constexpr TensorName kLayerTensors[] = {TensorName::kX,  TensorName::kWq,
                                        TensorName::kWk, TensorName::kWv,
                                        TensorName::kWo, TensorName::kBq};

// Extents at the edges of vectors and tiles.
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

}  // namespace

void change_number(int64_t& number, int64_t least, Draw& draw) {
  number = std::clamp(changed_number(number, draw), least, int64_t{4096});
}

namespace {

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
      return change_number(place->count, 0, draw);
    case 4:
      place->sequence = draw.range(0, value.shape.B - 1);
      return;
    default:
      return change_number(place->first, 0, draw);
  }
}

// Another number of states, of all rows or of one.
void change_merge(Case& value, Draw& draw) {
  if (value.kv_len.empty()) return change_number(value.shape.Tk, 1, draw);
  change_number(value.kv_len[draw.bits() % value.kv_len.size()], 0, draw);
}

int64_t work_of(const Shape& s) {
  return s.B * s.H * s.Tq * s.Tk * (s.d + s.dv) +
         s.B * (s.H * s.Tq + s.Hkv * s.Tk) * (s.d + s.dv);
}

void trim_attention(Case& value, int64_t most_work) {
  Shape& s = value.shape;
  if (s.H > kMostHeads) s.H = s.Hkv = kMostHeads;
  s.B = std::min(s.B, kMostMembers);
  for (int64_t* extent : {&s.Tq, &s.Tk, &s.d, &s.dv})
    *extent = std::min<int64_t>(*extent, 512);
  while (work_of(s) > most_work) {
    int64_t* largest = &s.Tk;
    for (int64_t* extent : {&s.Tq, &s.d, &s.dv, &s.B})
      if (*extent > *largest) largest = extent;
    if (*largest > kMostHeads)
      *largest /= 2;
    else
      s.H = s.Hkv = 1, s.B = 1;
  }
}

// Commands name sequences that there are.
void keep_sequences(int64_t sequences, StoryCommand& command) {
  command.count = std::clamp<int64_t>(command.count, 0, kMostCount);
  command.first = std::clamp<int64_t>(command.first, 0, kMostTokensHeld);
  command.sequence = std::max<int64_t>(command.sequence, 0) % sequences;
  if (command.verb == StoryVerb::kFork) command.count %= sequences;
  if (command.verb != StoryVerb::kReorder) return;
  command.parents.resize(static_cast<size_t>(sequences), 'a');
  for (char& parent : command.parents)
    if (parent < 'a' || parent >= 'a' + sequences) parent = 'a';
}

void trim_story(Case& value, int64_t) {
  Shape& s = value.shape;
  s.B = std::clamp<int64_t>(s.B, 1, kMostMembers);
  if (s.H > kMostHeads) s.H = s.Hkv = kMostHeads;
  s.d = std::min(s.d, kMostWidth);
  s.dv = std::min(s.dv, kMostWidth);
  value.capacity = std::clamp<int64_t>(value.capacity, 1, kMostTokensHeld);
  if (value.story.size() > kMostFuzzedCommands)
    value.story.resize(kMostFuzzedCommands);
  for (StoryCommand& command : value.story) keep_sequences(s.B, command);
  constrain_extents_to_story(value);
}

void trim_layer(Case& value, int64_t) {
  Shape& s = value.shape;
  s.B = std::min(s.B, kMostMembers);
  s.Tq = s.Tk = std::min(s.Tq, kMostTokensOfLayer);
  if (s.H > kMostHeads) s.H = s.Hkv = kMostHeads;
  const bool model_follows = s.D == s.H * s.d;
  s.d = std::min<int64_t>(s.d, kMostHeads);
  s.dv = std::min<int64_t>(s.dv, kMostHeads);
  s.D = model_follows ? s.H * s.d : std::min(s.D, kMostWidth);
}

void trim_merge(Case& value, int64_t) {
  Shape& s = value.shape;
  s.B = std::min<int64_t>(s.B, kMostTokensOfLayer);
  s.H = s.Hkv = std::min(s.H, kMostHeads);
  s.Tk = std::min<int64_t>(s.Tk, kMostTokensOfLayer);
  s.dv = std::min(s.dv, kMostWidth);
}

constexpr FuzzedSubject attention(Subject subject, int64_t least_extent) {
  return {.subject = subject,
          .pieces = kAttentionPieces,
          .tensors = kAttentionTensors,
          .trim = trim_attention,
          .has_options = true,
          .least_extent = least_extent};
}

constexpr FuzzedSubject layer(Subject subject) {
  return {.subject = subject,
          .pieces = kLayerPieces,
          .tensors = kLayerTensors,
          .trim = trim_layer,
          .recipes = {&Case::x, &Case::w, &Case::bias},
          .one_preset = false,
          .has_model_width = true};
}

constexpr FuzzedSubject kSubjects[] = {
    attention(Subject::kAttention, /*least_extent=*/0),
    attention(Subject::kBackward, /*least_extent=*/1),
    {.subject = Subject::kCache,
     .pieces = kStoryPieces,
     .tensors = kStoryTensors,
     .trim = trim_story,
     .rows = [](Case& value) -> int64_t& { return value.capacity; },
     .change_own = change_story},
    layer(Subject::kLayer),
    layer(Subject::kLayerBackward),
    {.subject = Subject::kMerge,
     .pieces = kMergePieces,
     .tensors = kMergeTensors,
     .trim = trim_merge,
     .recipes = {&Case::v, &Case::v, &Case::v},
     .one_preset = false,
     .rows = [](Case& value) -> int64_t& { return value.shape.B; },
     .change_own = change_merge}};

}  // namespace

const FuzzedSubject& fuzzed_subject(const Case& value) {
  return *std::ranges::find(kSubjects, value.subject(),
                            &FuzzedSubject::subject);
}

}  // namespace qkvet::fuzz
