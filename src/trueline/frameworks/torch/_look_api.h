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

/* All take a Looker first, and give -1 with an error set on errors. */
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
} LookApi;

#endif
