/* The tensors of a group with the table that the kernels read: what ``readers.PythonRows`` is, faster. */
#ifndef TRUELINE_LOOK_ROWS_H
#define TRUELINE_LOOK_ROWS_H

#include <Python.h>
#include <stdlib.h>
#include <structmember.h>

#include "_look_torch.h"
#include "_table.h"

static State *state_of(PyObject *module)
{
    return PyModule_GetState(module);
}

static void free_object(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

typedef struct {
    PyObject *tensor;
    PyObject *storage; /* held so that what the row points to stays, even if its tensor is given other memory; NULL
                        * where rows are read by a device, in the order of its stream */
    int64_t number;
    uint64_t place;
    Marks marks;
} Member;

typedef struct {
    PyObject_HEAD
    PyObject *module;
    Member *members;
    Descriptor *rows;
    Py_ssize_t size, capacity;
    Table held; /* the places: how many members lie there */
    int released; /* nothing waits any more: all was read, or is on its way on a stream that keeps the order */
    long long bytes;
} Rows;

static PyObject *rows_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    allocfunc allocate = PyType_GetSlot(type, Py_tp_alloc);
    PyObject *module = PyType_GetModule(type);
    if (module == NULL || !PyArg_ParseTuple(arguments, ":Rows") || (keywords && PyDict_Size(keywords))) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "Rows takes no arguments");
        return NULL;
    }
    if (!state_of(module)->ready) {
        PyErr_SetString(PyExc_RuntimeError, "prepare() comes first");
        return NULL;
    }
    Rows *self = (Rows *)allocate(type, 0);
    if (self == NULL)
        return NULL;
    Py_INCREF(module);
    self->module = module;
    return (PyObject *)self;
}

/* Lets the memory of all tensors go; their numbers stay. */
static void let_go(Rows *self)
{
    self->released = 1;
    for (Py_ssize_t i = 0; i < self->size; i++) {
        PyObject *tensor = self->members[i].tensor, *storage = self->members[i].storage;
        self->members[i].tensor = self->members[i].storage = NULL;
        Py_XDECREF(tensor);
        Py_XDECREF(storage);
    }
}

static void rows_dealloc(PyObject *object)
{
    Rows *self = (Rows *)object;
    let_go(self);
    Py_XDECREF(self->module);
    free(self->members);
    free(self->rows);
    table_free(&self->held);
    free_object(object);
}

static Py_ssize_t rows_length(PyObject *self)
{
    return ((Rows *)self)->size;
}

