/* Looks at tensors as ``tensors.TensorDesk`` does, several times faster: who has been seen before, what to read.
 *
 * Looker.look does for plain dense tensors what TensorDesk.look does, to the same effect; every other tensor it hands
 * to that method. Rows holds the tensors of a group with the table that the kernels read. ``fast.py`` prepares this
 * module with what it needs of torch; nothing of torch is included or linked. The interpreter's lock is held all the
 * time. Where this module was not built the Python code does the same, slower.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "_look_queue.h"
#include "_look_rows.h"
#include "_look_table.h"
#include "_look_torch.h"

#define DEVICES 32
#define SEEN_WORDS 5 /* of a key before its shape and strides */
#define LAYOUT_WORDS 2

/* ---- looking ---- */

typedef struct {
    int32_t type, index;
    PyObject *add;   /* the method of the reader of this device that takes a tensor */
    PyObject *queue; /* a Queue that takes most of them in its place; NULL where there is none */
} Device;

typedef struct {
    PyObject_HEAD
    PyObject *module, *slow, *layout_of, *adder_of, *next_tensor, *not_asked, *writes, *storages;
    int structure_only, integers;
    Table seen, contents, layouts;
    Device devices[DEVICES];
    int device_count;
} Looker;

static int looker_traverse(PyObject *object, visitproc visit, void *arg)
{
    Looker *self = (Looker *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->module);
    Py_VISIT(self->slow);
    Py_VISIT(self->layout_of);
    Py_VISIT(self->adder_of);
    Py_VISIT(self->next_tensor);
    Py_VISIT(self->not_asked);
    Py_VISIT(self->writes);
    Py_VISIT(self->storages);
    for (int i = 0; i < self->device_count; i++) {
        Py_VISIT(self->devices[i].add);
        Py_VISIT(self->devices[i].queue);
    }
    return 0;
}

static int looker_release(PyObject *object)
{
    Looker *self = (Looker *)object;
    Py_CLEAR(self->slow);
    Py_CLEAR(self->layout_of);
    Py_CLEAR(self->adder_of);
    Py_CLEAR(self->next_tensor);
    Py_CLEAR(self->not_asked);
    Py_CLEAR(self->writes);
    Py_CLEAR(self->storages);
    while (self->device_count) {
        Device *device = &self->devices[--self->device_count];
        Py_CLEAR(device->add);
        Py_CLEAR(device->queue);
    }
    return 0;
}

static void looker_dealloc(PyObject *object)
{
    Looker *self = (Looker *)object;
    PyObject_GC_UnTrack(object);
    looker_release(object);
    Py_XDECREF(self->module);
    table_free(&self->seen);
    table_free(&self->contents);
    table_free(&self->layouts);
    free_object(object);
}

static PyObject *looker_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    static char *NAMES[] = {"slow",   "layout_of", "adder_of",       "next_tensor", "not_asked",
                            "writes", "storages",  "structure_only", "integers",    NULL};
    PyObject *slow, *layout_of, *adder_of, *next_tensor, *not_asked, *writes, *storages;
    int structure_only, integers;
    allocfunc allocate = PyType_GetSlot(type, Py_tp_alloc);
    PyObject *module = PyType_GetModule(type);
    if (module == NULL ||
        !PyArg_ParseTupleAndKeywords(arguments, keywords, "OOOOOO!O!pp:Looker", NAMES, &slow, &layout_of, &adder_of,
                                     &next_tensor, &not_asked, &PyDict_Type, &writes, &PyDict_Type, &storages,
                                     &structure_only, &integers))
        return NULL;
    if (!state_of(module)->ready) {
        PyErr_SetString(PyExc_RuntimeError, "prepare() comes first");
        return NULL;
    }
    Looker *self = (Looker *)allocate(type, 0);
    if (self == NULL)
        return NULL;
    PyObject **fields[] = {&self->module,      &self->slow,      &self->layout_of, &self->adder_of,
                           &self->next_tensor, &self->not_asked, &self->writes,    &self->storages};
    PyObject *values[] = {module, slow, layout_of, adder_of, next_tensor, not_asked, writes, storages};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        Py_INCREF(values[i]);
        *fields[i] = values[i];
    }
    self->structure_only = structure_only;
    self->integers = integers;
    return (PyObject *)self;
}

