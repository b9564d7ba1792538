/* One call from its begin to its end: what ``Watch.begin`` and ``Watch.end`` do for calls of the Python API. */
#ifndef TRUELINE_CALLS_RECORD_H
#define TRUELINE_CALLS_RECORD_H

#include "_calls_border.h"
#include "_calls_flatten.h"
#include "_calls_modules.h"
#include "_calls_trait.h"

#define MOST_SPELLINGS 65536 /* known at a time */
#define FEW_LEAVES 32

/* Facts about tensors of one call, by their places. */
typedef struct {
    signed char *wants_grad;
    int64_t *versions;
    unsigned char *hidden; /* changed without a trace in the version counter */
    signed char few[FEW_LEAVES];
} Facts;

/* A call between its begin and its end. */
typedef struct {
    Trait *trait;    /* borrowed */
    Thread *thread;
    int64_t number, nth, step, module, above, context, stack, tree;
    long long first_sequence;
    int mutates;
    Leaves inputs;
    Facts facts; /* about the inputs */
    Words visits;
    Edges edges;
} Open;

static void begin_open(Open *call, Trait *trait, int mutates)
{
    call->trait = trait;
    call->mutates = mutates;
    call->stack = call->context = -1;
    call->edges.count = call->edges.known = call->edges.too_many = 0;
    memset(&call->facts, 0, offsetof(Facts, few));
    begin_leaves(&call->inputs);
    begin_words(&call->visits);
}

static void end_open(Open *call)
{
    drop_edges(&call->edges);
    end_leaves(&call->inputs);
    end_words(&call->visits);
    if (call->facts.wants_grad != call->facts.few)
        free(call->facts.wants_grad);
    free(call->facts.versions);
    free(call->facts.hidden);
}

/* ---- trees ---- */

/* The number under a key, or what a method of the Watch says it is; -1 with an error set on errors. */
static int64_t number_under(Recorder *self, PyObject *known, PyObject *key, PyObject *enter)
{
    PyObject *number = PyDict_GetItemWithError(known, key);
    Py_XINCREF(number);
    if (number == NULL && !PyErr_Occurred())
        number = PyObject_CallMethodObjArgs(self->watch, enter, key, NULL);
    int64_t answer = number == NULL ? -1 : PyLong_AsLongLong(number);
    Py_XDECREF(number);
    return answer;
}

/* Remembers what was spelled. */
static int learn_spelling(Recorder *self, Table *table, const Spelling *spelling, int64_t number)
{
    if (table->used >= MOST_SPELLINGS) {
        table_clear(&self->argument_trees);
        table_clear(&self->result_trees);
        if (PyList_SetSlice(self->texts, 0, PY_SSIZE_T_MAX, NULL) < 0)
            return -1;
    }
    for (int i = 0; i < spelling->text_count; i++)
        if (PyList_Append(self->texts, spelling->texts[i]) < 0)
            return -1;
    return table_set(table, spelling->words.at, spelling->words.count, number, 0);
}

/* The slow way to the tree of the arguments, and to their tensors. */
static int flatten_slowly(Recorder *self, PyObject *args, PyObject *kwargs, Open *call)
{
    PyObject *leaves = PyList_New(0), *key = leaves == NULL ? NULL : flatten_arguments(args, kwargs, leaves);
    drop_leaves(&call->inputs);
    int failed = key == NULL || add_leaves(&call->inputs, leaves) < 0;
    if (!failed) {
        call->tree = number_under(self, self->trees, key, N_enter_arguments);
        failed = call->tree == -1 && PyErr_Occurred();
    }
    Py_XDECREF(leaves);
    Py_XDECREF(key);
    return failed ? -1 : 0;
}

/* Finds the tree of the arguments, and their tensors. */
static int take_arguments(Recorder *self, PyObject *args, PyObject *kwargs, Open *call)
{
    Spelling spelling;
    begin_spelling(&spelling, &call->inputs);
    int done = spell_arguments(&spelling, args, kwargs), failed = done < 0;
    const int64_t *known = done > 0 ? table_find(&self->argument_trees, spelling.words.at, spelling.words.count) : NULL;
    if (known != NULL)
        call->tree = known[0];
    else if (!failed)
        failed = flatten_slowly(self, args, kwargs, call) < 0 ||
                 (done > 0 && learn_spelling(self, &self->argument_trees, &spelling, call->tree) < 0);
    end_spelling(&spelling);
    return failed ? -1 : 0;
}

