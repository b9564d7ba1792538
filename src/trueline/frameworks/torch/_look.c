/* Looks at tensors as ``tensors.TensorDesk`` does, several times faster: who has been seen before, what to read.
 *
 * Looker.look does for plain dense tensors what TensorDesk.look does, to the same effect; every other tensor it hands
 * to that method. Rows holds the tensors of a group with the table that the kernels read. ``fast.py`` prepares this
 * module with what it needs of torch; nothing of torch is included or linked. The interpreter's lock is held all the
 * time. Where this module was not built the Python code does the same, slower.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "_look_api.h"
#include "_look_queue.h"
#include "_look_rows.h"
#include "_look_torch.h"
#include "_table.h"

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
    PyObject *module, *slow, *layout_of, *adder_of, *next_tensor, *not_asked;
    PyObject *groups; /* the Rows that took tensors in this step, which ``queued`` points to */
    Rows *group;      /* the last of them */
    int structure_only, integers;
    char others_queued; /* whether a tensor may wait that is not in ``queued``; stays so */
    Table seen, contents, layouts;
    Table writes;   /* by place: how often we were told that it was written to behind its version counter */
    Table storages; /* by place: a weak reference, so that the place is given to no other storage in this step */
    Table queued;   /* by place: the last Rows that took a tensor of it */
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
    for (int i = 0; i < self->device_count; i++) {
        Py_VISIT(self->devices[i].add);
        Py_VISIT(self->devices[i].queue);
    }
    return 0;
}

static void give_back(PyObject *module, int64_t reserved)
{
    PyObject *reference = PyLong_FromLongLong(reserved);
    PyObject *done = reference == NULL ? NULL : state_of(module)->free_weak_ref(NULL, reference);
    Py_XDECREF(reference);
    Py_XDECREF(done);
    if (PyErr_Occurred())
        PyErr_Clear(); /* a place that is never given out again harms nobody */
}

/* Gives the places of storages back. */
static void free_places(Looker *self)
{
    for (size_t i = 0; i < self->storages.size; i++)
        if (self->storages.slots[i].length)
            give_back(self->module, self->storages.slots[i].value[0]);
    table_clear(&self->storages);
}

static int looker_release(PyObject *object)
{
    Looker *self = (Looker *)object;
    Py_CLEAR(self->slow);
    Py_CLEAR(self->layout_of);
    Py_CLEAR(self->adder_of);
    Py_CLEAR(self->next_tensor);
    Py_CLEAR(self->not_asked);
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
    if (self->module != NULL)
        free_places(self);
    Py_XDECREF(self->groups);
    Py_XDECREF(self->module);
    Table *tables[] = {&self->seen, &self->contents, &self->layouts, &self->writes, &self->storages, &self->queued};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        table_free(tables[i]);
    free_object(object);
}

static PyObject *looker_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    static char *NAMES[] = {"slow",           "layout_of", "adder_of", "next_tensor", "not_asked",
                            "structure_only", "integers",  NULL};
    PyObject *slow, *layout_of, *adder_of, *next_tensor, *not_asked;
    int structure_only, integers;
    allocfunc allocate = PyType_GetSlot(type, Py_tp_alloc);
    PyObject *module = PyType_GetModule(type);
    if (module == NULL || !PyArg_ParseTupleAndKeywords(arguments, keywords, "OOOOOpp:Looker", NAMES, &slow, &layout_of,
                                                       &adder_of, &next_tensor, &not_asked, &structure_only, &integers))
        return NULL;
    if (!state_of(module)->ready) {
        PyErr_SetString(PyExc_RuntimeError, "prepare() comes first");
        return NULL;
    }
    Looker *self = (Looker *)allocate(type, 0);
    if (self == NULL)
        return NULL;
    PyObject **fields[] = {&self->module,   &self->slow,        &self->layout_of,
                           &self->adder_of, &self->next_tensor, &self->not_asked};
    PyObject *values[] = {module, slow, layout_of, adder_of, next_tensor, not_asked};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        Py_INCREF(values[i]);
        *fields[i] = values[i];
    }
    self->structure_only = structure_only;
    self->integers = integers;
    self->groups = PyList_New(0);
    if (self->groups == NULL)
        Py_CLEAR(self);
    return (PyObject *)self;
}

