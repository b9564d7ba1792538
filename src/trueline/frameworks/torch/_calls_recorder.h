/* What a recording needs to know, given once by ``Watch``. */
#ifndef TRUELINE_CALLS_RECORDER_H
#define TRUELINE_CALLS_RECORDER_H

#include "_calls_common.h"
#include "_calls_flatten.h"
#include "_calls_sheets.h"
#include "_calls_stacks.h"
#include "_calls_threads.h"
#include "_calls_torch.h"
#include "_look_api.h"
#include "_table.h"

/* Objects of ``watch.Watch`` and of torch, by the names under which the constructor takes them. */
#define FIELDS(DO)                                                                                                     \
    DO(watch) DO(notebook) DO(threads) DO(looker) DO(sheets) DO(before_change) DO(next_call) DO(trees) DO(results)     \
    DO(next_sequence) DO(grad_enabled) DO(graph_task) DO(no_torch_function) DO(accumulate) DO(finder)     \
    DO(read_after_backward)

/* Integers, likewise. */
#define NUMBERS(DO) DO(input) DO(output) DO(level) DO(none) DO(held_calls) DO(stacks_wanted) DO(backward_wanted)

typedef struct {
    PyObject_HEAD
#define DECLARE(name) PyObject *name;
    FIELDS(DECLARE)
#undef DECLARE
#define DECLARE(name) long long name;
    NUMBERS(DECLARE)
#undef DECLARE
    long long epoch;
    long long read_after; /* one more than the number of the last backward at whose end what waits is read */
    char looking; /* a thread that outlives the capture still has the mode on */
    const LookApi *api;
    PyTypeObject *backward_type, *hook_type;
    Table argument_trees, result_trees, backward_trees; /* numbers of trees, by what is spelled */
    PyObject *texts;                                    /* held, since spellings know them by their address */
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
    Recorder *self = (Recorder *)object;
    PyObject_GC_UnTrack(object);
    recorder_clear(object);
    Py_CLEAR(self->texts);
    table_free(&self->argument_trees);
    table_free(&self->result_trees);
    table_free(&self->backward_trees);
    free_object(object);
}

/* The number of the node that autograd makes next; -1 with an error set on errors. */
static long long next_sequence(Recorder *self)
{
    return have_doors() ? (long long)doors.next_sequence() : ask_integer(self->next_sequence);
}

/* The number of the backward that is running here, -1 where there is none, or with an error set on errors. */
static long long current_backward(Recorder *self)
{
    return have_doors() ? doors.graph_task() : ask_integer(self->graph_task);
}

/* Whether a backward is running here; -1 on errors. */
static int in_backward(Recorder *self)
{
    long long task = current_backward(self);
    return PyErr_Occurred() ? -1 : task != -1;
}

static int grad_enabled(Recorder *self)
{
    if (have_doors())
        return doors.grad_enabled();
    PyObject *answer = PyObject_CallFunctionObjArgs(self->grad_enabled, NULL);
    int enabled = answer == NULL ? -1 : PyObject_IsTrue(answer);
    Py_XDECREF(answer);
    return enabled;
}

/* Looks at a tensor and writes down the visit. */
static int visit(Recorder *self, PyObject *tensor, int64_t call, int64_t position, int64_t role, Words *visits,
                 int *wants_grad)
{
    Seen seen;
    if (self->api->look(self->looker, tensor, &seen) < 0)
        return -1;
    int64_t *row = more_words(visits, VISIT_WORDS);
    if (row == NULL)
        return -1;
    row[0] = call;
    row[1] = position;
    row[2] = role;
    row[3] = seen.number;
    row[4] = seen.layout;
    *wants_grad = seen.wants_grad >= 0 ? seen.wants_grad : told_truth(tensor, N_requires_grad);
    return *wants_grad < 0 ? -1 : 0;
}

static int write_call(Recorder *self, const int64_t *row, const Words *visits)
{
    return write_rows((Sheets *)self->sheets, row, visits->at, visits->count);
}

#endif
