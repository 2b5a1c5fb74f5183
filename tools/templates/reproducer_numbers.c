/* SPDX-License-Identifier: Apache-2.0 */
enum {
  call_count = sizeof calls / sizeof calls[0],
  input_count = sizeof inputs / sizeof inputs[0],
  output_count = sizeof outputs / sizeof outputs[0]
};

static void* written[output_count]; /* first elements */
static char reason[1024];

static int complain(const char* what) {
  fprintf(stderr, "%s%s%s\n", what, reason[0] != '\0' ? ": " : "", reason);
  return 2;
}

/* Unwritten memory is NaN, on both sides of the tensor as well. */
static void* place(const tensor_row* row) {
  const size_t margin = 4096;
  const size_t bytes = (size_t)row->span * (row->dtype.bits / 8);
  char* memory = (char*)malloc(bytes + 3 * margin);
  if (memory == NULL) abort();
  memset(memory, 0xff, bytes + 3 * margin);
  memory += margin + (margin - (size_t)(uintptr_t)memory % margin) + row->start;
  if (row->memory != NULL) memcpy(memory, row->memory, bytes);
  return memory;
}

static void* fill(void* args, const tensor_row* row) {
  qkvet_tensor* tensor = (qkvet_tensor*)(void*)((char*)args + row->field);
  tensor->data = place(row);
  tensor->device_type = QKVET_DEVICE_CPU;
  tensor->ndim = row->ndim;
  tensor->dtype = row->dtype;
  tensor->shape = (int64_t*)malloc(sizeof row->shape);
  tensor->strides = (int64_t*)malloc(sizeof row->strides);
  if (tensor->shape == NULL || tensor->strides == NULL) abort();
  memcpy(tensor->shape, row->shape, sizeof row->shape);
  memcpy(tensor->strides, row->strides, sizeof row->strides);
  return tensor->data;
}

/* The tensors of a call. `args` is the struct that they are fields of. */
static void fill_tensors(void* args, int call) {
  int i;
  for (i = 0; i < input_count; ++i)
    if (inputs[i].call == call) fill(args, &inputs[i]);
  for (i = 0; i < output_count; ++i)
    if (outputs[i].tensor.call == call)
      written[i] = fill(args, &outputs[i].tensor);
}

static double half_to_double(uint16_t bits, int exponent_bits) {
  const int fraction_bits = 15 - exponent_bits;
  const int exponent = (bits & 0x7fff) >> fraction_bits;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  const int most = (1 << exponent_bits) - 1;
  const int bias = most / 2;
  double fraction = bits & ((1 << fraction_bits) - 1);
  if (exponent == most) return fraction != 0 ? NAN : sign * INFINITY;
  if (exponent > 0) fraction += 1 << fraction_bits;
  return sign *
         ldexp(fraction, (exponent > 0 ? exponent : 1) - bias - fraction_bits);
}

/* Element n of an output, counted row by row. */
static double number(int output, int64_t n) {
  const tensor_row* row = &outputs[output].tensor;
  const char* at = (const char*)written[output];
  int64_t offset = 0;
  uint16_t half;
  float single;
  double full;
  int axis;
  for (axis = row->ndim - 1; axis >= 0; --axis) {
    offset += n % row->shape[axis] * row->strides[axis];
    n /= row->shape[axis];
  }
  at += offset * (row->dtype.bits / 8);
  if (row->dtype.bits == 64) return memcpy(&full, at, sizeof full), full;
  if (row->dtype.bits == 32) return memcpy(&single, at, sizeof single), single;
  memcpy(&half, at, sizeof half);
  return half_to_double(half, row->dtype.code == QKVET_DTYPE_BFLOAT ? 8 : 5);
}

