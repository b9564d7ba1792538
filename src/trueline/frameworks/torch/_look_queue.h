/* Takes the tensors of one device for its reader without Python as long as there is room: what the ``add`` of
 * readers does, faster. */
#ifndef TRUELINE_LOOK_QUEUE_H
#define TRUELINE_LOOK_QUEUE_H

#include <Python.h>
#include <structmember.h>

#include "_look_rows.h"

#define MOST_TRIES 1000 /* to find room in the table, which other threads fill as well */

/* What ``numerics._kernels`` reads one tensor with; its last argument is a row of STATISTICS. */
typedef void (*ReadTensor)(const Descriptor *tensor, int flags, void *row);

typedef struct {
    PyObject_HEAD
    PyObject *module;
    PyObject *rows;          /* the group that is being filled, a Rows */
    PyObject *numbers;       /* of the tensors whose statistics are in the table, a list */
    PyObject *group_full, *table_full, *stream_changed; /* what to call then */
    PyObject *stream_of, *device; /* gives the current stream of the device; None where there are no streams */
    PyCFunction ask_stream;       /* the C function behind it, where it is one with one argument */
    unsigned long long stream;
    long long limit, small; /* bytes: of a group, and of a tensor that is read at once */
    Py_ssize_t most;         /* tensors of a group */
    unsigned long long table; /* the address of the rows of statistics */
    Py_ssize_t table_rows, row_bytes;
    ReadTensor read;
    int digest;
} Queue;

#define QUEUE_OBJECTS(DO) DO(rows) DO(numbers) DO(group_full) DO(table_full) DO(stream_changed) DO(stream_of) DO(device)

static int queue_traverse(PyObject *object, visitproc visit, void *arg)
{
    Queue *self = (Queue *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->module);
#define VISIT(name) Py_VISIT(self->name);
    QUEUE_OBJECTS(VISIT)
#undef VISIT
    return 0;
}

static int queue_clear(PyObject *object)
{
    Queue *self = (Queue *)object;
#define CLEAR(name) Py_CLEAR(self->name);
    QUEUE_OBJECTS(CLEAR)
#undef CLEAR
    return 0;
}

static void queue_dealloc(PyObject *object)
{
    PyObject_GC_UnTrack(object);
    queue_clear(object);
    Py_XDECREF(((Queue *)object)->module);
    free_object(object);
}

static PyObject *queue_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    static char *NAMES[] = {"group_full", "table_full", "stream_changed", "stream_of", "device",    "limit",
                            "most",       "small",      "read",           "digest",    "row_bytes", NULL};
    PyObject *group_full, *table_full, *stream_changed, *stream_of, *device;
    long long limit, small;
    Py_ssize_t most, row_bytes;
    unsigned long long read;
    int digest;
    allocfunc allocate = PyType_GetSlot(type, Py_tp_alloc);
    PyObject *module = PyType_GetModule(type);
    if (module == NULL ||
        !PyArg_ParseTupleAndKeywords(arguments, keywords, "OOOOOLnLKpn:Queue", NAMES, &group_full, &table_full,
                                     &stream_changed, &stream_of, &device, &limit, &most, &small, &read, &digest,
                                     &row_bytes))
        return NULL;
    Queue *self = (Queue *)allocate(type, 0);
    if (self == NULL)
        return NULL;
    Py_INCREF(self->module = module);
    Py_INCREF(self->group_full = group_full);
    Py_INCREF(self->table_full = table_full);
    Py_INCREF(self->stream_changed = stream_changed);
    Py_INCREF(self->stream_of = stream_of);
    Py_INCREF(self->device = device);
    if (PyCFunction_Check(stream_of) && PyCFunction_GetFlags(stream_of) == METH_O)
        self->ask_stream = PyCFunction_GetFunction(stream_of);
    self->limit = limit;
    self->most = most;
    self->small = small;
    self->row_bytes = row_bytes;
    self->read = (ReadTensor)(uintptr_t)read;
    self->digest = digest;
    return (PyObject *)self;
}

