// SPDX-License-Identifier: Apache-2.0
// CUDA's header of this name, for kernels under the emulator.
#include "../simt.h"