/* An integer that a function of Python's gives; -1 with an error set on errors. */
static int64_t ask_number(PyObject *function, PyObject *argument)
{
    PyObject *answer = PyObject_CallFunctionObjArgs(function, argument, NULL);
    int64_t number = answer == NULL ? -1 : PyLong_AsLongLong(answer);
    Py_XDECREF(answer);
    return number;
}

static int ask_python(Looker *self, PyObject *tensor, Seen *seen)
{
    PyObject *look = PyObject_CallFunctionObjArgs(self->slow, tensor, NULL);
    long long number, layout;
    int fits = look != NULL && PyArg_ParseTuple(look, "LL;a look is a tuple of two numbers", &number, &layout);
    if (fits)
        *seen = (Seen){number, layout, -1};
    Py_XDECREF(look);
    return fits ? 0 : -1;
}

/* What a first look has to go by, collected before any foreign code runs. */
typedef struct {
    PyObject *tensor;  /* borrowed */
    PyObject *storage; /* made when it is first needed */
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

/* Remembers which group a storage waits in. */
static int note_group(Looker *self, uint64_t place, Rows *rows)
{
    int64_t key = (int64_t)place;
    if (self->group != rows) {
        if (PyList_Append(self->groups, (PyObject *)rows) < 0)
            return -1;
        self->group = rows;
    }
    return table_set(&self->queued, &key, 1, (int64_t)(uintptr_t)rows, 0);
}

static int queue_quickly(Looker *self, Queue *queue, Sight *sight, int64_t number)
{
    const Current *current = &sight->current;
    if (is_small(queue, &current->row, sight->dtype->itemsize))
        return read_at_once(queue, number, &current->row);
    PyObject *storage = in_background(queue) ? storage_of(self, sight) : NULL;
    if (PyErr_Occurred() || follow_stream(queue) < 0)
        return -1;
    if (queue->rows == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "begin_group() comes first");
        return -1;
    }
    if (note_group(self, current->marks.place, (Rows *)queue->rows) < 0)
        return -1;
    return queue_add(queue, sight->tensor, storage, number, current, sight->dtype->itemsize);
}

