/* Records calls as ``watch.Watch`` does, several times faster.
 *
 * Recorder.call takes on every call of the Python API, where nothing but all calls is wanted and no witness is asked for.
 * What it writes, and the order in which numbers are given, is the same. Api is the base of the function mode:
 * properties that only tell something about a tensor pass through it without Python. The interpreter's lock is held
 * all the time. Where this module was not built the Python code does the same, slower.
 */
#include "_calls_light.h"
#include "_calls_quiet.h"
#include "_calls_record.h"

/* ---- the recorder ---- */

/* Makes a call that Python has opened; ``closing`` is what it gave for the end of it, which is taken over. As
 * opencalls.made_between, but from no frame of ours. */
static PyObject *call_between(long long left, PyObject *closing, PyObject *function, PyObject *args, PyObject *kwargs)
{
    PyObject *type = NULL, *error = NULL, *traceback = NULL;
    if (closing == NULL)
        return NULL;
    PyObject *result = make_call(left, function, args, kwargs);
    if (closing == Py_None) {
        Py_DECREF(closing);
        return result;
    }
    if (result == NULL) {
        PyErr_Fetch(&type, &error, &traceback);
        PyErr_NormalizeException(&type, &error, &traceback);
    }
    PyObject *done = PyObject_CallFunctionObjArgs(closing, result == NULL ? Py_None : result,
                                                  error == NULL ? Py_None : error, NULL);
    Py_DECREF(closing);
    if (done != NULL && result == NULL) {
        PyErr_Restore(type, error, traceback);
    } else if (done == NULL) { /* interrupted: that goes before what the call gave */
        Py_CLEAR(result);
        Py_XDECREF(type);
        Py_XDECREF(error);
        Py_XDECREF(traceback);
    }
    Py_XDECREF(done);
    return result;
}

static PyObject *call_unrecorded(Recorder *self, long long left, Trait *trait, PyObject *function, PyObject *args,
                                 PyObject *kwargs)
{
    PyObject *closing = PyObject_CallMethodObjArgs(self->watch, N_opened_unrecorded, trait, args, kwargs, NULL);
    return call_between(left, closing, function, args, kwargs);
}

/* What is read of tensors passes no subclass and no mode of the program's. */
static int begin_unseen(Recorder *self, PyObject *args, PyObject *kwargs, Open *call)
{
    Quiet quiet;
    if (begin_quiet(&quiet, self->no_torch_function) < 0)
        return -1;
    int failed = begin(self, args, kwargs, call) < 0;
    return end_quiet(&quiet) < 0 || failed ? -1 : 0;
}

static int end_unseen(Recorder *self, Open *call, PyObject *result)
{
    Quiet quiet;
    if (begin_quiet(&quiet, self->no_torch_function) < 0)
        return -1;
    int failed = end(self, call, result) < 0;
    return end_quiet(&quiet) < 0 || failed ? -1 : 0;
}

