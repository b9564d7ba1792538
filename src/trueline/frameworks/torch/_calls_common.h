/* Shared by the parts of ``_calls.c``: small helpers around the interpreter's stable interface. */
#ifndef TRUELINE_CALLS_COMMON_H
#define TRUELINE_CALLS_COMMON_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Names of attributes, made once. */
#define NAMES(DO)                                                                                                      \
    DO(f_back) DO(f_lasti) DO(requires_grad) DO(grad_fn) DO(output_nr) DO(next_functions) DO(variable)                 \
    DO(_sequence_nr) DO(register_hook) DO(__enter__) DO(__exit__) DO(looking) DO(trouble) DO(calls) DO(visits)         \
    DO(step) DO(count) DO(wanted) DO(mutates) DO(in_place) DO(name_id) DO(treatment) DO(modules) DO(optimizer)         \
    DO(number) DO(_epoch) DO(out) DO(inplace) DO(hand_over) DO(call) DO(call_unrecorded) DO(raised_inside)             \
    DO(backward_context) DO(_enter_arguments) DO(_enter_result) DO(backward_trees) DO(watch_backward) DO(backwards)

#define DECLARE(name) static PyObject *N_##name;
NAMES(DECLARE)
#undef DECLARE

static int make_names(void)
{
#define MAKE(name)                                                                                                     \
    if (N_##name == NULL && (N_##name = PyUnicode_InternFromString(#name)) == NULL)                                    \
        return -1;
    NAMES(MAKE)
#undef MAKE
    return 0;
}

static void free_object(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

static PyObject *new_object(PyTypeObject *type)
{
    allocfunc allocate = PyType_GetSlot(type, Py_tp_alloc);
    return allocate(type, 0);
}

/* The truth of an attribute; -1 on errors. */
static int truth_at(PyObject *object, PyObject *name)
{
    PyObject *value = PyObject_GetAttr(object, name);
    int truth = value == NULL ? -1 : value == Py_True ? 1 : value == Py_False ? 0 : PyObject_IsTrue(value);
    Py_XDECREF(value);
    return truth;
}

/* An attribute as an integer; -1 with an error set on errors. */
static long long integer_at(PyObject *object, PyObject *name)
{
    PyObject *value = PyObject_GetAttr(object, name);
    long long integer = value == NULL ? -1 : PyLong_AsLongLong(value);
    Py_XDECREF(value);
    return integer;
}

/* Adds a whole row, or several, to a list of the notebook: one operation under the interpreter's lock. */
static int extend(PyObject *notebook, PyObject *name, PyObject *row, Py_ssize_t *length)
{
    PyObject *list = PyObject_GetAttr(notebook, name);
    if (list == NULL)
        return -1;
    PyObject *same = PySequence_InPlaceConcat(list, row);
    Py_DECREF(list);
    if (same == NULL)
        return -1;
    if (length != NULL)
        *length = PyList_Size(same);
    Py_DECREF(same);
    return 0;
}

/* Takes the error that is set, if it is one that must not reach the program, to the notebook; -1 where one stays. */
static int report_trouble(PyObject *notebook)
{
    PyObject *type, *value, *traceback;
    if (!PyErr_ExceptionMatches(PyExc_Exception))
        return -1;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback != NULL)
        PyException_SetTraceback(value, traceback);
    PyObject *done = PyObject_CallMethodObjArgs(notebook, N_trouble, value, NULL);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* A tuple of borrowed references to objects, none of them NULL. */
static PyObject *pack(PyObject *const *items, Py_ssize_t count)
{
    PyObject *tuple = PyTuple_New(count);
    for (Py_ssize_t i = 0; tuple != NULL && i < count; i++) {
        Py_INCREF(items[i]);
        PyTuple_SetItem(tuple, i, items[i]);
    }
    return tuple;
}

#endif
