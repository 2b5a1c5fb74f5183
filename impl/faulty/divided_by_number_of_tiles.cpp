// SPDX-License-Identifier: Apache-2.0
// faulty/divided_by_number_of_tiles: without keys there are no tiles to share.
#include <csignal>
#include <cstdint>

#include "impl/faulty/option_fault.h"
#include "impl/faulty/tile.h"

namespace qkvet::impl {
namespace {

struct DividedByNumberOfTiles : OptionSeams {
  static void member(const ForwardCall& whole, int64_t, ForwardCall*) {
    const int64_t tiles = (whole.keys + tile() - 1) / tile();
    shares() = quotient(whole.queries, tiles);
  }

 private:
  // To divide by 0 is undefined, x86 raises this signal and other machines go
  // on: raised here, so that it is the same fault on all.
  static int64_t quotient(int64_t a, int64_t b) {
    if (b == 0) {
      std::raise(SIGFPE);
      return 0;
    }
    return a / b;
  }
  static int64_t& shares() {
    thread_local int64_t count = 0;
    return count;
  }
};

constexpr const char* kKilledBy[] = {"empty_extents_are_legal", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "rows are shared out by dividing by the number of tiles of keys, which "
        "may be 0",
    .symptom =
        "the process dies in the first call of a sequence that has nothing "
        "cached yet",
    .cause =
        "the shares are worked out before it is seen that there is no work",
    .fix = "return before the first division if an extent is 0",
    .source =
        "pytorch/pytorch#191325, Dao-AILab/flash-attention#2470, "
        "Dao-AILab/flash-attention#2515",
    .trigger = "Tk = 0",
    .killed_by = kKilledBy,
    .when = "Tk == 0",
};

}  // namespace

extern constinit const qkvet_kernel faulty_divided_by_number_of_tiles =
    option_fault<DividedByNumberOfTiles, QKVET_OPTION_EMPTY_EXTENTS>(
        "faulty/divided_by_number_of_tiles", &kFault,
        {"impl/faulty/divided_by_number_of_tiles.cpp", __LINE__});

}  // namespace qkvet::impl
