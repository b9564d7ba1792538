/* The backward of one forward call: what ``backward.BackwardWatch`` does. */
#ifndef TRUELINE_CALLS_BACKWARD_H
#define TRUELINE_CALLS_BACKWARD_H

#include "_calls_recorder.h"

#define FEW 4

/* ---- what waits for the gradients ---- */

/* What the backward call takes over from its forward call. */
typedef struct {
    int64_t number, name, nth, step, module, context, tree, result, stack;
} Forward;

typedef struct {
    Py_ssize_t leaf;
    PyObject *gradient;
} Noted;

/* Gradients by leaf, in the order in which they came. */
typedef struct {
    Noted *at; /* NULL stands for ``few`` */
    Py_ssize_t count, room;
    Noted few[FEW];
} Gradients;

typedef struct {
    Py_ssize_t position, leaf;
    int final; /* whether it leaves the graph: to become the gradient of a parameter */
} Crossing;

/* Neither of these two is known to the garbage collector: they hold nothing that could lead back to them once the
 * backward has run or the step has ended, and there are hundreds of them in a step. */
typedef struct {
    PyObject_HEAD
    Recorder *recorder;
    Forward call;
    Gradients arrived, departed;
    Py_ssize_t nodes, fired;
} Backward;

typedef struct {
    PyObject_HEAD
    Backward *backward;
    Py_ssize_t arrivals, departures;
    Crossing *crossings; /* first the arrivals, then the departures */
} Hook;

static Noted *noted(Gradients *gradients)
{
    return gradients->at == NULL ? gradients->few : gradients->at;
}

static void drop_gradients(Gradients *gradients)
{
    Gradients old = *gradients; /* to let go of a tensor may run anything */
    memset(gradients, 0, sizeof *gradients);
    for (Py_ssize_t i = 0; i < old.count; i++)
        Py_DECREF(noted(&old)[i].gradient);
    free(old.at);
}

static void backward_dealloc(PyObject *object)
{
    Backward *self = (Backward *)object;
    drop_gradients(&self->arrived);
    drop_gradients(&self->departed);
    Py_XDECREF(self->recorder);
    free_object(object);
}

