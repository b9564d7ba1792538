/* The CPU kernels: statistics with sketch and digest, and comparisons, each in one pass over memory.
 *
 * Tensors are given by the address of a table of descriptors; the layouts of the tables are in layout.py. The
 * interpreter's lock is released during work of more than a few microseconds, so callers parallelise with threads. Needs GCC or Clang; where
 * there is no compiler the package works without this module, slower.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <fenv.h>

#include "_kernels.h"
#include "_kernels_careful.h"
#include "_kernels_convert.h"
#include "_kernels_dispatch.h"
#include "_kernels_stream.h"

#define WANT_DIGEST 1
#define FEW 16 /* elements that are done one by one as fast as in vectors */

/* ---- statistics ---- */

static void add_block(Reduction *total, const BlockReduction *block)
{
    total->nan += block->nan;
    total->positive_infinity += block->positive_infinity;
    total->negative_infinity += block->negative_infinity;
    total->zeros += block->zeros;
    total->sum += block->sum;
    total->squares += block->squares;
    total->minimum = block->minimum < total->minimum ? block->minimum : total->minimum;
    total->maximum = block->maximum > total->maximum ? block->maximum : total->maximum;
    total->smallest = block->smallest < total->smallest ? block->smallest : total->smallest;
}

static int reduce_as_floats(int component, const char *raw, int64_t count, int64_t padding, uint64_t index,
                            Reduction *total)
{
    float converted[BLOCK];
    const float *floats = (const float *)raw; /* only ever read with unaligned loads */
    BlockReduction block;
    if (component != FLOAT32 || padding) {
        to_floats(component, raw, count, converted);
        for (int64_t i = count; i < count + padding; i++)
            converted[i] = NAN;
        floats = converted;
    }
    if (!kernels->reduce_float(floats, count + padding, padding, index, &block, total->sketch))
        return 0;
    add_block(total, &block);
    return 1;
}

static int reduce_as_doubles(int component, const char *raw, int64_t count, int64_t padding, uint64_t index,
                             Reduction *total)
{
    double converted[BLOCK];
    BlockReduction block;
    to_doubles(component, raw, count, converted);
    for (int64_t i = count; i < count + padding; i++)
        converted[i] = NAN;
    if (kernels->reduce_double(converted, count + padding, padding, index, &block, total->sketch))
        add_block(total, &block);
    else
        reduce_carefully(converted, count, index, total);
    return 1;
}

/* Reduces at most BLOCK real components; `index`, that of the first one, is a multiple of SKETCH_SIZE. */
static void reduce_block(int component, const char *raw, int64_t count, uint64_t index, Reduction *total)
{
    int64_t tail = count % SKETCH_SIZE, whole = count - tail;
    if (whole && tail) { /* so that only the tail is copied to be padded */
        reduce_block(component, raw, whole, index, total);
        reduce_block(component, raw + whole * TYPES[component].itemsize, tail, index + (uint64_t)whole, total);
        return;
    }
    int64_t padding = tail ? SKETCH_SIZE - tail : 0;
    if (count <= FEW) {
        double converted[FEW];
        to_doubles(component, raw, count, converted);
        reduce_carefully(converted, count, index, total);
    } else if (!TYPES[component].fits_float || !reduce_as_floats(component, raw, count, padding, index, total)) {
        reduce_as_doubles(component, raw, count, padding, index, total);
    }
}

static int exponent_of(double magnitude)
{
    int exponent;
    frexp(magnitude, &exponent);
    return exponent - 1;
}

static void write_statistics(const Reduction *total, int64_t count, Statistics *out)
{
    int64_t finite = count - total->nan - total->positive_infinity - total->negative_infinity;
    double largest = total->maximum > -total->minimum ? total->maximum : -total->minimum;
    int numbers = finite > total->zeros; /* that are not zero */
    out->count = count;
    out->minimum = finite ? total->minimum : NAN;
    out->maximum = finite ? total->maximum : NAN;
    out->mean = finite ? total->sum / (double)finite : NAN;
    out->norm = norm_of(total);
    out->nan = total->nan;
    out->positive_infinity = total->positive_infinity;
    out->negative_infinity = total->negative_infinity;
    out->zeros = total->zeros;
    out->exponent_min = numbers ? exponent_of(total->smallest) : 0;
    out->exponent_max = numbers ? exponent_of(largest) : -1;
    out->digest = total->digest;
    for (int i = 0; i < SKETCH_SIZE; i++)
        out->sketch[i] = (float)total->sketch[i];
}

