/* What ``_calls.c`` asks of ``_look.c`` without Python between them; handed over in a capsule, ``_look.api``. */
#ifndef TRUELINE_LOOK_API_H
#define TRUELINE_LOOK_API_H

#include <Python.h>
#include <stdint.h>

#define LOOK_API "trueline.frameworks.torch._look.api"

/* What was seen of a tensor. */
typedef struct {
    int64_t number, layout;
    int wants_grad; /* -1 where that has to be asked */
} Seen;

#define DESCRIPTOR_WORDS 15 /* of a row of numerics.layout.DESCRIPTOR */

/* What a kernel and a light watch need to know of a plain dense tensor. */
typedef struct {
    uint64_t row[DESCRIPTOR_WORDS];
    int64_t version, numel, itemsize;
    uint64_t place; /* of its storage */
    uint64_t identity, layout; /* the address of the tensor itself; equal for the same part of memory in the same shape */
    int32_t code, device_type, device_index; /* the code of its dtype */
    int is_exact, wants_grad;
} Described;

/* All but the last five, which take the module, take a Looker first, and give -1 with an error set on errors. */
typedef struct {
    /* Looks at a tensor, see TensorDesk.look. */
    int (*look)(PyObject *looker, PyObject *tensor, Seen *seen);
    /* What its version counter says; -1 in ``version`` where there is none. */
    int (*version)(PyObject *looker, PyObject *tensor, int64_t *version);
    /* Whether anything of its storage may still wait to be read. */
    int (*waits)(PyObject *looker, PyObject *tensor);
    /* Notes that a tensor may have been changed without a trace in its version counter. */
    int (*changed)(PyObject *looker, PyObject *tensor);
    int (*is_looker)(PyObject *object);
    /* Where a tensor would be kept until a device reads it: another one for the same memory and version counter, so
     * that nobody takes the tensor for one that has other users. Else the tensor itself. A new reference; NULL on
     * errors. */
    PyObject *(*stand_in)(PyObject *looker, PyObject *tensor);
    /* Describes a tensor. 1: all is known; 0: not a plain dense tensor; -1 on errors. */
    int (*describe)(PyObject *module, PyObject *tensor, Described *described);
    /* The version of a tensor and the place of its storage; -1 and 0 where there are none. Never fails. */
    void (*marks)(PyObject *module, PyObject *tensor, int64_t *version, uint64_t *place);
    /* Whether another plain tensor could stand for a plain one, and whether gradients are wanted of that; 0 also where
     * either cannot be found out. Never fails. */
    int (*may_stand_in)(PyObject *module, PyObject *tensor, int *wants_grad);
    /* Whether the first of two tensors lies where the second does, looks as it does and counts its versions. */
    int (*is_alike)(PyObject *module, PyObject *tensor, PyObject *other);
    /* Another tensor for the same memory and version counter, of which autograd knows nothing. A new reference. */
    PyObject *(*detached)(PyObject *module, PyObject *tensor);
    /* Keeps the place of a tensor's storage from being given to another one until it is given back; the number to give
     * back, -1 with an error set on errors. */
    int64_t (*reserve)(PyObject *module, PyObject *tensor);
    void (*give_back)(PyObject *module, int64_t reserved);
} LookApi;

#endif
