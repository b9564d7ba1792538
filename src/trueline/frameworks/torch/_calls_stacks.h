/* What ``stacks.Stacks.here`` does. */
#ifndef TRUELINE_CALLS_STACKS_H
#define TRUELINE_CALLS_STACKS_H

#include "_calls_common.h"

#define DEPTH 64 /* stacks.DEPTH */

typedef struct {
    PyObject_HEAD
    PyObject *numbers, *foreign, *learn, *enter, *call_impl;
} Finder;

static int finder_traverse(PyObject *object, visitproc visit, void *arg)
{
    Finder *self = (Finder *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->numbers);
    Py_VISIT(self->foreign);
    Py_VISIT(self->learn);
    Py_VISIT(self->enter);
    Py_VISIT(self->call_impl);
    return 0;
}

static int finder_clear(PyObject *object)
{
    Finder *self = (Finder *)object;
    Py_CLEAR(self->numbers);
    Py_CLEAR(self->foreign);
    Py_CLEAR(self->learn);
    Py_CLEAR(self->enter);
    Py_CLEAR(self->call_impl);
    return 0;
}

static void finder_dealloc(PyObject *object)
{
    PyObject_GC_UnTrack(object);
    finder_clear(object);
    free_object(object);
}

static PyObject *finder_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    static char *FIELDS[] = {"numbers", "foreign", "learn", "enter", "call_impl", NULL};
    PyObject *numbers, *foreign, *learn, *enter, *call_impl;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O!O!OOO:Finder", FIELDS, &PyDict_Type, &numbers, &PyDict_Type,
                                     &foreign, &learn, &enter, &call_impl))
        return NULL;
    Finder *self = (Finder *)new_object(type);
    if (self == NULL)
        return NULL;
    Py_INCREF(self->numbers = numbers);
    Py_INCREF(self->foreign = foreign);
    Py_INCREF(self->learn = learn);
    Py_INCREF(self->enter = enter);
    Py_INCREF(self->call_impl = call_impl);
    return (PyObject *)self;
}

/* The frame that called this one; takes the reference to this one. NULL without an error at the top. */
static PyObject *frame_above(PyObject *frame)
{
    PyObject *above = PyObject_GetAttr(frame, N_f_back);
    Py_DECREF(frame);
    if (above == Py_None)
        Py_CLEAR(above);
    return above;
}

/* Appends a frame to the key if it is the user's. */
static int add_frame(Finder *self, PyObject *frame, PyObject *code, PyObject *key)
{
    PyObject *address = PyLong_FromVoidPtr(code), *known, *last;
    if (address == NULL)
        return -1;
    known = PyDict_GetItemWithError(self->foreign, address);
    Py_XINCREF(known);
    if (known == NULL && !PyErr_Occurred())
        known = PyObject_CallFunctionObjArgs(self->learn, code, NULL);
    int foreign = known == NULL ? -1 : PyObject_IsTrue(known);
    Py_XDECREF(known);
    if (foreign > 0) {
        last = PyObject_GetAttr(frame, N_f_lasti);
        if (last == NULL || PyList_Append(key, address) < 0 || PyList_Append(key, last) < 0)
            foreign = -1;
        Py_XDECREF(last);
    }
    Py_DECREF(address);
    return foreign < 0 ? -1 : 0;
}

static int fill_place(Finder *self, PyObject *frame, int inside, PyObject *key)
{
    int failed = 0;
    for (int depth = 0; frame != NULL && depth < DEPTH && !failed; depth++) {
        PyObject *code = (PyObject *)PyFrame_GetCode((PyFrameObject *)frame);
        int stop = code == self->call_impl && inside;
        failed = !stop && add_frame(self, frame, code, key) < 0;
        Py_DECREF(code);
        if (stop)
            break;
        if (!failed)
            frame = frame_above(frame);
    }
    Py_XDECREF(frame);
    return failed || PyErr_Occurred() ? -1 : 0;
}

/* A new reference to the number of the stack ``up`` frames above the running one. */
static PyObject *find_stack(Finder *self, Py_ssize_t up, PyObject *above)
{
    PyObject *frame = (PyObject *)PyEval_GetFrame();
    long outside = PyLong_AsLong(above);
    if (outside == -1 && PyErr_Occurred())
        return NULL;
    Py_XINCREF(frame);
    for (Py_ssize_t i = 0; frame != NULL && i < up; i++)
        frame = frame_above(frame);
    PyObject *key = PyErr_Occurred() ? NULL : PyList_New(0);
    if (key == NULL || PyList_Append(key, above) < 0) {
        Py_XDECREF(frame);
        Py_XDECREF(key);
        return NULL;
    }
    PyObject *number = NULL, *place = NULL;
    if (fill_place(self, frame, outside != -1, key) == 0)
        place = PyList_AsTuple(key);
    Py_DECREF(key);
    if (place != NULL)
        number = PyDict_GetItemWithError(self->numbers, place);
    Py_XINCREF(number);
    if (place != NULL && number == NULL && !PyErr_Occurred()) {
        PyObject *skip = PyLong_FromSsize_t(up);
        if (skip != NULL)
            number = PyObject_CallFunctionObjArgs(self->enter, place, skip, above, NULL);
        Py_XDECREF(skip);
    }
    Py_XDECREF(place);
    return number;
}

static PyObject *finder_here(PyObject *self, PyObject *const *arguments, Py_ssize_t count)
{
    Py_ssize_t skip = count == 2 ? PyLong_AsSsize_t(arguments[0]) : 0;
    if (skip < 1) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "here(skip, above), where skip is 1 for the caller");
        return NULL;
    }
    return find_stack((Finder *)self, skip - 1, arguments[1]);
}

static PyMethodDef FINDER_METHODS[] = {
    {"here", (PyCFunction)(void (*)(void))finder_here, METH_FASTCALL, "here(skip, above): as Stacks.here"},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot FINDER_SLOTS[] = {
    {Py_tp_new, finder_new},     {Py_tp_dealloc, finder_dealloc},   {Py_tp_traverse, finder_traverse},
    {Py_tp_clear, finder_clear}, {Py_tp_methods, FINDER_METHODS},   {0, NULL},
};

static PyType_Spec FINDER_SPEC = {"trueline.frameworks.torch._calls.Finder", sizeof(Finder), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, FINDER_SLOTS};

#endif