static void reduce_tensor(const Descriptor *tensor, int flags, Statistics *out)
{
    const Type *type = &TYPES[tensor->dtype];
    int size = TYPES[type->component].itemsize, components = type->itemsize / size;
    Reduction total = {.minimum = INFINITY, .maximum = -INFINITY, .smallest = INFINITY};
    Stream stream;
    stream_open(&stream, tensor, type->itemsize);
    int64_t count = tensor->numel * components, step = BLOCK / components;
    for (int64_t done = 0; done < tensor->numel; done += step) {
        int64_t elements = tensor->numel - done < step ? tensor->numel - done : step;
        const char *raw = stream_next(&stream, elements);
        uint64_t index = (uint64_t)(done * components);
        reduce_block(type->component, raw, elements * components, index, &total);
        if (flags & WANT_DIGEST)
            total.digest += kernels->digest(size, raw, elements * components, index);
    }
    stream_close(&stream);
    write_statistics(&total, count, out);
}

/* ---- comparison ---- */

typedef struct {
    int reference, candidate; /* dtypes of the components */
    int as_floats;
    Unit unit;
} Pairing;

static Pairing pair_types(const Type *reference, const Type *candidate)
{
    Pairing pairing = {.reference = reference->component, .candidate = candidate->component};
    const Type *coarser = reference;
    pairing.as_floats = reference->fits_float && candidate->fits_float;
    if (!reference->digits || (candidate->digits && candidate->digits < reference->digits) ||
        (candidate->digits == reference->digits && candidate->exponent_min > reference->exponent_min))
        coarser = candidate;
    pairing.unit = (Unit){coarser->digits == 0, coarser->digits, coarser->exponent_min};
    return pairing;
}

static void add_comparison(Comparison *total, const BlockComparison *block)
{
    total->both_finite += block->both_finite;
    total->nan_mismatch += block->nan_mismatch;
    total->infinity_mismatch += block->infinity_mismatch;
    total->equal += block->equal;
    total->rel_count += block->rel_count;
    for (int i = 0; i < THRESHOLDS; i++)
        total->within[i] += block->within[i];
    total->dot += block->dot;
    total->reference_squares += block->reference_squares;
    total->candidate_squares += block->candidate_squares;
    total->difference_squares += block->difference_squares;
    total->sum_abs += block->sum_abs;
    total->sum_signed += block->sum_signed;
    total->sum_rel += block->sum_rel;
    total->sum_ulp += block->sum_ulp;
    total->max_rel = block->max_rel > total->max_rel ? block->max_rel : total->max_rel;
    total->max_ulp = block->max_ulp > total->max_ulp ? block->max_ulp : total->max_ulp;
    total->reference_max = block->reference_max > total->reference_max ? block->reference_max : total->reference_max;
}

/* Finds the element behind a block's largest difference, where that is the largest so far. */
#define NOTE_WORST(REAL)                                                            \
    if (block.max_abs > total->max_abs) {                                           \
        int64_t at = 0;                                                             \
        for (REAL x, y; at < count - 1; at++) {                                     \
            memcpy(&x, (const char *)references + at * (int64_t)sizeof x, sizeof x); \
            memcpy(&y, (const char *)candidates + at * (int64_t)sizeof y, sizeof y); \
            REAL difference = y - x;                                                \
            if ((difference < 0 ? -difference : difference) == (REAL)block.max_abs) \
                break;                                                              \
        }                                                                           \
        REAL x, y;                                                                  \
        memcpy(&x, (const char *)references + at * (int64_t)sizeof x, sizeof x);    \
        memcpy(&y, (const char *)candidates + at * (int64_t)sizeof y, sizeof y);    \
        total->max_abs = block.max_abs;                                             \
        total->worst = index + at;                                                  \
        total->worst_reference = (double)x;                                         \
        total->worst_candidate = (double)y;                                         \
    }