/* The shortest text that reads back as the number. */
static void print_number(const char* before, double x, const tensor_row* row) {
  const int is_double = row->dtype.bits == 64;
  char plain[512], with_exponent[64];
  int digits;
  if (!is_double) x = (float)x;
  if (isnan(x) || isinf(x)) {
    printf("%s%s", before, isnan(x) ? "nan" : x > 0 ? "inf" : "-inf");
    return;
  }
  for (digits = 0; digits < 20; ++digits) {
    const double back =
        (snprintf(with_exponent, sizeof with_exponent, "%.*e", digits, x),
         strtod(with_exponent, NULL));
    if (is_double ? back == x : (float)back == (float)x) break;
  }
  for (digits = 0; digits < 400; ++digits) {
    const double back =
        (snprintf(plain, sizeof plain, "%.*f", digits, x), strtod(plain, NULL));
    if (is_double ? back == x : (float)back == (float)x) break;
  }
  printf("%s%s", before,
         strlen(plain) <= strlen(with_exponent) ? plain : with_exponent);
}

/* Which call: the only one needs no words. */
static void print_place(int call);

static void print_element(int output, int64_t n) {
  const tensor_row* row = &outputs[output].tensor;
  const char* letters = outputs[output].letters;
  int64_t size = 1;
  int axis;
  print_place(row->call);
  printf("%s[", outputs[output].name);
  /* A layer without a batch is member 0 of one. */
  if (row->ndim == 2) printf("%c=0,", *letters++);
  for (axis = 1; axis < row->ndim; ++axis) size *= row->shape[axis];
  for (axis = 0; axis < row->ndim; ++axis) {
    printf("%s%c=%lld", axis > 0 ? "," : "", letters[axis],
           (long long)(n / size));
    n %= size;
    if (axis + 1 < row->ndim) size /= row->shape[axis + 1];
  }
  printf("]");
}

static int is_wrong(const wanted_row* wanted, double actual) {
  if (isinf(wanted->bound)) return 0;
  if (isnan(wanted->value)) return !isnan(actual);
  return !(wanted->low <= actual && actual <= wanted->high);
}

/* |error| / bound, where half storage may round once more, and all storage
 * where the bound says nothing of how a number is stored. */
static double ratio_of(const wanted_row* wanted, double actual,
                       const qkvet_dtype* dtype) {
  double error = fabs(actual - wanted->value);
  if (dtype->bits == 16 || before_rounding) {
    const int bits = dtype->bits == 64                   ? 53
                     : dtype->bits == 32                 ? 24
                     : dtype->code == QKVET_DTYPE_BFLOAT ? 8
                                                         : 11;
    const int least = bits == 53   ? -1075
                      : bits == 24 ? -150
                      : bits == 8  ? -134
                                   : -25;
    const int exponent =
        actual != 0 && isfinite(actual) ? ilogb(actual) - bits : least;
    error -= ldexp(1, exponent > least ? exponent : least);
  }
  return error > 0 ? error / wanted->bound : INFINITY;
}

static int64_t elements(const tensor_row* row) {
  int64_t count = 1;
  int axis;
  for (axis = 0; axis < row->ndim; ++axis) count *= row->shape[axis];
  return count;
}

/* Prints the worst element, and returns 1 if there is a wrong one. */
static int judge_output(int output, const wanted_row* wanted) {
  const output_row* row = &outputs[output];
  const int64_t count = elements(&row->tensor);
  int64_t worst = -1, n;
  double worst_ratio = 0;
  for (n = 0; n < count; ++n) {
    const double actual = number(output, n);
    if (!is_wrong(&wanted[n], actual)) continue;
    if (worst >= 0 &&
        !(ratio_of(&wanted[n], actual, &row->tensor.dtype) > worst_ratio))
      continue;
    worst = n;
    worst_ratio = ratio_of(&wanted[n], actual, &row->tensor.dtype);
  }
  if (worst < 0) return 0;
  print_element(output, worst);
  print_number(" expected ", wanted[worst].value, &row->tensor);
  print_number(" allowed ", wanted[worst].low, &row->tensor);
  print_number(" .. ", wanted[worst].high, &row->tensor);
  print_number(" actual ", number(output, worst), &row->tensor);
  printf("\n");
  return 1;
}
