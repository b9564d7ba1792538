/* What ``depth.py`` does, faster, and from no frame of ours.
 *
 * Door stands in for a function: it is what the gate of a splice calls, with the arguments in a tuple and a dictionary.
 * It gives our own work room, and hands on what was there as a Called, which runs as from where the door was met. Asked
 * stands in for a method that is called from C: its handler has room, and is told how many frames were left.
 */
#include "_depth.h"

static PyTypeObject *called_type;

static void *new_object(PyTypeObject *type)
{
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    return alloc(type, 0);
}

static void free_object(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF(type);
}

/* Makes a tuple and a dictionary of what the protocol gives; -1 on errors. */
static int gather(PyObject *const *arguments, Py_ssize_t count, PyObject *names, PyObject **args, PyObject **kwargs)
{
    *kwargs = NULL;
    if ((*args = PyTuple_New(count)) == NULL)
        return -1;
    for (Py_ssize_t i = 0; i < count; i++) {
        Py_INCREF(arguments[i]);
        PyTuple_SetItem(*args, i, arguments[i]);
    }
    Py_ssize_t named = names == NULL ? 0 : PyTuple_Size(names);
    int failed = named && (*kwargs = PyDict_New()) == NULL;
    for (Py_ssize_t i = 0; i < named && !failed; i++)
        failed = PyDict_SetItem(*kwargs, PyTuple_GetItem(names, i), arguments[count + i]) < 0;
    if (failed) {
        Py_CLEAR(*args);
        Py_CLEAR(*kwargs);
    }
    return failed ? -1 : 0;
}

/* ---- Called ---- */

typedef struct {
    Called called; /* what others know of it */
    Vectorcall vectorcall;
} CalledObject;

static PyObject *called_call(PyObject *object, PyObject *args, PyObject *kwargs)
{
    Called *self = (Called *)object;
    return depth_call(self->left, self->function, args, kwargs);
}

static PyObject *called_vectorcall(PyObject *object, PyObject *const *arguments, size_t flags, PyObject *names)
{
    PyObject *args, *kwargs, *result;
    if (gather(arguments, COUNT_OF(flags), names, &args, &kwargs) < 0)
        return NULL;
    result = called_call(object, args, kwargs);
    Py_DECREF(args);
    Py_XDECREF(kwargs);
    return result;
}

static PyObject *make_called(PyTypeObject *type, PyObject *function, long long left)
{
    CalledObject *self = new_object(type);
    if (self == NULL)
        return NULL;
    Py_INCREF(self->called.function = function);
    self->called.left = left;
    self->vectorcall = called_vectorcall;
    return (PyObject *)self;
}

static PyObject *called_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    PyObject *function;
    long long left;
    (void)keywords;
    return PyArg_ParseTuple(arguments, "OL:Called", &function, &left) ? make_called(type, function, left) : NULL;
}

static void called_dealloc(PyObject *object)
{
    Py_XDECREF(((Called *)object)->function);
    free_object(object);
}

static PyObject *called_getattr(PyObject *object, PyObject *name)
{
    return PyObject_GetAttr(((Called *)object)->function, name);
}

static PyMemberDef CALLED_MEMBERS[] = {
    VECTORCALL_OF(CalledObject),
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot CALLED_SLOTS[] = {
    {Py_tp_new, called_new},         {Py_tp_dealloc, called_dealloc},  {Py_tp_call, called_call},
    {Py_tp_getattro, called_getattr}, {Py_tp_members, CALLED_MEMBERS}, {0, NULL},
};

static PyType_Spec CALLED_SPEC = {"trueline.frameworks._depth.Called", sizeof(CalledObject), 0,
                                  Py_TPFLAGS_DEFAULT | HAS_VECTORCALL, CALLED_SLOTS};

/* ---- Door ---- */

typedef struct {
    PyObject_HEAD
    PyObject *handler, *original;
    Vectorcall vectorcall;
} Door;

static int door_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(((Door *)object)->handler);
    Py_VISIT(((Door *)object)->original);
    return 0;
}

static int door_clear(PyObject *object)
{
    Py_CLEAR(((Door *)object)->handler);
    Py_CLEAR(((Door *)object)->original);
    return 0;
}

static void door_dealloc(PyObject *object)
{
    PyObject_GC_UnTrack(object);
    door_clear(object);
    free_object(object);
}

static PyObject *enter_door(PyObject *object, PyObject *args, PyObject *kwargs)
{
    Door *self = (Door *)object;
    if (self->handler == NULL || self->original == NULL) { /* the collector has taken it apart */
        PyErr_SetString(PyExc_RuntimeError, "a door that is gone");
        return NULL;
    }
    PyObject *original = make_called(called_type, self->original, depth_left() + 1); /* without the gate's frame */
    if (original == NULL)
        return NULL;
    PyObject *handler = self->handler;
    Py_INCREF(handler);
    depth_begin_room();
    PyObject *result = PyObject_CallFunctionObjArgs(handler, original, args, kwargs, NULL);
    depth_end_room();
    Py_DECREF(handler);
    Py_DECREF(original);
    return result;
}

static PyObject *door_vectorcall(PyObject *object, PyObject *const *arguments, size_t flags, PyObject *names)
{
    if (COUNT_OF(flags) != 2 || names != NULL) {
        PyErr_SetString(PyExc_TypeError, "a door is given a tuple and a dictionary");
        return NULL;
    }
    return enter_door(object, arguments[0], arguments[1]);
}

