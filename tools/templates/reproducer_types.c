/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "qkvet/kernel.h"
#include "qkvet/plan.h"

/* A tensor of a call: the memory that it spans, in which gaps hold NaN. */
typedef struct tensor_row {
  int call;
  size_t field; /* of the arguments of the call */
  qkvet_dtype dtype;
  int32_t ndim;
  int64_t shape[5];
  int64_t strides[5];
  int64_t span; /* elements */
  size_t start; /* address, modulo 64 */
  const void* memory;
} tensor_row;

/* What an element must be, and what it may be. NaN: it must be NaN; an
 * infinite bound: it may be anything. */
typedef struct wanted_row {
  double value, bound, low, high;
} wanted_row;

typedef struct output_row {
  const char* name;
  const char* letters; /* of its indices */
  tensor_row tensor;
  const wanted_row* wanted;
} output_row;
