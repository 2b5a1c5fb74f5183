/* SPDX-License-Identifier: Apache-2.0 */
/* HEAD */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "qkvet/kernel.h"

/* A tensor of the call: the memory that it spans, in which gaps hold NaN. */
typedef struct tensor_row {
  int call;
  size_t field; /* of qkvet_forward_args */
  qkvet_dtype dtype;
  int32_t ndim;
  int64_t shape[4];
  int64_t strides[4];
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
  tensor_row tensor;
  const wanted_row* wanted;
} output_row;

typedef struct call_row {
  int32_t threads, causal, scale_given;
  float scale;
  int32_t has_window;
  int64_t window_left, window_right;
  float softcap;
  int64_t page_size;
  int32_t rope;
} call_row;

/* An element that must be `factor` times another, bit for bit. */
typedef struct pair_row {
  int first_output;
  int64_t first;
  int second_output;
  int64_t second;
  double factor;
} pair_row;

/* DATA */

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

static void* fill(qkvet_forward_args* args, const tensor_row* row) {
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

static qkvet_forward_args make_call(int call) {
  const call_row* from = &calls[call];
  qkvet_forward_args args;
  int i;
  memset(&args, 0, sizeof args);
  args.struct_size = sizeof args;
  args.scale = from->scale;
  args.scale_given = from->scale_given;
  args.causal = from->causal;
  args.has_window = from->has_window;
  args.window_left = from->window_left;
  args.window_right = from->window_right;
  args.softcap = from->softcap;
  args.page_size = from->page_size;
  args.rope = from->rope;
  for (i = 0; i < input_count; ++i)
    if (inputs[i].call == call) fill(&args, &inputs[i]);
  for (i = 0; i < output_count; ++i)
    if (outputs[i].tensor.call == call)
      written[i] = fill(&args, &outputs[i].tensor);
  return args;
}

static void one_after_another(void* self, int64_t count,
                              void (*body)(void* data, int64_t i), void* data) {
  int64_t i;
  (void)self;
  for (i = 0; i < count; ++i) body(data, i);
}

/* NULL, or what went wrong. */
static const char* run(const qkvet_kernel* self, const qkvet_kernel* kernel,
                       qkvet_context* context, int call) {
  qkvet_text why = {sizeof why, reason, sizeof reason};
  const qkvet_forward_args args = make_call(call);
  qkvet_exec exec;
  memset(&exec, 0, sizeof exec);
  exec.struct_size = sizeof exec;
  exec.device_type = QKVET_DEVICE_CPU;
  exec.threads = calls[call].threads;
  if (kernel->supports != NULL &&
      kernel->supports(self, &args, &why) != QKVET_OK)
    return "the kernel does not support the call";
  if (kernel->workspace != NULL) {
    if (kernel->workspace(self, context, &args, &exec.workspace_size) !=
        QKVET_OK)
      return "the kernel cannot say how much workspace it needs";
    exec.workspace = aligned_alloc(64, (exec.workspace_size / 64 + 1) * 64);
  }
  if (kernel->forward(self, context, &args, &exec, &why) != QKVET_OK)
    return "forward() refuses the call";
  free(exec.workspace);
  return NULL;
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

static void print_element(int output, int64_t n) {
  static const char* const names[] = {"b", "h", "i", "c"};
  const tensor_row* row = &outputs[output].tensor;
  const int is_weights = strcmp(outputs[output].name, "weights") == 0;
  int64_t size = 1;
  int axis;
  if (call_count > 1) printf("call %d of %d: ", row->call + 1, call_count);
  printf("%s[", outputs[output].name);
  for (axis = 1; axis < row->ndim; ++axis) size *= row->shape[axis];
  for (axis = 0; axis < row->ndim; ++axis) {
    printf("%s%s=%lld", axis > 0 ? "," : "",
           axis == 3 && is_weights ? "j" : names[axis], (long long)(n / size));
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

/* |error| / bound, where half storage may round once more. */
static double ratio_of(const wanted_row* wanted, double actual,
                       const qkvet_dtype* dtype) {
  double error = fabs(actual - wanted->value);
  if (dtype->bits == 16) {
    const int bits = dtype->code == QKVET_DTYPE_BFLOAT ? 8 : 11;
    const int least = bits == 8 ? -134 : -25;
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
static int judge_output(int output) {
  const output_row* row = &outputs[output];
  const int64_t count = elements(&row->tensor);
  int64_t worst = -1, n;
  double worst_ratio = 0;
  for (n = 0; n < count; ++n) {
    const double actual = number(output, n);
    if (!is_wrong(&row->wanted[n], actual)) continue;
    if (worst >= 0 &&
        !(ratio_of(&row->wanted[n], actual, &row->tensor.dtype) > worst_ratio))
      continue;
    worst = n;
    worst_ratio = ratio_of(&row->wanted[n], actual, &row->tensor.dtype);
  }
  if (worst < 0) return 0;
  print_element(output, worst);
  print_number(" expected ", row->wanted[worst].value, &row->tensor);
  print_number(" allowed ", row->wanted[worst].low, &row->tensor);
  print_number(" .. ", row->wanted[worst].high, &row->tensor);
  print_number(" actual ", number(output, worst), &row->tensor);
  printf("\n");
  return 1;
}

static int judge_pairs(void) {
  int i;
  for (i = 0; i < pair_count; ++i) {
    const pair_row* pair = &pairs[i];
    const double first = number(pair->first_output, pair->first) * pair->factor;
    const double second = number(pair->second_output, pair->second);
    if (first == second || (isnan(first) && isnan(second))) continue;
    print_element(pair->first_output, pair->first);
    if (pair->factor != 1) printf(" times %g", pair->factor);
    print_number(" is ", first, &outputs[pair->first_output].tensor);
    printf(", and must have the same bits as ");
    print_element(pair->second_output, pair->second);
    print_number(", which is ", second, &outputs[pair->second_output].tensor);
    printf("\n");
    return 1;
  }
  return 0;
}

/* A struct of the library, as far as both sides know it. */
static qkvet_kernel known_part(const qkvet_kernel* from) {
  qkvet_kernel kernel;
  memset(&kernel, 0, sizeof kernel);
  memcpy(&kernel, from,
         from->struct_size < sizeof kernel ? from->struct_size : sizeof kernel);
  return kernel;
}

/* The kernel of that name, or the only one. */
static const qkvet_kernel* find(const qkvet_library* library,
                                const char* name) {
  int i;
  for (i = 0; i < library->kernel_count; ++i)
    if (strcmp(library->kernels[i]->name, name) == 0)
      return library->kernels[i];
  return library->kernel_count == 1 ? library->kernels[0] : NULL;
}

int main(int argc, char** argv) {
  const char* path = argc > 1 ? argv[1] : default_library;
  const char* name = argc > 2 ? argv[2] : default_kernel;
  const char* config = argc > 3 ? argv[3] : argc > 1 ? "" : default_config;
  qkvet_text why = {sizeof why, reason, sizeof reason};
  qkvet_host host;
  qkvet_library library;
  qkvet_open_function open;
  qkvet_context* context = NULL;
  const qkvet_kernel* self;
  qkvet_kernel kernel;
  qkvet_exec exec;
  int i, failed = 0;
  void* opened = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  void* symbol = opened != NULL ? dlsym(opened, "qkvet_open") : NULL;
  if (symbol == NULL) return complain(dlerror());
  memcpy(&open, &symbol, sizeof open);
  memset(&host, 0, sizeof host);
  host.struct_size = sizeof host;
  host.abi_major = QKVET_ABI_MAJOR;
  host.abi_minor = QKVET_ABI_MINOR;
  host.parallel_for = one_after_another;
  memset(&library, 0, sizeof library);
  library.struct_size = sizeof library;
  if (open(&host, config, &library, &why) != QKVET_OK)
    return complain("the library cannot be opened");
  self = find(&library, name);
  if (self == NULL) return complain("the library has no kernel of this name");
  kernel = known_part(self);
  if (kernel.forward == NULL) return complain("the kernel has no forward()");
  memset(&exec, 0, sizeof exec);
  exec.struct_size = sizeof exec;
  exec.device_type = QKVET_DEVICE_CPU;
  exec.threads = 1;
  if (kernel.open != NULL &&
      kernel.open(self, &exec, &context, &why) != QKVET_OK)
    return complain("the kernel cannot run here");
  for (i = 0; i < call_count; ++i) {
    const char* wrong = run(self, &kernel, context, i);
    if (wrong != NULL) return complain(wrong);
  }
  for (i = 0; i < output_count; ++i) failed |= judge_output(i);
  failed |= judge_pairs();
  printf("%s\n", failed ? "FAILED" : "passed");
  return failed;
}