/* Positions as a tuple of Python's. */
static PyObject *positions_of(const Words *positions)
{
    PyObject *tuple = PyTuple_New((Py_ssize_t)positions->count);
    for (size_t i = 0; tuple != NULL && i < positions->count; i++) {
        PyObject *position = PyLong_FromLongLong(positions->at[i]);
        if (position == NULL || PyTuple_SetItem(tuple, (Py_ssize_t)i, position) < 0)
            Py_CLEAR(tuple);
    }
    return tuple;
}

static int64_t enter_result(Recorder *self, const Open *call, PyObject *key, const Words *changed)
{
    PyObject *positions = positions_of(changed), *place = NULL;
    if (positions != NULL)
        place = Py_BuildValue("OnOL", key, call->inputs.count, positions, changed->count ? (long long)call->tree : 0LL);
    int64_t number = place == NULL ? -1 : number_under(self, self->results, place, N_enter_result);
    Py_XDECREF(positions);
    Py_XDECREF(place);
    return number;
}

/* ---- looking ---- */

static int make_facts(Facts *facts, Py_ssize_t count)
{
    facts->wants_grad = count <= FEW_LEAVES ? facts->few : malloc((size_t)count);
    if (facts->wants_grad == NULL)
        PyErr_NoMemory();
    return facts->wants_grad == NULL ? -1 : 0;
}

static int look_at_all(Recorder *self, Open *call, const Leaves *leaves, Py_ssize_t first, int64_t role,
                       signed char *wants_grad)
{
    for (Py_ssize_t i = 0; i < leaves->count; i++) {
        int wanted;
        if (visit(self, leaves->at[i], call->number, first + i, role, &call->visits, &wanted) < 0)
            return -1;
        wants_grad[i] = (signed char)wanted;
    }
    return 0;
}

/* ---- changing ---- */

/* A set of tensors, by their addresses. */
static int note_tensor(Table *set, PyObject *tensor)
{
    int64_t key = (int64_t)(uintptr_t)tensor;
    return table_set(set, &key, 1, 0, 0);
}

static int has_tensor(const Table *set, PyObject *tensor)
{
    int64_t key = (int64_t)(uintptr_t)tensor;
    return table_find(set, &key, 1) != NULL;
}

/* The arguments that a trait says are changed without a trace. */
static int collect_hidden(const Trait *trait, PyObject *args, PyObject *kwargs, PyObject *leaves)
{
    for (Py_ssize_t i = 0; i < PyTuple_Size(trait->hidden); i++) {
        PyObject *argument = PyTuple_GetItem(trait->hidden, i), *value;
        Py_ssize_t position = PyLong_AsSsize_t(PyTuple_GetItem(argument, 0));
        if (position < PyTuple_Size(args))
            value = PyTuple_GetItem(args, position);
        else
            value = kwargs == Py_None ? NULL : PyDict_GetItemWithError(kwargs, PyTuple_GetItem(argument, 1));
        PyObject *key = value == NULL || PyErr_Occurred() ? NULL : flatten(value, leaves);
        Py_XDECREF(key);
        if (PyErr_Occurred())
            return -1;
    }
    return 0;
}

