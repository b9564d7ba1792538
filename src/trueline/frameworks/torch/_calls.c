/* Records calls as ``watch.Watch`` does, several times faster.
 *
 * Recorder.call takes on the calls that change none of their arguments, where nothing but all calls is wanted and no
 * witness is asked for; every other call it hands to Watch.call before anything is written. What it writes, and the
 * order in which numbers are given, is the same. Api is the base of the function mode: properties that only tell
 * something about a tensor pass through it without Python. The interpreter's lock is held all the time. Where this
 * module was not built the Python code does the same, slower.
 */
#include "_calls_border.h"
#include "_calls_flatten.h"
#include "_calls_modules.h"

/* A call between its begin and its end. */
typedef struct {
    PyObject *trait; /* borrowed */
    PyObject *number, *nth, *module, *above, *context, *stack, *tree, *inputs, *visits;
    long long first_sequence;
} Open;

static void drop_open(Open *call)
{
    PyObject *held[] = {call->number, call->nth,  call->module, call->above, call->context,
                        call->stack,  call->tree, call->inputs, call->visits};
    for (size_t i = 0; i < sizeof held / sizeof *held; i++)
        Py_XDECREF(held[i]);
}

/* ---- deciding ---- */

/* Whether a named argument asks for a change of something; -1 on errors. */
static int named_change(PyObject *kwargs)
{
    if (kwargs == Py_None || PyDict_Size(kwargs) == 0)
        return 0;
    PyObject *out = PyDict_GetItemWithError(kwargs, N_out);
    if (out != NULL && out != Py_None)
        return 1;
    PyObject *in_place = PyErr_Occurred() ? NULL : PyDict_GetItemWithError(kwargs, N_inplace);
    return PyErr_Occurred() ? -1 : in_place != NULL ? PyObject_IsTrue(in_place) : 0;
}

/* Whether a call is one for us: wanted, and changing nothing. -1 on errors. */
static int is_ours(PyObject *trait, PyObject *args, PyObject *kwargs)
{
    int wanted = truth_at(trait, N_wanted), mutates = wanted > 0 ? truth_at(trait, N_mutates) : 0;
    if (wanted <= 0 || mutates)
        return wanted < 0 || mutates < 0 ? -1 : 0;
    long long position = integer_at(trait, N_in_place);
    if (position == -1 && PyErr_Occurred())
        return -1;
    int in_place = 0;
    if (position > 0 && position < PyTuple_Size(args))
        in_place = PyObject_IsTrue(PyTuple_GetItem(args, (Py_ssize_t)position));
    int change = in_place ? in_place : named_change(kwargs);
    return change < 0 ? -1 : !change;
}

/* ---- beginning ---- */

/* Counts the call among those of its API in this step. */
static int count_call(Recorder *self, PyObject *trait, Open *call)
{
    PyObject *epoch = PyObject_GetAttr(self->watch, N__epoch), *step = PyObject_GetAttr(trait, N_step), *next = NULL;
    int same = epoch == NULL || step == NULL ? -1 : epoch == step ? 1 : PyObject_RichCompareBool(epoch, step, Py_EQ);
    if (same == 0 && (PyObject_SetAttr(trait, N_step, epoch) < 0 || PyObject_SetAttr(trait, N_count, self->zero) < 0))
        same = -1;
    if (same >= 0)
        call->nth = PyObject_GetAttr(trait, N_count);
    if (call->nth != NULL)
        next = PyNumber_Add(call->nth, self->one);
    int failed = next == NULL || PyObject_SetAttr(trait, N_count, next) < 0;
    Py_XDECREF(epoch);
    Py_XDECREF(step);
    Py_XDECREF(next);
    return failed ? -1 : 0;
}

/* Which module is running, and the stack at its call. */
static int find_module(Recorder *self, Open *call)
{
    PyObject *modules = state_at(self, N_modules);
    if (modules == NULL)
        return -1;
    Py_ssize_t count = PyList_Size(modules);
    PyObject *last = count > 0 ? PyList_GetItem(modules, count - 1) : NULL;
    call->module = last != NULL ? PyTuple_GetItem(last, 0) : self->none;
    call->above = last != NULL ? PyTuple_GetItem(last, 1) : self->none;
    Py_XINCREF(call->module);
    Py_XINCREF(call->above);
    Py_DECREF(modules);
    return call->module == NULL || call->above == NULL ? -1 : 0;
}