static int rows_room(Rows *self)
{
    if (self->size < self->capacity)
        return 0;
    Py_ssize_t capacity = self->capacity ? 2 * self->capacity : 64;
    Descriptor *rows = realloc(self->rows, (size_t)capacity * sizeof *rows);
    if (rows != NULL)
        self->rows = rows;
    Member *members = realloc(self->members, (size_t)capacity * sizeof *members);
    if (members != NULL)
        self->members = members;
    if (rows == NULL || members == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    self->capacity = capacity;
    return 0;
}

/* Whether a storage has members here that wait. */
static int rows_hold(const Rows *self, uint64_t place)
{
    int64_t key = (int64_t)place;
    const int64_t *count = self->released ? NULL : table_find(&self->held, &key, 1);
    return count != NULL && count[0] > 0;
}

static int count_place(Rows *self, uint64_t place, int64_t more)
{
    int64_t key = (int64_t)place, *count = table_find(&self->held, &key, 1);
    if (count == NULL)
        return table_set(&self->held, &key, 1, more, 0);
    count[0] += more;
    return 0;
}

/* Describes a tensor that was not just looked at. 1: done; 0: it must be copied first; -1: an error. */
static int describe_anew(const State *state, PyObject *tensor, int32_t code, Descriptor *row, Marks *marks)
{
    Facts facts;
    if (!ask(state, tensor, &facts)) {
        PyErr_SetString(PyExc_TypeError, "not a tensor that can be read where it lies");
        return -1;
    }
    *marks = (Marks){facts.version, facts.place};
    return describe(&facts, code, row);
}

static int rows_append(Rows *self, PyObject *tensor, PyObject *storage, int64_t number, uint64_t place,
                       const Descriptor *row, const Marks *marks, int64_t itemsize)
{
    if (rows_room(self) < 0 || count_place(self, place, 1) < 0)
        return -1;
    Py_INCREF(tensor);
    Py_XINCREF(storage);
    self->rows[self->size] = *row;
    self->members[self->size++] = (Member){tensor, storage, number, place, *marks};
    self->bytes += row->numel * itemsize;
    return 0;
}

static PyObject *rows_add(PyObject *object, PyObject *const *arguments, Py_ssize_t count)
{
    Rows *self = (Rows *)object;
    const State *state = state_of(self->module);
    if (count != 5 || !PyTuple_Check(arguments[3]) || PyTuple_Size(arguments[3]) != 3) {
        PyErr_SetString(PyExc_TypeError, "add(tensor, number, place, known, contiguous)");
        return NULL;
    }
    long code = PyLong_AsLong(PyTuple_GetItem(arguments[3], 1));
    long itemsize = PyLong_AsLong(PyTuple_GetItem(arguments[3], 2));
    long long number = PyLong_AsLongLong(arguments[1]);
    unsigned long long place = PyLong_AsUnsignedLongLong(arguments[2]);
    if (PyErr_Occurred())
        return NULL;
    PyObject *tensor = arguments[0];
    Descriptor row;
    Marks marks;
    int done = 1;
    Py_INCREF(tensor);
    if (state->current.tensor == tensor) {
        row = state->current.row;
        marks = state->current.marks;
    } else {
        done = describe_anew(state, tensor, (int32_t)code, &row, &marks);
    }
    if (done == 0) {
        PyObject *copy = PyObject_CallFunctionObjArgs(state->copy_of, tensor, NULL);
        Py_DECREF(tensor);
        if (copy == NULL)
            return NULL;
        tensor = copy;
        done = describe_anew(state, tensor, (int32_t)code, &row, &marks);
    }
    if (done > 0) {
        PyObject *storage = state->untyped_storage(tensor, NULL);
        done = storage == NULL ? -1
                               : rows_append(self, tensor, storage, number, place, &row, &marks, itemsize);
        Py_XDECREF(storage);
    }
    Py_DECREF(tensor);
    if (done < 0)
        return NULL;
    return PyLong_FromLongLong(self->bytes);
}

static PyObject *rows_remove(PyObject *object, PyObject *argument)
{
    Rows *self = (Rows *)object;
    Py_ssize_t position = PyLong_AsSsize_t(argument);
    if (position == -1 && PyErr_Occurred())
        return NULL;
    if (position < 0 || position >= self->size) {
        PyErr_SetString(PyExc_IndexError, "no such row");
        return NULL;
    }
    Member gone = self->members[position];
    size_t after = (size_t)(self->size - position - 1);
    memmove(&self->rows[position], &self->rows[position + 1], after * sizeof *self->rows);
    memmove(&self->members[position], &self->members[position + 1], after * sizeof *self->members);
    self->size--;
    int failed = count_place(self, gone.place, -1);
    Py_XDECREF(gone.tensor);
    Py_XDECREF(gone.storage);
    if (failed)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *member_at(const Rows *self, Py_ssize_t position)
{
    PyObject *tensor = self->members[position].tensor;
    if (tensor == NULL)
        PyErr_SetString(PyExc_RuntimeError, "the tensors of this group were let go");
    return tensor;
}

static int row_moved(const Rows *self, Py_ssize_t position)
{
    PyObject *tensor = member_at(self, position);
    if (tensor == NULL)
        return -1;
    return has_moved(state_of(self->module), tensor, &self->rows[position], &self->members[position].marks);
}

static int row_changed(const Rows *self, Py_ssize_t position)
{
    int64_t version;
    PyObject *tensor = member_at(self, position);
    if (tensor == NULL || version_of(state_of(self->module), tensor, &version) < 0)
        return -1;
    return version != self->members[position].marks.version || row_moved(self, position);
}

static PyObject *rows_changed(PyObject *object, PyObject *unused)
{
    Rows *self = (Rows *)object;
    PyObject *found = PyList_New(0);
    (void)unused;
    for (Py_ssize_t i = 0; found != NULL && i < self->size; i++) {
        int changed = row_changed(self, i);
        if (changed < 0) {
            Py_CLEAR(found);
        } else if (changed) {
            PyObject *position = PyLong_FromSsize_t(i);
            if (position == NULL || PyList_Append(found, position) < 0)
                Py_CLEAR(found);
            Py_XDECREF(position);
        }
    }
    return found;
}

static PyObject *rows_table(PyObject *object, PyObject *unused)
{
    Rows *self = (Rows *)object;
    (void)unused;
    PyObject *table = PyByteArray_FromStringAndSize((const char *)self->rows, self->size * (Py_ssize_t)sizeof *self->rows);
    if (table == NULL)
        return NULL;
    Descriptor *rows = (Descriptor *)PyByteArray_AsString(table);
    for (Py_ssize_t i = 0; i < self->size; i++) {
        int moved = row_moved(self, i);
        if (moved < 0) {
            Py_DECREF(table);
            return NULL;
        }
        if (moved) { /* its memory may be gone */
            rows[i].numel = rows[i].shape[0] = 0;
            rows[i].ndim = 1;
        }
    }
    return table;
}

/* How the kernels of a device share out a tensor, see ``numerics.cuda``. */
typedef struct {
    Py_ssize_t rows, blocks; /* the most in one table */
    long long block, blocks_per_tensor, span;
    unsigned long long complex_codes; /* a bit for each dtype whose elements count as two */
} Shares;

static int64_t blocks_of(const Descriptor *row, const Shares *shares)
{
    int64_t components = row->numel << ((shares->complex_codes >> row->dtype) & 1);
    int64_t most = shares->blocks_per_tensor * shares->span;
    int64_t size = (components + most - 1) / most * shares->span;
    size = size > shares->block ? size : shares->block;
    return (components + size - 1) / size;
}

/* Writes one row of a device's table; 1 where its tensor was changed since it was seen, -1 on errors. */
static int fill_row(const Rows *self, Py_ssize_t position, Descriptor *row)
{
    const State *state = state_of(self->module);
    PyObject *tensor = member_at(self, position);
    int64_t version;
    if (tensor == NULL || version_of(state, tensor, &version) < 0)
        return -1;
    int moved = has_moved(state, tensor, &self->rows[position], &self->members[position].marks);
    *row = self->rows[position];
    if (moved > 0) { /* its memory may be gone */
        row->numel = row->shape[0] = 0;
        row->ndim = 1;
    }
    return moved < 0 ? -1 : moved || version != self->members[position].marks.version;
}

static int note_position(PyObject *found, Py_ssize_t position)
{
    PyObject *number = PyLong_FromSsize_t(position);
    int failed = number == NULL || PyList_Append(found, number) < 0;
    Py_XDECREF(number);
    return failed ? -1 : 0;
}

/* Fills a table with the rows from the first on; gives how many, -1 on errors. */
static Py_ssize_t fill_table(const Rows *self, Py_ssize_t first, int32_t *ends, Descriptor *table, const Shares *shares,
                             int64_t *blocks, PyObject *changed)
{
    Py_ssize_t count = 0;
    *blocks = 0;
    for (; first + count < self->size && count < shares->rows; count++) {
        int found = fill_row(self, first + count, &table[count]);
        int64_t more = blocks_of(&table[count], shares);
        if (found >= 0 && count && *blocks + more > shares->blocks)
            break;
        if (found < 0 || (found > 0 && note_position(changed, first + count) < 0))
            return -1;
        ends[count] = (int32_t)(*blocks += more);
    }
    for (Py_ssize_t i = count; i < shares->rows; i++)
        ends[i] = INT32_MAX;
    return count;
}

typedef struct { /* numerics.cuda_driver.Kernel */
    void *function;
    uint32_t threads, shared;
    void **parameters;
} Kernel;

/* How a table is sent to the device and read there: numerics.cuda_driver.Program. */
typedef struct {
    int (*copy)(uint64_t to, const void *from, size_t bytes, void *stream);
    int (*launch)(void *function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned shared,
                  void *stream, void **parameters, void **extra);
    void *stream;
    uint64_t table;  /* its address on the device */
    uint64_t header; /* bytes before the rows */
    Kernel reduce, fold;
    uint64_t *results; /* the argument of ``fold`` that says where the results go */
    int64_t blocks;    /* as many as the scratch has room for */
} Program;

/* Sends a table and has it read; 0 where that has to be done the long way, from the start. */
static int run_program(const Program *program, const void *table, Py_ssize_t count, int64_t blocks, uint64_t results)
{
    const Kernel *reduce = &program->reduce, *fold = &program->fold;
    size_t bytes = program->header + (size_t)count * sizeof(Descriptor);
    if (blocks > program->blocks || program->copy(program->table, table, bytes, program->stream))
        return 0;
    if (blocks && program->launch(reduce->function, (unsigned)blocks, 1, 1, reduce->threads, 1, 1, reduce->shared,
                                  program->stream, reduce->parameters, NULL))
        return 0;
    *program->results = results;
    return program->launch(fold->function, (unsigned)count, 1, 1, fold->threads, 1, 1, fold->shared, program->stream,
                           fold->parameters, NULL) == 0;
}

static PyObject *rows_fill(PyObject *object, PyObject *arguments)
{
    unsigned long long ends, table, program, results;
    Py_ssize_t first;
    Shares shares;
    int64_t blocks;
    if (!PyArg_ParseTuple(arguments, "nKK(nnLLLK)KK:fill", &first, &ends, &table, &shares.rows, &shares.blocks,
                          &shares.block, &shares.blocks_per_tensor, &shares.span, &shares.complex_codes, &program,
                          &results))
        return NULL;
    PyObject *changed = PyList_New(0);
    Py_ssize_t count = changed == NULL ? -1
                                       : fill_table((Rows *)object, first, (int32_t *)(uintptr_t)ends,
                                                    (Descriptor *)(uintptr_t)table, &shares, &blocks, changed);
    if (count < 0) {
        Py_XDECREF(changed);
        return NULL;
    }
    int sent = program && run_program((const Program *)(uintptr_t)program, (const void *)(uintptr_t)ends, count, blocks,
                                      results);
    return Py_BuildValue("nLNi", count, (long long)blocks, changed, sent);
}

static PyObject *rows_release(PyObject *object, PyObject *unused)
{
    (void)unused;
    let_go((Rows *)object);
    Py_RETURN_NONE;
}

/* Which of these places have members here. */
static PyObject *rows_holds(PyObject *object, PyObject *places)
{
    Rows *self = (Rows *)object;
    PyObject *found = PySet_New(NULL), *iterator = found == NULL ? NULL : PyObject_GetIter(places), *place;
    while (iterator != NULL && (place = PyIter_Next(iterator)) != NULL) {
        int held = rows_hold(self, PyLong_AsUnsignedLongLong(place));
        if (held && PySet_Add(found, place) < 0)
            held = -1;
        Py_DECREF(place);
        if (held < 0 || PyErr_Occurred())
            break;
    }
    Py_XDECREF(iterator);
    if (PyErr_Occurred())
        Py_CLEAR(found);
    return found;
}

static PyObject *rows_tensors(PyObject *object, void *unused)
{
    Rows *self = (Rows *)object;
    (void)unused;
    PyObject *list = PyList_New(0);
    for (Py_ssize_t i = 0; list != NULL && i < self->size; i++) {
        PyObject *tensor = member_at(self, i);
        if (tensor == NULL || PyList_Append(list, tensor) < 0)
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *rows_places(PyObject *object, void *unused)
{
    Rows *self = (Rows *)object;
    (void)unused;
    PyObject *list = PyList_New(self->size);
    for (Py_ssize_t i = 0; list != NULL && i < self->size; i++) {
        PyObject *place = PyLong_FromUnsignedLongLong(self->members[i].place);
        if (place == NULL || PyList_SetItem(list, i, place) < 0)
            Py_CLEAR(list);
    }
    return list;
}

/* The numbers as the bytes of 64-bit integers. */
static PyObject *rows_numbers(PyObject *object, PyObject *unused)
{
    Rows *self = (Rows *)object;
    (void)unused;
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, self->size * (Py_ssize_t)sizeof(int64_t));
    char *at = bytes == NULL ? NULL : PyBytes_AsString(bytes);
    for (Py_ssize_t i = 0; at != NULL && i < self->size; i++)
        memcpy(at + i * (Py_ssize_t)sizeof(int64_t), &self->members[i].number, sizeof(int64_t));
    return bytes;
}

static PyGetSetDef ROWS_PROPERTIES[] = {
    {"tensors", rows_tensors, NULL, NULL, NULL},
    {"places", rows_places, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef ROWS_MEMBERS[] = {
    {"bytes", T_LONGLONG, offsetof(Rows, bytes), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyMethodDef ROWS_METHODS[] = {
    {"add", (PyCFunction)(void (*)(void))rows_add, METH_FASTCALL,
     "add(tensor, number, place, known, contiguous): takes a tensor in; gives the bytes held now"},
    {"number_bytes", rows_numbers, METH_NOARGS, "number_bytes(): the numbers of the tensors, as bytes of 64-bit integers"},
    {"holds", rows_holds, METH_O, "holds(places): which of these storages have tensors here that wait"},
    {"remove", rows_remove, METH_O, "remove(position): lets a tensor go"},
    {"changed", rows_changed, METH_NOARGS, "changed(): positions of tensors that were changed since they were seen"},
    {"table", rows_table, METH_NOARGS, "table(): the bytes of the DESCRIPTOR rows; those of tensors that moved are empty"},
    {"fill", rows_fill, METH_VARARGS,
     "fill(first, ends, table, shares, program, results): fills a device's table with the rows from the first on, as far "
     "as it goes, and sends it where a program is given; gives how many, their blocks, the positions of those whose tensors "
     "were changed since they were seen, and whether the table was sent"},
    {"release", rows_release, METH_NOARGS, "release(): lets the memory of all tensors go; their numbers stay"},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot ROWS_SLOTS[] = {
    {Py_tp_new, rows_new},         {Py_tp_dealloc, rows_dealloc},   {Py_sq_length, rows_length},
    {Py_tp_members, ROWS_MEMBERS}, {Py_tp_methods, ROWS_METHODS},   {Py_tp_getset, ROWS_PROPERTIES}, {0, NULL},
};

static PyType_Spec ROWS_SPEC = {"trueline.frameworks.torch._look.Rows", sizeof(Rows), 0, Py_TPFLAGS_DEFAULT, ROWS_SLOTS};

#endif