/* As names.hidden_leaves. */
static int find_hidden(PyObject *args, PyObject *kwargs, Open *call)
{
    const Trait *trait = call->trait;
    Py_ssize_t count = call->inputs.count;
    if (!trait->hides_all && PyTuple_Size(trait->hidden) == 0)
        return 0;
    call->facts.hidden = calloc((size_t)count + 1, 1);
    if (call->facts.hidden == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    if (trait->hides_all) {
        memset(call->facts.hidden, 1, (size_t)count);
        return 0;
    }
    PyObject *leaves = PyList_New(0);
    Table set = {0};
    int failed = leaves == NULL || collect_hidden(trait, args, kwargs, leaves) < 0;
    for (Py_ssize_t i = 0; !failed && i < PyList_Size(leaves); i++)
        failed = note_tensor(&set, PyList_GetItem(leaves, i)) < 0;
    for (Py_ssize_t i = 0; !failed && i < count; i++)
        call->facts.hidden[i] = (unsigned char)has_tensor(&set, call->inputs.at[i]);
    table_free(&set);
    Py_XDECREF(leaves);
    return failed ? -1 : 0;
}

static int note_versions(Recorder *self, Open *call)
{
    call->facts.versions = malloc(((size_t)call->inputs.count + 1) * sizeof *call->facts.versions);
    if (call->facts.versions == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < call->inputs.count; i++)
        if (self->api->version(self->looker, call->inputs.at[i], &call->facts.versions[i]) < 0)
            return -1;
    return 0;
}

/* Has read what still waits of tensors that are about to be changed. */
static int settle(Recorder *self, const Leaves *leaves, Py_ssize_t count)
{
    PyObject *waiting = NULL, *done;
    for (Py_ssize_t i = 0; i < count; i++) {
        int waits = self->api->waits(self->looker, leaves->at[i]);
        if (waits > 0 && waiting == NULL)
            waiting = PyList_New(0);
        if (waits < 0 || (waits > 0 && (waiting == NULL || PyList_Append(waiting, leaves->at[i]) < 0))) {
            Py_XDECREF(waiting);
            return -1;
        }
    }
    if (waiting == NULL)
        return 0;
    done = PyObject_CallFunctionObjArgs(self->before_change, waiting, NULL);
    Py_DECREF(waiting);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* As watch._may_change. */
static Py_ssize_t changeable(const Open *call, PyObject *kwargs)
{
    PyObject *out = kwargs == Py_None ? NULL : PyDict_GetItemWithError(kwargs, N_out);
    int first_only = (out == NULL || out == Py_None) && call->trait->first_only;
    return first_only && call->inputs.count > 1 ? 1 : call->inputs.count;
}

static int prepare_change(Recorder *self, PyObject *args, PyObject *kwargs, Open *call)
{
    if (find_hidden(args, kwargs, call) < 0 || note_versions(self, call) < 0)
        return -1;
    int enabled = self->backward_wanted ? grad_enabled(self) : 0;
    if (enabled < 0 || (enabled && find_edges(&call->inputs, call->facts.wants_grad, &call->edges) < 0))
        return -1;
    Py_ssize_t count = changeable(call, kwargs);
    return PyErr_Occurred() ? -1 : settle(self, &call->inputs, count);
}

/* Finds the inputs that the call changed, and appends those to the outputs that it did not return. */
static int find_changed(Recorder *self, Open *call, Leaves *outputs, Words *positions)
{
    Table returned = {0};
    int failed = 0;
    for (Py_ssize_t i = 0; i < outputs->count && !failed; i++)
        failed = note_tensor(&returned, outputs->at[i]) < 0;
    for (Py_ssize_t i = 0; i < call->inputs.count && !failed; i++) {
        PyObject *tensor = call->inputs.at[i];
        int64_t version;
        failed = self->api->version(self->looker, tensor, &version) < 0;
        int hidden = call->facts.hidden != NULL && call->facts.hidden[i];
        if (failed || (version == call->facts.versions[i] && !hidden))
            continue;
        failed = self->api->changed(self->looker, tensor) < 0;
        if (!failed && !has_tensor(&returned, tensor))
            failed = note_tensor(&returned, tensor) < 0 || add_word(positions, i) < 0 || add_leaf(outputs, tensor) < 0;
    }
    table_free(&returned);
    return failed ? -1 : 0;
}

/* ---- beginning ---- */

/* Where the call was made: when, inside of what, on which line. */
static int find_place(Recorder *self, Open *call)
{
    call->first_sequence = next_sequence(self);
    if (call->first_sequence == -1 && PyErr_Occurred())
        return -1;
    int backward = in_backward(self);
    call->context = call->thread->optimizer;
    if (backward > 0) {
        PyObject *context = PyObject_CallMethodObjArgs(self->watch, N_backward_context, NULL);
        call->context = context == NULL ? -1 : PyLong_AsLongLong(context);
        Py_XDECREF(context);
    }
    if (backward < 0 || PyErr_Occurred())
        return -1;
    call->stack = self->stacks_wanted ? find_stack((Finder *)self->finder, 0, call->above) : self->none;
    return call->stack == -1 && PyErr_Occurred() ? -1 : 0;
}

static int begin(Recorder *self, PyObject *args, PyObject *kwargs, Open *call)
{
    Trait *trait = call->trait;
    if (trait->step != self->epoch) {
        trait->step = self->epoch;
        trait->count = 0;
    }
    call->nth = trait->count++;
    call->thread = this_thread((Threads *)self->threads);
    if (call->thread == NULL || innermost(call->thread, &call->module, &call->above) < 0)
        return -1;
    call->number = ask_integer(self->next_call);
    if ((call->number == -1 && PyErr_Occurred()) || take_arguments(self, args, kwargs, call) < 0 ||
        make_facts(&call->facts, call->inputs.count) < 0 ||
        look_at_all(self, call, &call->inputs, 0, self->input, call->facts.wants_grad) < 0 ||
        (call->mutates && prepare_change(self, args, kwargs, call) < 0))
        return -1;
    return find_place(self, call);
}

/* ---- ending ---- */

static int write_forward(Recorder *self, Open *call, int64_t result)
{
    call->step = integer_at(self->notebook, N_step);
    if (call->step == -1 && PyErr_Occurred())
        return -1;
    int64_t row[CALL_WORDS] = {call->number, self->level,   0,                    call->trait->name_id, call->nth,
                               call->step,   call->module,  call->context,        call->thread->number, self->none,
                               call->tree,   result,        self->none,           call->stack};
    if (write_call(self, row, &call->visits) < 0)
        return -1;
    if (sheets_length(self->sheets) <= self->held_calls)
        return 0;
    PyObject *done = PyObject_CallMethodObjArgs(self->notebook, N_hand_over, NULL);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* Whether an output is a view that may have been changed in place: then a node of its base may stand for it. */
static int is_view(const Leaves *outputs, Py_ssize_t count, const signed char *wants_grad)
{
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *base = wants_grad[i] ? told(outputs->at[i], N__base) : Py_None;
        if (base == NULL)
            return -1;
        int found = base != Py_None;
        if (wants_grad[i])
            Py_DECREF(base);
        if (found)
            return 1;
    }
    return 0;
}

/* A call whose piece of the graph is too large for us, or changed a view: ``Watch`` does it. */
static int watch_in_python(Recorder *self, const Open *call, int64_t result, const Leaves *outputs, Py_ssize_t count)
{
    PyObject *edges = call->mutates && !call->edges.too_many ? PyList_New(0) : NULL, *done = NULL;
    for (Py_ssize_t i = 0; edges != NULL && i < call->edges.count; i++) {
        const Edge *edge = &call->edges.at[i];
        PyObject *row = Py_BuildValue("nOn", edge->leaf, edge->source, edge->number);
        if (row == NULL || PyList_Append(edges, row) < 0)
            Py_CLEAR(edges);
        Py_XDECREF(row);
    }
    PyObject *inputs = PyErr_Occurred() ? NULL : list_of(&call->inputs, call->inputs.count);
    PyObject *results = inputs == NULL ? NULL : list_of(outputs, count);
    PyObject *method = results == NULL ? NULL : PyObject_GetAttr(self->watch, N_watch_backward);
    if (method != NULL)
        done = PyObject_CallFunction(method, "LOLLLLLOLLOiO", (long long)call->number, call->trait, (long long)call->nth,
                                     (long long)call->module, (long long)call->context, (long long)call->stack,
                                     (long long)call->tree, inputs, call->first_sequence, (long long)result, results,
                                     call->mutates, edges == NULL ? Py_None : edges);
    Py_XDECREF(edges);
    Py_XDECREF(inputs);
    Py_XDECREF(results);
    Py_XDECREF(method);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

static int follow_backward(Recorder *self, Open *call, int64_t result, const Leaves *outputs, Py_ssize_t count,
                           const signed char *wants_grad)
{
    if (!call->edges.known && find_edges(&call->inputs, call->facts.wants_grad, &call->edges) < 0)
        return -1;
    int view = call->mutates ? is_view(outputs, count, wants_grad) : 0, done = view < 0 ? -1 : 0;
    if (view == 0) {
        Forward forward = {call->number,  call->trait->name_id, call->nth, call->step, call->module,
                           call->context, call->tree,           result,    call->stack};
        done = watch_backward(self, &forward, call->first_sequence, &call->edges, outputs, count, wants_grad,
                              call->inputs.count);
    }
    return done == 0 ? watch_in_python(self, call, result, outputs, count) : done < 0 ? -1 : 0;
}

static int end_with(Recorder *self, Open *call, Leaves *outputs, Py_ssize_t returned, int64_t result, Facts *facts)
{
    if (make_facts(facts, outputs->count) < 0 ||
        look_at_all(self, call, outputs, call->inputs.count, self->output, facts->wants_grad) < 0)
        return -1;
    if (call->mutates && call->thread->functions && settle(self, outputs, outputs->count) < 0)
        return -1; /* mark_dirty will move their version counters */
    if (write_forward(self, call, result) < 0)
        return -1;
    int wanted = 0, enabled = self->backward_wanted ? grad_enabled(self) : 0;
    for (Py_ssize_t i = 0; enabled > 0 && i < outputs->count && !wanted; i++)
        wanted = facts->wants_grad[i];
    if (!wanted || enabled < 0)
        return enabled < 0 ? -1 : 0;
    return follow_backward(self, call, result, outputs, returned ? returned : outputs->count, facts->wants_grad);
}

/* The slow way to the tree of a result. */
static int64_t result_slowly(Recorder *self, Open *call, PyObject *value, const Words *changed)
{
    PyObject *leaves = PyList_New(0), *key = leaves == NULL ? NULL : flatten(value, leaves);
    int64_t number = key == NULL ? -1 : enter_result(self, call, key, changed);
    Py_XDECREF(leaves);
    Py_XDECREF(key);
    return number;
}

/* The tensors in a result; gives whether it could be spelled, -1 on errors. */
static int take_result(PyObject *value, Spelling *spelling)
{
    int done = spell(spelling, value);
    if (done)
        return done;
    PyObject *leaves = PyList_New(0), *key = leaves == NULL ? NULL : flatten(value, leaves);
    drop_leaves(spelling->leaves);
    done = key == NULL || add_leaves(spelling->leaves, leaves) < 0 ? -1 : 0;
    Py_XDECREF(leaves);
    Py_XDECREF(key);
    return done;
}

static int finish(Recorder *self, Open *call, PyObject *value, Spelling *spelling, Words *changed, Facts *facts)
{
    Leaves *outputs = spelling->leaves;
    int spelled = take_result(value, spelling);
    if (spelled < 0)
        return -1;
    Py_ssize_t returned = outputs->count;
    if (call->inputs.count == 0 && returned == 0)
        return 0; /* no tensor in, none out: nothing that numbers could be said of */
    if (call->mutates && find_changed(self, call, outputs, changed) < 0)
        return -1;
    int64_t *tail = more_words(&spelling->words, changed->count + 2), result;
    if (tail == NULL)
        return -1;
    tail[0] = call->inputs.count;
    tail[1] = changed->count ? call->tree : -1;
    memcpy(tail + 2, changed->at, changed->count * sizeof *tail);
    const int64_t *known = spelled ? table_find(&self->result_trees, spelling->words.at, spelling->words.count) : NULL;
    if (known != NULL) {
        result = known[0];
    } else {
        result = result_slowly(self, call, value, changed);
        if ((result == -1 && PyErr_Occurred()) ||
            (spelled && learn_spelling(self, &self->result_trees, spelling, result) < 0))
            return -1;
    }
    return end_with(self, call, outputs, returned, result, facts);
}

static int end(Recorder *self, Open *call, PyObject *value)
{
    Leaves outputs;
    Words changed;
    Spelling spelling;
    Facts facts;
    memset(&facts, 0, offsetof(Facts, few));
    begin_leaves(&outputs);
    begin_words(&changed);
    begin_spelling(&spelling, &outputs);
    int failed = finish(self, call, value, &spelling, &changed, &facts);
    end_spelling(&spelling);
    end_words(&changed);
    end_leaves(&outputs);
    if (facts.wants_grad != facts.few)
        free(facts.wants_grad);
    return failed;
}

/* Writes down that the call raised; the error stays set. */
static void note_raised(Recorder *self, const Open *call)
{
    PyObject *type, *value, *traceback, *visits, *done = NULL;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    visits = positions_of(&call->visits);
    PyObject *method = visits == NULL ? NULL : PyObject_GetAttr(self->watch, N_raised_inside);
    if (method != NULL)
        done = PyObject_CallFunction(method, "LOLLLLLOO", (long long)call->number, call->trait, (long long)call->nth,
                                     (long long)call->module, (long long)call->context, (long long)call->stack,
                                     (long long)call->tree, visits, value);
    Py_XDECREF(visits);
    Py_XDECREF(method);
    if (done == NULL) {
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(traceback);
        return;
    }
    Py_DECREF(done);
    PyErr_Restore(type, value, traceback);
}

#endif
