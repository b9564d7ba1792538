/* The light watch: what ``light_calls.LightWatch`` does for every call of the Python API.
 *
 * A call leaves one tuple in a list (an *entry*, see light_calls.py), which holds what it was given and gave; nothing is
 * flattened, numbered or written. Of its outputs those whose turn it is are looked at: in CPU memory at once, on a
 * device by a row in a table that Python sends off. At the graph nodes of its outputs a LightHook waits for their
 * gradients; in CPU memory all of those are read, and all but the youngest let go of as long as they are good. The
 * interpreter's lock is held all the time, but for what torch does to make another tensor for the same memory.
 */
#ifndef TRUELINE_CALLS_LIGHT_H
#define TRUELINE_CALLS_LIGHT_H

#include <time.h>

#include "_calls_flatten.h"
#include "_calls_light_hold.h"
#include "_calls_light_rows.h"
#include "_calls_light_tape.h"
#include "_calls_modules.h"
#include "_calls_torch.h"
#include "_calls_trait.h"
#include "_look_api.h"
#include "_table.h"

#define ON_CPU 0 /* what torch's C interface calls the CPU */
#define SITE_WORDS 6
#define FEW_OUTPUTS 2
#define MOST_RECENT 256
#define FEW_ZEROS 8
#define FEW_PASSED 8

enum { C_NONE, C_OPTIMIZER, C_BACKWARD };         /* light_calls: contexts */
enum { AS_OUTPUT, AS_INPUT, AS_GRADIENT };        /* light_calls: parts */
enum { SINK_NONE = 0, SINK_SCALER = 4 };          /* light.Sink */

typedef struct { /* light_looks.RAW */
    int64_t call, key;
    int64_t counts[7];
    double extremes[2];
} LightRow;

typedef void (*LightReader)(const uint64_t *descriptor, void *row);

/* Objects of ``light_calls.LightWatch``, by the names under which the constructor takes them. */
#define LIGHT_FIELDS(DO)                                                                                               \
    DO(notebook) DO(threads) DO(entries) DO(enter_site) DO(finder) DO(elsewhere) DO(table_full)        \
    DO(over_limit) DO(backward_begins) DO(look) DO(no_torch_function) DO(waiting) DO(device_full) DO(stream_of) \
    DO(kernel_depth) DO(profiling) DO(layout_of) DO(before_change) DO(autocast) DO(autocast_types) DO(state_of_thread)

typedef struct {
    PyObject_HEAD
#define DECLARE(name) PyObject *name;
    LIGHT_FIELDS(DECLARE)
#undef DECLARE
    PyObject *scaler; /* the trait of the call by which a loss scaler looks at gradients; or NULL */
    PyTypeObject *hook_type;
    const LookApi *api;
    LightReader read;
    LightRow *table;
    Py_ssize_t used, room;
    uint64_t *device_rows; /* descriptors of tensors that wait to be read by their device */
    int64_t *device_keys;  /* of each, the call, the key and the version */
    Py_ssize_t device_used, device_room;
    int device_type, device_index; /* the CPU where its tensors are to be read later too, as those of a device */
    unsigned long long stream;
    PyCFunction ask_stream;
    PyObject *device; /* its number, as Python's */
    long long epoch, rotation, turn, held, limit, task, nanoseconds, backward;
    long long next_number; /* of a call */
    long long round; /* which part of large tensors is looked at */
    char whole;      /* whether all of them is */
    char looking;
    char alarm; /* whether a gradient of this step was bad: from then on all are kept */
    long long window; /* bytes of gradients in CPU memory that are kept, the youngest */
    struct {
        PyObject *holder; /* a list with the gradients in it */
        int64_t bytes;
    } recent[MOST_RECENT];
    Py_ssize_t first_recent, recent_count;
    int64_t recent_bytes;
    struct { /* gradients of this step, the last few: most are handed on from call to call as they are */
        PyObject *holder;
        uint64_t pointer;
        int64_t version, numel;
    } passed[FEW_PASSED];
    int next_passed;
    Holding holding;
    Table sites;
    char taping;    /* whether calls are put on the tape, and nothing is held of what they make */
    char keep_last; /* whether the result of the last call is held, also of one that gradients are wanted of */
    Tape tape;
    PyObject *last;      /* a list: the number and the site of the last call, and its result; or NULL */
    PyObject *states[2]; /* what ``state_of_thread`` says without autocast, without and with gradients */
    int64_t waiting_bytes, most_waiting; /* of tensors that wait to be read by their device */
    _Bool (*autocast_door)(signed char kind); /* of torch's: whether autocast is on, on the CPU and on CUDA; or NULL */
    /* On the tape in this step: how many, the nanoseconds that one in SAMPLE took us, those of hooks and of sending. */
    long long calls, spent, spent_on_hooks, spent_on_sending;
} LightRecorder;

#define SAMPLE 16

typedef struct {
    Py_ssize_t position, leaf;
} LightPlace;

/* Not known to the garbage collector, as Hook. */
typedef struct {
    PyObject_HEAD
    LightRecorder *recorder;
    int64_t number, site;
    Py_ssize_t count, room;
    LightPlace *places, few[FEW_OUTPUTS];
} LightHook;

static PyObject *N_register_prehook, *N_grad;

/* ---- the recorder's life ---- */

static int light_traverse(PyObject *object, visitproc visit, void *arg)
{
    LightRecorder *self = (LightRecorder *)object;
    Py_VISIT(Py_TYPE(object));
#define VISIT(name) Py_VISIT(self->name);
    LIGHT_FIELDS(VISIT)
#undef VISIT
    Py_VISIT(self->scaler);
    Py_VISIT(self->device);
    Py_VISIT(self->hook_type);
    Py_VISIT(self->last);
    return 0;
}

/* Leaves what is recent to whoever else holds it. */
static void forget_recent(LightRecorder *self)
{
    while (self->recent_count) {
        PyObject *holder = self->recent[self->first_recent].holder;
        self->recent[self->first_recent].holder = NULL;
        self->first_recent = (self->first_recent + 1) % MOST_RECENT;
        self->recent_count--;
        Py_XDECREF(holder);
    }
    self->recent_bytes = 0;
    for (int i = 0; i < FEW_PASSED; i++)
        Py_CLEAR(self->passed[i].holder);
    forget_stand_ins(&self->holding);
}

static int light_clear(PyObject *object)
{
    LightRecorder *self = (LightRecorder *)object;
    self->looking = 0;
    end_tape(&self->tape);
    self->tape.look = NULL;
#define CLEAR(name) Py_CLEAR(self->name);
    LIGHT_FIELDS(CLEAR)
#undef CLEAR
    Py_CLEAR(self->scaler);
    Py_CLEAR(self->device);
    Py_CLEAR(self->hook_type);
    Py_CLEAR(self->last);
    Py_CLEAR(self->states[0]);
    Py_CLEAR(self->states[1]);
    forget_recent(self);
    return 0;
}

static void light_dealloc(PyObject *object)
{
    PyObject_GC_UnTrack(object);
    light_clear(object);
    table_free(&((LightRecorder *)object)->sites);
    free_object(object);
}

/* ---- looking ---- */

