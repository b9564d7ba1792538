/* What ``stacks.Stacks.here`` does. */
#ifndef TRUELINE_CALLS_STACKS_H
#define TRUELINE_CALLS_STACKS_H

#include "_calls_common.h"
#include "_table.h"

#define DEPTH 64 /* stacks.DEPTH */

typedef struct {
    PyObject *descriptor;
    descrgetfunc get;
} Property;

typedef struct {
    PyObject_HEAD
    PyObject *learn, *enter, *call_impl;
    Property back, last; /* of a frame */
    Table numbers;       /* of stacks, by their places */
    Table foreign;       /* code objects, which ``learn`` holds: whether they are the user's */
} Finder;

static int finder_traverse(PyObject *object, visitproc visit, void *arg)
{
    Finder *self = (Finder *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->learn);
    Py_VISIT(self->enter);
    Py_VISIT(self->call_impl);
    return 0;
}

static int finder_clear(PyObject *object)
{
    Finder *self = (Finder *)object;
    Py_CLEAR(self->learn);
    Py_CLEAR(self->enter);
    Py_CLEAR(self->call_impl);
    return 0;
}

static void finder_dealloc(PyObject *object)
{
    Finder *self = (Finder *)object;
    PyObject_GC_UnTrack(object);
    finder_clear(object);
    Py_CLEAR(self->back.descriptor);
    Py_CLEAR(self->last.descriptor);
    table_free(&self->numbers);
    table_free(&self->foreign);
    free_object(object);
}

static int find_getter(PyObject *type, const char *name, Property *property)
{
    property->descriptor = PyObject_GetAttrString(type, name);
    property->get = property->descriptor == NULL ? NULL : PyType_GetSlot(Py_TYPE(property->descriptor), Py_tp_descr_get);
    if (property->get == NULL && !PyErr_Occurred())
        PyErr_Format(PyExc_TypeError, "%s is not a property", name);
    return property->get == NULL ? -1 : 0;
}

static PyObject *finder_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    static char *FIELDS[] = {"learn", "enter", "call_impl", "frame_type", NULL};
    PyObject *learn, *enter, *call_impl, *frame_type;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "OOOO:Finder", FIELDS, &learn, &enter, &call_impl, &frame_type))
        return NULL;
    Finder *self = (Finder *)new_object(type);
    if (self == NULL)
        return NULL;
    Py_INCREF(self->learn = learn);
    Py_INCREF(self->enter = enter);
    Py_INCREF(self->call_impl = call_impl);
    if (find_getter(frame_type, "f_back", &self->back) < 0 || find_getter(frame_type, "f_lasti", &self->last) < 0)
        Py_CLEAR(self);
    return (PyObject *)self;
}

static PyObject *property_of(const Property *property, PyObject *object)
{
    return property->get(property->descriptor, object, (PyObject *)Py_TYPE(object));
}

/* The frame that called this one; takes the reference to this one. NULL without an error at the top. */
static PyObject *frame_above(const Finder *self, PyObject *frame)
{
    PyObject *above = property_of(&self->back, frame);
    Py_DECREF(frame);
    if (above == Py_None)
        Py_CLEAR(above);
    return above;
}

/* Whether a frame is the user's; -1 on errors. */
static int is_foreign(Finder *self, PyObject *code)
{
    int64_t key = (int64_t)(uintptr_t)code;
    const int64_t *known = table_find(&self->foreign, &key, 1);
    if (known != NULL)
        return (int)known[0];
    PyObject *answer = PyObject_CallFunctionObjArgs(self->learn, code, NULL);
    int foreign = answer == NULL ? -1 : PyObject_IsTrue(answer);
    Py_XDECREF(answer);
    return foreign < 0 || table_set(&self->foreign, &key, 1, foreign, 0) < 0 ? -1 : foreign;
}

