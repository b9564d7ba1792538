/* The backward of one forward call: what ``graph.border_of`` and ``backward.BackwardWatch`` do, for calls that change
 * none of their inputs. */
#ifndef TRUELINE_CALLS_BACKWARD_H
#define TRUELINE_CALLS_BACKWARD_H

#include "_calls_recorder.h"

#define MOST_EDGES 64
#define MOST_VISITED 64 /* calls with larger pieces of the graph are left to Python */

/* ---- what waits for the gradients ---- */

#define FORWARD_FIELDS(DO) DO(forward) DO(name) DO(nth) DO(step) DO(module) DO(context) DO(tree) DO(result) DO(stack)

typedef struct {
#define DECLARE(name) PyObject *name;
    FORWARD_FIELDS(DECLARE)
#undef DECLARE
} Forward;

typedef struct {
    PyObject_HEAD
    Recorder *recorder;
    Forward call;
    PyObject *arrived, *departed; /* gradients by leaf; NULL while there are none */
    Py_ssize_t nodes, fired;
} Backward;

typedef struct {
    Py_ssize_t position, leaf;
} Crossing;

typedef struct {
    PyObject_HEAD
    Backward *backward;
    Py_ssize_t arrivals, departures;
    Crossing *crossings; /* first the arrivals, then the departures */
} Hook;

static int backward_traverse(PyObject *object, visitproc visit, void *arg)
{
    Backward *self = (Backward *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->recorder);
    Py_VISIT(self->arrived);
    Py_VISIT(self->departed);
    return 0; /* the rest are integers */
}

static int backward_clear(PyObject *object)
{
    Backward *self = (Backward *)object;
    Py_CLEAR(self->recorder);
    Py_CLEAR(self->arrived);
    Py_CLEAR(self->departed);
    return 0;
}

static void backward_dealloc(PyObject *object)
{
    Backward *self = (Backward *)object;
    PyObject_GC_UnTrack(object);
    backward_clear(object);
#define CLEAR(name) Py_CLEAR(self->call.name);
    FORWARD_FIELDS(CLEAR)
#undef CLEAR
    free_object(object);
}

