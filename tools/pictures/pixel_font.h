// SPDX-License-Identifier: Apache-2.0
// Letters for pictures: 5 x 7 dots each, capitals for small letters as well.
#ifndef QKVET_TOOLS_PICTURES_PIXEL_FONT_H_
#define QKVET_TOOLS_PICTURES_PIXEL_FONT_H_

namespace qkvet::tools {

inline constexpr int kGlyphWidth = 5, kGlyphHeight = 7;

// Whether the dot is set, (0, 0) being the upper left one. A character that has
// no letter is a box.
bool glyph_dot(char character, int x, int y);

}  // namespace qkvet::tools

#endif  // QKVET_TOOLS_PICTURES_PIXEL_FONT_H_