static int compare_as_floats(const Pairing *pairing, const char *left, const char *right, int64_t count,
                             int64_t padding, int64_t index, Comparison *total)
{
    float converted[2][BLOCK];
    const float *references = (const float *)left, *candidates = (const float *)right;
    BlockComparison block;
    if (pairing->reference != FLOAT32 || padding) {
        to_floats(pairing->reference, left, count, converted[0]);
        references = converted[0];
    }
    if (pairing->candidate != FLOAT32 || padding) {
        to_floats(pairing->candidate, right, count, converted[1]);
        candidates = converted[1];
    }
    for (int64_t i = count; i < count + padding; i++)
        converted[0][i] = converted[1][i] = NAN;
    if (!kernels->compare_float(references, candidates, count + padding, padding, pairing->unit, &block))
        return 0;
    NOTE_WORST(float)
    add_comparison(total, &block);
    return 1;
}

/* Both arrays have room for the padding. */
static int compare_as_doubles(const Pairing *pairing, double *references, double *candidates, int64_t count,
                              int64_t padding, int64_t index, Comparison *total)
{
    BlockComparison block;
    for (int64_t i = count; i < count + padding; i++)
        references[i] = candidates[i] = NAN;
    if (!kernels->compare_double(references, candidates, count + padding, padding, pairing->unit, &block))
        return 0;
    NOTE_WORST(double)
    add_comparison(total, &block);
    return 1;
}

/* Differences of 64-bit integers, taken exactly; returns 0 where those of doubles are as good. */
static int exact_differences(const Pairing *pairing, const char *left, const char *right, int64_t count,
                             double *differences)
{
    if (pairing->reference != pairing->candidate || (pairing->reference != INT64 && pairing->reference != UINT64))
        return 0;
    /* A number that is small enough for a double leaves nothing above bit 52 of its sum with this. */
    uint64_t large = 0, different = 0, offset = pairing->reference == INT64 ? 1ULL << 52 : 0;
    for (int64_t i = 0; i < count; i++) {
        uint64_t x, y;
        memcpy(&x, left + 8 * i, sizeof x);
        memcpy(&y, right + 8 * i, sizeof y);
        int less = pairing->reference == INT64 ? (int64_t)y < (int64_t)x : y < x;
        differences[i] = less ? -(double)(x - y) : (double)(y - x);
        large |= (x + offset) >> 53 | (y + offset) >> 53;
        different |= x ^ y;
    }
    return large && different;
}

static void compare_block(const Pairing *pairing, const char *left, const char *right, int64_t count, int64_t index,
                          Comparison *total)
{
    double references[BLOCK], candidates[BLOCK], differences[BLOCK];
    int64_t tail = count % SKETCH_SIZE, whole = count - tail, padding = tail ? SKETCH_SIZE - tail : 0;
    if (whole && tail) {
        compare_block(pairing, left, right, whole, index, total);
        compare_block(pairing, left + whole * TYPES[pairing->reference].itemsize,
                      right + whole * TYPES[pairing->candidate].itemsize, tail, index + whole, total);
        return;
    }
    if (count > FEW && pairing->as_floats && compare_as_floats(pairing, left, right, count, padding, index, total))
        return;
    to_doubles(pairing->reference, left, count, references);
    to_doubles(pairing->candidate, right, count, candidates);
    int exact = exact_differences(pairing, left, right, count, differences);
    if (count > FEW && !exact && compare_as_doubles(pairing, references, candidates, count, padding, index, total))
        return;
    compare_carefully(references, candidates, exact ? differences : NULL, count, index, pairing->unit, total);
}

