// SPDX-License-Identifier: Apache-2.0
#include "properties/cases/pair_cases.h"

#include <gtest/gtest.h>
