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
    if (!self->tensors || !self->numbers || !self->places || !self->storages) {
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

static int rows_append(Rows *self, PyObject *tensor, PyObject *number, PyObject *place, const Descriptor *row,
                       const Marks *marks)
{
    PyObject *storage = state_of(self->module)->untyped_storage(tensor, NULL);
    int failed = storage == NULL || rows_room(self) < 0 || PyList_Append(self->storages, storage) < 0 ||
                 PyList_Append(self->tensors, tensor) < 0 || PyList_Append(self->numbers, number) < 0 ||
                 PyList_Append(self->places, place) < 0;
    Py_XDECREF(storage);
    if (failed)
        return -1;
    self->rows[self->size] = *row;
    self->marks[self->size++] = *marks;
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
    if (done > 0)
        done = rows_append(self, tensor, arguments[1], arguments[2], &row, &marks);
    Py_DECREF(tensor);
    if (done < 0)
        return NULL;
    self->bytes += row.numel * itemsize;
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
    if (tensor == NULL || integer_property(&state_of(self->module)->version, tensor, &version) < 0)
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
    {"bytes", T_LONGLONG, offsetof(Rows, bytes), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyMethodDef ROWS_METHODS[] = {
    {"add", (PyCFunction)(void (*)(void))rows_add, METH_FASTCALL,
     "add(tensor, number, place, known, contiguous): takes a tensor in; gives the bytes held now"},
    {"remove", rows_remove, METH_O, "remove(position): lets a tensor go"},
    {"changed", rows_changed, METH_NOARGS, "changed(): positions of tensors that were changed since they were seen"},
    {"table", rows_table, METH_NOARGS, "table(): the bytes of the DESCRIPTOR rows; those of tensors that moved are empty"},
    {"release", rows_release, METH_NOARGS, "release(): lets the memory of all tensors go; their numbers stay"},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot ROWS_SLOTS[] = {
    {Py_tp_new, rows_new},         {Py_tp_dealloc, rows_dealloc},   {Py_sq_length, rows_length},
    {Py_tp_members, ROWS_MEMBERS}, {Py_tp_methods, ROWS_METHODS},   {0, NULL},
};

static PyType_Spec ROWS_SPEC = {"trueline.frameworks.torch._look.Rows", sizeof(Rows), 0, Py_TPFLAGS_DEFAULT, ROWS_SLOTS};

#endif