static void compare_tensors(const Descriptor *reference, const Descriptor *candidate, Comparison *out)
{
    const Type *left = &TYPES[reference->dtype], *right = &TYPES[candidate->dtype];
    Pairing pairing = pair_types(left, right);
    int components = left->itemsize / TYPES[left->component].itemsize;
    Comparison total = {.worst = -1, .worst_reference = NAN, .worst_candidate = NAN};
    Stream references, candidates;
    stream_open(&references, reference, left->itemsize);
    stream_open(&candidates, candidate, right->itemsize);
    total.count = reference->numel * components;
    int64_t step = BLOCK / components;
    for (int64_t done = 0; done < reference->numel; done += step) {
        int64_t elements = reference->numel - done < step ? reference->numel - done : step;
        const char *x = stream_next(&references, elements), *y = stream_next(&candidates, elements);
        compare_block(&pairing, x, y, elements * components, done * components, &total);
    }
    stream_close(&references);
    stream_close(&candidates);
    if (total.worst >= 0)
        total.worst /= components;
    *out = total;
}

/* ---- the module ---- */

/* Who lets go of the interpreter's lock may wait for another thread's turn, some milliseconds, to have it back: so it is
 * kept for work that is done in less than a tenth of one. */
#define SHORT_WORK 65536 /* elements */

typedef struct {
    fenv_t environment;
    PyThreadState *thread; /* NULL where the lock was kept */
} Work;

/* The work is done in the default floating-point environment (a program may have switched subnormals off) and leaves
 * the program's own untouched. */
static Work begin_work(const Descriptor *tensors, Py_ssize_t count)
{
    Work work = {.thread = NULL};
    int64_t elements = 0;
    for (Py_ssize_t i = 0; i < count && elements <= SHORT_WORK; i++)
        elements += tensors[i].numel;
    if (elements > SHORT_WORK)
        work.thread = PyEval_SaveThread();
    fegetenv(&work.environment);
    fesetenv(FE_DFL_ENV);
    return work;
}

static void end_work(const Work *work)
{
    fesetenv(&work->environment);
    if (work->thread != NULL)
        PyEval_RestoreThread(work->thread);
}

static int descriptors_are_valid(const Descriptor *tensors, Py_ssize_t count)
{
    for (Py_ssize_t i = 0; i < count; i++) {
        const Descriptor *tensor = &tensors[i];
        int64_t numel = 1;
        if (tensor->dtype < 0 || tensor->dtype >= DTYPE_COUNT) {
            PyErr_Format(PyExc_ValueError, "descriptor %zd: unknown dtype code %d", i, (int)tensor->dtype);
            return 0;
        }
        if (tensor->ndim < 1 || tensor->ndim > MAX_DIMENSIONS) {
            PyErr_Format(PyExc_ValueError, "descriptor %zd: %d dimensions", i, (int)tensor->ndim);
            return 0;
        }
        for (int dim = 0; dim < tensor->ndim; dim++)
            numel *= tensor->shape[dim];
        if (numel != tensor->numel || numel < 0 || (numel > 0 && !tensor->pointer)) {
            PyErr_Format(PyExc_ValueError, "descriptor %zd: shape, numel and pointer do not agree", i);
            return 0;
        }
    }
    return 1;
}

static PyObject *reduce(PyObject *module, PyObject *arguments)
{
    unsigned long long tensors_address, out_address;
    Py_ssize_t count;
    int flags;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "KnKi:reduce", &tensors_address, &count, &out_address, &flags))
        return NULL;
    const Descriptor *tensors = (const Descriptor *)(uintptr_t)tensors_address;
    Statistics *out = (Statistics *)(uintptr_t)out_address;
    if (!descriptors_are_valid(tensors, count))
        return NULL;
    Work work = begin_work(tensors, count);
    for (Py_ssize_t i = 0; i < count; i++)
        reduce_tensor(&tensors[i], flags, &out[i]);
    end_work(&work);
    Py_RETURN_NONE;
}

/* For other extensions of this package: one small tensor, whose descriptor they vouch for. The lock stays held. */
static void reduce_one(const Descriptor *tensor, int flags, Statistics *out)
{
    fenv_t environment;
    fegetenv(&environment);
    fesetenv(FE_DFL_ENV);
    reduce_tensor(tensor, flags, out);
    fesetenv(&environment);
}