static int queue_in_python(Looker *self, const Device *device, const Sight *sight, PyObject *number)
{
    State *state = state_of(self->module);
    PyObject *add = device->add, *place = PyLong_FromUnsignedLongLong(sight->current.marks.place), *done = NULL;
    self->others_queued = 1;
    if (sight->described)
        state->current = sight->current;
    Py_INCREF(add);
    if (place != NULL)
        done = PyObject_CallFunctionObjArgs(add, sight->tensor, number, place, sight->dtype->known,
                                            sight->contiguous ? Py_True : Py_False, NULL);
    state->current.tensor = NULL;
    Py_DECREF(add);
    Py_XDECREF(place);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

static int queue(Looker *self, Sight *sight, int64_t number)
{
    int exact = sight->dtype->is_exact && !self->integers;
    const Device *device = exact ? NULL : device_for(self, sight);
    if (!exact && device == NULL)
        return -1;
    if (device != NULL && device->queue != NULL && sight->described)
        return queue_quickly(self, (Queue *)device->queue, sight, number);
    PyObject *object = PyLong_FromLongLong(number), *done;
    int failed = object == NULL;
    if (!failed && exact) {
        done = PyObject_CallFunctionObjArgs(self->not_asked, object, NULL);
        failed = done == NULL;
        Py_XDECREF(done);
    } else if (!failed) {
        failed = queue_in_python(self, device, sight, object) < 0;
    }
    Py_XDECREF(object);
    return failed ? -1 : 0;
}

/* The number of the layout; -1 with an error set on errors. */
static int64_t layout_for(Looker *self, const Sight *sight)
{
    int64_t key[LAYOUT_WORDS + 2 * MOST_DIMENSIONS];
    size_t rest = sight->key_length - SEEN_WORDS, length = LAYOUT_WORDS + rest;
    key[0] = sight->key[SEEN_WORDS - 1]; /* dtype, requires_grad, dimensions */
    key[1] = ((int64_t)sight->device_type << 32) | (uint32_t)sight->device_index;
    memcpy(key + LAYOUT_WORDS, sight->key + SEEN_WORDS, rest * sizeof *key);
    const int64_t *known = table_find(&self->layouts, key, length);
    if (known != NULL)
        return known[0];
    int64_t layout = ask_number(self->layout_of, sight->tensor);
    if (layout == -1 && PyErr_Occurred())
        return -1;
    return table_set(&self->layouts, key, length, layout, 0) < 0 ? -1 : layout;
}

/* The number of the content: the one of the same bytes in another shape, or the next; -1 with an error on errors. */
static int64_t number_for(Looker *self, Sight *sight)
{
    const int64_t *key = sight->key;
    int64_t content[] = {key[0], key[1], key[2], key[3], sight->dtype->code, sight->numel};
    size_t length = sizeof content / sizeof *content;
    const int64_t *known = sight->contiguous ? table_find(&self->contents, content, length) : NULL;
    if (known != NULL)
        return known[0];
    int64_t number = ask_number(self->next_tensor, NULL);
    if (number == -1 && PyErr_Occurred())
        return -1;
    if ((!self->structure_only && queue(self, sight, number) < 0) ||
        (sight->contiguous && table_set(&self->contents, content, length, number, 0) < 0))
        return -1;
    return number;
}

/* Sees to it that the place of this storage is given to no other one before the step ends. */
static int reserve_place(Looker *self, Sight *sight)
{
    int64_t key = sight->key[0];
    if (table_find(&self->storages, &key, 1) != NULL)
        return 0;
    PyObject *storage = storage_of(self, sight);
    PyObject *reference = storage == NULL ? NULL : state_of(self->module)->weak_ref(storage, NULL);
    int64_t address = reference == NULL ? -1 : PyLong_AsLongLong(reference);
    Py_XDECREF(reference);
    return (address == -1 && PyErr_Occurred()) || table_set(&self->storages, &key, 1, address, 0) < 0 ? -1 : 0;
}

static int first_look(Looker *self, Sight *sight, Seen *seen)
{
    int64_t layout = layout_for(self, sight), number;
    if (layout == -1 && PyErr_Occurred())
        return -1;
    number = number_for(self, sight);
    if ((number == -1 && PyErr_Occurred()) || reserve_place(self, sight) < 0)
        return -1;
    seen->number = number;
    seen->layout = layout;
    return table_set(&self->seen, sight->key, sight->key_length, number, layout);
}

/* How often we were told that a storage was written to behind the back of its version counter. */
static int64_t writes_to(const Looker *self, uint64_t place)
{
    int64_t key = (int64_t)place;
    const int64_t *count = table_find(&self->writes, &key, 1);
    return count == NULL ? 0 : count[0];
}

/* Fills the key under which a tensor is seen; gives whether gradients are wanted of it, -1 on errors. */
static int fill_key(Looker *self, PyObject *tensor, const Facts *facts, int64_t *key)
{
    int grad = wants_grad(state_of(self->module), tensor, facts->implementation);
    if (grad < 0)
        return -1;
    key[0] = (int64_t)facts->place;
    key[1] = facts->version;
    key[2] = writes_to(self, facts->place);
    key[3] = (int64_t)facts->pointer;
    key[4] = (int64_t)facts->dtype | (int64_t)grad << 16 | facts->ndim << 32;
    memcpy(key + SEEN_WORDS, facts->sizes, (size_t)facts->ndim * sizeof *key);
    memcpy(key + SEEN_WORDS + facts->ndim, facts->strides, (size_t)facts->ndim * sizeof *key);
    return grad;
}

static int look(PyObject *object, PyObject *tensor, Seen *seen)
{
    Looker *self = (Looker *)object;
    const State *state = state_of(self->module);
    int64_t key[SEEN_WORDS + 2 * MOST_DIMENSIONS];
    Facts facts;
    if (!is_plain(state, tensor) || !ask(state, tensor, &facts) || facts.ndim > MOST_DIMENSIONS)
        return ask_python(self, tensor, seen);
    int grad = fill_key(self, tensor, &facts, key);
    if (grad < 0)
        return -1;
    size_t length = SEEN_WORDS + 2 * (size_t)facts.ndim;
    const int64_t *known = table_find(&self->seen, key, length);
    if (known != NULL) {
        *seen = (Seen){known[0], known[1], grad};
        return 0;
    }
    Sight sight = {.tensor = tensor, .key = key, .key_length = length};
    void *handle = &facts.implementation;
    if (!has_memory(state, &facts) || state->device_type(handle, &sight.device_type) ||
        state->device_index(handle, &sight.device_index))
        return ask_python(self, tensor, seen);
    sight.dtype = &state->dtypes[facts.dtype];
    sight.contiguous = facts.contiguous;
    sight.numel = facts.numel;
    sight.current.tensor = tensor;
    sight.current.marks = (Marks){facts.version, facts.place};
    sight.described = describe(&facts, sight.dtype->code, &sight.current.row);
    seen->wants_grad = grad;
    int failed = first_look(self, &sight, seen);
    Py_XDECREF(sight.storage);
    return failed;
}

static PyObject *looker_look(PyObject *self, PyObject *tensor)
{
    Seen seen;
    return look(self, tensor, &seen) < 0 ? NULL : Py_BuildValue("LL", (long long)seen.number, (long long)seen.layout);
}

static int add_visit(PyObject *visits, PyObject *number, Py_ssize_t position, PyObject *role, const Seen *seen)
{
    PyObject *items[] = {number, PyLong_FromSsize_t(position), role, PyLong_FromLongLong(seen->number),
                         PyLong_FromLongLong(seen->layout)};
    int failed = 0;
    for (size_t i = 0; i < sizeof items / sizeof *items && !failed; i++)
        failed = items[i] == NULL || PyList_Append(visits, items[i]) < 0;
    Py_XDECREF(items[1]);
    Py_XDECREF(items[3]);
    Py_XDECREF(items[4]);
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
        Seen seen;
        Py_INCREF(tensor);
        int failed = look(self, tensor, &seen) < 0;
        Py_DECREF(tensor);
        if (failed || add_visit(arguments[4], arguments[1], position, arguments[3], &seen) < 0)
            return NULL;
    }
    Py_RETURN_NONE;
}