static int light_tell(PyObject *callback)
{
    PyObject *done = PyObject_CallFunctionObjArgs(callback, NULL);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

static long long light_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (long long)now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* What a look is called: see light_looks.key_of. */
static int64_t light_key(int64_t site, int part, Py_ssize_t leaf, int dtype, int sink)
{
    return ((((site * 4 + part) * 256 + (int64_t)leaf) * 32 + dtype) * 8) + sink;
}

static int look_by_python(LightRecorder *self, PyObject *tensor, int64_t call, int64_t site, int part, Py_ssize_t leaf,
                          int sink)
{
    PyObject *done = PyObject_CallFunction(self->elsewhere, "OLLini", tensor, (long long)call, (long long)site, part, leaf,
                                           sink);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* A group is read on the stream that its tensors were made on: another stream begins another group. */
static int follow_light_stream(LightRecorder *self)
{
    if (self->ask_stream == NULL)
        return 0;
    PyObject *answer = self->ask_stream(NULL, self->device);
    unsigned long long stream = answer == NULL ? 0 : PyLong_AsUnsignedLongLongMask(answer);
    Py_XDECREF(answer);
    if (PyErr_Occurred())
        return -1;
    if (stream == self->stream)
        return 0;
    int failed = self->device_used ? light_tell(self->device_full) : 0;
    self->stream = stream;
    return failed;
}

/* Has what waits sent off; it is timed apart, since only some calls do it. */
static int light_send(LightRecorder *self)
{
    long long begun = light_clock();
    int failed = light_tell(self->device_full);
    self->spent_on_sending += light_clock() - begun;
    return failed;
}

static int look_on_device(LightRecorder *self, PyObject *tensor, const Described *described, int64_t call, int64_t key)
{
    int64_t bytes = described->numel * described->itemsize;
    if (self->device_used == 0)
        self->waiting_bytes = 0;
    if (follow_light_stream(self) < 0 ||
        ((self->device_used == self->device_room || self->waiting_bytes > self->most_waiting) &&
         light_send(self) < 0))
        return -1;
    self->waiting_bytes = self->device_used ? self->waiting_bytes + bytes : bytes;
    if (self->device_used >= self->device_room) {
        PyErr_SetString(PyExc_RuntimeError, "the table of a device was not sent off");
        return -1;
    }
    if (PyList_Append(self->waiting, tensor) < 0)
        return -1;
    Py_ssize_t at = self->device_used++;
    memcpy(self->device_rows + at * DESCRIPTOR_WORDS, described->row, sizeof described->row);
    order_row(self->device_rows + at * DESCRIPTOR_WORDS);
    self->device_keys[3 * at] = call;
    self->device_keys[3 * at + 1] = key;
    self->device_keys[3 * at + 2] = described->version;
    return 0;
}

/* Whether a tensor is read at once, where it lies. */
static int is_here(const LightRecorder *self, const Described *described)
{
    return described->device_type == ON_CPU && self->device_type != ON_CPU;
}

static int look_described(LightRecorder *self, PyObject *tensor, const Described *described, int64_t call, int64_t site,
                          int part, Py_ssize_t leaf, int sink)
{
    if (described->is_exact || leaf > 255)
        return 0;
    int64_t key = light_key(site, part, leaf, described->code, sink);
    if (!is_here(self, described)) {
        if (described->device_type == self->device_type && described->device_index == self->device_index)
            return look_on_device(self, tensor, described, call, key);
        return look_by_python(self, tensor, call, site, part, leaf, sink);
    }
    if (self->used == self->room && light_tell(self->table_full) < 0)
        return -1;
    if (self->used >= self->room) {
        PyErr_SetString(PyExc_RuntimeError, "the table of looks was not taken");
        return -1;
    }
    LightRow *row = &self->table[self->used++];
    row->call = call;
    row->key = key;
    long long begun = light_clock();
    self->read(described->row, row->counts);
    self->nanoseconds += light_clock() - begun;
    return 0;
}

/* A look that has its turn: of a large tensor at a part. */
static int look_in_turn(LightRecorder *self, PyObject *tensor, const Described *described, int64_t call, int64_t site,
                        int part, Py_ssize_t leaf)
{
    Described less = *described;
    if (!self->whole) {
        order_row(less.row);
        part_of_row(less.row, less.itemsize, self->round + site);
    }
    return look_described(self, tensor, &less, call, site, part, leaf, SINK_NONE);
}

static int look_plainly(LightRecorder *self, PyObject *tensor, int64_t call, int64_t site, int part, Py_ssize_t leaf,
                        int sink)
{
    Described described;
    int known = self->api->describe(self->look, tensor, &described);
    if (known <= 0)
        return known < 0 ? -1 : look_by_python(self, tensor, call, site, part, leaf, sink);
    return look_described(self, tensor, &described, call, site, part, leaf, sink);
}

/* ---- tensors in arguments ---- */

/* Appends the tensors in a value. */
static int gather_leaves(PyObject *value, Leaves *leaves, int depth)
{
    PyTypeObject *kind = Py_TYPE(value);
    if ((PyObject *)kind == tensor_type || (PyObject *)kind == parameter_type)
        return add_leaf(leaves, value);
    if (value == Py_None || kind == &PyLong_Type || kind == &PyFloat_Type || kind == &PyBool_Type ||
        kind == &PyUnicode_Type || kind == &PySlice_Type || value == Py_Ellipsis || (PyObject *)kind == size_type ||
        (PyObject *)kind == dtype_type || (PyObject *)kind == format_type)
        return 0;
    int is_tuple = kind == &PyTuple_Type;
    if ((is_tuple || kind == &PyList_Type) && depth < MOST_NESTED) {
        for (Py_ssize_t i = 0; i < (is_tuple ? PyTuple_Size(value) : PyList_Size(value)); i++)
            if (gather_leaves(is_tuple ? PyTuple_GetItem(value, i) : PyList_GetItem(value, i), leaves, depth + 1) < 0)
                return -1;
        return 0;
    }
    PyObject *found = PyList_New(0);
    PyObject *key = found == NULL ? NULL : PyObject_CallFunctionObjArgs(flatten_other, value, (PyObject *)kind, found, NULL);
    int failed = key == NULL || add_leaves(leaves, found) < 0;
    Py_XDECREF(found);
    Py_XDECREF(key);
    return failed ? -1 : 0;
}

/* ---- one call ---- */

typedef struct {
    Trait *trait; /* borrowed */
    int64_t nth, number, site;
    int mutates, odd; /* odd: it is given what cannot be had again, as a generator */
    PyObject *function;  /* borrowed */
    PyObject *state;     /* that of the thread, where the call is put on the tape; else NULL */
    Leaves inputs, held; /* what is held in their place */
    Words marks; /* of the inputs: version and place each */
} LightOpen;

/* Versions as bytes; most are all zero, and share one object. */
static PyObject *versions_of(const Words *marks)
{
    static PyObject *zeros[FEW_ZEROS];
    Py_ssize_t count = (Py_ssize_t)marks->count / 2;
    int64_t some = 0;
    for (Py_ssize_t i = 0; i < count; i++)
        some |= marks->at[2 * i];
    if (some == 0 && count < FEW_ZEROS) {
        static const int64_t nothing[FEW_ZEROS];
        if (zeros[count] == NULL)
            zeros[count] = PyBytes_FromStringAndSize((const char *)nothing, count * (Py_ssize_t)sizeof *nothing);
        Py_XINCREF(zeros[count]);
        return zeros[count];
    }
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, count * (Py_ssize_t)sizeof(int64_t));
    char *at = bytes == NULL ? NULL : PyBytes_AsString(bytes);
    for (Py_ssize_t i = 0; at != NULL && i < count; i++)
        memcpy(at + i * (Py_ssize_t)sizeof(int64_t), &marks->at[2 * i], sizeof(int64_t));
    return bytes;
}

static int take_marks(LightRecorder *self, const Leaves *leaves, Words *marks)
{
    int64_t *at = more_words(marks, 2 * (size_t)leaves->count);
    if (at == NULL)
        return -1;
    for (Py_ssize_t i = 0; i < leaves->count; i++) {
        uint64_t place;
        self->api->marks(self->look, leaves->at[i], &at[2 * i], &place);
        at[2 * i + 1] = (int64_t)place;
    }
    return 0;
}

/* The number of the place in the program where this call is made; -1 with an error set on errors. */
static int64_t find_site(LightRecorder *self, Trait *trait, int64_t nth, int64_t module, int64_t context)
{
    PyObject *frame = (PyObject *)PyEval_GetFrame(), *code = NULL, *last = NULL;
    int64_t key[SITE_WORDS] = {(int64_t)(uintptr_t)trait, nth, module, context, 0, 0};
    if (frame != NULL) {
        Py_INCREF(frame);
        code = (PyObject *)PyFrame_GetCode((PyFrameObject *)frame);
        last = property_of(&((Finder *)self->finder)->last, frame);
        key[4] = (int64_t)(uintptr_t)code;
        key[5] = last == NULL ? -1 : PyLong_AsLongLong(last);
        Py_XDECREF(last);
        Py_DECREF(frame);
    }
    const int64_t *known = PyErr_Occurred() ? NULL : table_find(&self->sites, key, SITE_WORDS);
    int64_t site = known != NULL ? known[0] : -1;
    if (known == NULL && !PyErr_Occurred()) {
        PyObject *answer = PyObject_CallFunction(self->enter_site, "OLLLO", trait, (long long)nth, (long long)module,
                                                 (long long)context, code == NULL ? Py_None : code);
        site = answer == NULL ? -1 : PyLong_AsLongLong(answer);
        Py_XDECREF(answer);
        if (PyErr_Occurred() || table_set(&self->sites, key, SITE_WORDS, site, 0) < 0)
            site = -1;
    }
    Py_XDECREF(code);
    return site;
}

static int light_turn(const LightRecorder *self, int64_t site)
{
    return site % self->rotation == self->turn;
}

/* Appends an entry; takes the reference to it. */
static int keep_entry(LightRecorder *self, PyObject *entry)
{
    if (entry == NULL)
        return -1;
    PyObject_GC_UnTrack(entry); /* the list that holds it is known to the collector, and there are hundreds in a step */
    int failed = PyList_Append(self->entries, entry);
    Py_DECREF(entry);
    if (failed == 0 && self->held > self->limit)
        failed = light_tell(self->over_limit);
    return failed;
}

/* What stands on the tape for a tensor in the arguments of a call: which call made it, or it itself. */
static PyObject *taped(LightRecorder *self, PyObject *tensor, int *unmade)
{
    Described described;
    int known = self->api->describe(self->look, tensor, &described);
    PyObject *ref = known > 0 ? ref_to(&self->tape, tensor, &described) : NULL;
    if (known < 0 || ref != NULL || PyErr_Occurred())
        return ref;
    *unmade = 1;
    int may = may_hold(&self->holding);
    return may < 0 ? NULL : may ? stand_in_for(&self->holding, tensor, 0) : Py_NewRef(tensor);
}

static int tape_inputs(LightRecorder *self, LightOpen *call, PyObject *args, PyObject *kwargs)
{
    int unmade = 0;
    for (Py_ssize_t i = 0; i < call->inputs.count; i++) {
        PyObject *found = taped(self, call->inputs.at[i], &unmade);
        int failed = found == NULL || add_leaf(&call->held, found) < 0;
        Py_XDECREF(found);
        if (failed)
            return -1;
    }
    PyObject *generator = kwargs == Py_None ? NULL : PyDict_GetItemString(kwargs, "generator");
    call->odd = generator != NULL && generator != Py_None;
    if (!unmade || !call->mutates)
        return 0;
    PyObject *done = PyObject_CallFunctionObjArgs(self->before_change, call->trait, args, kwargs, NULL);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* Under which state of the thread a call is made: whether gradients are wanted, and what autocast does. */
static PyObject *thread_state_now(LightRecorder *self)
{
    int grad = doors.grad_enabled(), some = 0;
    if (self->autocast_door != NULL)
        some = self->autocast_door(0) || self->autocast_door(1);
    for (Py_ssize_t i = 0; self->autocast_door == NULL && i < PyTuple_Size(self->autocast_types); i++) {
        PyObject *on = PyObject_CallFunctionObjArgs(self->autocast, PyTuple_GetItem(self->autocast_types, i), NULL);
        if (on == NULL)
            return NULL;
        some |= on == Py_True;
        Py_DECREF(on);
    }
    if (!some && self->states[grad] != NULL)
        return Py_NewRef(self->states[grad]);
    PyObject *state = PyObject_CallFunction(self->state_of_thread, "ii", grad, some);
    if (!some && state != NULL)
        self->states[grad] = Py_NewRef(state);
    return state;
}

static int begin_light(LightRecorder *self, LightOpen *call, PyObject *args, PyObject *kwargs)
{
    Trait *trait = call->trait;
    PyObject *name, *value;
    Py_ssize_t at = 0;
    if (gather_leaves(args, &call->inputs, 0) < 0)
        return -1;
    while (kwargs != Py_None && PyDict_Next(kwargs, &at, &name, &value))
        if (gather_leaves(value, &call->inputs, 0) < 0)
            return -1;
    if (take_marks(self, &call->inputs, &call->marks) < 0)
        return -1;
    int64_t module, above;
    const Thread *thread = this_thread((Threads *)self->threads);
    if (thread == NULL || innermost(thread, &module, &above) < 0)
        return -1;
    if (trait->step != self->epoch) {
        trait->step = self->epoch;
        trait->count = 0;
    }
    call->nth = trait->count++;
    int64_t context = thread->optimizer != -1 ? C_OPTIMIZER : have_doors() && doors.graph_task() != -1 ? C_BACKWARD : C_NONE;
    call->site = find_site(self, trait, call->nth, module, context);
    if (call->site < 0)
        return -1;
    call->number = self->next_number++;
    if (call->state != NULL)
        return tape_inputs(self, call, args, kwargs);
    if (!call->mutates || call->inputs.count == 0 || trait->hides_all || PyTuple_Size(trait->hidden) > 0)
        return 0;
    Described described; /* what an activation was before it is changed is known to nobody afterwards */
    int known = self->api->describe(self->look, call->inputs.at[0], &described);
    if (known <= 0 || !described.wants_grad || !is_here(self, &described))
        return known < 0 ? -1 : 0;
    return look_described(self, call->inputs.at[0], &described, call->number, call->site, AS_INPUT, 0, SINK_NONE);
}

/* A tuple of these; takes the references to them. NULL where one of them is. */
static PyObject *tuple_of(PyObject **fields, size_t count)
{
    int failed = 0;
    for (size_t i = 0; i < count; i++)
        failed |= fields[i] == NULL;
    PyObject *tuple = failed ? NULL : PyTuple_New((Py_ssize_t)count);
    for (size_t i = 0; i < count; i++) {
        if (tuple != NULL)
            PyTuple_SetItem(tuple, (Py_ssize_t)i, fields[i]);
        else
            Py_XDECREF(fields[i]);
    }
    return tuple;
}

/* The arguments and the result as they are held. */
static int hold_values(const LightOpen *call, PyObject *args, PyObject *kwargs, PyObject *result, const Leaves *outputs,
                       const Leaves *held, PyObject **own)
{
    Exchange given = {&call->inputs, &call->held, 0}, made = {outputs, held, 0};
    own[0] = exchanged(&given, args, 0);
    own[1] = own[0] == NULL ? NULL : exchanged_names(&given, kwargs);
    own[2] = own[1] == NULL ? NULL : exchanged(&made, result, 0);
    if (own[2] == NULL) {
        Py_XDECREF(own[1]);
        Py_XDECREF(own[0]);
        return -1;
    }
    PyObject_GC_UnTrack(own[0]); /* held by the entry alone, as far as it matters, which is not tracked either */
    return 0;
}

static PyObject *light_entry(LightRecorder *self, const LightOpen *call, PyObject *args, PyObject *kwargs, PyObject *result,
                             const Leaves *outputs, const Leaves *held)
{
    Words after, given;
    begin_words(&after);
    begin_words(&given);
    PyObject *entry = NULL, *own[3], *before = versions_of(&call->marks), *now = NULL, *made = NULL;
    int taped = call->state != NULL;
    if (taped || (take_marks(self, outputs, &after) == 0 && (!call->mutates || take_marks(self, &call->inputs, &given) == 0)))
        made = versions_of(&after);
    if (made != NULL && call->mutates && !taped) {
        now = versions_of(&given);
    } else {
        now = Py_None;
        Py_INCREF(now);
    }
    const Thread *thread = this_thread((Threads *)self->threads);
    if (before != NULL && made != NULL && now != NULL && thread != NULL &&
        hold_values(call, args, kwargs, result, outputs, held, own) == 0) {
        PyObject *fields[] = {PyLong_FromLongLong(call->number),   PyLong_FromLongLong(call->site),
                              PyLong_FromLongLong(thread->number), own[0], own[1], own[2], before, now, made,
                              Py_NewRef(taped && !call->odd ? call->function : Py_None), Py_NewRef(taped ? call->state : Py_None)};
        entry = tuple_of(fields, sizeof fields / sizeof *fields);
    } else {
        Py_XDECREF(before);
        Py_XDECREF(now);
        Py_XDECREF(made);
    }
    end_words(&after);
    end_words(&given);
    return entry;
}

/* ---- gradients ---- */

static void light_hook_dealloc(PyObject *object)
{
    LightHook *self = (LightHook *)object;
    Py_XDECREF(self->recorder);
    if (self->places != self->few)
        free(self->places);
    free_object(object);
}

static int add_place(LightHook *hook, Py_ssize_t position, Py_ssize_t leaf)
{
    if (hook->count == hook->room) {
        LightPlace *places = malloc((size_t)(4 * hook->room) * sizeof *places);
        if (places == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        memcpy(places, hook->places, (size_t)hook->count * sizeof *places);
        if (hook->places != hook->few)
            free(hook->places);
        hook->places = places;
        hook->room *= 4;
    }
    hook->places[hook->count++] = (LightPlace){position, leaf};
    return 0;
}

static LightHook *hook_at(LightRecorder *self, PyObject *node, const LightOpen *call)
{
    LightHook *hook = (LightHook *)new_object(self->hook_type);
    if (hook == NULL)
        return NULL;
    Py_INCREF(hook->recorder = self);
    hook->number = call->number;
    hook->site = call->site;
    hook->places = hook->few;
    hook->room = FEW_OUTPUTS;
    PyObject *done = PyObject_CallMethodObjArgs(node, N_register_prehook, hook, NULL);
    if (done == NULL)
        Py_CLEAR(hook);
    Py_XDECREF(done);
    return hook;
}

static int is_among(const Leaves *leaves, PyObject *tensor)
{
    for (Py_ssize_t i = 0; i < leaves->count; i++)
        if (leaves->at[i] == tensor)
            return 1;
    return 0;
}

typedef struct {
    PyObject *node;  /* held */
    LightHook *hook; /* held */
} LightEnd;

/* Has the gradient of an output watched; several outputs may come from one node. */
static int await_gradient(LightRecorder *self, const LightOpen *call, PyObject *tensor, Py_ssize_t leaf, LightEnd *end)
{
    PyObject *node = told(tensor, N_grad_fn);
    if (node == NULL || node == Py_None) {
        Py_XDECREF(node);
        return node == NULL ? -1 : 0;
    }
    if (node != end->node) {
        Py_XDECREF(end->hook);
        Py_XDECREF(end->node);
        end->node = node;
        end->hook = hook_at(self, node, call);
        if (end->hook == NULL)
            return -1;
    } else {
        Py_DECREF(node);
    }
    long long position = told_integer(tensor, N_output_nr);
    return PyErr_Occurred() ? -1 : add_place(end->hook, (Py_ssize_t)position, leaf);
}

/* ---- the end of a call ---- */

static int is_fresh(const LightOpen *call, uint64_t place)
{
    for (size_t i = 1; i < call->marks.count; i += 2)
        if ((uint64_t)call->marks.at[i] == place)
            return 0;
    return 1;
}

static int end_outputs(LightRecorder *self, const LightOpen *call, const Leaves *outputs, const Leaves *held)
{
    int turn = light_turn(self, call->site), failed = 0;
    LightEnd end = {NULL, NULL};
    for (Py_ssize_t i = 0; i < outputs->count && !failed; i++) {
        PyObject *tensor = outputs->at[i];
        Described described;
        int known = self->api->describe(self->look, tensor, &described);
        int wanted = known > 0 ? described.wants_grad : known < 0 ? -1 : told_truth(tensor, N_requires_grad);
        if (wanted < 0) {
            failed = 1;
        } else if (known == 0) {
            failed = turn && look_by_python(self, tensor, call->number, call->site, AS_OUTPUT, i, SINK_NONE) < 0;
        } else {
            int fresh = is_fresh(call, described.place);
            if (fresh)
                self->held += described.numel * described.itemsize;
            if (turn && (fresh || call->mutates)) /* else it is what another call made, and has its turn there */
                failed = look_in_turn(self, held->at[i], &described, call->number, call->site, AS_OUTPUT, i) < 0;
        }
        if (!failed && wanted && self->backward && (call->mutates || !is_among(&call->inputs, tensor)))
            failed = await_gradient(self, call, tensor, i, &end) < 0;
    }
    Py_XDECREF(end.hook);
    Py_XDECREF(end.node);
    return failed ? -1 : 0;
}

/* What a loss scaler found lies in its second argument. */
static int look_at_scaler(LightRecorder *self, const LightOpen *call, PyObject *args)
{
    if ((PyObject *)call->trait != self->scaler || PyTuple_Size(args) < 2)
        return 0;
    PyObject *found = PyTuple_GetItem(args, 1);
    PyObject *kind = (PyObject *)Py_TYPE(found);
    if (kind != tensor_type)
        return 0;
    return look_plainly(self, found, call->number, call->site, AS_INPUT, 1, SINK_SCALER);
}

/* An output of a call on the tape: looked at where it has its turn, known again where it is given to another call. */
static PyObject *tape_output(LightRecorder *self, const LightOpen *call, PyObject *tensor, Py_ssize_t leaf, int turn,
                             LightEnd *end)
{
    Described described;
    int known = self->api->describe(self->look, tensor, &described), unmade = 0, failed = 0;
    if (known <= 0) {
        failed = known < 0 || (turn && look_by_python(self, tensor, call->number, call->site, AS_OUTPUT, leaf, SINK_NONE) < 0);
        return failed ? NULL : taped(self, tensor, &unmade);
    }
    int fresh = is_fresh(call, described.place);
    if (turn && (fresh || call->mutates)) {
        PyObject *read = self->api->detached(self->look, tensor);
        if (read == NULL || !self->api->is_alike(self->look, read, tensor)) {
            PyErr_Clear();
            Py_XDECREF(read);
            read = Py_NewRef(tensor);
        }
        failed = look_in_turn(self, read, &described, call->number, call->site, AS_OUTPUT, leaf) < 0;
        Py_DECREF(read);
    }
    if (!failed && turn && described.wants_grad && self->backward && (call->mutates || !is_among(&call->inputs, tensor)))
        failed = await_gradient(self, call, tensor, leaf, end) < 0;
    if (!failed && call->odd)
        return taped(self, tensor, &unmade);
    if (failed || enter_made(&self->tape, tensor, &described, call->number, (int)leaf, fresh) < 0)
        return NULL;
    return new_ref(&self->tape, call->number, (int)leaf, described.wants_grad, Py_NewRef(Py_None));
}

static int tape_outputs(LightRecorder *self, const LightOpen *call, const Leaves *outputs, Leaves *held)
{
    int turn = light_turn(self, call->site), failed = 0;
    LightEnd end = {NULL, NULL};
    for (Py_ssize_t i = 0; i < outputs->count && !failed; i++) {
        PyObject *ref = tape_output(self, call, outputs->at[i], i, turn, &end);
        failed = ref == NULL || add_leaf(held, ref) < 0;
        Py_XDECREF(ref);
    }
    Py_XDECREF(end.hook);
    Py_XDECREF(end.node);
    return failed ? -1 : 0;
}

/* Holds what the last call gave: in a step without a backward it stands for what the step was for. */
static int keep_last(LightRecorder *self, const LightOpen *call, const Leaves *outputs)
{
    PyObject *last = outputs->count ? Py_BuildValue("[LL]", (long long)call->number, (long long)call->site) : NULL;
    for (Py_ssize_t i = 0; last != NULL && i < outputs->count; i++) {
        int may = may_hold(&self->holding);
        PyObject *one = may > 0 ? self->api->detached(self->look, outputs->at[i]) : NULL;
        if (one == NULL || !self->api->is_alike(self->look, one, outputs->at[i])) {
            PyErr_Clear();
            Py_XDECREF(one);
            one = Py_NewRef(outputs->at[i]);
        }
        if (PyList_Append(last, one) < 0)
            Py_CLEAR(last);
        Py_DECREF(one);
    }
    if (outputs->count) {
        PyObject *old = self->last;
        self->last = last;
        Py_XDECREF(old);
    }
    return PyErr_Occurred() ? -1 : 0;
}

/* What is put on the tape, or held, of a call that was made; -1 on errors. */
static int hold_call(LightRecorder *self, LightOpen *call, PyObject *args, const Leaves *outputs, Leaves *held)
{
    if (call->state != NULL)
        return tape_outputs(self, call, outputs, held) < 0 || look_at_scaler(self, call, args) < 0 ||
                       ((self->keep_last || !doors.grad_enabled()) && keep_last(self, call, outputs) < 0)
                   ? -1
                   : 0;
    return hold_leaves(&self->holding, &call->inputs, NULL, NULL, &call->held) < 0 ||
                   hold_leaves(&self->holding, outputs, &call->inputs, &call->held, held) < 0 ||
                   end_outputs(self, call, outputs, held) < 0 || look_at_scaler(self, call, args) < 0
               ? -1
               : 0;
}

static int end_light(LightRecorder *self, LightOpen *call, PyObject *args, PyObject *kwargs, PyObject *result)
{
    Leaves outputs, held;
    begin_leaves(&outputs);
    begin_leaves(&held);
    int failed = gather_leaves(result, &outputs, 0) < 0;
    if (!failed && (call->inputs.count || outputs.count))
        failed = hold_call(self, call, args, &outputs, &held) < 0 ||
                 keep_entry(self, light_entry(self, call, args, kwargs, result, &outputs, &held)) < 0;
    end_leaves(&held);
    end_leaves(&outputs);
    return failed ? -1 : 0;
}

/* Keeps what a call was given that raised; the error stays set. */
static void light_raised(LightRecorder *self, LightOpen *call, PyObject *args, PyObject *kwargs)
{
    PyObject *type, *value, *traceback;
    Leaves none;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    begin_leaves(&none);
    PyObject *text = PyObject_Str(value == NULL ? Py_None : value);
    PyObject *kind = type == NULL ? NULL : PyObject_GetAttrString(type, "__name__");
    PyObject *message = text == NULL || kind == NULL ? NULL : PyUnicode_FromFormat("%U: %U", kind, text);
    int failed = message == NULL ||
                 (call->state == NULL && hold_leaves(&self->holding, &call->inputs, NULL, NULL, &call->held) < 0) ||
                 keep_entry(self, light_entry(self, call, args, kwargs, message, &none, &none)) < 0;
    Py_XDECREF(text);
    Py_XDECREF(kind);
    Py_XDECREF(message);
    if (failed && report_trouble(self->notebook) < 0)
        PyErr_Clear();
    PyErr_Restore(type, value, traceback);
}

static PyObject *light_open(LightRecorder *self, long long left, LightOpen *call, PyObject *function, PyObject *args,
                            PyObject *kwargs)
{
    Quiet quiet;
    int sampled = self->taping && self->calls++ % SAMPLE == 0;
    long long begun = sampled ? light_clock() : 0, sent = self->spent_on_sending;
    int failed = begin_quiet(&quiet, self->no_torch_function) < 0;
    if (!failed) {
        failed = (self->taping && (call->state = thread_state_now(self)) == NULL) || begin_light(self, call, args, kwargs) < 0;
        failed = end_quiet(&quiet) < 0 || failed;
    }
    if (failed)
        return report_trouble(self->notebook) < 0 ? NULL : make_call(left, function, args, kwargs);
    if (sampled)
        self->spent += light_clock() - begun;
    PyObject *result = make_call(left, function, args, kwargs);
    begun = sampled ? light_clock() : 0;
    if (result == NULL) {
        light_raised(self, call, args, kwargs);
    } else if (self->looking) {
        failed = begin_quiet(&quiet, self->no_torch_function) < 0;
        if (!failed) {
            failed = end_light(self, call, args, kwargs, result) < 0;
            failed = end_quiet(&quiet) < 0 || failed;
        }
        if (failed && report_trouble(self->notebook) < 0)
            Py_CLEAR(result);
    }
    if (sampled)
        self->spent += light_clock() - begun - (self->spent_on_sending - sent);
    return result;
}

static PyObject *light_record(LightRecorder *self, long long left, Trait *trait, PyObject *function, PyObject *args,
                              PyObject *kwargs)
{
    if (!self->looking)
        return make_call(left, function, args, kwargs);
    LightOpen call = {.trait = trait, .function = function, .mutates = may_change(trait, args, kwargs)};
    if (call.mutates < 0) {
        PyErr_Clear(); /* an argument that has no truth: the call itself will say so */
        call.mutates = 1;
    }
    begin_leaves(&call.inputs);
    begin_leaves(&call.held);
    begin_words(&call.marks);
    PyObject *result = light_open(self, left, &call, function, args, kwargs);
    end_leaves(&call.held);
    end_leaves(&call.inputs);
    end_words(&call.marks);
    Py_XDECREF(call.state);
    return result;
}

/* ---- gradients that arrive ---- */

static PyObject *places_of(const LightHook *hook)
{
    static PyObject *only; /* one result, of a node that has one: nearly all */
    int alone = hook->count == 1 && hook->places[0].position == 0 && hook->places[0].leaf == 0;
    if (alone && only == NULL)
        only = Py_BuildValue("((ii))", 0, 0);
    if (alone) {
        Py_XINCREF(only);
        return only;
    }
    PyObject *places = PyTuple_New(hook->count);
    for (Py_ssize_t i = 0; places != NULL && i < hook->count; i++) {
        PyObject *pair = Py_BuildValue("nn", hook->places[i].position, hook->places[i].leaf);
        if (pair == NULL || PyTuple_SetItem(places, i, pair) < 0)
            Py_CLEAR(places);
    }
    return places;
}

/* Lets go of the oldest of the recent gradients. */
static int drop_oldest(LightRecorder *self)
{
    Py_ssize_t at = self->first_recent;
    PyObject *holder = self->recent[at].holder;
    self->recent[at].holder = NULL;
    self->first_recent = (at + 1) % MOST_RECENT;
    self->recent_count--;
    self->recent_bytes -= self->recent[at].bytes;
    self->held -= self->recent[at].bytes;
    int failed = PyList_SetSlice(holder, 0, PY_SSIZE_T_MAX, NULL);
    Py_DECREF(holder);
    return failed;
}

/* Keeps gradients in CPU memory for a while: they have been read, and memory that is not given back costs the program
 * more than the reading. */
static int keep_recent(LightRecorder *self, PyObject *holder, int64_t bytes)
{
    if (self->alarm)
        return 0;
    while (self->recent_count && (self->recent_count == MOST_RECENT || self->recent_bytes + bytes > self->window))
        if (drop_oldest(self) < 0)
            return -1;
    Py_ssize_t at = (self->first_recent + self->recent_count++) % MOST_RECENT;
    Py_INCREF(self->recent[at].holder = holder);
    self->recent[at].bytes = bytes;
    self->recent_bytes += bytes;
    return 0;
}

static int is_bad_row(const LightRow *row)
{
    return row->counts[1] || row->counts[2] || row->counts[3];
}

/* Every gradient in CPU memory is read; those that are bad, and those whose turn it is, leave a look. */
static int read_gradient(LightRecorder *self, const Described *described, int64_t number, const LightHook *hook,
                         Py_ssize_t leaf)
{
    if (described->is_exact)
        return 0;
    if (self->used == self->room && light_tell(self->table_full) < 0)
        return -1;
    if (self->used >= self->room) {
        PyErr_SetString(PyExc_RuntimeError, "the table of looks was not taken");
        return -1;
    }
    LightRow *row = &self->table[self->used];
    long long begun = light_clock();
    self->read(described->row, row->counts);
    long long spent = light_clock() - begun;
    int turn = light_turn(self, hook->site), bad = is_bad_row(row);
    self->alarm |= (char)bad;
    if (turn)
        self->nanoseconds += spent;
    if ((turn || bad) && leaf <= 255) {
        row->call = number;
        row->key = light_key(hook->site, AS_GRADIENT, leaf, described->code, SINK_NONE);
        self->used++;
    }
    return 0;
}

/* Whether a gradient is one that has arrived before, at another call, and is still held: then it has been seen. */
static int is_passed_on(LightRecorder *self, const Described *described, PyObject *holder)
{
    for (int i = 0; i < FEW_PASSED; i++)
        if (self->passed[i].holder != NULL && self->passed[i].pointer == described->row[0] &&
            self->passed[i].version == described->version && self->passed[i].numel == described->numel &&
            self->passed[i].holder != holder && PyList_Size(self->passed[i].holder) > 0)
            return 1;
    PyObject *old = self->passed[self->next_passed].holder;
    Py_INCREF(self->passed[self->next_passed].holder = holder);
    self->passed[self->next_passed].pointer = described->row[0];
    self->passed[self->next_passed].version = described->version;
    self->passed[self->next_passed].numel = described->numel;
    self->next_passed = (self->next_passed + 1) % FEW_PASSED;
    Py_XDECREF(old);
    return 0;
}

/* Notes one gradient; adds its bytes to those that may be let go of soon, where it has been read. */
static int note_gradient(LightRecorder *self, const LightHook *hook, int64_t number, const LightPlace *place,
                         PyObject *gradients, Words *marks, PyObject *holder, int64_t *bytes, int *elsewhere)
{
    PyObject *gradient = PyTuple_GetItem(gradients, place->position);
    Described described;
    int64_t version = -1;
    uint64_t storage = 0;
    if (gradient == NULL)
        return -1;
    if (gradient != Py_None) {
        int known = self->api->describe(self->look, gradient, &described), failed = known < 0;
        self->api->marks(self->look, gradient, &version, &storage);
        if (known > 0 && is_here(self, &described)) {
            *bytes += described.numel * described.itemsize;
            if (!is_passed_on(self, &described, holder))
                failed = read_gradient(self, &described, number, hook, place->leaf) < 0;
        } else {
            *elsewhere = 1;
            if (known > 0 && !self->taping)
                self->held += described.numel * described.itemsize;
            if (known > 0 && !is_passed_on(self, &described, holder) && light_turn(self, hook->site))
                failed = look_in_turn(self, gradient, &described, number, hook->site, AS_GRADIENT, place->leaf) < 0;
            else if (known == 0 && light_turn(self, hook->site))
                failed = look_by_python(self, gradient, number, hook->site, AS_GRADIENT, place->leaf, SINK_NONE) < 0;
        }
        if (failed)
            return -1;
    }
    return add_word(marks, version) < 0 || add_word(marks, (int64_t)storage) < 0 ? -1 : 0;
}

static int note_gradients(LightHook *self, PyObject *gradients, int64_t number, Words *marks, PyObject *holder)
{
    LightRecorder *recorder = self->recorder;
    int64_t bytes = 0;
    int elsewhere = 0;
    for (Py_ssize_t i = 0; i < self->count; i++)
        if (note_gradient(recorder, self, number, &self->places[i], gradients, marks, holder, &bytes, &elsewhere) < 0)
            return -1;
    if (recorder->taping)
        return PyList_SetSlice(holder, 0, PY_SSIZE_T_MAX, NULL); /* what was looked at waits; the step can be played again */
    recorder->held += bytes;
    return elsewhere ? 0 : keep_recent(recorder, holder, bytes);
}

static int tell_backward(LightHook *self)
{
    LightRecorder *recorder = self->recorder;
    long long task = doors.graph_task();
    if (task == recorder->task)
        return 0;
    recorder->task = task;
    PyObject *done = PyObject_CallFunction(recorder->backward_begins, "L", (long long)self->number);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

static int fire_light(LightHook *self, PyObject *gradients)
{
    LightRecorder *recorder = self->recorder;
    if (tell_backward(self) < 0)
        return -1;
    int64_t number = recorder->next_number++;
    Words marks;
    begin_words(&marks);
    PyObject *holder = PyList_New(1), *places = NULL, *versions = NULL, *entry = NULL;
    if (holder != NULL) {
        Py_INCREF(gradients);
        PyList_SetItem(holder, 0, gradients);
        if (note_gradients(self, gradients, number, &marks, holder) == 0) {
            places = places_of(self);
            versions = versions_of(&marks);
        }
    }
    const Thread *thread = this_thread((Threads *)recorder->threads);
    if (places != NULL && versions != NULL && thread != NULL)
        entry = Py_BuildValue("LLLLOOO", (long long)number, (long long)self->site, thread->number, (long long)self->number,
                              holder, places, versions);
    Py_XDECREF(holder);
    Py_XDECREF(places);
    Py_XDECREF(versions);
    end_words(&marks);
    return entry == NULL || keep_entry(recorder, entry) < 0 ? -1 : 0;
}

static PyObject *light_hook_call(PyObject *object, PyObject *arguments, PyObject *keywords)
{
    LightHook *self = (LightHook *)object;
    LightRecorder *recorder = self->recorder;
    PyObject *gradients;
    Quiet quiet;
    (void)keywords;
    if (recorder == NULL || recorder->entries == NULL || !recorder->looking) /* or the collector has taken it apart */
        Py_RETURN_NONE;
    if (!PyArg_ParseTuple(arguments, "O!:hook", &PyTuple_Type, &gradients))
        return NULL;
    Py_INCREF(self);
    Py_INCREF(recorder);
    long long begun = light_clock(), sent = recorder->spent_on_sending;
    depth_begin_room();
    int failed = begin_quiet(&quiet, recorder->no_torch_function) < 0;
    if (!failed) {
        failed = fire_light(self, gradients) < 0;
        failed = end_quiet(&quiet) < 0 || failed;
    }
    recorder->spent_on_hooks += light_clock() - begun - (recorder->spent_on_sending - sent);
    failed = failed && report_trouble(recorder->notebook) < 0;
    depth_end_room();
    Py_DECREF(recorder);
    Py_DECREF(self);
    if (failed)
        return NULL;
    Py_RETURN_NONE;
}

static PyType_Slot LIGHT_HOOK_SLOTS[] = {
    {Py_tp_dealloc, light_hook_dealloc}, {Py_tp_call, light_hook_call}, {0, NULL},
};

static PyType_Spec LIGHT_HOOK_SPEC = {"trueline.frameworks.torch._calls.LightHook", sizeof(LightHook), 0,
                                      Py_TPFLAGS_DEFAULT, LIGHT_HOOK_SLOTS};

/* ---- what Python asks of it ---- */

static int take_light_fields(LightRecorder *self, PyObject *keywords)
{
#define TAKE(name)                                                                                                     \
    if ((self->name = PyDict_GetItemString(keywords, #name)) == NULL) {                                                \
        PyErr_SetString(PyExc_TypeError, "LightRecorder needs " #name);                                                \
        return -1;                                                                                                     \
    }                                                                                                                  \
    Py_INCREF(self->name);
    LIGHT_FIELDS(TAKE)
#undef TAKE
    if (PyType_GetSlot(Py_TYPE(self->finder), Py_tp_new) != (void *)finder_new ||
        PyType_GetSlot(Py_TYPE(self->threads), Py_tp_new) != (void *)threads_new || !PyList_Check(self->entries) ||
        !PyList_Check(self->waiting)) {
        PyErr_SetString(PyExc_TypeError, "LightRecorder is given something that it does not expect");
        return -1;
    }
    if (PyCFunction_Check(self->stream_of) && PyCFunction_GetFlags(self->stream_of) == METH_O)
        self->ask_stream = PyCFunction_GetFunction(self->stream_of);
    return 0;
}

static PyObject *light_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    unsigned long long reader;
    PyObject *module = PyType_GetModule(type);
    if (module == NULL || !PyArg_ParseTuple(arguments, "K:LightRecorder", &reader))
        return NULL;
    if (keywords == NULL || flatten_other == NULL || !have_doors() || reader == 0) {
        PyErr_SetString(PyExc_TypeError, "LightRecorder takes the reader and named arguments, after prepare() and open_doors()");
        return NULL;
    }
    LightRecorder *self = (LightRecorder *)new_object(type);
    if (self == NULL)
        return NULL;
    self->read = (LightReader)(uintptr_t)reader;
    self->rotation = 1;
    self->backward = 1;
    self->task = -1;
    self->most_waiting = INT64_MAX;
    self->device_type = -1;
    self->api = PyCapsule_Import(LOOK_API, 0);
    self->hook_type = (PyTypeObject *)PyObject_GetAttrString(module, "LightHook");
    if (N_register_prehook == NULL)
        N_register_prehook = PyUnicode_InternFromString("register_prehook");
    if (N_grad == NULL)
        N_grad = PyUnicode_InternFromString("grad");
    if (N_is_leaf == NULL)
        N_is_leaf = PyUnicode_InternFromString("is_leaf");
    if (N_made_by == NULL)
        N_made_by = PyUnicode_InternFromString("_trueline_made_by");
    if (N_make == NULL)
        N_make = PyUnicode_InternFromString("_make");
    PyObject *holding = held_otherwise == NULL ? PyImport_ImportModule("trueline.frameworks.torch.light_hold") : NULL;
    if (holding != NULL)
        held_otherwise = PyObject_GetAttrString(holding, "held_otherwise");
    Py_XDECREF(holding);
    if (held_otherwise == NULL || self->api == NULL || self->hook_type == NULL || N_register_prehook == NULL || N_grad == NULL || N_is_leaf == NULL ||
        N_made_by == NULL || N_make == NULL || take_light_fields(self, keywords) < 0)
        Py_CLEAR(self);
    else
        self->holding = (Holding){.look = self->look, .kernel_depth = self->kernel_depth, .profiling = self->profiling,
                                  .api = self->api};
    if (self != NULL) {
        self->tape.look = self->look;
        self->tape.layout_of = self->layout_of;
        self->tape.api = self->api;
        self->tape.ref_type = (PyTypeObject *)PyObject_GetAttrString(module, "LightRef");
        if (self->tape.ref_type == NULL)
            Py_CLEAR(self);
    }
    return (PyObject *)self;
}

static PyObject *light_begin_table(PyObject *object, PyObject *arguments)
{
    LightRecorder *self = (LightRecorder *)object;
    unsigned long long address;
    Py_ssize_t room;
    if (!PyArg_ParseTuple(arguments, "Kn:begin_table", &address, &room))
        return NULL;
    self->table = (LightRow *)(uintptr_t)address;
    self->room = room;
    self->used = 0;
    Py_RETURN_NONE;
}

static PyObject *light_begin_device(PyObject *object, PyObject *arguments)
{
    LightRecorder *self = (LightRecorder *)object;
    unsigned long long rows, keys;
    PyObject *device;
    Py_ssize_t room;
    int type, index;
    if (!PyArg_ParseTuple(arguments, "OiiKKn:begin_device", &device, &type, &index, &rows, &keys, &room))
        return NULL;
    PyObject *old = self->device;
    Py_INCREF(self->device = device);
    Py_XDECREF(old);
    self->device_type = type;
    self->device_index = index;
    self->device_rows = (uint64_t *)(uintptr_t)rows;
    self->device_keys = (int64_t *)(uintptr_t)keys;
    self->device_room = room;
    self->device_used = 0;
    Py_RETURN_NONE;
}

static PyObject *light_look_at(PyObject *object, PyObject *arguments)
{
    PyObject *tensor;
    long long call, site;
    Py_ssize_t leaf;
    int part, sink;
    if (!PyArg_ParseTuple(arguments, "OLLini:look_at", &tensor, &call, &site, &part, &leaf, &sink) ||
        look_plainly((LightRecorder *)object, tensor, call, site, part, leaf, sink) < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* The gradients of parameters, of those that have one. */
static PyObject *light_look_at_gradients(PyObject *object, PyObject *arguments)
{
    LightRecorder *self = (LightRecorder *)object;
    PyObject *parameters, *sites;
    int part, sink;
    if (!PyArg_ParseTuple(arguments, "O!O!ii:look_at_gradients", &PyList_Type, &parameters, &PyList_Type, &sites, &part, &sink))
        return NULL;
    for (Py_ssize_t i = 0; i < PyList_Size(parameters) && i < PyList_Size(sites); i++) {
        PyObject *gradient = PyObject_GetAttr(PyList_GetItem(parameters, i), N_grad);
        if (gradient == NULL)
            return NULL;
        int64_t site = PyLong_AsLongLong(PyList_GetItem(sites, i));
        int failed = PyErr_Occurred() != NULL;
        if (!failed && gradient != Py_None)
            failed = look_plainly(self, gradient, -1, site, part, 1, sink) < 0;
        Py_DECREF(gradient);
        if (failed)
            return NULL;
    }
    Py_RETURN_NONE;
}

/* Nothing of what is recent is let go of any more: whoever holds the entries does. */
static PyObject *light_end_recent(PyObject *object, PyObject *unused)
{
    LightRecorder *self = (LightRecorder *)object;
    (void)unused;
    forget_recent(self);
    self->alarm = 0;
    Py_RETURN_NONE;
}

static PyObject *light_take_number(PyObject *object, PyObject *unused)
{
    (void)unused;
    return PyLong_FromLongLong(((LightRecorder *)object)->next_number++);
}

static PyObject *light_device_of(PyObject *object, PyObject *tensor)
{
    LightRecorder *self = (LightRecorder *)object;
    Described described;
    int known = self->api->describe(self->look, tensor, &described);
    if (known < 0)
        return NULL;
    if (known == 0)
        Py_RETURN_NONE;
    return Py_BuildValue("ii", described.device_type, described.device_index);
}

/* Shows the function of torch's that tells whether autocast is on. */
static PyObject *light_open_autocast(PyObject *object, PyObject *address)
{
    unsigned long long at = PyLong_AsUnsignedLongLong(address);
    if (PyErr_Occurred())
        return NULL;
    ((LightRecorder *)object)->autocast_door = (_Bool (*)(signed char))(uintptr_t)at;
    Py_RETURN_NONE;
}

/* What stands for a tensor on the tape. */
static PyObject *light_taped(PyObject *object, PyObject *tensor)
{
    int unmade = 0;
    return taped((LightRecorder *)object, tensor, &unmade);
}

/* Notes that a call which is held has made a tensor. */
static PyObject *light_made(PyObject *object, PyObject *arguments)
{
    LightRecorder *self = (LightRecorder *)object;
    long long number;
    int leaf, fresh;
    PyObject *tensor;
    Described described;
    if (!PyArg_ParseTuple(arguments, "LiOp:made", &number, &leaf, &tensor, &fresh))
        return NULL;
    int known = self->api->describe(self->look, tensor, &described);
    if (known < 0 || (known > 0 && enter_made(&self->tape, tensor, &described, number, leaf, fresh) < 0))
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *light_new_tape(PyObject *object, PyObject *unused)
{
    LightRecorder *self = (LightRecorder *)object;
    (void)unused;
    self->calls = self->spent = self->spent_on_hooks = self->spent_on_sending = 0;
    forget_made(&self->tape);
    Py_CLEAR(self->last);
    Py_RETURN_NONE;
}

static PyMemberDef LIGHT_MEMBERS[] = {
    {"looking", T_BOOL, offsetof(LightRecorder, looking), 0, NULL},
    {"alarm", T_BOOL, offsetof(LightRecorder, alarm), 0, NULL},
    {"window", T_LONGLONG, offsetof(LightRecorder, window), 0, NULL},
    {"epoch", T_LONGLONG, offsetof(LightRecorder, epoch), 0, NULL},
    {"rotation", T_LONGLONG, offsetof(LightRecorder, rotation), 0, NULL},
    {"turn", T_LONGLONG, offsetof(LightRecorder, turn), 0, NULL},
    {"round", T_LONGLONG, offsetof(LightRecorder, round), 0, NULL},
    {"whole", T_BOOL, offsetof(LightRecorder, whole), 0, NULL},
    {"held", T_LONGLONG, offsetof(LightRecorder, held), 0, NULL},
    {"limit", T_LONGLONG, offsetof(LightRecorder, limit), 0, NULL},
    {"nanoseconds", T_LONGLONG, offsetof(LightRecorder, nanoseconds), 0, NULL},
    {"backward", T_LONGLONG, offsetof(LightRecorder, backward), 0, NULL},
    {"used", T_PYSSIZET, offsetof(LightRecorder, used), READONLY, NULL},
    {"device_used", T_PYSSIZET, offsetof(LightRecorder, device_used), 0, NULL},
    {"stream", T_ULONGLONG, offsetof(LightRecorder, stream), READONLY, NULL},
    {"scaler", T_OBJECT, offsetof(LightRecorder, scaler), 0, NULL},
    {"calls", T_LONGLONG, offsetof(LightRecorder, calls), READONLY, NULL},
    {"spent", T_LONGLONG, offsetof(LightRecorder, spent), READONLY, NULL},
    {"spent_on_sending", T_LONGLONG, offsetof(LightRecorder, spent_on_sending), READONLY, NULL},
    {"spent_on_hooks", T_LONGLONG, offsetof(LightRecorder, spent_on_hooks), READONLY, NULL},
    {"taping", T_BOOL, offsetof(LightRecorder, taping), 0, NULL},
    {"keep_last", T_BOOL, offsetof(LightRecorder, keep_last), 0, NULL},
    {"last", T_OBJECT, offsetof(LightRecorder, last), 0, NULL},
    {"most_waiting", T_LONGLONG, offsetof(LightRecorder, most_waiting), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyMethodDef LIGHT_METHODS[] = {
    {"begin_table", light_begin_table, METH_VARARGS, "begin_table(address, room): looks go into this table from now on"},
    {"begin_device", light_begin_device, METH_VARARGS,
     "begin_device(device, type, index, rows, keys, room): tensors of this device go into these tables from now on"},
    {"look_at", light_look_at, METH_VARARGS, "look_at(tensor, call, site, part, leaf, sink): looks at one tensor"},
    {"look_at_gradients", light_look_at_gradients, METH_VARARGS,
     "look_at_gradients(parameters, sites, part, sink): looks at the gradient of each parameter that has one"},
    {"open_autocast", light_open_autocast, METH_O, "open_autocast(address): the function that tells whether it is on"},
    {"taped", light_taped, METH_O, "taped(tensor): what stands for it on the tape"},
    {"made", light_made, METH_VARARGS, "made(number, leaf, tensor, fresh): a call which is held has made this"},
    {"new_tape", light_new_tape, METH_NOARGS, "new_tape(): forgets what calls have made"},
    {"take_number", light_take_number, METH_NOARGS, "take_number(): the number of a call"},
    {"end_recent", light_end_recent, METH_NOARGS, "end_recent(): a step has ended"},
    {"device_of", light_device_of, METH_O, "device_of(tensor): what torch's C interface says; None for odd tensors"},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot LIGHT_SLOTS[] = {
    {Py_tp_new, light_new},     {Py_tp_dealloc, light_dealloc},   {Py_tp_traverse, light_traverse},
    {Py_tp_clear, light_clear}, {Py_tp_members, LIGHT_MEMBERS},   {Py_tp_methods, LIGHT_METHODS},
    {0, NULL},
};

static PyType_Spec LIGHT_SPEC = {"trueline.frameworks.torch._calls.LightRecorder", sizeof(LightRecorder), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, LIGHT_SLOTS};

#endif