static PyObject *compare(PyObject *module, PyObject *arguments)
{
    unsigned long long references_address, candidates_address, out_address;
    Py_ssize_t count;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "KKnK:compare", &references_address, &candidates_address, &count, &out_address))
        return NULL;
    const Descriptor *references = (const Descriptor *)(uintptr_t)references_address;
    const Descriptor *candidates = (const Descriptor *)(uintptr_t)candidates_address;
    Comparison *out = (Comparison *)(uintptr_t)out_address;
    if (!descriptors_are_valid(references, count) || !descriptors_are_valid(candidates, count))
        return NULL;
    for (Py_ssize_t i = 0; i < count; i++) {
        const Type *left = &TYPES[references[i].dtype], *right = &TYPES[candidates[i].dtype];
        int complex_left = left->itemsize != TYPES[left->component].itemsize;
        int complex_right = right->itemsize != TYPES[right->component].itemsize;
        if (references[i].numel != candidates[i].numel || complex_left != complex_right) {
            PyErr_Format(PyExc_ValueError, "descriptor %zd: the two tensors do not match", i);
            return NULL;
        }
    }
    Work work = begin_work(references, count);
    for (Py_ssize_t i = 0; i < count; i++)
        compare_tensors(&references[i], &candidates[i], &out[i]);
    end_work(&work);
    Py_RETURN_NONE;
}

static PyObject *instruction_set(PyObject *module, PyObject *arguments)
{
    int portable = -1;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "|p:instruction_set", &portable))
        return NULL;
    if (portable >= 0)
        choose_kernels(portable);
    return PyUnicode_FromString(kernels->name);
}

#include "_kernels_evidence.h"
#include "_kernels_light.h"

static PyMethodDef METHODS[] = {
    {"reduce", reduce, METH_VARARGS, "reduce(descriptors, count, statistics, flags): addresses as ints; flag 1: digest"},
    {"compare", compare, METH_VARARGS, "compare(references, candidates, count, comparisons): addresses as ints"},
    {"look", look, METH_VARARGS,
     "look(candidate, honest, gold, low, dtype, dtype of gold, count, yard, out): addresses as ints, 0 for none; whether "
     "all was finite"},
    {"sums", sums, METH_VARARGS,
     "sums(candidate, honest, gold, 0, dtype, dtype of gold, count, rules, out): addresses as ints, 0 for none; whether "
     "all was finite"},
    {"above", above, METH_VARARGS,
     "above(candidate, honest, dtype, count, start, lines, count of lines, flat, places, most): addresses as ints; how "
     "many were found, and where to go on"},
    {"glance", glance, METH_VARARGS, "glance(descriptors, count, looks): addresses as ints"},
    {"instruction_set", instruction_set, METH_VARARGS,
     "instruction_set([portable]): the name of the kernels in use, after choosing them anew if an argument is given"},
    {NULL, NULL, 0, NULL},
};

static int add_address(PyObject *module, const char *name, void *function)
{
    PyObject *address = PyLong_FromVoidPtr(function);
    if (address == NULL || PyModule_AddObject(module, name, address) < 0) {
        Py_XDECREF(address);
        return -1;
    }
    return 0;
}

static int execute(PyObject *module)
{
    fill_float8_tables();
    choose_kernels(0);
    return add_address(module, "reduce_one", (void *)(uintptr_t)reduce_one) < 0 ||
                   add_address(module, "glance_one", (void *)(uintptr_t)glance_one) < 0
               ? -1
               : 0;
}

static PyModuleDef_Slot SLOTS[] = {
    {Py_mod_exec, execute},
#ifdef Py_GIL_DISABLED
    {Py_mod_gil, Py_MOD_GIL_NOT_USED}, /* what is static is written while the module is made, and never again */
#endif
    {0, NULL},
};

static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT, "_kernels", "One-pass statistics and comparisons.", 0, METHODS, SLOTS, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__kernels(void)
{
    return PyModuleDef_Init(&MODULE);
}