/* The looking ended while the call ran, in another thread. */
static int outlived(Recorder *self)
{
    PyObject *done = PyObject_CallMethodObjArgs(self->watch, N_outlived, NULL);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

static PyObject *record_open(Recorder *self, long long left, Open *call, PyObject *function, PyObject *args,
                             PyObject *kwargs)
{
    if (begin_unseen(self, args, kwargs, call) < 0)
        return report_trouble(self->notebook) < 0 ? NULL
                                                  : call_unrecorded(self, left, call->trait, function, args, kwargs);
    PyObject *result = make_call(left, function, args, kwargs);
    if (result == NULL)
        note_raised(self, call);
    else if ((self->looking ? end_unseen(self, call, result) : outlived(self)) < 0 && report_trouble(self->notebook) < 0)
        Py_CLEAR(result);
    return result;
}

static PyObject *record(Recorder *self, long long left, Trait *trait, PyObject *function, PyObject *args, PyObject *kwargs)
{
    if (!self->looking)
        return make_call(left, function, args, kwargs);
    if (!trait->wanted)
        return call_unrecorded(self, left, trait, function, args, kwargs);
    int mutates = may_change(trait, args, kwargs);
    if (mutates < 0) {
        PyErr_Clear(); /* an argument that has no truth: the call itself will say so */
        mutates = 1;
    }
    Open call;
    begin_open(&call, trait, mutates);
    PyObject *result = record_open(self, left, &call, function, args, kwargs);
    end_open(&call);
    return result;
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

static int take_number(PyObject *keywords, const char *name, long long *field)
{
    PyObject *value = PyDict_GetItemString(keywords, name);
    if (value == NULL)
        PyErr_Format(PyExc_TypeError, "Recorder needs %s", name);
    *field = value == NULL ? -1 : PyLong_AsLongLong(value);
    return PyErr_Occurred() ? -1 : 0;
}

static PyTypeObject *type_named(PyObject *module, const char *name)
{
    return (PyTypeObject *)PyObject_GetAttrString(module, name);
}

static int is_made_by(PyObject *object, newfunc made)
{
    return PyType_GetSlot(Py_TYPE(object), Py_tp_new) == (void *)made;
}

static int fill_recorder(Recorder *self, PyObject *module, PyObject *keywords)
{
#define TAKE(name)                                                                                                     \
    if (take_field(keywords, #name, &self->name) < 0)                                                                  \
        return -1;
    FIELDS(TAKE)
#undef TAKE
#define TAKE(name)                                                                                                     \
    if (take_number(keywords, #name, &self->name) < 0)                                                                 \
        return -1;
    NUMBERS(TAKE)
#undef TAKE
    self->api = PyCapsule_Import(LOOK_API, 0);
    self->texts = PyList_New(0);
    self->backward_type = type_named(module, "Backward");
    self->hook_type = type_named(module, "Hook");
    if (self->api == NULL || self->texts == NULL || self->backward_type == NULL || self->hook_type == NULL)
        return -1;
    if (!is_made_by(self->finder, finder_new) || !is_made_by(self->threads, threads_new) ||
        !is_made_by(self->sheets, sheets_new) || !self->api->is_looker(self->looker) || !PyDict_Check(self->trees) ||
        !PyDict_Check(self->results)) {
        PyErr_SetString(PyExc_TypeError, "Recorder is given something that it does not expect");
        return -1;
    }
    return 0;
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

static PyMemberDef RECORDER_MEMBERS[] = {
    {"looking", T_BOOL, offsetof(Recorder, looking), 0, NULL},
    {"epoch", T_LONGLONG, offsetof(Recorder, epoch), 0, NULL},
    {"backward", T_LONGLONG, offsetof(Recorder, backward_wanted), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot RECORDER_SLOTS[] = {
    {Py_tp_new, recorder_new},     {Py_tp_dealloc, recorder_dealloc},   {Py_tp_traverse, recorder_traverse},
    {Py_tp_clear, recorder_clear}, {Py_tp_members, RECORDER_MEMBERS},   {0, NULL},
};

static PyType_Spec RECORDER_SPEC = {"trueline.frameworks.torch._calls.Recorder", sizeof(Recorder), 0,
                                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, RECORDER_SLOTS};

/* ---- the function mode ---- */

/* The base of modes.ApiMode where this module is there; torch wants the method of the mode itself. */
typedef struct {
    PyObject_HEAD
    PyObject *known, *learn, *opened, *pass_through;
    Recorder *recorder; /* NULL where Python opens each call, by ``opened`` */
    LightRecorder *light; /* in the place of the recorder in a light watch, else NULL */
} Api;

static int api_traverse(PyObject *object, visitproc visit, void *arg)
{
    Api *self = (Api *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->known);
    Py_VISIT(self->learn);
    Py_VISIT(self->opened);
    Py_VISIT(self->pass_through);
    Py_VISIT(self->recorder);
    Py_VISIT(self->light);
    return 0;
}

static int api_clear(PyObject *object)
{
    Api *self = (Api *)object;
    Py_CLEAR(self->known);
    Py_CLEAR(self->learn);
    Py_CLEAR(self->opened);
    Py_CLEAR(self->pass_through);
    Py_CLEAR(self->recorder);
    Py_CLEAR(self->light);
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
    PyObject *known, *learn, *opened, *pass_through, *recorder;
    if (!PyArg_ParseTuple(arguments, "O!OOOO:arm", &PyDict_Type, &known, &learn, &opened, &pass_through, &recorder))
        return NULL;
    if (recorder != Py_None) {
        if (is_made_by(recorder, recorder_new)) {
            self->recorder = (Recorder *)recorder;
        } else if (is_made_by(recorder, light_new)) {
            self->light = (LightRecorder *)recorder;
        } else {
            PyErr_SetString(PyExc_TypeError, "arm() is given a Recorder, a LightRecorder or None");
            return NULL;
        }
        Py_INCREF(recorder);
    }
    Py_INCREF(self->known = known);
    Py_INCREF(self->learn = learn);
    Py_INCREF(self->opened = opened);
    Py_INCREF(self->pass_through = pass_through);
    Py_RETURN_NONE;
}

/* A new reference to the trait of a function. */
static PyObject *trait_of(Api *self, PyObject *function)
{
    PyObject *trait = PyDict_GetItemWithError(self->known, function);
    Py_XINCREF(trait);
    if (trait == NULL && PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_TypeError))
        PyErr_Clear(); /* one that cannot be hashed is decided anew each time */
    if (trait == NULL && !PyErr_Occurred())
        trait = PyObject_CallFunctionObjArgs(self->learn, function, NULL);
    if (trait != NULL && Py_TYPE(trait) != trait_type) {
        PyErr_SetString(PyExc_TypeError, "learn() gives a Trait");
        Py_CLEAR(trait);
    }
    return trait;
}

static PyObject *pass_through(Api *self, long long left, PyObject *function, PyObject *args, PyObject *kwargs)
{
    PyObject *number = PyLong_FromLongLong(left), *result = NULL;
    if (number != NULL)
        result = PyObject_CallFunctionObjArgs(self->pass_through, function, args, kwargs, number, NULL);
    Py_XDECREF(number);
    return result;
}

/* The program made the call where ``left`` frames were left. */
static PyObject *treat(Api *self, long long left, Trait *trait, PyObject *function, PyObject *args, PyObject *kwargs)
{
    if (trait->treatment == SKIP)
        return make_call(left, function, args, kwargs);
    if (trait->treatment != RECORD)
        return pass_through(self, left, function, args, kwargs);
    if (self->light != NULL)
        return light_record(self->light, left, trait, function, args, kwargs);
    if (self->recorder != NULL)
        return record(self->recorder, left, trait, function, args, kwargs);
    PyObject *closing = PyObject_CallFunctionObjArgs(self->opened, trait, args, kwargs, NULL);
    return call_between(left, closing, function, args, kwargs);
}

/* How many frames were left where the program made a call about which torch asks us now: below are the call itself, or
 * the function that asks and ``handle_torch_function``, if it is written in Python. */
static long long left_before(PyObject *function)
{
    PyTypeObject *kind = Py_TYPE(function);
    if (kind == depth_function_type)
        return depth_left() + 2;
    if (PyType_GetFlags(kind) & Py_TPFLAGS_HEAPTYPE) /* an operator by its name: it has a ``__call__`` in Python */
        return depth_left() + 1 + 2 * depth_c_call();
    return depth_left() + depth_c_call();
}

static PyObject *api_torch_function(Api *self, PyObject *const *arguments, Py_ssize_t count)
{
    if (count < 2 || count > 4 || self->known == NULL || (count > 3 && arguments[3] != Py_None && !PyDict_Check(arguments[3]))) {
        PyErr_SetString(PyExc_TypeError, "__torch_function__(func, types, args=(), kwargs=None)");
        return NULL;
    }
    PyObject *function = arguments[0], *args = count > 2 ? arguments[2] : NULL, *result = NULL;
    long long left = left_before(function);
    depth_begin_room();
    PyObject *kwargs = count > 3 ? arguments[3] : Py_None, *trait = trait_of(self, function);
    args = args == NULL ? PyTuple_New(0) : PySequence_Tuple(args);
    if (trait != NULL && args != NULL)
        result = treat(self, left, (Trait *)trait, function, args, kwargs);
    depth_end_room();
    Py_XDECREF(trait);
    Py_XDECREF(args);
    return result;
}

/* What torch finds as ``__torch_function__`` of the mode: a method that enters nothing on Python's count when called. */
typedef struct {
    PyObject_HEAD
    Api *api;
    Vectorcall vectorcall;
} Method;

static PyTypeObject *method_type;

static void method_dealloc(PyObject *object)
{
    Py_XDECREF(((Method *)object)->api);
    free_object(object);
}

static PyObject *method_vectorcall(PyObject *object, PyObject *const *arguments, size_t flags, PyObject *names)
{
    if (names != NULL && PyTuple_Size(names)) {
        PyErr_SetString(PyExc_TypeError, "__torch_function__ takes no named arguments here");
        return NULL;
    }
    return api_torch_function(((Method *)object)->api, arguments, COUNT_OF(flags));
}

static PyObject *method_call(PyObject *object, PyObject *args, PyObject *kwargs)
{
    PyObject *arguments[4] = {NULL, NULL, NULL, NULL};
    static char *NAMES_OF[] = {"func", "types", "args", "kwargs", NULL};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|OO:__torch_function__", NAMES_OF, &arguments[0], &arguments[1],
                                     &arguments[2], &arguments[3]))
        return NULL;
    Py_ssize_t count = arguments[3] != NULL ? 4 : arguments[2] != NULL ? 3 : 2;
    PyObject *nothing = count == 4 && arguments[2] == NULL ? arguments[2] = PyTuple_New(0) : NULL;
    PyObject *result = count == 4 && arguments[2] == NULL ? NULL
                                                          : api_torch_function(((Method *)object)->api, arguments, count);
    Py_XDECREF(nothing);
    return result;
}

static PyMemberDef METHOD_MEMBERS[] = {
    VECTORCALL_OF(Method),
    {"__self__", T_OBJECT, offsetof(Method, api), READONLY, NULL}, /* torch makes sure whose method it is */
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot METHOD_SLOTS[] = {
    {Py_tp_dealloc, method_dealloc}, {Py_tp_call, method_call}, {Py_tp_members, METHOD_MEMBERS}, {0, NULL},
};

static PyType_Spec METHOD_SPEC = {"trueline.frameworks.torch._calls.Method", sizeof(Method), 0,
                                  Py_TPFLAGS_DEFAULT | HAS_VECTORCALL, METHOD_SLOTS};

static PyObject *api_method(PyObject *object, void *unused)
{
    (void)unused;
    Method *method = (Method *)new_object(method_type);
    if (method == NULL)
        return NULL;
    Py_INCREF(object);
    method->api = (Api *)object;
    method->vectorcall = method_vectorcall;
    return (PyObject *)method;
}

static PyGetSetDef API_PROPERTIES[] = {
    {"__torch_function__", api_method, NULL, "Hands a call to where it belongs, as ApiMode.__torch_function__", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

/* A function of torch's that is written in Python asks the mode: ``handle_torch_function``, see asking.py. */
static PyObject *api_asked(PyObject *object, PyObject *const *arguments, Py_ssize_t count)
{
    Api *self = (Api *)object;
    if (count != 5 || !PyTuple_Check(arguments[3]) || PyTuple_Size(arguments[3]) < 2 || !PyDict_Check(arguments[4]) ||
        (PyObject *)Py_TYPE(arguments[2]) != called_type) {
        PyErr_SetString(PyExc_TypeError, "asked(pop, push, original, (function, relevant, *args), kwargs)");
        return NULL;
    }
    PyObject *pop = arguments[0], *push = arguments[1], *given = arguments[3], *kwargs = arguments[4];
    PyObject *top = self->known == NULL ? NULL : PyObject_CallFunctionObjArgs(pop, NULL), *result = NULL;
    if (top != object) { /* another mode is asked first, or there is none any more */
        if (top != NULL) {
            PyObject *done = PyObject_CallFunctionObjArgs(push, top, NULL);
            Py_DECREF(top);
            if (done == NULL)
                return NULL;
            Py_DECREF(done);
        } else {
            PyErr_Clear();
        }
        return PyObject_Call(arguments[2], given, kwargs);
    }
    PyObject *function = PyTuple_GetItem(given, 0), *args = PyTuple_GetSlice(given, 2, PyTuple_Size(given));
    PyObject *trait = args == NULL ? NULL : trait_of(self, function);
    if (trait != NULL)
        result = treat(self, ((Called *)arguments[2])->left + 1, (Trait *)trait, function, args, /* without who asks */
                       PyDict_Size(kwargs) ? kwargs : Py_None);
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *done = PyObject_CallFunctionObjArgs(push, top, NULL);
    if (done == NULL) {
        Py_CLEAR(result);
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(traceback);
    } else {
        PyErr_Restore(type, value, traceback);
        Py_DECREF(done);
    }
    Py_XDECREF(trait);
    Py_XDECREF(args);
    Py_DECREF(top);
    return result;
}

static PyMethodDef API_METHODS[] = {
    {"arm", api_arm, METH_VARARGS, "arm(known, learn, opened, pass_through, recorder): before the mode is pushed"},
    {"asked", (PyCFunction)(void (*)(void))api_asked, METH_FASTCALL,
     "asked(pop, push, original, arguments, kwargs): stands in for torch.overrides.handle_torch_function"},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot API_SLOTS[] = {
    {Py_tp_dealloc, api_dealloc}, {Py_tp_traverse, api_traverse}, {Py_tp_clear, api_clear},
    {Py_tp_methods, API_METHODS}, {Py_tp_getset, API_PROPERTIES}, {0, NULL},
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
    void *call = PyType_GetSlot(Py_TYPE(hook), Py_tp_call);
    if (hooks != Py_None || (call != (void *)hook_call && call != (void *)light_hook_call))
        return PyObject_CallFunctionObjArgs(register_hook, hooks, hook, NULL);
    hooks = PyObject_CallFunctionObjArgs(ordered_dict, NULL); /* others may register a hook later, by torch's function */
    if (hooks == NULL)
        return NULL;
    PyObject_GC_UnTrack(hooks); /* holds nothing that could lead back to it; it is tracked again if others add theirs */
    PyObject *result = NULL, *key = PyLong_FromLong(-1); /* handles have other numbers */
    if (key != NULL && PyObject_SetItem(hooks, key, hook) == 0)
        result = PyTuple_Pack(2, hooks, Py_None);
    Py_XDECREF(key);
    Py_DECREF(hooks);
    return result;
}

static PyObject *prepare(PyObject *module, PyObject *arguments)
{
    PyObject **fields[] = {&tensor_type,   &parameter_type, &size_type,    &dtype_type,   &format_type,  &tensor_key,
                           &flatten_other, &ordered_dict,   &register_hook, &called_type};
    Py_ssize_t count = sizeof fields / sizeof *fields;
    (void)module;
    if (PyTuple_Size(arguments) != count) {
        PyErr_SetString(PyExc_TypeError, "prepare() is given something else than it expects");
        return NULL;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *given = PyTuple_GetItem(arguments, i);
        Py_INCREF(given);
        Py_XDECREF(*fields[i]);
        *fields[i] = given;
    }
    Py_RETURN_NONE;
}

static PyObject *count_frames(PyObject *module, PyObject *arguments)
{
    (void)module;
    if (depth_take_place(arguments) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef METHODS[] = {
    {"prepare", prepare, METH_VARARGS,
     "prepare(tensor_type, parameter_type, size_type, dtype_type, format_type, tensor_key, flatten_other, ordered_dict,"
     " register_hook, called_type)"},
    {"count_frames", count_frames, METH_VARARGS, "count_frames(*where): where frames are counted; see depth.py"},
    {"open_doors", open_doors, METH_VARARGS, "open_doors(*addresses): functions of torch; see calls.py"},
    {"ask_doors", ask_doors, METH_NOARGS, "ask_doors(): what they say; None where they are not open"},
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
    struct {
        PyType_Spec *spec;
        const char *name;
    } types[] = {{&FINDER_SPEC, "Finder"},   {&THREADS_SPEC, "Threads"}, {&TRAIT_SPEC, "Trait"},
                 {&SHEETS_SPEC, "Sheets"},   {&BACKWARD_SPEC, "Backward"}, {&HOOK_SPEC, "Hook"},
                 {&MODULES_SPEC, "Modules"}, {&RECORDER_SPEC, "Recorder"}, {&API_SPEC, "Api"},
                 {&LIGHT_HOOK_SPEC, "LightHook"}, {&REF_SPEC, "LightRef"}, {&LIGHT_SPEC, "LightRecorder"}, {&QUIET_SPEC, "Quiet"},
                 {&METHOD_SPEC, "Method"}};
    if (make_names() < 0)
        return -1;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (add_type(module, types[i].spec, types[i].name) < 0)
            return -1;
    trait_type = (PyTypeObject *)PyObject_GetAttrString(module, "Trait");
    method_type = (PyTypeObject *)PyObject_GetAttrString(module, "Method");
    return trait_type == NULL || method_type == NULL ? -1 : 0;
}

static PyModuleDef_Slot SLOTS[] = {{Py_mod_exec, execute}, {0, NULL}};

static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT, "_calls", "Records calls, fast.", 0, METHODS, SLOTS, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__calls(void)
{
    return PyModuleDef_Init(&MODULE);
}
