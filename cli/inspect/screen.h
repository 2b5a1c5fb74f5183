// SPDX-License-Identifier: Apache-2.0
// What stdout can show.
#ifndef QKVET_CLI_INSPECT_SCREEN_H_
#define QKVET_CLI_INSPECT_SCREEN_H_

#include "cli/pictures/heat_map.h"

namespace qkvet::cli {

// Colour if colour_wanted(); otherwise block characters in a UTF-8 locale, by
// $LC_ALL, $LC_CTYPE and $LANG in this order; otherwise ASCII.
Ink screen_ink();

}  // namespace qkvet::cli

#endif  // QKVET_CLI_INSPECT_SCREEN_H_
