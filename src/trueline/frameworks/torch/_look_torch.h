/* What there is to know of a tensor, asked of torch without its headers.
 *
 * Three doors, each the fastest that is safe and none that lets go of the interpreter's lock:
 * - properties, through their descriptors: version, ``requires_grad``, ``_cdata``;
 * - the C interface that torch keeps stable for compiled models (``aoti_torch_get_…``): shape, strides, address, dtype.
 *   Its handle of a tensor is the address of a pointer to the tensor's implementation, which is what ``_cdata`` gives;
 * - words in memory, which ``fast.py`` finds by comparing them with what torch says. Of the implementation: the address
 *   of the storage, which is the storage's own ``_cdata``, and the set of dispatch keys, which says whether a tensor is
 *   to be negated or conjugated when it is read. Where they are found too, the address of the implementation in the
 *   Python object, that of the version counter, and that of what autograd knows of a tensor (none for most gradients):
 *   then no property has to be asked, which takes longer than all the rest.
 */
#ifndef TRUELINE_LOOK_TORCH_H
#define TRUELINE_LOOK_TORCH_H

#include <Python.h>
#include <stdint.h>
#include <string.h>

#define MAX_DIMENSIONS 6 /* of a descriptor, as in numerics/layout.py */
#define MOST_DIMENSIONS 64 /* of a tensor that is looked at here */
#define DTYPES 128

typedef struct { /* numerics.layout.DESCRIPTOR */
    uint64_t pointer;
    int64_t numel;
    int32_t dtype, ndim;
    int64_t shape[MAX_DIMENSIONS], strides[MAX_DIMENSIONS];
} Descriptor;

typedef struct {
    PyObject *known; /* the tuple (name, code, itemsize); NULL where we do not know the dtype */
    int32_t code;
    int64_t itemsize;
    int is_exact;
} Dtype;

typedef struct {
    PyObject *descriptor;
    descrgetfunc get;
} Property;

typedef int32_t (*AskInteger)(void *handle, int64_t *answer);
typedef int32_t (*AskSmall)(void *handle, int32_t *answer);
typedef int32_t (*AskWords)(void *handle, int64_t **answer);
typedef int32_t (*AskPointer)(void *handle, void **answer);

/* By what we know later whether a tensor is still what it was. */
typedef struct {
    int64_t version;
    uint64_t place;
} Marks;

/* What is known of the tensor that a reader is being given right now, so that it need not be asked again. */
typedef struct {
    PyObject *tensor; /* borrowed; NULL where there is none */
    Descriptor row;
    Marks marks;
} Current;

typedef struct {
    AskInteger dim, storage_size, storage_offset;
    AskSmall dtype, device_type, device_index;
    AskWords sizes, strides;
    AskPointer pointer;
    Py_ssize_t storage_word, keys_word; /* of a tensor's implementation */
    Py_ssize_t object_word, version_word, version_offset, autograd_word; /* all -1 where they were not found */
    uint64_t odd_keys;   /* of tensors whose memory is not what they hold */
    uint64_t dense_keys; /* of those that have one stretch of memory and strides */
    PyCFunction untyped_storage, weak_ref, free_weak_ref, detach;
    Property version, requires_grad, cdata;
    Dtype dtypes[DTYPES];
    PyObject *tensor_type, *parameter_type, *copy_of;
    Current current;
    int ready;
} State;

typedef struct {
    void *implementation;
    uint64_t place; /* the address of the storage */
    int64_t version;
    uint64_t pointer;
    int64_t numel, ndim;
    int64_t *sizes, *strides; /* borrowed from the tensor: not to be used after foreign code ran */
    int32_t dtype;
    int contiguous;
} Facts;

static inline PyObject *property_of(const Property *property, PyObject *object)
{
    return property->get(property->descriptor, object, (PyObject *)Py_TYPE(object));
}

static int integer_property(const Property *property, PyObject *object, int64_t *answer)
{
    PyObject *value = property_of(property, object);
    if (value == NULL)
        return -1;
    *answer = PyLong_AsLongLong(value);
    Py_DECREF(value);
    return *answer == -1 && PyErr_Occurred() ? -1 : 0;
}

static int pointer_property(const Property *property, PyObject *object, void **answer)
{
    PyObject *value = property_of(property, object);
    if (value == NULL)
        return -1;
    *answer = PyLong_AsVoidPtr(value);
    Py_DECREF(value);
    return *answer == NULL ? -1 : 0;
}

static int truth_of(PyObject *value)
{
    int truth = value == NULL ? -1 : PyObject_IsTrue(value);
    Py_XDECREF(value);
    return truth;
}

/* The implementation of a plain tensor; -1 on errors. */
static int implementation_of(const State *state, PyObject *tensor, void **implementation)
{
    if (state->object_word < 0)
        return pointer_property(&state->cdata, tensor, implementation);
    *implementation = ((void **)tensor)[state->object_word];
    return 0;
}

/* What the version counter of a plain tensor says; -1 on errors, of which one is that it has none. */
static int version_of(const State *state, PyObject *tensor, int64_t *version)
{
    if (state->object_word >= 0) {
        const uint64_t *words = ((void **)tensor)[state->object_word];
        const char *counter = (const char *)(uintptr_t)words[state->version_word];
        if (counter != NULL) {
            uint32_t number;
            memcpy(&number, counter + state->version_offset, sizeof number);
            *version = number;
            return 0;
        }
    }
    return integer_property(&state->version, tensor, version);
}