static int gradients_room(Gradients *gradients)
{
    Py_ssize_t room = gradients->at == NULL ? FEW : gradients->room;
    if (gradients->count < room)
        return 0;
    Noted *at = realloc(gradients->at, (size_t)(2 * room) * sizeof *at);
    if (at == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    if (gradients->at == NULL)
        memcpy(at, gradients->few, sizeof gradients->few);
    gradients->at = at;
    gradients->room = 2 * room;
    return 0;
}

/* Notes a gradient of a leaf; where there is one already, their sum if they are to be added, else the new one. */
static int note(Gradients *gradients, Py_ssize_t leaf, PyObject *gradient, int add)
{
    for (Py_ssize_t i = 0; i < gradients->count; i++) {
        if (noted(gradients)[i].leaf != leaf)
            continue;
        PyObject *earlier = noted(gradients)[i].gradient;
        Py_INCREF(gradient);
        if (add) {
            PyObject *sum = PyNumber_Add(earlier, gradient);
            Py_DECREF(gradient);
            if (sum == NULL)
                return -1;
            gradient = sum;
        }
        noted(gradients)[i].gradient = gradient;
        Py_DECREF(earlier);
        return 0;
    }
    if (gradients_room(gradients) < 0)
        return -1;
    Py_INCREF(gradient);
    noted(gradients)[gradients->count++] = (Noted){leaf, gradient};
    return 0;
}

/* ---- writing ---- */

static PyObject *leaves_of(Gradients *gradients)
{
    PyObject *leaves = PyTuple_New(gradients->count);
    for (Py_ssize_t i = 0; leaves != NULL && i < gradients->count; i++) {
        PyObject *leaf = PyLong_FromSsize_t(noted(gradients)[i].leaf);
        if (leaf == NULL || PyTuple_SetItem(leaves, i, leaf) < 0)
            Py_CLEAR(leaves);
    }
    return leaves;
}

/* Trees that were not made before: Python makes them. */
static int make_trees(Backward *self, Gradients *arrived, Gradients *departed, int64_t *trees)
{
    PyObject *key = NULL, *answer = NULL, *in = leaves_of(arrived), *out = leaves_of(departed);
    if (in != NULL && out != NULL)
        key = Py_BuildValue("LLOO", (long long)self->call.tree, (long long)self->call.result, in, out);
    if (key != NULL)
        answer = PyObject_CallMethodObjArgs(self->recorder->watch, N_backward_trees, key, NULL);
    long long first, second;
    int fits = answer != NULL && PyArg_ParseTuple(answer, "LL;two trees", &first, &second);
    if (fits) {
        trees[0] = first;
        trees[1] = second;
    }
    Py_XDECREF(in);
    Py_XDECREF(out);
    Py_XDECREF(key);
    Py_XDECREF(answer);
    return fits ? 0 : -1;
}

/* The trees of a backward call: arguments, result. */
static int find_trees(Backward *self, Gradients *arrived, Gradients *departed, int64_t *trees)
{
    Words key;
    begin_words(&key);
    int64_t *head = more_words(&key, (size_t)(3 + arrived->count + departed->count));
    if (head == NULL)
        return -1;
    *head++ = self->call.tree;
    *head++ = self->call.result;
    *head++ = arrived->count;
    for (Py_ssize_t i = 0; i < arrived->count; i++)
        *head++ = noted(arrived)[i].leaf;
    for (Py_ssize_t i = 0; i < departed->count; i++)
        *head++ = noted(departed)[i].leaf;
    const int64_t *known = table_find(&self->recorder->backward_trees, key.at, key.count);
    int failed = 0;
    if (known != NULL) {
        trees[0] = known[0];
        trees[1] = known[1];
    } else {
        failed = make_trees(self, arrived, departed, trees) < 0 ||
                 table_set(&self->recorder->backward_trees, key.at, key.count, trees[0], trees[1]) < 0;
    }
    end_words(&key);
    return failed ? -1 : 0;
}

static int visit_gradients(Recorder *recorder, Gradients *gradients, int64_t number, Py_ssize_t first, int64_t role,
                           Words *visits)
{
    int wants_grad;
    for (Py_ssize_t i = 0; i < gradients->count; i++) {
        PyObject *gradient = noted(gradients)[i].gradient;
        Py_INCREF(gradient);
        int failed = visit(recorder, gradient, number, first + i, role, visits, &wants_grad) < 0;
        Py_DECREF(gradient);
        if (failed)
            return -1;
    }
    return 0;
}

static int write_backward(Backward *self, Gradients *arrived, Gradients *departed)
{
    Recorder *recorder = self->recorder;
    const Forward *call = &self->call;
    int64_t number = ask_integer(recorder->next_call), trees[2];
    if ((number == -1 && PyErr_Occurred()) || find_trees(self, arrived, departed, trees) < 0)
        return -1;
    Words visits;
    begin_words(&visits);
    int failed = visit_gradients(recorder, arrived, number, 0, recorder->input, &visits) < 0 ||
                 visit_gradients(recorder, departed, number, arrived->count, recorder->output, &visits) < 0;
    const Thread *thread = failed ? NULL : this_thread((Threads *)recorder->threads);
    if (thread != NULL) {
        int64_t row[CALL_WORDS] = {number,       recorder->level, 1,          call->name,   call->nth,
                                   call->step,   call->module,    call->context, thread->number, call->number,
                                   trees[0],     trees[1],        recorder->none, call->stack};
        failed = write_call(recorder, row, &visits) < 0;
    }
    end_words(&visits);
    return failed || thread == NULL ? -1 : 0;
}

/* Writes the backward call, if any gradient came by. */
static int close_backward(Backward *self)
{
    Gradients arrived = self->arrived, departed = self->departed;
    Py_ssize_t fired = self->fired;
    memset(&self->arrived, 0, sizeof self->arrived);
    memset(&self->departed, 0, sizeof self->departed);
    self->fired = 0;
    int failed = fired && write_backward(self, &arrived, &departed) < 0;
    drop_gradients(&arrived);
    drop_gradients(&departed);
    return failed ? -1 : 0;
}

static PyObject *backward_close(PyObject *self, PyObject *unused)
{
    (void)unused;
    if (close_backward((Backward *)self) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef BACKWARD_METHODS[] = {
    {"close", backward_close, METH_NOARGS, "close(): writes the backward call, if any gradient came by"},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot BACKWARD_SLOTS[] = {
    {Py_tp_dealloc, backward_dealloc}, {Py_tp_methods, BACKWARD_METHODS}, {0, NULL},
};

static PyType_Spec BACKWARD_SPEC = {"trueline.frameworks.torch._calls.Backward", sizeof(Backward), 0,
                                    Py_TPFLAGS_DEFAULT, BACKWARD_SLOTS};

/* ---- what a node calls after it has run ---- */

static void hook_dealloc(PyObject *object)
{
    Py_XDECREF(((Hook *)object)->backward);
    free(((Hook *)object)->crossings);
    free_object(object);
}

/* Whether somebody is told of kernels: a dispatch mode of this thread, or a profiler. -1 on errors. */
static int kernels_are_seen(void)
{
    static PyObject *seen;
    if (seen == NULL) {
        PyObject *unseen = PyImport_ImportModule("trueline.frameworks.torch.unseen");
        seen = unseen == NULL ? NULL : PyObject_GetAttrString(unseen, "kernels_are_seen");
        Py_XDECREF(unseen);
    }
    PyObject *answer = seen == NULL ? NULL : PyObject_CallFunctionObjArgs(seen, NULL);
    int truth = answer == NULL ? -1 : PyObject_IsTrue(answer);
    Py_XDECREF(answer);
    return truth;
}

/* What to keep of a gradient that is to become that of a parameter; a new reference. Autograd gives it away if nobody
 * else has it, and a copy if somebody has: so we keep another tensor for the same memory. What lies there may be changed
 * unseen once the backward has ended (the next one adds to it), so it is read by then. */
static PyObject *keep_final(Recorder *recorder, PyObject *gradient)
{
    int enabled = grad_enabled(recorder);
    if (enabled) { /* the graph of a gradient is wanted: then it is copied anyway */
        Py_INCREF(gradient);
        return enabled < 0 ? NULL : gradient;
    }
    PyObject *kept = recorder->api->stand_in(recorder->looker, gradient);
    int asked = kept != gradient ? 0 : (PyObject *)Py_TYPE(gradient) != tensor_type ? 1 : kernels_are_seen();
    if (asked > 0) { /* somebody would see the copy */
        Py_DECREF(kept);
        return PyObject_CallMethodObjArgs(recorder->watch, N_stand_in, gradient, NULL);
    }
    if (asked < 0)
        Py_CLEAR(kept);
    if (kept == NULL || kept == gradient)
        return kept;
    long long task = current_backward(recorder);
    if (task != -1 && task + 1 != recorder->read_after) {
        PyObject *done = PyObject_CallFunctionObjArgs(recorder->read_after_backward, NULL);
        Py_XDECREF(done);
        if (done != NULL)
            recorder->read_after = task + 1;
    }
    if (PyErr_Occurred())
        Py_CLEAR(kept);
    return kept;
}

/* Notes the gradients that cross the border here. */
static int note_all(Recorder *recorder, const Crossing *crossings, Py_ssize_t count, PyObject *passing,
                    Gradients *gradients, int add)
{
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *gradient = PyTuple_GetItem(passing, crossings[i].position);
        if (gradient == Py_None)
            continue;
        PyObject *kept = gradient != NULL && crossings[i].final ? keep_final(recorder, gradient) : gradient;
        int failed = kept == NULL || note(gradients, crossings[i].leaf, kept, add) < 0;
        if (crossings[i].final)
            Py_XDECREF(kept);
        if (failed)
            return -1;
    }
    return 0;
}

static int fire(Hook *self, PyObject *sent, PyObject *received)
{
    Backward *backward = self->backward;
    Recorder *recorder = backward->recorder;
    if (note_all(recorder, self->crossings, self->arrivals, received, &backward->arrived, 0) < 0 ||
        note_all(recorder, self->crossings + self->arrivals, self->departures, sent, &backward->departed, 1) < 0)
        return -1;
    backward->fired++;
    return backward->fired >= backward->nodes ? close_backward(backward) : 0;
}

static int fire_quietly(Hook *self, PyObject *arguments)
{
    PyObject *sent, *received;
    Quiet quiet;
    if (!PyArg_ParseTuple(arguments, "O!O!:hook", &PyTuple_Type, &sent, &PyTuple_Type, &received) ||
        begin_quiet(&quiet, self->backward->recorder->no_torch_function) < 0)
        return -1;
    int failed = fire(self, sent, received);
    return end_quiet(&quiet) < 0 || failed ? -1 : 0;
}

static PyObject *hook_call(PyObject *object, PyObject *arguments, PyObject *keywords)
{
    Hook *self = (Hook *)object;
    (void)keywords;
    Recorder *recorder = self->backward == NULL ? NULL : self->backward->recorder;
    if (recorder == NULL || recorder->watch == NULL || !recorder->looking) /* or the collector has taken it apart */
        Py_RETURN_NONE;
    Py_INCREF(self);
    Py_INCREF(recorder);
    depth_begin_room();
    int failed = fire_quietly(self, arguments) < 0 && report_trouble(recorder->notebook) < 0;
    depth_end_room();
    Py_DECREF(recorder);
    Py_DECREF(self);
    if (failed)
        return NULL;
    Py_RETURN_NONE;
}

static PyType_Slot HOOK_SLOTS[] = {{Py_tp_dealloc, hook_dealloc}, {Py_tp_call, hook_call}, {0, NULL}};

static PyType_Spec HOOK_SPEC = {"trueline.frameworks.torch._calls.Hook", sizeof(Hook), 0, Py_TPFLAGS_DEFAULT,
                                HOOK_SLOTS};

#endif
