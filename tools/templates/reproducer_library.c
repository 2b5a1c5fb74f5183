/* SPDX-License-Identifier: Apache-2.0 */
static void one_after_another(void* self, int64_t count,
                              void (*body)(void* data, int64_t i), void* data) {
  int64_t i;
  (void)self;
  for (i = 0; i < count; ++i) body(data, i);
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

typedef struct opened_kernel {
  const qkvet_kernel* self;
  qkvet_kernel table; /* what both sides know of it */
  qkvet_context* context;
} opened_kernel;

static qkvet_exec exec_with(int32_t threads) {
  qkvet_exec exec;
  memset(&exec, 0, sizeof exec);
  exec.struct_size = sizeof exec;
  exec.device_type = QKVET_DEVICE_CPU;
  exec.threads = threads;
  return exec;
}

/* LIBRARY [KERNEL [CONFIG]]. NULL, or what went wrong. */
static const char* open_kernel(int argc, char** argv, opened_kernel* kernel) {
  const char* path = argc > 1 ? argv[1] : default_library;
  const char* name = argc > 2 ? argv[2] : default_kernel;
  const char* config = argc > 3 ? argv[3] : argc > 1 ? "" : default_config;
  qkvet_text why = {sizeof why, reason, sizeof reason};
  static qkvet_host host;
  static qkvet_library library;
  qkvet_open_function open;
  const qkvet_exec exec = exec_with(1);
  void* opened = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  void* symbol = opened != NULL ? dlsym(opened, "qkvet_open") : NULL;
  if (symbol == NULL) return dlerror();
  memcpy(&open, &symbol, sizeof open);
  host.struct_size = sizeof host;
  host.abi_major = QKVET_ABI_MAJOR;
  host.abi_minor = QKVET_ABI_MINOR;
  host.parallel_for = one_after_another;
  library.struct_size = sizeof library;
  if (open(&host, config, &library, &why) != QKVET_OK)
    return "the library cannot be opened";
  kernel->self = find(&library, name);
  if (kernel->self == NULL) return "the library has no kernel of this name";
  kernel->table = known_part(kernel->self);
  kernel->context = NULL;
  if (kernel->table.open != NULL &&
      kernel->table.open(kernel->self, &exec, &kernel->context, &why) !=
          QKVET_OK)
    return "the kernel cannot run here";
  return NULL;
}