static PyObject *ask_python(Looker *self, PyObject *tensor)
{
    PyObject *look = PyObject_CallFunctionObjArgs(self->slow, tensor, NULL);
    if (look != NULL && (!PyTuple_Check(look) || PyTuple_Size(look) != 2)) {
        PyErr_SetString(PyExc_TypeError, "a look is a tuple of two numbers");
        Py_CLEAR(look);
    }
    return look;
}

/* What a first look has to go by, collected before any foreign code runs. */
typedef struct {
    PyObject *tensor, *place; /* borrowed */
    PyObject *storage;        /* made when it is first needed */
    const int64_t *key;
    size_t key_length;
    int32_t device_type, device_index;
    const Dtype *dtype;
    int contiguous, described;
    int64_t numel;
    Current current;
} Sight;

/* A borrowed reference to the storage of the tensor. */
static PyObject *storage_of(const Looker *self, Sight *sight)
{
    if (sight->storage == NULL)
        sight->storage = state_of(self->module)->untyped_storage(sight->tensor, NULL);
    return sight->storage;
}

/* What gives a tensor to the reader of its device; NULL on errors. */
static const Device *device_for(Looker *self, const Sight *sight)
{
    for (int i = 0; i < self->device_count; i++)
        if (self->devices[i].type == sight->device_type && self->devices[i].index == sight->device_index)
            return &self->devices[i];
    PyObject *add, *queue, *found = PyObject_CallFunctionObjArgs(self->adder_of, sight->tensor, NULL);
    if (found == NULL)
        return NULL;
    if (self->device_count == DEVICES || !PyArg_ParseTuple(found, "OO:adder_of", &add, &queue)) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_RuntimeError, "too many devices");
        Py_DECREF(found);
        return NULL;
    }
    int is_queue = PyType_GetSlot(Py_TYPE(queue), Py_tp_new) == (void *)queue_new;
    Py_INCREF(add);
    if (is_queue)
        Py_INCREF(queue);
    Py_DECREF(found);
    self->devices[self->device_count] =
        (Device){sight->device_type, sight->device_index, add, is_queue ? queue : NULL};
    return &self->devices[self->device_count++];
}

