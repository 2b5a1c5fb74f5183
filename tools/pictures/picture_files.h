// SPDX-License-Identifier: Apache-2.0
// A drawing in files, as --svg and --png ask for it.
#ifndef QKVET_TOOLS_PICTURES_PICTURE_FILES_H_
#define QKVET_TOOLS_PICTURES_PICTURE_FILES_H_

#include <string>

#include "tools/pictures/heat_drawing.h"

namespace qkvet::tools {

struct PictureFiles {
  std::string svg, png;  // "" for none
  bool force = false;    // replace what is there

  bool asked() const { return !svg.empty() || !png.empty(); }
};

// "" or why the files cannot be written: before the work is done.
std::string misuse_of(const PictureFiles& files);
// "" or one line.
std::string write_pictures(const PictureFiles& files, const Drawing& drawing);

}  // namespace qkvet::tools

#endif  // QKVET_TOOLS_PICTURES_PICTURE_FILES_H_
