/* The tape of a light watch: calls by which a step can be computed again, which holds next to nothing.
 *
 * In the place of a tensor that a call of this step has made stands a LightRef, which says which call that was. A tensor
 * is known by its own address and the place of its storage, which is given to no other one until the step ends
 * (a weak reference to the storage keeps it). One that lies in such a storage and was made by code that nobody sees, or
 * was changed in shape since, is described by its layout. See light_tape.py.
 */
#ifndef TRUELINE_CALLS_LIGHT_TAPE_H
#define TRUELINE_CALLS_LIGHT_TAPE_H

#include "_calls_common.h"
#include "_look_api.h"
#include "_table.h"

typedef struct {
    PyObject_HEAD
    long long number; /* of the call */
    int leaf;         /* of its result */
    char wants;       /* whether gradients were wanted of it */
    PyObject *layout; /* what ``layout_of`` said; None where it is the tensor itself */
} LightRef;

typedef struct {
    int64_t number;
    int leaf;
    uint64_t place, layout;
} Made;

typedef struct {
    PyObject *look, *layout_of; /* borrowed of the recorder */
    const LookApi *api;
    PyTypeObject *ref_type;
    Table tensors; /* by identity: the position in ``made`` */
    Table places;  /* of storages that calls of this step have made: the same, and what is to be given back */
    Made *made;
    Py_ssize_t count, room;
} Tape;

static void ref_dealloc(PyObject *object)
{
    Py_XDECREF(((LightRef *)object)->layout);
    free_object(object);
}

static PyMemberDef REF_MEMBERS[] = {
    {"number", T_LONGLONG, offsetof(LightRef, number), READONLY, NULL},
    {"leaf", T_INT, offsetof(LightRef, leaf), READONLY, NULL},
    {"wants", T_BOOL, offsetof(LightRef, wants), READONLY, NULL},
    {"layout", T_OBJECT, offsetof(LightRef, layout), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot REF_SLOTS[] = {
    {Py_tp_dealloc, ref_dealloc}, {Py_tp_members, REF_MEMBERS}, {0, NULL},
};

static PyType_Spec REF_SPEC = {"trueline.frameworks.torch._calls.LightRef", sizeof(LightRef), 0, Py_TPFLAGS_DEFAULT,
                               REF_SLOTS};

/* Forgets what the calls of a step have made. */
static void forget_made(Tape *self)
{
    for (size_t i = 0; i < self->places.size; i++)
        if (self->places.slots[i].length)
            self->api->give_back(self->look, self->places.slots[i].value[1]);
    table_clear(&self->places);
    table_clear(&self->tensors);
    self->count = 0;
}

static void end_tape(Tape *self)
{
    if (self->api != NULL && self->look != NULL)
        forget_made(self);
    table_free(&self->places);
    table_free(&self->tensors);
    free(self->made);
    self->made = NULL;
    self->count = self->room = 0;
    Py_CLEAR(self->ref_type);
}

static PyObject *new_ref(const Tape *self, int64_t number, int leaf, int wants, PyObject *layout)
{
    LightRef *ref = layout == NULL ? NULL : (LightRef *)new_object(self->ref_type);
    if (ref == NULL) {
        Py_XDECREF(layout);
        return NULL;
    }
    ref->number = number;
    ref->leaf = leaf;
    ref->wants = (char)(wants != 0);
    ref->layout = layout; /* taken */
    return (PyObject *)ref;
}

/* What stands for a tensor that a call of this step has made; NULL without an error where none has. */
static PyObject *ref_to(const Tape *self, PyObject *tensor, const Described *described)
{
    int64_t identity = (int64_t)described->identity, place = (int64_t)described->place;
    const int64_t *known = table_find(&self->tensors, &identity, 1);
    if (known != NULL) {
        const Made *made = &self->made[known[0]];
        if (made->place == described->place && made->layout == described->layout)
            return new_ref(self, made->number, made->leaf, described->wants_grad, Py_NewRef(Py_None));
    }
    known = table_find(&self->places, &place, 1);
    if (known == NULL)
        return NULL;
    const Made *made = &self->made[known[0]];
    return new_ref(self, made->number, made->leaf, described->wants_grad,
                   PyObject_CallFunctionObjArgs(self->layout_of, tensor, NULL));
}

/* Notes that a call has made a tensor; ``fresh`` is whether none of its arguments lies in the same storage. What is a
 * view of memory that no call has made is known by its own address alone. -1 on errors. */
static int enter_made(Tape *self, PyObject *tensor, const Described *described, int64_t number, int leaf, int fresh)
{
    int64_t identity = (int64_t)described->identity, place = (int64_t)described->place;
    if (self->count == self->room) {
        Py_ssize_t room = self->room ? 2 * self->room : 1024;
        Made *made = realloc(self->made, (size_t)room * sizeof *made);
        if (made == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        self->made = made;
        self->room = room;
    }
    const int64_t *known = table_find(&self->places, &place, 1);
    int64_t reserved = known != NULL ? known[1] : fresh ? self->api->reserve(self->look, tensor) : 0;
    if (known == NULL && fresh && reserved == -1)
        return -1;
    Py_ssize_t at = self->count++;
    self->made[at] = (Made){number, leaf, described->place, described->layout};
    if ((known != NULL || fresh) && table_set(&self->places, &place, 1, at, reserved) < 0)
        return -1;
    return table_set(&self->tensors, &identity, 1, at, 0);
}

#endif