/* ---- changing ---- */

/* The place of a tensor's storage, 0 where it has none; -1 with an error set on errors. */
static int place_of(const State *state, PyObject *tensor, uint64_t *place)
{
    void *implementation;
    if (is_plain(state, tensor) && implementation_of(state, tensor, &implementation) == 0) {
        *place = ((const uint64_t *)implementation)[state->storage_word];
        return 0;
    }
    PyErr_Clear();
    PyObject *storage = state->untyped_storage(tensor, NULL);
    PyObject *data = storage == NULL ? NULL : PyObject_GetAttrString(storage, "_cdata");
    *place = data == NULL ? 0 : PyLong_AsUnsignedLongLong(data);
    Py_XDECREF(storage);
    Py_XDECREF(data);
    if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_Exception)) { /* without storage nothing was queued */
        PyErr_Clear();
        *place = 0;
    }
    return PyErr_Occurred() ? -1 : 0;
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
        PyObject *tensor = PyList_GetItem(tensors, i), *place = NULL;
        uint64_t word = 0;
        Py_INCREF(tensor);
        int failed = place_of(state, tensor, &word) < 0;
        Py_DECREF(tensor);
        if (!failed && word)
            failed = (place = PyLong_FromUnsignedLongLong(word)) == NULL || PySet_Add(places, place) < 0;
        Py_XDECREF(place);
        if (failed)
            Py_CLEAR(places);
    }
    return places;
}

static int waits(PyObject *object, PyObject *tensor)
{
    Looker *self = (Looker *)object;
    uint64_t place;
    if (self->others_queued)
        return 1;
    if (place_of(state_of(self->module), tensor, &place) < 0)
        return -1;
    int64_t key = (int64_t)place;
    const int64_t *rows = place ? table_find(&self->queued, &key, 1) : NULL;
    return rows != NULL && rows_hold((const Rows *)(uintptr_t)rows[0], place);
}

static int changed(PyObject *object, PyObject *tensor)
{
    Looker *self = (Looker *)object;
    uint64_t place;
    if (place_of(state_of(self->module), tensor, &place) < 0)
        return -1;
    int64_t key = (int64_t)place;
    return place ? table_set(&self->writes, &key, 1, writes_to(self, place) + 1, 0) : 0;
}