/* A new reference to the number under a key, or to what a method of the Watch says it is. */
static PyObject *number_under(Recorder *self, PyObject *known, PyObject *key, PyObject *enter)
{
    PyObject *number = PyDict_GetItemWithError(known, key);
    Py_XINCREF(number);
    if (number == NULL && !PyErr_Occurred())
        number = PyObject_CallMethodObjArgs(self->watch, enter, key, NULL);
    return number;
}

static int look_at_list(Recorder *self, PyObject *tensors, PyObject *number, PyObject *first, PyObject *role,
                        PyObject *visits)
{
    PyObject *done = PyObject_CallFunctionObjArgs(self->look_all, tensors, number, first, role, visits, NULL);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

static int take_arguments(Recorder *self, PyObject *args, PyObject *kwargs, Open *call)
{
    call->inputs = PyList_New(0);
    call->visits = PyList_New(0);
    if (call->inputs == NULL || call->visits == NULL)
        return -1;
    PyObject *key = flatten_arguments(args, kwargs, call->inputs);
    if (key == NULL)
        return -1;
    call->tree = number_under(self, self->trees, key, N__enter_arguments);
    Py_DECREF(key);
    return call->tree == NULL ? -1 : look_at_list(self, call->inputs, call->number, self->zero, self->input, call->visits);
}

/* Where the call was made: when, inside of what, on which line. */
static int find_place(Recorder *self, Open *call)
{
    call->first_sequence = ask_integer(self->next_sequence);
    if (call->first_sequence == -1 && PyErr_Occurred())
        return -1;
    long long task = ask_integer(self->graph_task);
    if (task == -1 && PyErr_Occurred())
        return -1;
    call->context = task == -1 ? state_at(self, N_optimizer)
                               : PyObject_CallMethodObjArgs(self->watch, N_backward_context, NULL);
    if (self->stacks_wanted)
        call->stack = call->context == NULL ? NULL : find_stack((Finder *)self->finder, 0, call->above);
    else
        Py_INCREF(call->stack = self->none);
    return call->context == NULL || call->stack == NULL ? -1 : 0;
}

static int begin(Recorder *self, PyObject *args, PyObject *kwargs, Open *call)
{
    if (count_call(self, call->trait, call) < 0 || find_module(self, call) < 0)
        return -1;
    call->number = PyObject_CallFunctionObjArgs(self->next_call, NULL);
    return call->number == NULL || take_arguments(self, args, kwargs, call) < 0 ? -1 : find_place(self, call);
}

/* ---- ending ---- */

static int write_call(Recorder *self, const Open *call, PyObject *name, PyObject *step, PyObject *result)
{
    Py_ssize_t length = 0;
    PyObject *thread = state_at(self, N_number), *row = NULL, *done;
    if (thread != NULL) {
        PyObject *items[] = {call->number,  self->level, self->zero, name,   call->nth,  step,       call->module,
                             call->context, thread,      self->none, call->tree, result, self->none, call->stack};
        row = pack(items, sizeof items / sizeof *items);
    }
    int failed = row == NULL || extend(self->notebook, N_visits, call->visits, NULL) < 0 ||
                 extend(self->notebook, N_calls, row, &length) < 0;
    Py_XDECREF(thread);
    Py_XDECREF(row);
    if (failed || length <= self->held_integers)
        return failed ? -1 : 0;
    done = PyObject_CallMethodObjArgs(self->notebook, N_hand_over, NULL);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* Whether gradients will come back; -1 on errors. */
static int has_backward(Recorder *self, PyObject *outputs)
{
    if (!self->backward_wanted)
        return 0;
    PyObject *answer = PyObject_CallFunctionObjArgs(self->grad_enabled, NULL);
    int enabled = answer == NULL ? -1 : PyObject_IsTrue(answer);
    Py_XDECREF(answer);
    for (Py_ssize_t i = 0; enabled > 0 && i < PyList_Size(outputs); i++) {
        int wanted = truth_at(PyList_GetItem(outputs, i), N_requires_grad);
        if (wanted)
            return wanted;
    }
    return enabled < 0 ? -1 : 0;
}

/* A call whose piece of the graph is too large for us: ``Watch`` does it. */
static int watch_in_python(Recorder *self, const Open *call, PyObject *result, PyObject *outputs)
{
    PyObject *sequence = PyLong_FromLongLong(call->first_sequence), *done = NULL;
    if (sequence != NULL)
        done = PyObject_CallMethodObjArgs(self->watch, N_watch_backward, call->number, call->trait, call->nth,
                                          call->module, call->context, call->stack, call->tree, call->inputs, sequence,
                                          result, outputs, NULL);
    Py_XDECREF(sequence);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

static int end_with(Recorder *self, const Open *call, PyObject *outputs, PyObject *result, PyObject *first)
{
    if (look_at_list(self, outputs, call->number, first, self->output, call->visits) < 0)
        return -1;
    PyObject *name = PyObject_GetAttr(call->trait, N_name_id), *step = PyObject_GetAttr(self->notebook, N_step);
    int failed = name == NULL || step == NULL || write_call(self, call, name, step, result) < 0;
    int backward = failed ? -1 : has_backward(self, outputs);
    if (backward > 0) {
        Forward forward = {call->number,  name,       call->nth, step,       call->module,
                           call->context, call->tree, result,    call->stack};
        int done = watch_backward(self, &forward, call->first_sequence, call->inputs, outputs);
        backward = done < 0 || (done == 0 && watch_in_python(self, call, result, outputs) < 0) ? -1 : 1;
    }
    Py_XDECREF(name);
    Py_XDECREF(step);
    return backward < 0 ? -1 : 0;
}

static int end(Recorder *self, const Open *call, PyObject *value)
{
    PyObject *outputs = PyList_New(0), *place = NULL, *result = NULL, *nothing = NULL, *first = NULL;
    PyObject *key = outputs == NULL ? NULL : flatten(value, outputs);
    int failed = key == NULL;
    if (!failed && (PyList_Size(call->inputs) || PyList_Size(outputs))) {
        first = PyLong_FromSsize_t(PyList_Size(call->inputs));
        nothing = PyTuple_New(0);
        if (first != NULL && nothing != NULL)
            place = PyTuple_Pack(4, key, first, nothing, self->zero);
        if (place != NULL)
            result = number_under(self, self->results, place, N__enter_result);
        failed = result == NULL || end_with(self, call, outputs, result, first) < 0;
    }
    Py_XDECREF(key);
    Py_XDECREF(outputs);
    Py_XDECREF(first);
    Py_XDECREF(nothing);
    Py_XDECREF(place);
    Py_XDECREF(result);
    return failed ? -1 : 0;
}

/* Writes down that the call raised; the error stays set. */
static void note_raised(Recorder *self, const Open *call)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    PyObject *done = PyObject_CallMethodObjArgs(self->watch, N_raised_inside, call->number, call->trait, call->nth,
                                                call->module, call->context, call->stack, call->tree, call->visits,
                                                value, NULL);
    if (done == NULL) {
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(traceback);
        return;
    }
    Py_DECREF(done);
    PyErr_Restore(type, value, traceback);
}

/* ---- the recorder ---- */

static PyObject *make_call(PyObject *function, PyObject *args, PyObject *kwargs)
{
    return PyObject_Call(function, args, kwargs == Py_None ? NULL : kwargs);
}

static PyObject *ask_watch(Recorder *self, PyObject *method, PyObject *trait, PyObject *function, PyObject *args,
                           PyObject *kwargs)
{
    return PyObject_CallMethodObjArgs(self->watch, method, trait, function, args, kwargs, NULL);
}

static PyObject *record(Recorder *self, PyObject *trait, PyObject *function, PyObject *args, PyObject *kwargs)
{
    if (!PyTuple_Check(args) || (kwargs != Py_None && !PyDict_Check(kwargs)))
        return ask_watch(self, N_call, trait, function, args, kwargs);
    int ours = is_ours(trait, args, kwargs);
    if (ours < 0)
        PyErr_Clear(); /* it will come again, and be dealt with there */
    if (ours <= 0)
        return ask_watch(self, N_call, trait, function, args, kwargs);
    Open call = {.trait = trait};
    PyObject *result = NULL;
    if (begin(self, args, kwargs, &call) < 0) {
        if (report_trouble(self->notebook) == 0)
            result = ask_watch(self, N_call_unrecorded, trait, function, args, kwargs);
        drop_open(&call);
        return result;
    }
    result = make_call(function, args, kwargs);
    if (result == NULL)
        note_raised(self, &call);
    else if (end(self, &call, result) < 0 && report_trouble(self->notebook) < 0)
        Py_CLEAR(result);
    drop_open(&call);
    return result;
}

static PyObject *recorder_call(PyObject *self, PyObject *const *arguments, Py_ssize_t count)
{
    if (count != 4) {
        PyErr_SetString(PyExc_TypeError, "call(trait, function, args, kwargs)");
        return NULL;
    }
    return record((Recorder *)self, arguments[0], arguments[1], arguments[2], arguments[3]);
}

static int take_field(PyObject *keywords, const char *name, PyObject **field)
{
    PyObject *value = PyDict_GetItemString(keywords, name);
    if (value == NULL) {
        PyErr_Format(PyExc_TypeError, "Recorder needs %s", name);
        return -1;
    }
    Py_INCREF(value);
    *field = value;
    return 0;
}

static PyTypeObject *type_named(PyObject *module, const char *name)
{
    return (PyTypeObject *)PyObject_GetAttrString(module, name);
}

static int fill_recorder(Recorder *self, PyObject *module, PyObject *keywords)
{
    PyObject *stacks = PyDict_GetItemString(keywords, "stacks_wanted");
    PyObject *backward = PyDict_GetItemString(keywords, "backward_wanted");
    PyObject *held = PyDict_GetItemString(keywords, "held_integers");
#define TAKE(name)                                                                                                     \
    if (take_field(keywords, #name, &self->name) < 0)                                                                  \
        return -1;
    FIELDS(TAKE)
#undef TAKE
    self->backward_type = type_named(module, "Backward");
    self->hook_type = type_named(module, "Hook");
    PyTypeObject *finder_type = type_named(module, "Finder");
    int fits = finder_type != NULL && stacks != NULL && backward != NULL && held != NULL &&
               Py_TYPE(self->finder) == finder_type && PyDict_Check(self->trees) && PyDict_Check(self->results) &&
               PyDict_Check(self->backward_trees) && self->backward_type != NULL && self->hook_type != NULL;
    Py_XDECREF(finder_type);
    if (!fits) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "Recorder is given something that it does not expect");
        return -1;
    }
    self->stacks_wanted = PyObject_IsTrue(stacks);
    self->backward_wanted = PyObject_IsTrue(backward);
    self->held_integers = PyLong_AsSsize_t(held);
    return PyErr_Occurred() ? -1 : 0;
}

static PyObject *recorder_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    PyObject *module = PyType_GetModule(type);
    if (module == NULL || !PyArg_ParseTuple(arguments, ":Recorder"))
        return NULL;
    if (keywords == NULL || flatten_other == NULL) {
        PyErr_SetString(PyExc_TypeError, "Recorder takes named arguments, after prepare()");
        return NULL;
    }
    Recorder *self = (Recorder *)new_object(type);
    if (self != NULL && fill_recorder(self, module, keywords) < 0)
        Py_CLEAR(self);
    return (PyObject *)self;
}

static PyMethodDef RECORDER_METHODS[] = {
    {"call", (PyCFunction)(void (*)(void))recorder_call, METH_FASTCALL,
     "call(trait, function, args, kwargs): makes a call and records it, as Watch.call"},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot RECORDER_SLOTS[] = {
    {Py_tp_new, recorder_new},     {Py_tp_dealloc, recorder_dealloc},   {Py_tp_traverse, recorder_traverse},
    {Py_tp_clear, recorder_clear}, {Py_tp_methods, RECORDER_METHODS},   {0, NULL},
};

static PyType_Spec RECORDER_SPEC = {"trueline.frameworks.torch._calls.Recorder", sizeof(Recorder), 0,
                                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, RECORDER_SLOTS};

/* ---- the function mode ---- */

/* The base of modes.ApiMode where this module is there; torch wants the method of the mode itself. */
typedef struct {
    PyObject_HEAD
    PyObject *known, *learn, *make, *pass_through;
    Recorder *recorder; /* NULL where calls are only made, by ``make`` */
} Api;

enum { RECORD, SKIP }; /* names.RECORD, names.SKIP */

static int api_traverse(PyObject *object, visitproc visit, void *arg)
{
    Api *self = (Api *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->known);
    Py_VISIT(self->learn);
    Py_VISIT(self->make);
    Py_VISIT(self->pass_through);
    Py_VISIT(self->recorder);
    return 0;
}

static int api_clear(PyObject *object)
{
    Api *self = (Api *)object;
    Py_CLEAR(self->known);
    Py_CLEAR(self->learn);
    Py_CLEAR(self->make);
    Py_CLEAR(self->pass_through);
    Py_CLEAR(self->recorder);
    return 0;
}

static void api_dealloc(PyObject *object)
{
    PyObject_GC_UnTrack(object);
    api_clear(object);
    free_object(object);
}

static PyObject *api_arm(PyObject *object, PyObject *arguments)
{
    Api *self = (Api *)object;
    PyObject *known, *learn, *make, *pass_through, *recorder, *one;
    if (!PyArg_ParseTuple(arguments, "O!OOOO:arm", &PyDict_Type, &known, &learn, &make, &pass_through, &recorder))
        return NULL;
    if (recorder != Py_None) {
        one = PyType_GetSlot(Py_TYPE(recorder), Py_tp_new) == (void *)recorder_new ? recorder : NULL;
        if (one == NULL) {
            PyErr_SetString(PyExc_TypeError, "arm() is given a Recorder or None");
            return NULL;
        }
        Py_INCREF(recorder);
        self->recorder = (Recorder *)recorder;
    }
    Py_INCREF(self->known = known);
    Py_INCREF(self->learn = learn);
    Py_INCREF(self->make = make);
    Py_INCREF(self->pass_through = pass_through);
    Py_RETURN_NONE;
}

/* A new reference to the trait of a function. */
static PyObject *trait_of(Api *self, PyObject *function)
{
    PyObject *trait = PyDict_GetItemWithError(self->known, function);
    Py_XINCREF(trait);
    if (trait == NULL && !PyErr_Occurred())
        trait = PyObject_CallFunctionObjArgs(self->learn, function, NULL);
    return trait;
}

static PyObject *treat(Api *self, PyObject *trait, PyObject *function, PyObject *args, PyObject *kwargs)
{
    long long treatment = integer_at(trait, N_treatment);
    if (treatment == -1 && PyErr_Occurred())
        return NULL;
    if (treatment == SKIP)
        return make_call(function, args, kwargs);
    if (treatment != RECORD)
        return PyObject_CallFunctionObjArgs(self->pass_through, function, args, kwargs, NULL);
    if (self->recorder != NULL)
        return record(self->recorder, trait, function, args, kwargs);
    return PyObject_CallFunctionObjArgs(self->make, trait, function, args, kwargs, NULL);
}

static PyObject *api_torch_function(PyObject *object, PyObject *const *arguments, Py_ssize_t count)
{
    Api *self = (Api *)object;
    if (count < 2 || count > 4 || self->known == NULL) {
        PyErr_SetString(PyExc_TypeError, "__torch_function__(func, types, args=(), kwargs=None)");
        return NULL;
    }
    PyObject *function = arguments[0], *args = count > 2 ? arguments[2] : NULL, *result = NULL;
    PyObject *kwargs = count > 3 ? arguments[3] : Py_None, *trait = trait_of(self, function);
    args = args == NULL ? PyTuple_New(0) : PySequence_Tuple(args);
    if (trait != NULL && args != NULL)
        result = treat(self, trait, function, args, kwargs);
    Py_XDECREF(trait);
    Py_XDECREF(args);
    return result;
}

static PyMethodDef API_METHODS[] = {
    {"arm", api_arm, METH_VARARGS, "arm(known, learn, make, pass_through, recorder): before the mode is pushed"},
    {"__torch_function__", (PyCFunction)(void (*)(void))api_torch_function, METH_FASTCALL,
     "Hands a call to where it belongs, as ApiMode.__torch_function__"},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot API_SLOTS[] = {
    {Py_tp_dealloc, api_dealloc}, {Py_tp_traverse, api_traverse}, {Py_tp_clear, api_clear},
    {Py_tp_methods, API_METHODS}, {0, NULL},
};

static PyType_Spec API_SPEC = {"trueline.frameworks.torch._calls.Api", sizeof(Api), 0,
                               Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE, API_SLOTS};

/* ---- the module ---- */

static PyObject *flatten_value(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module;
    if (count != 2 || !PyList_Check(arguments[1]) || flatten_other == NULL) {
        PyErr_SetString(PyExc_TypeError, "flatten(value, leaves), with a list, after prepare()");
        return NULL;
    }
    return flatten(arguments[0], arguments[1]);
}

/* What torch asks when a hook is registered at a node, in the place of ``torch.autograd.Function._register_hook``. Our
 * hooks are never removed one by one, so the first one at a node needs no handle, which is what takes most of the time;
 * all others go to torch's own function. */
static PyObject *registrar(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module;
    if (count != 2 || ordered_dict == NULL) {
        PyErr_SetString(PyExc_TypeError, "registrar(hooks, hook), after prepare()");
        return NULL;
    }
    PyObject *hooks = arguments[0], *hook = arguments[1];
    if (hooks != Py_None || PyType_GetSlot(Py_TYPE(hook), Py_tp_call) != (void *)hook_call)
        return PyObject_CallFunctionObjArgs(register_hook, hooks, hook, NULL);
    hooks = PyObject_CallFunctionObjArgs(ordered_dict, NULL); /* others may register a hook later, by torch's function */
    if (hooks == NULL)
        return NULL;
    PyObject *result = NULL, *key = PyLong_FromLong(-1); /* handles have other numbers */
    if (key != NULL && PyObject_SetItem(hooks, key, hook) == 0)
        result = PyTuple_Pack(2, hooks, Py_None);
    Py_XDECREF(key);
    Py_DECREF(hooks);
    return result;
}

static PyObject *prepare(PyObject *module, PyObject *arguments)
{
    PyObject *given[6];
    PyObject **fields[] = {&tensor_type, &parameter_type, &tensor_key, &flatten_other, &ordered_dict, &register_hook};
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OOOOOO:prepare", &given[0], &given[1], &given[2], &given[3], &given[4], &given[5]))
        return NULL;
    for (int i = 0; i < 6; i++) {
        Py_INCREF(given[i]);
        Py_XDECREF(*fields[i]);
        *fields[i] = given[i];
    }
    Py_RETURN_NONE;
}

static PyMethodDef METHODS[] = {
    {"prepare", prepare, METH_VARARGS,
     "prepare(tensor_type, parameter_type, tensor_key, flatten_other, ordered_dict, register_hook)"},
    {"registrar", (PyCFunction)(void (*)(void))registrar, METH_FASTCALL,
     "registrar(hooks, hook): stands in for torch.autograd.Function._register_hook during a capture"},
    {"flatten", (PyCFunction)(void (*)(void))flatten_value, METH_FASTCALL,
     "flatten(value, leaves): as flatten.flatten"},
    {NULL, NULL, 0, NULL},
};

static int add_type(PyObject *module, PyType_Spec *spec, const char *name)
{
    PyObject *type = PyType_FromModuleAndSpec(module, spec, NULL);
    if (type == NULL || PyModule_AddObject(module, name, type) < 0) {
        Py_XDECREF(type);
        return -1;
    }
    return 0;
}

static int execute(PyObject *module)
{
    return make_names() < 0 || add_type(module, &FINDER_SPEC, "Finder") < 0 ||
                   add_type(module, &BACKWARD_SPEC, "Backward") < 0 || add_type(module, &HOOK_SPEC, "Hook") < 0 ||
                   add_type(module, &MODULES_SPEC, "Modules") < 0 || add_type(module, &RECORDER_SPEC, "Recorder") < 0 || add_type(module, &API_SPEC, "Api") < 0
               ? -1
               : 0;
}

static PyModuleDef_Slot SLOTS[] = {{Py_mod_exec, execute}, {0, NULL}};

static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT, "_calls", "Records calls, fast.", 0, METHODS, SLOTS, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__calls(void)
{
    return PyModuleDef_Init(&MODULE);
}