static int look_at(Recorder *recorder, PyObject *gradients, PyObject *number, Py_ssize_t first, PyObject *role,
                   PyObject *visits)
{
    PyObject *tensors = PyDict_Values(gradients), *position = PyLong_FromSsize_t(first), *done = NULL;
    if (tensors != NULL && position != NULL)
        done = PyObject_CallFunctionObjArgs(recorder->look_all, tensors, number, position, role, visits, NULL);
    Py_XDECREF(tensors);
    Py_XDECREF(position);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* A new reference to the trees of a backward call, (arguments, result). */
static PyObject *trees_of(Backward *self, PyObject *arrived, PyObject *departed)
{
    Recorder *recorder = self->recorder;
    PyObject *trees = NULL, *key = NULL, *in = PySequence_Tuple(arrived), *out = PySequence_Tuple(departed);
    if (in != NULL && out != NULL)
        key = PyTuple_Pack(4, self->call.tree, self->call.result, in, out);
    if (key != NULL) {
        trees = PyDict_GetItemWithError(recorder->backward_trees, key);
        Py_XINCREF(trees);
        if (trees == NULL && !PyErr_Occurred())
            trees = PyObject_CallMethodObjArgs(recorder->watch, N_backward_trees, key, NULL);
    }
    Py_XDECREF(key);
    Py_XDECREF(in);
    Py_XDECREF(out);
    if (trees != NULL && (!PyTuple_Check(trees) || PyTuple_Size(trees) != 2)) {
        PyErr_SetString(PyExc_TypeError, "trees of a backward call are two numbers");
        Py_CLEAR(trees);
    }
    return trees;
}

static int write_backward(Backward *self, PyObject *arrived, PyObject *departed)
{
    Recorder *recorder = self->recorder;
    const Forward *call = &self->call;
    PyObject *number = PyObject_CallFunctionObjArgs(recorder->next_call, NULL);
    PyObject *trees = number == NULL ? NULL : trees_of(self, arrived, departed);
    PyObject *visits = trees == NULL ? NULL : PyList_New(0), *thread = NULL, *row = NULL;
    int failed = visits == NULL || look_at(recorder, arrived, number, 0, recorder->input, visits) < 0 ||
                 look_at(recorder, departed, number, PyDict_Size(arrived), recorder->output, visits) < 0;
    if (!failed)
        thread = state_at(recorder, N_number);
    if (thread != NULL) {
        PyObject *items[] = {number,       recorder->level, recorder->one,  call->name,
                             call->nth,    call->step,      call->module,   call->context,
                             thread,       call->forward,   PyTuple_GetItem(trees, 0), PyTuple_GetItem(trees, 1),
                             recorder->none, call->stack};
        row = pack(items, sizeof items / sizeof *items);
    }
    failed = row == NULL || extend(recorder->notebook, N_visits, visits, NULL) < 0 ||
             extend(recorder->notebook, N_calls, row, NULL) < 0;
    Py_XDECREF(row);
    Py_XDECREF(thread);
    Py_XDECREF(visits);
    Py_XDECREF(trees);
    Py_XDECREF(number);
    return failed ? -1 : 0;
}

/* Writes the backward call, if any gradient came by. On errors the gradients stay, as in Python. */
static int close_backward(Backward *self)
{
    if (self->fired) {
        if (self->arrived == NULL)
            self->arrived = PyDict_New();
        if (self->departed == NULL)
            self->departed = PyDict_New();
        PyObject *arrived = self->arrived, *departed = self->departed;
        if (arrived == NULL || departed == NULL)
            return -1;
        Py_INCREF(arrived);
        Py_INCREF(departed);
        int failed = write_backward(self, arrived, departed);
        Py_DECREF(arrived);
        Py_DECREF(departed);
        if (failed)
            return -1;
    }
    self->fired = 0;
    Py_CLEAR(self->arrived);
    Py_CLEAR(self->departed);
    return 0;
}

static PyObject *backward_close(PyObject *self, PyObject *unused)
{
    (void)unused;
    if (((Backward *)self)->recorder != NULL && close_backward((Backward *)self) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef BACKWARD_METHODS[] = {
    {"close", backward_close, METH_NOARGS, "close(): writes the backward call, if any gradient came by"},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot BACKWARD_SLOTS[] = {
    {Py_tp_dealloc, backward_dealloc}, {Py_tp_traverse, backward_traverse}, {Py_tp_clear, backward_clear},
    {Py_tp_methods, BACKWARD_METHODS}, {0, NULL},
};

static PyType_Spec BACKWARD_SPEC = {"trueline.frameworks.torch._calls.Backward", sizeof(Backward), 0,
                                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, BACKWARD_SLOTS};

/* ---- what a node calls after it has run ---- */

static int hook_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(((Hook *)object)->backward);
    return 0;
}

static int hook_clear(PyObject *object)
{
    Py_CLEAR(((Hook *)object)->backward);
    return 0;
}

static void hook_dealloc(PyObject *object)
{
    PyObject_GC_UnTrack(object);
    hook_clear(object);
    free(((Hook *)object)->crossings);
    free_object(object);
}

/* Notes a gradient of a leaf; where there is one already, their sum if they are to be added. */
static int note(PyObject **gradients, Py_ssize_t leaf, PyObject *gradient, int add)
{
    if (*gradients == NULL && (*gradients = PyDict_New()) == NULL)
        return -1;
    PyObject *noted = *gradients, *key = PyLong_FromSsize_t(leaf);
    if (key == NULL)
        return -1;
    Py_INCREF(noted);
    PyObject *earlier = add ? PyDict_GetItemWithError(noted, key) : NULL;
    int failed = earlier == NULL && PyErr_Occurred() != NULL;
    if (earlier != NULL) {
        Py_INCREF(earlier);
        PyObject *sum = PyNumber_Add(earlier, gradient);
        Py_DECREF(earlier);
        failed = sum == NULL || PyDict_SetItem(noted, key, sum) < 0;
        Py_XDECREF(sum);
    } else if (!failed) {
        failed = PyDict_SetItem(noted, key, gradient) < 0;
    }
    Py_DECREF(noted);
    Py_DECREF(key);
    return failed ? -1 : 0;
}

/* Notes the gradients that cross the border here. */
static int note_all(const Crossing *crossings, Py_ssize_t count, PyObject *passing, PyObject **gradients, int add)
{
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *gradient = PyTuple_GetItem(passing, crossings[i].position);
        if (gradient == NULL || (gradient != Py_None && note(gradients, crossings[i].leaf, gradient, add) < 0))
            return -1;
    }
    return 0;
}

static int fire(Hook *self, PyObject *sent, PyObject *received)
{
    Backward *backward = self->backward;
    if (note_all(self->crossings, self->arrivals, received, &backward->arrived, 0) < 0 ||
        note_all(self->crossings + self->arrivals, self->departures, sent, &backward->departed, 1) < 0)
        return -1;
    backward->fired++;
    return backward->fired >= backward->nodes ? close_backward(backward) : 0;
}

/* As ``with NoTorchFunction():`` around ``fire``. */
static int fire_quietly(Hook *self, PyObject *sent, PyObject *received)
{
    PyObject *type, *value, *traceback, *quiet = PyObject_CallFunctionObjArgs(self->backward->recorder->no_torch_function, NULL);
    PyObject *entered = quiet == NULL ? NULL : PyObject_CallMethodObjArgs(quiet, N___enter__, NULL);
    if (entered == NULL) {
        Py_XDECREF(quiet);
        return -1;
    }
    Py_DECREF(entered);
    int failed = fire(self, sent, received);
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *left = PyObject_CallMethodObjArgs(quiet, N___exit__, Py_None, Py_None, Py_None, NULL);
    if (type != NULL)
        PyErr_Restore(type, value, traceback);
    Py_XDECREF(left);
    Py_DECREF(quiet);
    return failed || left == NULL ? -1 : 0;
}

static PyObject *hook_call(PyObject *object, PyObject *arguments, PyObject *keywords)
{
    Hook *self = (Hook *)object;
    PyObject *sent, *received;
    (void)keywords;
    if (self->backward == NULL || self->backward->recorder == NULL) /* the collector has taken it apart */
        Py_RETURN_NONE;
    Recorder *recorder = self->backward->recorder;
    int looking = truth_at(recorder->watch, N_looking), failed = looking < 0;
    if (looking > 0) {
        Py_INCREF(self);
        Py_INCREF(recorder);
        failed = (!PyArg_ParseTuple(arguments, "O!O!:hook", &PyTuple_Type, &sent, &PyTuple_Type, &received) ||
                  fire_quietly(self, sent, received) < 0) &&
                 report_trouble(recorder->notebook) < 0;
        Py_DECREF(recorder);
        Py_DECREF(self);
    }
    if (failed)
        return NULL;
    Py_RETURN_NONE;
}

static PyType_Slot HOOK_SLOTS[] = {
    {Py_tp_dealloc, hook_dealloc}, {Py_tp_traverse, hook_traverse}, {Py_tp_clear, hook_clear},
    {Py_tp_call, hook_call},       {0, NULL},
};

static PyType_Spec HOOK_SPEC = {"trueline.frameworks.torch._calls.Hook", sizeof(Hook), 0,
                                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, HOOK_SLOTS};

#endif
