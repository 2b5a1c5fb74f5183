// SPDX-License-Identifier: Apache-2.0
// Kernels with another reading of masks given as a few numbers, which must be
// reported and hold for fresh answers. The controls: kernels that do nearly the
// same, for which it must not be reported.
#include "diagnosis/fake_faults.h"

namespace qkvet::diagnosis::mask_fields_test {
namespace {

using instead_test::Fault;
using instead_test::in_room;
using instead_test::look;
using instead_test::Looked;

// Returns the description of o for a kernel that declares one of these masks,
// and checks it against fresh answers.
std::string said_of(uint64_t option, FakeExecutor::Question question) {
  const Fault fault{"", Stage::kKeys, std::move(question)};
  const Looked looked = look(fault, nullptr, 4000, "agrees_with_oracle",
                             instead_test::kMaskFields & ~option);
  EXPECT_TRUE(looked.failure);
  if (!looked.failure) return "";
  EXPECT_EQ(looked.score.right, looked.score.all) << looked.instead.text();
  const OutputInstead* o = looked.find(TensorName::kO);
  if (o == nullptr || o->text.empty()) return "";
  EXPECT_STREQ(stage_name(looked.instead.stage), stage_name(Stage::kKeys));
  return o->text;
}

template <class Change>
FakeExecutor::Question each_segment(Change change) {
  return in_room([change](KernelCall&, Problem& p, Room& room) {
    FieldMasks& f = p.fields;
    if (f.segments_q == nullptr) return;
    const Shape& s = p.shape;
    f.segments_q = room.changed(f.segments_q, s.B * s.Tq, change);
    f.segments_k = room.changed(f.segments_k, s.B * s.Tk, change);
  });
}

TEST(InsteadOfFields, SegmentsAreReadOtherwise) {
  constexpr uint64_t kSegments = QKVET_OPTION_SEGMENTS;
  EXPECT_EQ(said_of(kSegments,
                    [](KernelCall&, Problem& p) {
                      p.fields.segments_q = p.fields.segments_k = nullptr;
                    }),
            "the result without the segments");
  EXPECT_EQ(said_of(kSegments, each_segment([](int64_t number) {
                      return int64_t{static_cast<int32_t>(number)};
                    })),
            "the result of segments with numbers that are cut to 32 bits");
  // The control: to eight segments.
  EXPECT_EQ(said_of(kSegments, each_segment([](int64_t number) {
                      return number < 0 ? number : number % 3;
                    })),
            "");
  const auto in_tiles = [](int64_t tile) {
    return in_room([tile](KernelCall&, Problem& p, Room& room) {
      const int64_t* const of = p.fields.segments_k;
      if (of == nullptr) return;
      std::vector<int64_t> k(of, of + p.shape.B * p.shape.Tk);
      for (int64_t n = 0; n < std::ssize(k); ++n)
        k[static_cast<size_t>(n)] = of[n - n % p.shape.Tk % tile];
      p.fields.segments_k = room.keep(std::move(k));
    });
  };
  EXPECT_EQ(said_of(kSegments, in_tiles(4)),
            "the result of segments that change at multiples of 4 keys alone");
  EXPECT_EQ(said_of(kSegments, in_tiles(3)), "");
}

TEST(InsteadOfFields, RangesAreReadOtherwise) {
  constexpr uint64_t kRanges = QKVET_OPTION_FULL_RANGES;
  EXPECT_EQ(said_of(kRanges,
                    [](KernelCall&, Problem& p) {
                      p.fields.full_ranges = nullptr;
                      p.fields.ranges = 0;
                    }),
            "the result without the ranges that are seen both ways");
  EXPECT_EQ(said_of(kRanges,
                    [](KernelCall&, Problem& p) {
                      p.fields.in_window = !p.fields.in_window;
                    }),
            "the result of a window that hides keys of a row's range, too");
  const auto longer = [](int64_t more) {
    return in_room([more](KernelCall&, Problem& p, Room& room) {
      const int64_t* const of = p.fields.full_ranges;
      if (of == nullptr) return;
      std::vector<int64_t> kept(of, of + 2 * p.shape.B * p.fields.ranges);
      for (size_t n = 0; n < kept.size(); n += 2)
        if (kept[n] < kept[n + 1]) kept[n + 1] += more;
      p.fields.full_ranges = room.keep(std::move(kept));
    });
  };
  EXPECT_EQ(said_of(kRanges, longer(1)),
            "the result of ranges that hold their end, too");
  EXPECT_EQ(said_of(kRanges, longer(2)),
            "a sum of values of its key/value head, of hidden keys as well, "
            "with wrong weights");
}

TEST(InsteadOfFields, ChunksAreReadOtherwise) {
  constexpr uint64_t kChunk = QKVET_OPTION_CHUNK;
  const auto times = [](int64_t factor) -> FakeExecutor::Question {
    return [factor](KernelCall&, Problem& p) { p.fields.chunk *= factor; };
  };
  EXPECT_EQ(said_of(kChunk, times(0)), "the result without the chunk");
  EXPECT_EQ(said_of(kChunk, times(2)),
            "the result of chunks that are twice as long");
  EXPECT_EQ(said_of(kChunk, times(3)), "");
  // Aligned to the last key by shifting keys: the oracle's chunks begin at 0.
  const auto from_end = [](int64_t more) {
    return in_room([more](KernelCall&, Problem& p, Room& room) {
      const int64_t chunk = p.fields.chunk;
      if (chunk == 0 || p.members > 0) return;
      const Shape& s = p.shape;
      std::vector<uint8_t> mask(static_cast<size_t>(s.weights_elements()), 1);
      if (p.mask != nullptr) mask.assign(p.mask, p.mask + mask.size());
      for (int64_t n = 0; n < std::ssize(mask); ++n) {
        const int64_t b = n / s.Tk / s.Tq / s.H, i = n / s.Tk % s.Tq;
        const int64_t keys = p.kv_len != nullptr ? p.kv_len[b] : s.Tk;
        const int64_t rows = p.q_len != nullptr ? p.q_len[b] : s.Tq;
        const int64_t at = p.causal == Causal::kTopLeft ? i : i + keys - rows;
        // From the end, both are unchanged, up to a multiple of a chunk.
        const int64_t whole = 64 * chunk + more;
        if ((whole + keys - 1 - at) / chunk !=
            (whole + keys - 1 - n % s.Tk) / chunk)
          mask[static_cast<size_t>(n)] = 0;
      }
      p.mask = room.keep(std::move(mask));
      p.fields.chunk = 0;
    });
  };
  EXPECT_EQ(said_of(kChunk, from_end(0)),
            "the result of chunks that are counted from the last key");
  EXPECT_EQ(said_of(kChunk, from_end(1)), "");
}

TEST(InsteadOfFields, TreesAreReadOtherwise) {
  constexpr uint64_t kTree = QKVET_OPTION_TREE_MASK;
  using OfPair =
      bool (*)(const uint8_t* tree, int64_t drafts, int64_t i, int64_t n);
  const auto with = [](OfPair of_pair) {
    return in_room([of_pair](KernelCall&, Problem& p, Room& room) {
      if (p.fields.tree == nullptr) return;
      const int64_t drafts = p.shape.Tq;
      std::vector<uint8_t> tree;
      for (int64_t n = 0; n < p.shape.B * drafts * drafts; ++n) {
        const uint8_t* own =
            p.fields.tree + n / drafts / drafts * drafts * drafts;
        tree.push_back(of_pair(own, drafts, n / drafts % drafts, n % drafts));
      }
      p.fields.tree = room.keep(std::move(tree));
    });
  };
  EXPECT_EQ(
      said_of(kTree, [](KernelCall&, Problem& p) { p.fields.tree = nullptr; }),
      "the result without the tree");
  EXPECT_EQ(
      said_of(kTree, with([](const uint8_t* tree, int64_t drafts, int64_t i,
                             int64_t n) { return tree[n * drafts + i] != 0; })),
      "the result of the tree with rows and drafts exchanged");
  EXPECT_EQ(said_of(kTree, with([](const uint8_t* tree, int64_t drafts,
                                   int64_t i, int64_t n) {
                      return n < i || tree[i * drafts + n] != 0;
                    })),
            "the result of a row that sees all drafts before it, on its branch "
            "or not");
  // The control: some of them.
  EXPECT_EQ(said_of(kTree, with([](const uint8_t* tree, int64_t drafts,
                                   int64_t i, int64_t n) {
                      return (n < i && n % 3 == 1) || tree[i * drafts + n] != 0;
                    })),
            "");
}

}  // namespace
}  // namespace qkvet::diagnosis::mask_fields_test