static int tell(PyObject *callback)
{
    PyObject *done = PyObject_CallFunctionObjArgs(callback, NULL);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* A group is read on the stream that its tensors were made on: another stream begins another group. */
static int follow_stream(Queue *self)
{
    if (self->stream_of == Py_None)
        return 0;
    PyObject *answer = self->ask_stream != NULL ? self->ask_stream(NULL, self->device)
                                                : PyObject_CallFunctionObjArgs(self->stream_of, self->device, NULL);
    if (answer == NULL)
        return -1;
    unsigned long long stream = PyLong_AsUnsignedLongLongMask(answer);
    Py_DECREF(answer);
    if (PyErr_Occurred())
        return -1;
    return stream == self->stream ? 0 : tell(self->stream_changed);
}

/* Reads a small tensor at once: that costs less than to remember it. */
static int read_at_once(Queue *self, int64_t number, const Descriptor *row)
{
    Py_ssize_t position = PyList_Size(self->numbers);
    for (int tries = 0; position >= self->table_rows && tries < MOST_TRIES; tries++) {
        if (tell(self->table_full) < 0) /* which waits for the thread that is giving the full one away */
            return -1;
        position = PyList_Size(self->numbers);
    }
    if (position < 0 || position >= self->table_rows) {
        PyErr_SetString(PyExc_RuntimeError, "the table of statistics is full");
        return -1;
    }
    self->read(row, self->digest, (void *)(uintptr_t)(self->table + (unsigned long long)(position * self->row_bytes)));
    PyObject *entry = PyLong_FromLongLong(number);
    int failed = entry == NULL || PyList_Append(self->numbers, entry) < 0;
    Py_XDECREF(entry);
    if (failed)
        return -1;
    return position + 1 < self->table_rows ? 0 : tell(self->table_full);
}

/* Whether another thread reads the tensors, while this one may give them other memory. */
static int in_background(const Queue *self)
{
    return self->read != NULL;
}

static int is_small(const Queue *self, const Descriptor *row, int64_t itemsize)
{
    return row->numel * itemsize <= self->small && self->numbers != NULL;
}

/* Takes a tensor whose row is known, to be read later. */
static int queue_add(Queue *self, PyObject *tensor, PyObject *storage, int64_t number, const Current *current,
                     int64_t itemsize)
{
    Rows *rows = (Rows *)self->rows;
    if (rows_append(rows, tensor, storage, number, current->marks.place, &current->row, &current->marks, itemsize) < 0)
        return -1;
    return rows->bytes <= self->limit && rows->size < self->most ? 0 : tell(self->group_full);
}

static PyObject *queue_begin_group(PyObject *object, PyObject *rows)
{
    Queue *self = (Queue *)object;
    if (PyType_GetSlot(Py_TYPE(rows), Py_tp_new) != (void *)rows_new) {
        PyErr_SetString(PyExc_TypeError, "begin_group(rows), with a Rows");
        return NULL;
    }
    PyObject *old = self->rows;
    Py_INCREF(self->rows = rows);
    Py_XDECREF(old);
    Py_RETURN_NONE;
}

static PyObject *queue_begin_table(PyObject *object, PyObject *arguments)
{
    Queue *self = (Queue *)object;
    PyObject *numbers, *old = self->numbers;
    unsigned long long address;
    Py_ssize_t count;
    if (!PyArg_ParseTuple(arguments, "O!Kn:begin_table", &PyList_Type, &numbers, &address, &count))
        return NULL;
    Py_INCREF(self->numbers = numbers);
    self->table = address;
    self->table_rows = count;
    Py_XDECREF(old);
    Py_RETURN_NONE;
}

static PyMemberDef QUEUE_MEMBERS[] = {
    {"stream", T_ULONGLONG, offsetof(Queue, stream), 0, NULL},
    {"limit", T_LONGLONG, offsetof(Queue, limit), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyMethodDef QUEUE_METHODS[] = {
    {"begin_group", queue_begin_group, METH_O, "begin_group(rows): tensors go into these Rows from now on"},
    {"begin_table", queue_begin_table, METH_VARARGS,
     "begin_table(numbers, address, count): statistics of small tensors go into this table from now on"},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot QUEUE_SLOTS[] = {
    {Py_tp_new, queue_new},     {Py_tp_dealloc, queue_dealloc},   {Py_tp_traverse, queue_traverse},
    {Py_tp_clear, queue_clear}, {Py_tp_members, QUEUE_MEMBERS},   {Py_tp_methods, QUEUE_METHODS},
    {0, NULL},
};

static PyType_Spec QUEUE_SPEC = {"trueline.frameworks.torch._look.Queue", sizeof(Queue), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, QUEUE_SLOTS};

#endif
