// SPDX-License-Identifier: Apache-2.0
// The width of tiles and lanes in faults of tiles: 4, so that small shapes show
// them, or as configured when the library was opened ("tile=16").
#ifndef QKVET_IMPL_SKELETONS_TILE_H_
#define QKVET_IMPL_SKELETONS_TILE_H_

#include <cstdint>

namespace qkvet::impl {

inline int64_t configured_tile = 4;  // written by open() alone

inline int64_t tile() { return configured_tile; }
// Half a tile of rows; of keys where the rest of a tile is at least one.
inline int64_t half_tile() { return configured_tile / 2; }

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_SKELETONS_TILE_H_