/* Whether gradients are wanted of a plain tensor; -1 on errors. */
static int wants_grad(const State *state, PyObject *tensor, const void *implementation)
{
    if (state->object_word >= 0 && ((const uint64_t *)implementation)[state->autograd_word] == 0)
        return 0;
    return truth_of(property_of(&state->requires_grad, tensor));
}

static int is_plain(const State *state, PyObject *object)
{
    PyObject *type = (PyObject *)Py_TYPE(object);
    return type == state->tensor_type || type == state->parameter_type;
}

static void measure(Facts *facts)
{
    int64_t expected = 1;
    facts->contiguous = 1;
    facts->numel = 1;
    for (int64_t i = 0; i < facts->ndim; i++)
        facts->numel *= facts->sizes[i];
    if (facts->numel == 0)
        return;
    for (int64_t i = facts->ndim - 1; i >= 0; i--) {
        if (facts->sizes[i] == 1)
            continue;
        if (facts->strides[i] != expected) {
            facts->contiguous = 0;
            return;
        }
        expected *= facts->sizes[i];
    }
}

/* Asks for everything. 1: all is known; 0: not a tensor for us, ask in Python; no error is left behind. */
static int ask(const State *state, PyObject *tensor, Facts *facts)
{
    void *pointer;
    if (version_of(state, tensor, &facts->version) < 0 ||
        implementation_of(state, tensor, &facts->implementation) < 0) {
        PyErr_Clear(); /* inference tensors have no version */
        return 0;
    }
    const uint64_t *words = facts->implementation;
    void *handle = &facts->implementation;
    facts->place = words[state->storage_word];
    if (facts->place == 0 ||
        (words[state->keys_word] & (state->odd_keys | state->dense_keys)) != state->dense_keys ||
        state->dtype(handle, &facts->dtype) || facts->dtype < 0 || facts->dtype >= DTYPES ||
        state->dtypes[facts->dtype].known == NULL || state->dim(handle, &facts->ndim) ||
        state->sizes(handle, &facts->sizes) || state->strides(handle, &facts->strides) ||
        state->pointer(handle, &pointer))
        return 0;
    facts->pointer = (uint64_t)(uintptr_t)pointer;
    measure(facts);
    return 1;
}

/* As tensors.MOST_OVERLAID and tensors.OFTEN. */
#define MOST_OVERLAID (1LL << 31)
#define OFTEN 8

/* Whether every element lies inside the storage: a storage can be emptied under a tensor; and whether they are not far
 * more than lie in it: reading what was expanded without end would have no end. */
static int has_memory(const State *state, Facts *facts)
{
    int64_t size, offset, last = 0;
    void *handle = &facts->implementation;
    if (facts->numel == 0)
        return 1;
    if (facts->pointer == 0 || state->storage_size(handle, &size) || state->storage_offset(handle, &offset))
        return 0;
    for (int64_t i = 0; i < facts->ndim; i++)
        last += (facts->sizes[i] - 1) * facts->strides[i];
    int64_t itemsize = state->dtypes[facts->dtype].itemsize;
    if (facts->numel > MOST_OVERLAID / itemsize && facts->numel / OFTEN > size / itemsize)
        return 0;
    return (offset + last + 1) * itemsize <= size;
}

/* Whether a tensor no longer lies where its row says: ``tensor.data =``, or its storage was resized. -1 on errors. */
static int has_moved(const State *state, PyObject *tensor, const Descriptor *row, const Marks *marks)
{
    void *implementation, *pointer;
    if (implementation_of(state, tensor, &implementation) < 0)
        return -1;
    if (((const uint64_t *)implementation)[state->storage_word] != marks->place)
        return 1;
    return state->pointer(&implementation, &pointer) || (uint64_t)(uintptr_t)pointer != row->pointer;
}

/* Fills a descriptor. 0 where the tensor has too many dimensions for one. */
static int describe(const Facts *facts, int32_t code, Descriptor *row)
{
    memset(row, 0, sizeof *row);
    row->pointer = facts->pointer;
    row->numel = facts->numel;
    row->dtype = code;
    row->ndim = 1;
    row->shape[0] = facts->numel;
    row->strides[0] = 1;
    if (facts->contiguous)
        return 1;
    if (facts->ndim > MOST_DIMENSIONS)
        return 0;
    int64_t ndim = 0, shape[MOST_DIMENSIONS], strides[MOST_DIMENSIONS];
    for (int64_t i = 0; i < facts->ndim; i++) {
        int64_t size = facts->sizes[i], stride = facts->strides[i];
        if (size == 1)
            continue;
        if (ndim && strides[ndim - 1] == size * stride) { /* one stride walks both */
            shape[ndim - 1] *= size;
            strides[ndim - 1] = stride;
        } else {
            shape[ndim] = size;
            strides[ndim++] = stride;
        }
    }
    if (ndim > MAX_DIMENSIONS)
        return 0;
    row->ndim = (int32_t)ndim;
    memcpy(row->shape, shape, (size_t)ndim * sizeof *shape);
    memcpy(row->strides, strides, (size_t)ndim * sizeof *strides);
    return 1;
}

#endif