static PyObject *looker_changed(PyObject *self, PyObject *tensors)
{
    if (!PyList_Check(tensors)) {
        PyErr_SetString(PyExc_TypeError, "changed(tensors), with a list");
        return NULL;
    }
    for (Py_ssize_t i = 0; i < PyList_Size(tensors); i++) {
        PyObject *tensor = PyList_GetItem(tensors, i);
        Py_INCREF(tensor);
        int failed = changed(self, tensor) < 0;
        Py_DECREF(tensor);
        if (failed)
            return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *looker_written(PyObject *self, PyObject *place)
{
    unsigned long long word = PyLong_AsUnsignedLongLong(place);
    return PyErr_Occurred() ? NULL : PyLong_FromLongLong(writes_to((Looker *)self, word));
}

/* What the version counter of any tensor says, -1 where it has none. */
static int version(PyObject *object, PyObject *tensor, int64_t *number)
{
    const State *state = state_of(((Looker *)object)->module);
    int failed;
    if (is_plain(state, tensor)) {
        failed = version_of(state, tensor, number) < 0;
    } else {
        failed = integer_property(&state->version, tensor, number) < 0; /* torch's own: a subclass may have another */
    }
    if (failed && PyErr_ExceptionMatches(PyExc_RuntimeError)) { /* inference tensors have none */
        PyErr_Clear();
        *number = -1;
        failed = 0;
    }
    return failed ? -1 : 0;
}

static PyObject *looker_versions(PyObject *self, PyObject *tensors)
{
    if (!PyList_Check(tensors)) {
        PyErr_SetString(PyExc_TypeError, "versions(tensors), with a list");
        return NULL;
    }
    PyObject *versions = PyList_New(0);
    for (Py_ssize_t i = 0; versions != NULL && i < PyList_Size(tensors); i++) {
        PyObject *tensor = PyList_GetItem(tensors, i), *answer = NULL;
        int64_t number;
        Py_INCREF(tensor);
        if (version(self, tensor, &number) == 0)
            answer = PyLong_FromLongLong(number);
        Py_DECREF(tensor);
        if (answer == NULL || PyList_Append(versions, answer) < 0)
            Py_CLEAR(versions);
        Py_XDECREF(answer);
    }
    return versions;
}

/* Forgets the groups of which nothing waits any more; -1 on errors. */
static int forget_groups(Looker *self)
{
    PyObject *groups = PyList_New(0);
    Table queued = {0};
    int failed = groups == NULL;
    for (Py_ssize_t i = 0; !failed && i < PyList_Size(self->groups); i++) {
        PyObject *rows = PyList_GetItem(self->groups, i);
        failed = !((Rows *)rows)->released && PyList_Append(groups, rows) < 0;
    }
    for (size_t i = 0; !failed && PyList_Size(groups) && i < self->queued.size; i++) {
        const Slot *slot = &self->queued.slots[i];
        if (slot->length && !((const Rows *)(uintptr_t)slot->value[0])->released)
            failed = table_set(&queued, self->queued.words + slot->first, slot->length, slot->value[0], 0) < 0;
    }
    if (failed) {
        table_free(&queued);
        Py_XDECREF(groups);
        return -1;
    }
    PyObject *old = self->groups;
    table_free(&self->queued);
    self->queued = queued;
    self->groups = groups;
    self->group = NULL;
    Py_DECREF(old);
    return 0;
}

static PyObject *looker_forget(PyObject *object, PyObject *unused)
{
    Looker *self = (Looker *)object;
    (void)unused;
    table_clear(&self->seen);
    table_clear(&self->contents);
    table_clear(&self->writes);
    free_places(self);
    if (forget_groups(self) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyMemberDef LOOKER_MEMBERS[] = {
    {"others_queued", T_BOOL, offsetof(Looker, others_queued), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyMethodDef LOOKER_METHODS[] = {
    {"look", looker_look, METH_O, "look(tensor): its number and the number of its layout"},
    {"look_all", (PyCFunction)(void (*)(void))looker_look_all, METH_FASTCALL,
     "look_all(tensors, number, first_position, role, visits): appends five integers to visits for each tensor"},
    {"places", looker_places, METH_O, "places(tensors): where the storages of these tensors are, as a set"},
    {"changed", looker_changed, METH_O, "changed(tensors): these were changed, maybe without a trace in their versions"},
    {"written", looker_written, METH_O, "written(place): how often ``changed`` was told of a tensor of this storage"},
    {"versions", looker_versions, METH_O, "versions(tensors): what their version counters say, -1 where there is none"},
    {"forget", looker_forget, METH_NOARGS, "forget(): forgets all tensors, at the end of a step"},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot LOOKER_SLOTS[] = {
    {Py_tp_new, looker_new},       {Py_tp_dealloc, looker_dealloc}, {Py_tp_traverse, looker_traverse},
    {Py_tp_clear, looker_release}, {Py_tp_methods, LOOKER_METHODS}, {Py_tp_members, LOOKER_MEMBERS},
    {0, NULL},
};

static PyType_Spec LOOKER_SPEC = {"trueline.frameworks.torch._look.Looker", sizeof(Looker), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, LOOKER_SLOTS};

static int is_looker(PyObject *object)
{
    return PyType_GetSlot(Py_TYPE(object), Py_tp_new) == (void *)looker_new;
}

static PyObject *stand_in(PyObject *object, PyObject *tensor)
{
    const Looker *self = (const Looker *)object;
    const State *state = state_of(self->module);
    void *implementation;
    int32_t type, index;
    int kept = 0;
    if (is_plain(state, tensor) && implementation_of(state, tensor, &implementation) == 0 &&
        !state->device_type(&implementation, &type) && !state->device_index(&implementation, &index) &&
        wants_grad(state, tensor, implementation) == 0)
        for (int i = 0; i < self->device_count && !kept; i++)
            kept = self->devices[i].type == type && self->devices[i].index == index &&
                   self->devices[i].queue != NULL && !in_background((const Queue *)self->devices[i].queue);
    PyErr_Clear();
    if (kept)
        return state->detach(tensor, NULL);
    Py_INCREF(tensor);
    return tensor;
}

/* Equal for tensors of the same shape, strides, address and dtype. */
static uint64_t layout_mark(const Facts *facts)
{
    int64_t words[] = {(int64_t)facts->pointer, facts->dtype, facts->ndim};
    uint64_t mark = hash_of(words, sizeof words / sizeof *words);
    mark ^= hash_of(facts->sizes, (size_t)facts->ndim) * 3;
    return mark ^ hash_of(facts->strides, (size_t)facts->ndim) * 5;
}

static int describe_plain(PyObject *module, PyObject *tensor, Described *described)
{
    const State *state = state_of(module);
    Facts facts;
    Descriptor row;
    if (!state->ready || !is_plain(state, tensor) || !ask(state, tensor, &facts) || !has_memory(state, &facts))
        return 0;
    const Dtype *dtype = &state->dtypes[facts.dtype];
    void *handle = &facts.implementation;
    if (state->device_type(handle, &described->device_type) || state->device_index(handle, &described->device_index) ||
        !describe(&facts, dtype->code, &row))
        return 0;
    memcpy(described->row, &row, sizeof described->row);
    described->version = facts.version;
    described->numel = facts.numel;
    described->itemsize = dtype->itemsize;
    described->place = facts.place;
    described->identity = (uint64_t)(uintptr_t)facts.implementation;
    described->layout = layout_mark(&facts);
    described->code = dtype->code;
    described->is_exact = dtype->is_exact;
    described->wants_grad = wants_grad(state, tensor, facts.implementation);
    return described->wants_grad < 0 ? -1 : 1;
}

static void marks_of(PyObject *module, PyObject *tensor, int64_t *version, uint64_t *place)
{
    const State *state = state_of(module);
    void *implementation;
    *version = -1;
    *place = 0;
    if (!state->ready || !is_plain(state, tensor) || version_of(state, tensor, version) < 0 ||
        implementation_of(state, tensor, &implementation) < 0)
        PyErr_Clear();
    else
        *place = ((const uint64_t *)implementation)[state->storage_word];
}

static int may_stand_in(PyObject *module, PyObject *tensor, int *wants)
{
    const State *state = state_of(module);
    Facts facts;
    if (!state->ready || state->object_word < 0 || (PyObject *)Py_TYPE(tensor) != state->tensor_type ||
        !ask(state, tensor, &facts))
        return 0;
    *wants = wants_grad(state, tensor, facts.implementation);
    if (*wants < 0)
        PyErr_Clear();
    return *wants >= 0;
}

static int is_alike(PyObject *module, PyObject *tensor, PyObject *other)
{
    const State *state = state_of(module);
    if (!is_plain(state, tensor) || !is_plain(state, other))
        return 0;
    const uint64_t *here = ((void **)tensor)[state->object_word], *there = ((void **)other)[state->object_word];
    Facts one, two;
    if (here[state->version_word] != there[state->version_word] || here[state->storage_word] != there[state->storage_word] ||
        !ask(state, tensor, &one) || !ask(state, other, &two) || one.dtype != two.dtype || one.ndim != two.ndim ||
        one.pointer != two.pointer)
        return 0;
    size_t size = (size_t)one.ndim * sizeof *one.sizes;
    return memcmp(one.sizes, two.sizes, size) == 0 && memcmp(one.strides, two.strides, size) == 0;
}

static PyObject *detached(PyObject *module, PyObject *tensor)
{
    return state_of(module)->detach(tensor, NULL);
}

_Static_assert(sizeof(Descriptor) == DESCRIPTOR_WORDS * sizeof(uint64_t), "a row of DESCRIPTOR");

static int64_t reserve(PyObject *module, PyObject *tensor)
{
    const State *state = state_of(module);
    PyObject *storage = state->untyped_storage(tensor, NULL);
    PyObject *reference = storage == NULL ? NULL : state->weak_ref(storage, NULL);
    int64_t reserved = reference == NULL ? -1 : PyLong_AsLongLong(reference);
    Py_XDECREF(storage);
    Py_XDECREF(reference);
    return reserved;
}

static LookApi API = {look, version, waits, changed, is_looker, stand_in, describe_plain, marks_of, may_stand_in,
                      is_alike, detached, reserve, give_back};

/* ---- the module ---- */

/* The C function behind a method that is called in this way. */
static int find_method(PyObject *object, const char *name, int flags, PyCFunction *function)
{
    PyObject *bound = PyObject_GetAttrString(object, name);
    if (bound == NULL)
        return -1;
    int fits = PyCFunction_Check(bound) && PyCFunction_GetFlags(bound) == flags;
    *function = fits ? PyCFunction_GetFunction(bound) : NULL;
    Py_DECREF(bound);
    if (!fits)
        PyErr_Format(PyExc_TypeError, "%s is not the C method that was expected", name);
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
    int failed = find_method(tensor, "untyped_storage", METH_NOARGS, &state->untyped_storage) < 0 ||
                 find_method(tensor, "detach", METH_NOARGS, &state->detach) < 0 ||
                 find_method(storage, "_weak_ref", METH_NOARGS, &state->weak_ref) < 0 ||
                 find_method(storage, "_free_weak_ref", METH_O | METH_STATIC, &state->free_weak_ref) < 0 ||
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
    unsigned long long at[9], odd_keys, dense_keys;
    Py_ssize_t storage_word, keys_word, object_word, version_word, version_offset, autograd_word;
    PyObject *tensor, *parameter_type, *dtypes, *copy_of;
    if (!PyArg_ParseTuple(arguments, "(KKKKKKKKK)(nnKK)(nnnn)OOO!O:prepare", &at[0], &at[1], &at[2], &at[3], &at[4],
                          &at[5], &at[6], &at[7], &at[8], &storage_word, &keys_word, &odd_keys, &dense_keys, &object_word,
                          &version_word, &version_offset, &autograd_word, &tensor, &parameter_type, &PyList_Type, &dtypes,
                          &copy_of))
        return NULL;
    state->storage_word = storage_word;
    state->keys_word = keys_word;
    state->odd_keys = odd_keys;
    state->dense_keys = dense_keys;
    state->object_word = object_word;
    state->version_word = version_word;
    state->version_offset = version_offset;
    state->autograd_word = autograd_word;
    state->ready = 0;
    state->dim = (AskInteger)(uintptr_t)at[0];
    state->storage_size = (AskInteger)(uintptr_t)at[1];
    state->storage_offset = (AskInteger)(uintptr_t)at[2];
    state->dtype = (AskSmall)(uintptr_t)at[3];
    state->device_type = (AskSmall)(uintptr_t)at[4];
    state->device_index = (AskSmall)(uintptr_t)at[5];
    state->sizes = (AskWords)(uintptr_t)at[6];
    state->strides = (AskWords)(uintptr_t)at[7];
    state->pointer = (AskPointer)(uintptr_t)at[8];
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

static int add_api(PyObject *module)
{
    PyObject *capsule = PyCapsule_New(&API, LOOK_API, NULL);
    if (capsule == NULL || PyModule_AddObject(module, "api", capsule) < 0) {
        Py_XDECREF(capsule);
        return -1;
    }
    return 0;
}

static int execute(PyObject *module)
{
    return add_type(module, &ROWS_SPEC, "Rows") < 0 || add_type(module, &QUEUE_SPEC, "Queue") < 0 ||
                   add_type(module, &LOOKER_SPEC, "Looker") < 0 || add_api(module) < 0
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
