/* The tensors of a group with the table that the kernels read: what ``readers.PythonRows`` is, faster. */
#ifndef TRUELINE_LOOK_ROWS_H
#define TRUELINE_LOOK_ROWS_H

#include <Python.h>
#include <stdlib.h>
#include <structmember.h>

#include "_look_torch.h"

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
    PyObject_HEAD
    PyObject *module, *tensors, *numbers, *places;
    PyObject *held; /* the places once more, as a set: to be asked quickly */
    PyObject *storages; /* held so that what a row points to stays, even if its tensor is given other memory */
    Descriptor *rows;
    Marks *marks;
    Py_ssize_t size, capacity;
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
    self->tensors = PyList_New(0);
    self->numbers = PyList_New(0);
    self->places = PyList_New(0);
    self->storages = PyList_New(0);
    self->held = PySet_New(NULL);
    if (!self->tensors || !self->numbers || !self->places || !self->storages || !self->held) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static void rows_dealloc(PyObject *object)
{
    Rows *self = (Rows *)object;
    Py_XDECREF(self->tensors);
    Py_XDECREF(self->numbers);
    Py_XDECREF(self->places);
    Py_XDECREF(self->storages);
    Py_XDECREF(self->held);
    Py_XDECREF(self->module);
    free(self->rows);
    free(self->marks);
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
    Marks *marks = realloc(self->marks, (size_t)capacity * sizeof *marks);
    if (marks != NULL)
        self->marks = marks;
    if (rows == NULL || marks == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    self->capacity = capacity;
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

static int rows_append(Rows *self, PyObject *tensor, PyObject *storage, PyObject *number, PyObject *place,
                       const Descriptor *row, const Marks *marks, int64_t itemsize)
{
    if (rows_room(self) < 0 || PyList_Append(self->storages, storage) < 0 ||
        PyList_Append(self->tensors, tensor) < 0 || PyList_Append(self->numbers, number) < 0 ||
        PyList_Append(self->places, place) < 0 || PySet_Add(self->held, place) < 0)
        return -1;
    self->rows[self->size] = *row;
    self->marks[self->size++] = *marks;
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
                               : rows_append(self, tensor, storage, arguments[1], arguments[2], &row, &marks, itemsize);
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
    size_t after = (size_t)(self->size - position - 1);
    memmove(&self->rows[position], &self->rows[position + 1], after * sizeof *self->rows);
    memmove(&self->marks[position], &self->marks[position + 1], after * sizeof *self->marks);
    self->size--;
    if (PyList_SetSlice(self->numbers, position, position + 1, NULL) < 0 ||
        PyList_SetSlice(self->places, position, position + 1, NULL) < 0 ||
        PyList_SetSlice(self->tensors, position, position + 1, NULL) < 0 ||
        PyList_SetSlice(self->storages, position, position + 1, NULL) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static int row_moved(const Rows *self, Py_ssize_t position)
{
    PyObject *tensor = PyList_GetItem(self->tensors, position);
    if (tensor == NULL)
        return -1;
    return has_moved(state_of(self->module), tensor, &self->rows[position], &self->marks[position]);
}

static int row_changed(const Rows *self, Py_ssize_t position)
{
    int64_t version;
    PyObject *tensor = PyList_GetItem(self->tensors, position);
    if (tensor == NULL || version_of(state_of(self->module), tensor, &version) < 0)
        return -1;
    return version != self->marks[position].version || row_moved(self, position);
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
    PyObject *tensor = PyList_GetItem(self->tensors, position);
    int64_t version;
    if (tensor == NULL || version_of(state, tensor, &version) < 0)
        return -1;
    int moved = has_moved(state, tensor, &self->rows[position], &self->marks[position]);
    *row = self->rows[position];
    if (moved > 0) { /* its memory may be gone */
        row->numel = row->shape[0] = 0;
        row->ndim = 1;
    }
    return moved < 0 ? -1 : moved || version != self->marks[position].version;
}

static int note_position(PyObject *found, Py_ssize_t position)
{
    PyObject *number = PyLong_FromSsize_t(position);
    int failed = number == NULL || PyList_Append(found, number) < 0;
    Py_XDECREF(number);
    return failed ? -1 : 0;
}

static PyObject *rows_fill(PyObject *object, PyObject *arguments)
{
    Rows *self = (Rows *)object;
    unsigned long long ends_address, table_address;
    Py_ssize_t first, count = 0;
    Shares shares;
    if (!PyArg_ParseTuple(arguments, "nKK(nnLLLK):fill", &first, &ends_address, &table_address, &shares.rows,
                          &shares.blocks, &shares.block, &shares.blocks_per_tensor, &shares.span,
                          &shares.complex_codes))
        return NULL;
    int32_t *ends = (int32_t *)(uintptr_t)ends_address;
    Descriptor *table = (Descriptor *)(uintptr_t)table_address;
    int64_t blocks = 0;
    PyObject *changed = PyList_New(0);
    for (; changed != NULL && first + count < self->size && count < shares.rows; count++) {
        int found = fill_row(self, first + count, &table[count]);
        int64_t more = blocks_of(&table[count], &shares);
        if (found >= 0 && count && blocks + more > shares.blocks)
            break;
        if (found < 0 || (found > 0 && note_position(changed, first + count) < 0)) {
            Py_CLEAR(changed);
            break;
        }
        ends[count] = (int32_t)(blocks += more);
    }
    if (changed == NULL)
        return NULL;
    for (Py_ssize_t i = count; i < shares.rows; i++)
        ends[i] = INT32_MAX;
    return Py_BuildValue("nLN", count, (long long)blocks, changed);
}

static PyObject *rows_release(PyObject *object, PyObject *unused)
{
    Rows *self = (Rows *)object;
    (void)unused;
    if (PyList_SetSlice(self->tensors, 0, PY_SSIZE_T_MAX, NULL) < 0 ||
        PyList_SetSlice(self->storages, 0, PY_SSIZE_T_MAX, NULL) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyMemberDef ROWS_MEMBERS[] = {
    {"tensors", T_OBJECT_EX, offsetof(Rows, tensors), READONLY, NULL},
    {"numbers", T_OBJECT_EX, offsetof(Rows, numbers), READONLY, NULL},
    {"places", T_OBJECT_EX, offsetof(Rows, places), READONLY, NULL},
    {"held", T_OBJECT_EX, offsetof(Rows, held), READONLY, NULL},
    {"bytes", T_LONGLONG, offsetof(Rows, bytes), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyMethodDef ROWS_METHODS[] = {
    {"add", (PyCFunction)(void (*)(void))rows_add, METH_FASTCALL,
     "add(tensor, number, place, known, contiguous): takes a tensor in; gives the bytes held now"},
    {"remove", rows_remove, METH_O, "remove(position): lets a tensor go"},
    {"changed", rows_changed, METH_NOARGS, "changed(): positions of tensors that were changed since they were seen"},
    {"table", rows_table, METH_NOARGS, "table(): the bytes of the DESCRIPTOR rows; those of tensors that moved are empty"},
    {"fill", rows_fill, METH_VARARGS,
     "fill(first, ends, table, shares): fills a device's table with the rows from the first on, as far as it goes; gives "
     "how many, their blocks, and the positions of those whose tensors were changed since they were seen"},
    {"release", rows_release, METH_NOARGS, "release(): lets the memory of all tensors go; their numbers stay"},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot ROWS_SLOTS[] = {
    {Py_tp_new, rows_new},         {Py_tp_dealloc, rows_dealloc},   {Py_sq_length, rows_length},
    {Py_tp_members, ROWS_MEMBERS}, {Py_tp_methods, ROWS_METHODS},   {0, NULL},
};

static PyType_Spec ROWS_SPEC = {"trueline.frameworks.torch._look.Rows", sizeof(Rows), 0, Py_TPFLAGS_DEFAULT, ROWS_SLOTS};

#endif
