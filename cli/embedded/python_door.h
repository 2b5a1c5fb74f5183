/* SPDX-License-Identifier: Apache-2.0
 *
 * What the Python package calls by ctypes (python/qkvet/_program.py): the
 * library libqkvet_python.so makes an interpreter a worker, and judges
 * functions of it in its own process. The functions of a kernel stand behind
 * the plug-in ABI, as those of every kernel; these are no part of it.
 */
#ifndef QKVET_CLI_EMBEDDED_PYTHON_DOOR_H_
#define QKVET_CLI_EMBEDDED_PYTHON_DOOR_H_

#include "qkvet/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Confines this process before it imports an untrusted callable (armour.h).
 * `visible`: folders below /tmp that stay, separated by ':'. `missing` gets the
 * parts that the system denies, "" for none. */
QKVET_EXPORT void qkvet_python_armour(const char* visible, char* missing,
                                      size_t size);

/* What a worker does before it imports anything: worker.h, begin_worker(). */
QKVET_EXPORT void qkvet_python_begin(void);

/* Serves the library that `open` opens until the program ends the process;
 * returns a status to exit with where there is nothing to serve, 2 where no
 * program started this process. */
QKVET_EXPORT int qkvet_python_serve(const char* target, const char* config,
                                    qkvet_open_function open);

/* Fills the three structs, whose struct_size says what there is room for, from
 * lines "field = value" as conventions.md has them ("like = torch_sdpa" in
 * front takes those of a convention), and from the text of a precision file;
 * the bits of a layer's table (QKVET_LAYER_*) go to *layer_options. 0, or
 * nonzero with one line in `why`. */
QKVET_EXPORT int qkvet_python_declare(const char* lines, const char* precision,
                                      qkvet_capabilities* capabilities,
                                      qkvet_dialect* dialect,
                                      qkvet_precision* precision_out,
                                      uint64_t* layer_options, char* why,
                                      size_t why_size);

/* What qkvet_python_check() says: the report, its JSON Lines, wrong use. */
enum { QKVET_PYTHON_TEXT = 0, QKVET_PYTHON_JSON = 1, QKVET_PYTHON_WRONG = 2 };

/* `qkvet check`, or with "case" in the request `qkvet replay`, on the library
 * that `open` opens in this process. `program` is the program's path, beside
 * which the known faults are. `request`: a JSON object with some of laws,
 * cases, seed, sizes, pin, strict, diagnose, verbose, fail_fast,
 * case. Returns the exit code. */
QKVET_EXPORT int qkvet_python_check(
    const char* target, const char* program, const char* request,
    qkvet_open_function open, void (*say)(int32_t what, const char* text));

/* What the definition says of the call in a file (as `qkvet judge` takes it,
 * with an output of any numbers), and how far an output may be from that.
 * `case_words` are those of --case. `words`: layout, dialect and precision as
 * for judge, each
 * "" for none. `give` gets each output, packed, f64. 0, or 2 with one line. */
QKVET_EXPORT int qkvet_python_reference(
    const char* file, const char* case_words, const char* layout,
    const char* dialect, const char* precision,
    void (*give)(const char* name, const double* values, const double* bounds,
                 int64_t count),
    char* why, size_t why_size);

/* A case out of its text, in any order of keys. `say` gets one JSON object:
 * case (the canonical spelling), subject, digest (of the inputs) and extents;
 * `give` each input that is numbers, packed, as doubles that its type has:
 * `dtype` as cases name it, masks bool, lengths and positions int64. 0, or 2
 * with one line. Nothing is given where no tensors can be made of the case, and
 * the object then says why not. */
QKVET_EXPORT int qkvet_python_case(
    const char* text, void (*say)(int32_t what, const char* text),
    void (*give)(const char* name, const char* dtype, int32_t rank,
                 const int64_t* extents, const double* values),
    char* why, size_t why_size);

#ifdef __cplusplus
}
#endif

#endif /* QKVET_CLI_EMBEDDED_PYTHON_DOOR_H_ */
