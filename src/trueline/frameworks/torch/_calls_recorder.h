/* What a recording needs to know, given once by ``Watch``. */
#ifndef TRUELINE_CALLS_RECORDER_H
#define TRUELINE_CALLS_RECORDER_H

#include "_calls_common.h"
#include "_calls_stacks.h"

/* Objects of ``watch.Watch`` and of torch, by the names under which the constructor takes them. */
#define FIELDS(DO)                                                                                                     \
    DO(watch) DO(notebook) DO(state) DO(look_all) DO(next_call) DO(trees) DO(results) DO(backward_trees)               \
    DO(next_sequence) DO(grad_enabled) DO(graph_task) DO(no_torch_function) DO(accumulate) DO(finder)                  \
    DO(input) DO(output) DO(level) DO(none) DO(zero) DO(one)

typedef struct {
    PyObject_HEAD
#define DECLARE(name) PyObject *name;
    FIELDS(DECLARE)
#undef DECLARE
    int stacks_wanted, backward_wanted;
    Py_ssize_t held_integers;
    PyTypeObject *backward_type, *hook_type;
} Recorder;

static int recorder_traverse(PyObject *object, visitproc visit, void *arg)
{
    Recorder *self = (Recorder *)object;
    Py_VISIT(Py_TYPE(object));
#define VISIT(name) Py_VISIT(self->name);
    FIELDS(VISIT)
#undef VISIT
    Py_VISIT(self->backward_type);
    Py_VISIT(self->hook_type);
    return 0;
}

static int recorder_clear(PyObject *object)
{
    Recorder *self = (Recorder *)object;
#define CLEAR(name) Py_CLEAR(self->name);
    FIELDS(CLEAR)
#undef CLEAR
    Py_CLEAR(self->backward_type);
    Py_CLEAR(self->hook_type);
    return 0;
}

static void recorder_dealloc(PyObject *object)
{
    PyObject_GC_UnTrack(object);
    recorder_clear(object);
    free_object(object);
}

/* Runs a function of torch without arguments that gives an integer; -1 with an error set on errors. */
static long long ask_integer(PyObject *function)
{
    PyObject *answer = PyObject_CallFunctionObjArgs(function, NULL);
    long long integer = answer == NULL ? -1 : PyLong_AsLongLong(answer);
    Py_XDECREF(answer);
    return integer;
}

/* A new reference to an attribute of this thread's state. */
static PyObject *state_at(Recorder *self, PyObject *name)
{
    return PyObject_GetAttr(self->state, name);
}

#endif
