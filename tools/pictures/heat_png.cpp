// SPDX-License-Identifier: Apache-2.0
// A drawing as pixels, and as a PNG file (libpng).
#include <png.h>

#include <algorithm>

#include "tools/pictures/heat_drawing.h"
#include "tools/pictures/pixel_font.h"

namespace qkvet::tools {
namespace {

class Canvas {
 public:
  Canvas(int width, int height)
      : width_(width),
        height_(height),
        pixels_(static_cast<size_t>(3) * static_cast<size_t>(width) *
                    static_cast<size_t>(height),
                0xff) {}

  void fill(const Rect& rect) {
    const int right = std::min(width_, rect.x + rect.width);
    const int bottom = std::min(height_, rect.y + rect.height);
    for (int y = std::max(0, rect.y); y < bottom; ++y)
      for (int x = std::max(0, rect.x); x < right; ++x) {
        uint8_t* at =
            &pixels_[3 * (static_cast<size_t>(y) * static_cast<size_t>(width_) +
                          static_cast<size_t>(x))];
        at[0] = rect.colour.r;
        at[1] = rect.colour.g;
        at[2] = rect.colour.b;
      }
  }

  void write(const Label& label) {
    constexpr Rgb kBlack{0, 0, 0};
    const int width = kLetterWidth * static_cast<int>(label.text.size()) - kDot;
    int left = label.x;
    if (label.anchor == Anchor::kMiddle) left -= width / 2;
    if (label.anchor == Anchor::kRight) left -= width;
    for (const char character : label.text) {
      for (int y = 0; y < kGlyphHeight; ++y)
        for (int x = 0; x < kGlyphWidth; ++x)
          if (glyph_dot(character, x, y))
            fill({left + x * kDot, label.y + y * kDot, kDot, kDot, kBlack, ""});
      left += kLetterWidth;
    }
  }

  std::vector<uint8_t> take() { return std::move(pixels_); }

 private:
  int width_, height_;
  std::vector<uint8_t> pixels_;
};

}  // namespace

std::vector<uint8_t> pixels_of(const Drawing& drawing) {
  Canvas canvas(drawing.width, drawing.height);
  for (const Rect& rect : drawing.rects) canvas.fill(rect);
  for (const Label& label : drawing.labels) canvas.write(label);
  return canvas.take();
}

std::string png_bytes(const Drawing& drawing, std::string* error) {
  const std::vector<uint8_t> pixels = pixels_of(drawing);
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(drawing.width);
  image.height = static_cast<png_uint_32>(drawing.height);
  image.format = PNG_FORMAT_RGB;
  // Room for the worst case; what was used comes back.
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::string bytes(size, '\0');
  if (png_image_write_to_memory(&image, bytes.data(), &size,
                                /*convert_to_8bit=*/0, pixels.data(),
                                /*row_stride=*/0, /*colormap=*/nullptr) == 0) {
    *error = std::string("libpng: ") + image.message;
    return "";
  }
  bytes.resize(size);
  return bytes;
}

}  // namespace qkvet::tools
