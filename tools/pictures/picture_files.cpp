// SPDX-License-Identifier: Apache-2.0
#include "tools/pictures/picture_files.h"

#include "tools/kernels/write_new.h"

namespace qkvet::tools {

std::string misuse_of(const PictureFiles& files) {
  for (const std::string& file : {files.svg, files.png}) {
    if (file.empty() || files.force) continue;
    if (std::string reason = not_new_reason(file); !reason.empty())
      return reason + " (--force does)";
  }
  return !files.svg.empty() && files.svg == files.png
             ? files.svg + ": cannot be both, SVG and PNG"
             : "";
}

std::string write_pictures(const PictureFiles& files, const Drawing& drawing) {
  if (!files.svg.empty())
    if (std::string error =
            write_new(files.svg, svg_text(drawing), files.force);
        !error.empty())
      return error;
  if (files.png.empty()) return "";
  std::string error;
  const std::string bytes = png_bytes(drawing, &error);
  return error.empty() ? write_new(files.png, bytes, files.force) : error;
}

}  // namespace qkvet::tools