static int queue(Looker *self, Sight *sight, PyObject *number)
{
    State *state = state_of(self->module);
    PyObject *done;
    if (sight->dtype->is_exact && !self->integers) {
        done = PyObject_CallFunctionObjArgs(self->not_asked, number, NULL);
    } else {
        const Device *device = device_for(self, sight);
        if (device == NULL)
            return -1;
        if (device->queue != NULL && sight->described) {
            PyObject *storage = storage_of(self, sight);
            return storage == NULL ? -1
                                   : queue_add((Queue *)device->queue, sight->tensor, storage, number, sight->place,
                                               &sight->current, sight->dtype->itemsize);
        }
        if (sight->described)
            state->current = sight->current;
        done = PyObject_CallFunctionObjArgs(device->add, sight->tensor, number, sight->place, sight->dtype->known,
                                            sight->contiguous ? Py_True : Py_False, NULL);
        state->current.tensor = NULL;
    }
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* A new reference to the number of the layout. */
static PyObject *layout_for(Looker *self, const Sight *sight)
{
    int64_t key[LAYOUT_WORDS + 2 * MOST_DIMENSIONS];
    size_t rest = sight->key_length - SEEN_WORDS, length = LAYOUT_WORDS + rest;
    key[0] = sight->key[SEEN_WORDS - 1]; /* dtype, requires_grad, dimensions */
    key[1] = ((int64_t)sight->device_type << 32) | (uint32_t)sight->device_index;
    memcpy(key + LAYOUT_WORDS, sight->key + SEEN_WORDS, rest * sizeof *key);
    PyObject *layout = table_find(&self->layouts, key, length);
    if (layout != NULL) {
        Py_INCREF(layout);
        return layout;
    }
    layout = PyObject_CallFunctionObjArgs(self->layout_of, sight->tensor, NULL);
    if (layout != NULL && table_set(&self->layouts, key, length, layout) < 0)
        Py_CLEAR(layout);
    return layout;
}

/* A new reference to the number of the content: the one of the same bytes in another shape, or the next. */
static PyObject *number_for(Looker *self, Sight *sight)
{
    const int64_t *key = sight->key;
    int64_t content[] = {key[0], key[1], key[2], key[3], sight->dtype->code, sight->numel};
    size_t length = sizeof content / sizeof *content;
    PyObject *number = sight->contiguous ? table_find(&self->contents, content, length) : NULL;
    if (number != NULL) {
        Py_INCREF(number);
        return number;
    }
    number = PyObject_CallFunctionObjArgs(self->next_tensor, NULL);
    if (number == NULL)
        return NULL;
    if ((!self->structure_only && queue(self, sight, number) < 0) ||
        (sight->contiguous && table_set(&self->contents, content, length, number) < 0))
        Py_CLEAR(number);
    return number;
}

/* Sees to it that the place of this storage is given to no other one before the step ends. */
static int reserve_place(Looker *self, Sight *sight)
{
    int held = PyDict_Contains(self->storages, sight->place);
    if (held)
        return held < 0 ? -1 : 0;
    PyObject *storage = storage_of(self, sight);
    PyObject *reference = storage == NULL ? NULL : state_of(self->module)->weak_ref(storage, NULL);
    int failed = reference == NULL || PyDict_SetItem(self->storages, sight->place, reference) < 0;
    Py_XDECREF(reference);
    return failed ? -1 : 0;
}

static PyObject *first_look(Looker *self, Sight *sight)
{
    PyObject *look = NULL, *number = NULL, *layout = layout_for(self, sight);
    if (layout != NULL)
        number = number_for(self, sight);
    if (number != NULL && reserve_place(self, sight) == 0)
        look = PyTuple_Pack(2, number, layout);
    if (look != NULL && table_set(&self->seen, sight->key, sight->key_length, look) < 0)
        Py_CLEAR(look);
    Py_XDECREF(number);
    Py_XDECREF(layout);
    return look;
}

/* How often we were told that a storage was written to behind the back of its version counter; -1 on errors. */
static int64_t writes_to(Looker *self, uint64_t place)
{
    if (PyDict_Size(self->writes) == 0)
        return 0;
    PyObject *key = PyLong_FromUnsignedLongLong(place);
    PyObject *written = key == NULL ? NULL : PyDict_GetItemWithError(self->writes, key);
    Py_XDECREF(key);
    if (written != NULL)
        return PyLong_AsLongLong(written);
    return PyErr_Occurred() ? -1 : 0;
}

/* Fills the key under which a tensor is seen; -1 on errors. */
static int fill_key(Looker *self, PyObject *tensor, const Facts *facts, int64_t *key)
{
    int grad = wants_grad(state_of(self->module), tensor, facts->implementation);
    int64_t writes = writes_to(self, facts->place);
    if (grad < 0 || writes < 0)
        return -1;
    key[0] = (int64_t)facts->place;
    key[1] = facts->version;
    key[2] = writes;
    key[3] = (int64_t)facts->pointer;
    key[4] = (int64_t)facts->dtype | (int64_t)grad << 16 | facts->ndim << 32;
    memcpy(key + SEEN_WORDS, facts->sizes, (size_t)facts->ndim * sizeof *key);
    memcpy(key + SEEN_WORDS + facts->ndim, facts->strides, (size_t)facts->ndim * sizeof *key);
    return 0;
}

static PyObject *looker_look(PyObject *object, PyObject *tensor)
{
    Looker *self = (Looker *)object;
    const State *state = state_of(self->module);
    int64_t key[SEEN_WORDS + 2 * MOST_DIMENSIONS];
    Facts facts;
    if (!is_plain(state, tensor) || !ask(state, tensor, &facts) || facts.ndim > MOST_DIMENSIONS)
        return ask_python(self, tensor);
    if (fill_key(self, tensor, &facts, key) < 0)
        return NULL;
    size_t length = SEEN_WORDS + 2 * (size_t)facts.ndim;
    PyObject *look = table_find(&self->seen, key, length);
    if (look != NULL) {
        Py_INCREF(look);
        return look;
    }
    Sight sight = {.tensor = tensor, .key = key, .key_length = length};
    void *handle = &facts.implementation;
    if (!has_memory(state, &facts) || state->device_type(handle, &sight.device_type) ||
        state->device_index(handle, &sight.device_index))
        return ask_python(self, tensor);
    sight.dtype = &state->dtypes[facts.dtype];
    sight.contiguous = facts.contiguous;
    sight.numel = facts.numel;
    sight.current.tensor = tensor;
    sight.current.marks = (Marks){facts.version, facts.place};
    sight.described = describe(&facts, sight.dtype->code, &sight.current.row);
    sight.place = PyLong_FromUnsignedLongLong(facts.place);
    look = sight.place == NULL ? NULL : first_look(self, &sight);
    Py_XDECREF(sight.place);
    Py_XDECREF(sight.storage);
    return look;
}

static int add_visit(PyObject *visits, PyObject *number, Py_ssize_t position, PyObject *role, PyObject *look)
{
    PyObject *place = PyLong_FromSsize_t(position);
    int failed = place == NULL || PyList_Append(visits, number) < 0 || PyList_Append(visits, place) < 0 ||
                 PyList_Append(visits, role) < 0 || PyList_Append(visits, PyTuple_GetItem(look, 0)) < 0 ||
                 PyList_Append(visits, PyTuple_GetItem(look, 1)) < 0;
    Py_XDECREF(place);
    return failed ? -1 : 0;
}

static PyObject *looker_look_all(PyObject *self, PyObject *const *arguments, Py_ssize_t count)
{
    if (count != 5 || !PyList_Check(arguments[0]) || !PyList_Check(arguments[4])) {
        PyErr_SetString(PyExc_TypeError, "look_all(tensors, number, first_position, role, visits), with two lists");
        return NULL;
    }
    Py_ssize_t position = PyLong_AsSsize_t(arguments[2]);
    if (position == -1 && PyErr_Occurred())
        return NULL;
    for (Py_ssize_t i = 0; i < PyList_Size(arguments[0]); i++, position++) {
        PyObject *tensor = PyList_GetItem(arguments[0], i);
        Py_INCREF(tensor);
        PyObject *look = looker_look(self, tensor);
        Py_DECREF(tensor);
        if (look == NULL)
            return NULL;
        int failed = add_visit(arguments[4], arguments[1], position, arguments[3], look);
        Py_DECREF(look);
        if (failed)
            return NULL;
    }
    Py_RETURN_NONE;
}

/* A new reference to the place of a tensor's storage; NULL without an error where it has none. */
static PyObject *place_of(const State *state, PyObject *tensor)
{
    void *implementation;
    PyObject *place = NULL;
    if (is_plain(state, tensor) && implementation_of(state, tensor, &implementation) == 0) {
        uint64_t word = ((const uint64_t *)implementation)[state->storage_word];
        return word ? PyLong_FromUnsignedLongLong(word) : NULL;
    }
    PyErr_Clear();
    PyObject *storage = PyObject_CallMethod(tensor, "untyped_storage", NULL);
    if (storage != NULL)
        place = PyObject_GetAttrString(storage, "_cdata");
    Py_XDECREF(storage);
    if (place == NULL && PyErr_ExceptionMatches(PyExc_Exception))
        PyErr_Clear();
    return place;
}

static PyObject *looker_places(PyObject *object, PyObject *tensors)
{
    const State *state = state_of(((Looker *)object)->module);
    if (!PyList_Check(tensors)) {
        PyErr_SetString(PyExc_TypeError, "places(tensors), with a list");
        return NULL;
    }
    PyObject *places = PySet_New(NULL);
    for (Py_ssize_t i = 0; places != NULL && i < PyList_Size(tensors); i++) {
        PyObject *tensor = PyList_GetItem(tensors, i);
        Py_INCREF(tensor);
        PyObject *place = place_of(state, tensor);
        Py_DECREF(tensor);
        if (PyErr_Occurred() || (place != NULL && PySet_Add(places, place) < 0))
            Py_CLEAR(places);
        Py_XDECREF(place);
    }
    return places;
}

static PyObject *looker_versions(PyObject *object, PyObject *tensors)
{
    const State *state = state_of(((Looker *)object)->module);
    if (!PyList_Check(tensors)) {
        PyErr_SetString(PyExc_TypeError, "versions(tensors), with a list");
        return NULL;
    }
    PyObject *versions = PyList_New(0);
    for (Py_ssize_t i = 0; versions != NULL && i < PyList_Size(tensors); i++) {
        PyObject *tensor = PyList_GetItem(tensors, i), *version;
        Py_INCREF(tensor);
        int64_t number;
        if (is_plain(state, tensor))
            version = version_of(state, tensor, &number) < 0 ? NULL : PyLong_FromLongLong(number);
        else
            version = PyObject_GetAttrString(tensor, "_version");
        Py_DECREF(tensor);
        if (version == NULL && PyErr_ExceptionMatches(PyExc_RuntimeError)) { /* inference tensors have none */
            PyErr_Clear();
            version = PyLong_FromLong(-1);
        }
        if (version == NULL || PyList_Append(versions, version) < 0)
            Py_CLEAR(versions);
        Py_XDECREF(version);
    }
    return versions;
}

static PyObject *looker_forget(PyObject *object, PyObject *unused)
{
    Looker *self = (Looker *)object;
    (void)unused;
    table_clear(&self->seen);
    table_clear(&self->contents);
    Py_RETURN_NONE;
}

static PyMethodDef LOOKER_METHODS[] = {
    {"look", looker_look, METH_O, "look(tensor): its number and the number of its layout"},
    {"look_all", (PyCFunction)(void (*)(void))looker_look_all, METH_FASTCALL,
     "look_all(tensors, number, first_position, role, visits): appends five integers to visits for each tensor"},
    {"places", looker_places, METH_O, "places(tensors): where the storages of these tensors are, as a set"},
    {"versions", looker_versions, METH_O, "versions(tensors): what their version counters say, -1 where there is none"},
    {"forget", looker_forget, METH_NOARGS, "forget(): forgets all tensors, at the end of a step"},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot LOOKER_SLOTS[] = {
    {Py_tp_new, looker_new},           {Py_tp_dealloc, looker_dealloc},   {Py_tp_traverse, looker_traverse},
    {Py_tp_clear, looker_release},     {Py_tp_methods, LOOKER_METHODS},   {0, NULL},
};

static PyType_Spec LOOKER_SPEC = {"trueline.frameworks.torch._look.Looker", sizeof(Looker), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, LOOKER_SLOTS};

/* ---- the module ---- */

/* The C function behind a method without arguments. */
static int find_method(PyObject *object, const char *name, PyCFunction *function)
{
    PyObject *bound = PyObject_GetAttrString(object, name);
    if (bound == NULL)
        return -1;
    int fits = PyCFunction_Check(bound) && PyCFunction_GetFlags(bound) == METH_NOARGS;
    *function = fits ? PyCFunction_GetFunction(bound) : NULL;
    Py_DECREF(bound);
    if (!fits)
        PyErr_Format(PyExc_TypeError, "%s is not a C method without arguments", name);
    return fits ? 0 : -1;
}

static int find_property(PyObject *object, const char *name, Property *property)
{
    PyObject *descriptor = PyObject_GetAttrString((PyObject *)Py_TYPE(object), name);
    if (descriptor == NULL)
        return -1;
    property->get = PyType_GetSlot(Py_TYPE(descriptor), Py_tp_descr_get);
    Py_XDECREF(property->descriptor);
    property->descriptor = descriptor;
    if (property->get == NULL || PyType_GetSlot(Py_TYPE(descriptor), Py_tp_descr_set) == NULL) {
        PyErr_Format(PyExc_TypeError, "%s is not a property", name);
        return -1;
    }
    return 0;
}

static int find_doors(State *state, PyObject *tensor)
{
    PyObject *storage = PyObject_CallMethod(tensor, "untyped_storage", NULL);
    if (storage == NULL)
        return -1;
    int failed = find_method(tensor, "untyped_storage", &state->untyped_storage) < 0 ||
                 find_method(storage, "_weak_ref", &state->weak_ref) < 0 ||
                 find_property(tensor, "_version", &state->version) < 0 ||
                 find_property(tensor, "requires_grad", &state->requires_grad) < 0 ||
                 find_property(tensor, "_cdata", &state->cdata) < 0;
    Py_DECREF(storage);
    return failed ? -1 : 0;
}

static int enter_dtype(State *state, PyObject *item)
{
    PyObject *tensor, *known;
    int is_exact, code, itemsize;
    const char *name;
    int32_t dtype;
    void *implementation;
    if (!PyArg_ParseTuple(item, "OO!p", &tensor, &PyTuple_Type, &known, &is_exact) ||
        !PyArg_ParseTuple(known, "sii", &name, &code, &itemsize) ||
        pointer_property(&state->cdata, tensor, &implementation) < 0)
        return -1;
    if (state->dtype(&implementation, &dtype) || dtype < 0 || dtype >= DTYPES) {
        PyErr_Format(PyExc_RuntimeError, "torch does not tell the number of %s", name);
        return -1;
    }
    Py_INCREF(known);
    Py_XDECREF(state->dtypes[dtype].known);
    state->dtypes[dtype] = (Dtype){known, code, itemsize, is_exact};
    return 0;
}

static PyObject *prepare(PyObject *module, PyObject *arguments)
{
    State *state = state_of(module);
    unsigned long long at[10], odd_keys;
    Py_ssize_t storage_word, keys_word, object_word, version_word, version_offset, autograd_word;
    PyObject *tensor, *parameter_type, *dtypes, *copy_of;
    if (!PyArg_ParseTuple(arguments, "(KKKKKKKKKK)(nnK)(nnnn)OOO!O:prepare", &at[0], &at[1], &at[2], &at[3], &at[4],
                          &at[5], &at[6], &at[7], &at[8], &at[9], &storage_word, &keys_word, &odd_keys, &object_word,
                          &version_word, &version_offset, &autograd_word, &tensor, &parameter_type, &PyList_Type, &dtypes,
                          &copy_of))
        return NULL;
    state->storage_word = storage_word;
    state->keys_word = keys_word;
    state->odd_keys = odd_keys;
    state->object_word = object_word;
    state->version_word = version_word;
    state->version_offset = version_offset;
    state->autograd_word = autograd_word;
    state->ready = 0;
    state->dim = (AskInteger)(uintptr_t)at[0];
    state->storage_size = (AskInteger)(uintptr_t)at[1];
    state->storage_offset = (AskInteger)(uintptr_t)at[2];
    state->dtype = (AskSmall)(uintptr_t)at[3];
    state->layout = (AskSmall)(uintptr_t)at[4];
    state->device_type = (AskSmall)(uintptr_t)at[5];
    state->device_index = (AskSmall)(uintptr_t)at[6];
    state->sizes = (AskWords)(uintptr_t)at[7];
    state->strides = (AskWords)(uintptr_t)at[8];
    state->pointer = (AskPointer)(uintptr_t)at[9];
    if (find_doors(state, tensor) < 0)
        return NULL;
    for (Py_ssize_t i = 0; i < PyList_Size(dtypes); i++)
        if (enter_dtype(state, PyList_GetItem(dtypes, i)) < 0)
            return NULL;
    PyObject *objects[] = {(PyObject *)Py_TYPE(tensor), parameter_type, copy_of};
    PyObject **fields[] = {&state->tensor_type, &state->parameter_type, &state->copy_of};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        Py_INCREF(objects[i]);
        Py_XDECREF(*fields[i]);
        *fields[i] = objects[i];
    }
    state->ready = 1;
    Py_RETURN_NONE;
}

static PyObject *words(const int64_t *values, int64_t count)
{
    PyObject *tuple = PyTuple_New((Py_ssize_t)count);
    for (int64_t i = 0; tuple != NULL && i < count; i++) {
        PyObject *value = PyLong_FromLongLong(values[i]);
        if (value == NULL || PyTuple_SetItem(tuple, (Py_ssize_t)i, value) < 0)
            Py_CLEAR(tuple);
    }
    return tuple;
}

static PyObject *facts_of(PyObject *module, PyObject *tensor)
{
    State *state = state_of(module);
    Facts facts;
    int64_t size, offset;
    if (!state->ready || !is_plain(state, tensor) || !ask(state, tensor, &facts))
        Py_RETURN_NONE;
    void *handle = &facts.implementation;
    if (state->storage_size(handle, &size) || state->storage_offset(handle, &offset))
        Py_RETURN_NONE;
    return Py_BuildValue("KLKLOiLLNN", (unsigned long long)facts.place, (long long)facts.version, (unsigned long long)facts.pointer,
                         (long long)facts.numel, state->dtypes[facts.dtype].known, facts.contiguous, (long long)size,
                         (long long)offset, words(facts.sizes, facts.ndim), words(facts.strides, facts.ndim));
}

static PyMethodDef METHODS[] = {
    {"prepare", prepare, METH_VARARGS,
     "prepare(addresses, words, more_words, tensor, parameter_type, dtypes, copy_of): what is needed of torch; see fast.py"},
    {"facts", facts_of, METH_O,
     "facts(tensor): (place, version, pointer, numel, known dtype, contiguous, bytes and offset in its storage, shape, strides),"
     " None for a tensor that is not looked at here"},
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
    return add_type(module, &ROWS_SPEC, "Rows") < 0 || add_type(module, &QUEUE_SPEC, "Queue") < 0 ||
                   add_type(module, &LOOKER_SPEC, "Looker") < 0
               ? -1
               : 0;
}

static int module_traverse(PyObject *module, visitproc visit, void *arg)
{
    State *state = state_of(module);
    Py_VISIT(state->tensor_type);
    Py_VISIT(state->parameter_type);
    Py_VISIT(state->copy_of);
    return 0;
}

static PyModuleDef_Slot SLOTS[] = {{Py_mod_exec, execute}, {0, NULL}};

/* What the state holds lives as long as the process, as torch does. */
static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT, "_look", "Looks at tensors, fast.", sizeof(State), METHODS, SLOTS, module_traverse, NULL, NULL,
};

PyMODINIT_FUNC PyInit__look(void)
{
    return PyModuleDef_Init(&MODULE);
}