/* Appends a frame to the place if it is the user's. */
static int add_frame(Finder *self, PyObject *frame, PyObject *code, Words *place)
{
    int foreign = is_foreign(self, code);
    if (foreign <= 0)
        return foreign;
    PyObject *last = property_of(&self->last, frame);
    long long position = last == NULL ? -1 : PyLong_AsLongLong(last);
    Py_XDECREF(last);
    if (position == -1 && PyErr_Occurred())
        return -1;
    return add_word(place, (int64_t)(uintptr_t)code) < 0 || add_word(place, position) < 0 ? -1 : 0;
}

static int fill_place(Finder *self, PyObject *frame, int inside, Words *place)
{
    int failed = 0;
    while (frame != NULL && place->count < 2 * DEPTH && !failed) {
        PyObject *code = (PyObject *)PyFrame_GetCode((PyFrameObject *)frame);
        int stop = code == self->call_impl && inside;
        failed = !stop && add_frame(self, frame, code, place) < 0;
        Py_DECREF(code);
        if (stop)
            break;
        if (!failed)
            frame = frame_above(self, frame);
    }
    Py_XDECREF(frame);
    return failed || PyErr_Occurred() ? -1 : 0;
}

/* A stack that was not seen before: Python gives it a number. */
static int64_t enter_stack(Finder *self, const Words *place, Py_ssize_t up)
{
    PyObject *key = PyTuple_New((Py_ssize_t)place->count);
    for (size_t i = 0; key != NULL && i < place->count; i++) {
        PyObject *word = PyLong_FromLongLong(place->at[i]);
        if (word == NULL || PyTuple_SetItem(key, (Py_ssize_t)i, word) < 0)
            Py_CLEAR(key);
    }
    PyObject *answer = key == NULL ? NULL : PyObject_CallFunction(self->enter, "OnL", key, up, (long long)place->at[0]);
    int64_t number = answer == NULL ? -1 : PyLong_AsLongLong(answer);
    Py_XDECREF(key);
    Py_XDECREF(answer);
    if (PyErr_Occurred() || table_set(&self->numbers, place->at, place->count, number, 0) < 0)
        return -1;
    return number;
}

/* The number of the stack ``up`` frames above the running one; -1 with an error set on errors. */
static int64_t find_stack(Finder *self, Py_ssize_t up, int64_t above)
{
    PyObject *frame = (PyObject *)PyEval_GetFrame();
    int64_t number = -1;
    Words place;
    begin_words(&place);
    Py_XINCREF(frame);
    for (Py_ssize_t i = 0; frame != NULL && i < up; i++)
        frame = frame_above(self, frame);
    if (PyErr_Occurred() || add_word(&place, above) < 0) {
        Py_XDECREF(frame);
    } else if (fill_place(self, frame, above != -1, &place) == 0) {
        const int64_t *known = table_find(&self->numbers, place.at, place.count);
        number = known != NULL ? known[0] : enter_stack(self, &place, up);
    }
    end_words(&place);
    return number;
}

static PyObject *finder_here(PyObject *self, PyObject *const *arguments, Py_ssize_t count)
{
    Py_ssize_t skip = count == 2 ? PyLong_AsSsize_t(arguments[0]) : 0;
    long long above = count == 2 ? PyLong_AsLongLong(arguments[1]) : 0;
    if (skip < 1 || PyErr_Occurred()) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "here(skip, above), where skip is 1 for the caller");
        return NULL;
    }
    int64_t number = find_stack((Finder *)self, skip - 1, above);
    return number == -1 && PyErr_Occurred() ? NULL : PyLong_FromLongLong(number);
}

static PyMethodDef FINDER_METHODS[] = {
    {"here", (PyCFunction)(void (*)(void))finder_here, METH_FASTCALL, "here(skip, above): as Stacks.here"},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot FINDER_SLOTS[] = {
    {Py_tp_new, finder_new},     {Py_tp_dealloc, finder_dealloc},   {Py_tp_traverse, finder_traverse},
    {Py_tp_clear, finder_clear}, {Py_tp_methods, FINDER_METHODS},   {0, NULL},
};

static PyType_Spec FINDER_SPEC = {"trueline.frameworks.torch._calls.Finder", sizeof(Finder), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, FINDER_SLOTS};

#endif