static PyObject *door_call(PyObject *object, PyObject *arguments, PyObject *keywords)
{
    PyObject *args, *kwargs;
    (void)keywords;
    return PyArg_ParseTuple(arguments, "OO:door", &args, &kwargs) ? enter_door(object, args, kwargs) : NULL;
}

static PyObject *door_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    PyObject *handler, *original;
    (void)keywords;
    if (!PyArg_ParseTuple(arguments, "OO:Door", &handler, &original))
        return NULL;
    Door *self = new_object(type);
    if (self == NULL)
        return NULL;
    Py_INCREF(self->handler = handler);
    Py_INCREF(self->original = original);
    self->vectorcall = door_vectorcall;
    return (PyObject *)self;
}

static PyMemberDef DOOR_MEMBERS[] = {
    VECTORCALL_OF(Door),
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot DOOR_SLOTS[] = {
    {Py_tp_new, door_new},     {Py_tp_dealloc, door_dealloc}, {Py_tp_traverse, door_traverse},
    {Py_tp_clear, door_clear}, {Py_tp_call, door_call},       {Py_tp_members, DOOR_MEMBERS},
    {0, NULL},
};

static PyType_Spec DOOR_SPEC = {"trueline.frameworks._depth.Door", sizeof(Door), 0,
                                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | HAS_VECTORCALL, DOOR_SLOTS};

/* ---- Asked ---- */

typedef struct {
    PyObject_HEAD
    PyObject *handler;
    Vectorcall vectorcall;
} Asked;

static int asked_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(((Asked *)object)->handler);
    return 0;
}

static int asked_clear(PyObject *object)
{
    Py_CLEAR(((Asked *)object)->handler);
    return 0;
}

static void asked_dealloc(PyObject *object)
{
    PyObject_GC_UnTrack(object);
    asked_clear(object);
    free_object(object);
}

static PyObject *asked_with(PyObject *object, PyObject *args, PyObject *kwargs)
{
    PyObject *handler = ((Asked *)object)->handler;
    if (handler == NULL) { /* the collector has taken it apart */
        PyErr_SetString(PyExc_RuntimeError, "one that is gone is asked");
        return NULL;
    }
    PyObject *left = PyLong_FromLongLong(depth_left()), *result = NULL;
    if (left == NULL)
        return NULL;
    Py_INCREF(handler);
    depth_begin_room();
    PyObject *first = PyTuple_Pack(1, left);
    PyObject *all = first == NULL ? NULL : PySequence_Concat(first, args);
    if (all != NULL)
        result = PyObject_Call(handler, all, kwargs);
    depth_end_room();
    Py_DECREF(handler);
    Py_DECREF(left);
    Py_XDECREF(first);
    Py_XDECREF(all);
    return result;
}

static PyObject *asked_vectorcall(PyObject *object, PyObject *const *arguments, size_t flags, PyObject *names)
{
    PyObject *args, *kwargs, *result;
    if (gather(arguments, COUNT_OF(flags), names, &args, &kwargs) < 0)
        return NULL;
    result = asked_with(object, args, kwargs);
    Py_DECREF(args);
    Py_XDECREF(kwargs);
    return result;
}

static PyObject *asked_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    PyObject *handler;
    (void)keywords;
    if (!PyArg_ParseTuple(arguments, "O:Asked", &handler))
        return NULL;
    Asked *self = new_object(type);
    if (self == NULL)
        return NULL;
    Py_INCREF(self->handler = handler);
    self->vectorcall = asked_vectorcall;
    return (PyObject *)self;
}

/* Whose method it is, which torch makes sure of. */
static PyObject *asked_self(PyObject *object, void *unused)
{
    (void)unused;
    return PyObject_GetAttrString(((Asked *)object)->handler, "__self__");
}

static PyGetSetDef ASKED_PROPERTIES[] = {
    {"__self__", asked_self, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef ASKED_MEMBERS[] = {
    VECTORCALL_OF(Asked),
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot ASKED_SLOTS[] = {
    {Py_tp_new, asked_new},     {Py_tp_dealloc, asked_dealloc}, {Py_tp_traverse, asked_traverse},
    {Py_tp_clear, asked_clear}, {Py_tp_call, asked_with},       {Py_tp_members, ASKED_MEMBERS},
    {Py_tp_getset, ASKED_PROPERTIES}, {0, NULL},
};

static PyType_Spec ASKED_SPEC = {"trueline.frameworks._depth.Asked", sizeof(Asked), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | HAS_VECTORCALL, ASKED_SLOTS};

/* ---- the module ---- */

static PyObject *prepare(PyObject *module, PyObject *arguments)
{
    (void)module;
    if (depth_take_place(arguments) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *left(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyLong_FromLongLong(depth_left() + depth_c_call()); /* as the caller has it */
}

static PyMethodDef METHODS[] = {
    {"prepare", prepare, METH_VARARGS, "prepare(offset, sign, c_call, c_offset, into_python, function_type): where frames are counted"},
    {"left", left, METH_NOARGS, "left(): as depth.left"},
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
    if (add_type(module, &CALLED_SPEC, "Called") < 0 || add_type(module, &DOOR_SPEC, "Door") < 0 ||
        add_type(module, &ASKED_SPEC, "Asked") < 0)
        return -1;
    called_type = (PyTypeObject *)PyObject_GetAttrString(module, "Called");
    return called_type == NULL ? -1 : 0;
}

static PyModuleDef_Slot SLOTS[] = {{Py_mod_exec, execute}, {0, NULL}};

static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT, "_depth", "Has frames of ours not count.", 0, METHODS, SLOTS, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__depth(void)
{
    return PyModuleDef_Init(&MODULE);
}
