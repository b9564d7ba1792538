/* Shared by the parts of ``_calls.c``: small helpers around the interpreter's stable interface. */
#ifndef TRUELINE_CALLS_COMMON_H
#define TRUELINE_CALLS_COMMON_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include "../_depth.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <structmember.h>

/* Names of attributes, made once. */
#define NAMES(DO)                                                                                                      \
    DO(requires_grad) DO(grad_fn) DO(output_nr) DO(next_functions) DO(variable) DO(_base) DO(_sequence_nr)             \
    DO(register_hook) DO(__enter__) DO(__exit__) DO(trouble) DO(modules) DO(optimizer) DO(number) DO(open)             \
    DO(functions) DO(region) DO(in_collective) DO(out) DO(inplace) DO(hand_over) DO(opened_unrecorded) DO(outlived)     \
    DO(raised_inside) DO(stand_in) DO(backward_context) DO(enter_arguments) DO(enter_result) DO(backward_trees)      \
    DO(watch_backward) DO(backwards) DO(start) DO(stop) DO(step)

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

/* Makes a call of the program's, as from where ``left`` frames were left: see depth.py. */
static PyObject *make_call(long long left, PyObject *function, PyObject *args, PyObject *kwargs)
{
    return depth_call(left, function, args, kwargs == Py_None ? NULL : kwargs);
}

/* An attribute as an integer; -1 with an error set on errors. */
static long long integer_at(PyObject *object, PyObject *name)
{
    PyObject *value = PyObject_GetAttr(object, name);
    long long integer = value == NULL ? -1 : PyLong_AsLongLong(value);
    Py_XDECREF(value);
    return integer;
}

/* Runs a function without arguments that gives an integer; -1 with an error set on errors. */
static long long ask_integer(PyObject *function)
{
    PyObject *answer = PyObject_CallFunctionObjArgs(function, NULL);
    long long integer = answer == NULL ? -1 : PyLong_AsLongLong(answer);
    Py_XDECREF(answer);
    return integer;
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

/* ---- rows of words and of tensors that grow ---- */

#define FIRST_WORDS 128
#define FIRST_LEAVES 24

typedef struct {
    int64_t *at;
    size_t count, room;
    int64_t first[FIRST_WORDS];
} Words;

typedef struct {
    PyObject **at; /* held */
    Py_ssize_t count, room;
    PyObject *first[FIRST_LEAVES];
} Leaves;

static void begin_words(Words *words)
{
    words->at = words->first;
    words->count = 0;
    words->room = FIRST_WORDS;
}

static void end_words(Words *words)
{
    if (words->at != words->first)
        free(words->at);
}

/* Room for so many more; NULL with an error set where there is none. */
static int64_t *more_words(Words *words, size_t more)
{
    if (words->count + more > words->room) {
        size_t room = 2 * words->room + more;
        int64_t *at = realloc(words->at == words->first ? NULL : words->at, room * sizeof *at);
        if (at == NULL) {
            PyErr_NoMemory();
            return NULL;
        }
        if (words->at == words->first)
            memcpy(at, words->first, words->count * sizeof *at);
        words->at = at;
        words->room = room;
    }
    words->count += more;
    return words->at + words->count - more;
}

static int add_word(Words *words, int64_t word)
{
    int64_t *at = more_words(words, 1);
    if (at == NULL)
        return -1;
    *at = word;
    return 0;
}

static void begin_leaves(Leaves *leaves)
{
    leaves->at = leaves->first;
    leaves->count = 0;
    leaves->room = FIRST_LEAVES;
}

static void drop_leaves(Leaves *leaves)
{
    while (leaves->count)
        Py_DECREF(leaves->at[--leaves->count]);
}

static void end_leaves(Leaves *leaves)
{
    drop_leaves(leaves);
    if (leaves->at != leaves->first)
        free(leaves->at);
}

static int add_leaf(Leaves *leaves, PyObject *tensor)
{
    if (leaves->count == leaves->room) {
        Py_ssize_t room = 4 * leaves->room;
        PyObject **at = realloc(leaves->at == leaves->first ? NULL : leaves->at, (size_t)room * sizeof *at);
        if (at == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        if (leaves->at == leaves->first)
            memcpy(at, leaves->first, sizeof leaves->first);
        leaves->at = at;
        leaves->room = room;
    }
    Py_INCREF(tensor);
    leaves->at[leaves->count++] = tensor;
    return 0;
}

static int add_leaves(Leaves *leaves, PyObject *list)
{
    for (Py_ssize_t i = 0; i < PyList_Size(list); i++)
        if (add_leaf(leaves, PyList_GetItem(list, i)) < 0)
            return -1;
    return 0;
}

/* A new list of the tensors up to a number. */
static PyObject *list_of(const Leaves *leaves, Py_ssize_t count)
{
    PyObject *list = PyList_New(count);
    for (Py_ssize_t i = 0; list != NULL && i < count; i++) {
        Py_INCREF(leaves->at[i]);
        PyList_SetItem(list, i, leaves->at[i]);
    }
    return list;
}

#endif
