/* Finds the nodes on the border of the piece of the graph that a call added, and waits at them. See ``graph.py``. */
#ifndef TRUELINE_CALLS_BORDER_H
#define TRUELINE_CALLS_BORDER_H

#include "_calls_backward.h"

#define MOST_EDGES 64
#define DEPARTURE_WORDS 3
#define MOST_VISITED 64 /* calls with larger pieces of the graph are left to Python */

typedef struct {
    PyObject *source; /* a node, or a tensor that has none; held */
    Py_ssize_t number, leaf;
} Edge;

/* Where the inputs of a call hang in the graph. */
typedef struct {
    Edge at[MOST_EDGES];
    Py_ssize_t count;
    int known, too_many; /* whether they were asked for; whether there are more than fit */
} Edges;

typedef struct {
    Py_ssize_t entry; /* the node at which it arrives, by its place among the visited */
    Crossing crossing;
} Arrival;

typedef struct {
    Recorder *recorder;
    const Edges *edges;
    long long first_sequence;
    Arrival *arrivals;
    Py_ssize_t arrival_count;
    PyObject *visited[MOST_VISITED];
    Py_ssize_t visited_count, entry_count;
    PyObject *waiting[MOST_VISITED]; /* borrowed from those visited */
    Py_ssize_t waiting_count;
    PyObject *nodes[MOST_VISITED]; /* on the border; borrowed too */
    Hook *hooks[MOST_VISITED];
    Py_ssize_t node_count;
} Walk;

static void drop_edges(Edges *edges)
{
    while (edges->count)
        Py_DECREF(edges->at[--edges->count].source);
}

static void end_walk(Walk *walk)
{
    for (Py_ssize_t i = 0; i < walk->visited_count; i++)
        Py_DECREF(walk->visited[i]);
    for (Py_ssize_t i = 0; i < walk->node_count; i++)
        Py_DECREF(walk->hooks[i]);
    free(walk->arrivals);
}

/* Asks where the inputs hang, of those of which gradients are wanted; -1 on errors. */
static int find_edges(const Leaves *leaves, const signed char *wants_grad, Edges *edges)
{
    edges->known = 1;
    for (Py_ssize_t leaf = 0; leaf < leaves->count; leaf++) {
        if (!wants_grad[leaf])
            continue;
        if (edges->count == MOST_EDGES) {
            edges->too_many = 1;
            return 0;
        }
        PyObject *tensor = leaves->at[leaf], *source = told(tensor, N_grad_fn);
        Py_ssize_t number = 0;
        if (source == NULL)
            return -1;
        if (source == Py_None) {
            Py_DECREF(source);
            Py_INCREF(source = tensor);
        } else {
            number = (Py_ssize_t)told_integer(tensor, N_output_nr);
        }
        edges->at[edges->count++] = (Edge){source, number, leaf};
        if (number == -1 && PyErr_Occurred())
            return -1;
    }
    return 0;
}

/* All functions below give 1 where all is well, 0 where the piece is too large for us, -1 on errors. */

/* Whether a node is older than the call; -1 on errors. */
static int is_older(const Walk *walk, PyObject *node)
{
    PyObject *answer = PyObject_CallMethodObjArgs(node, N__sequence_nr, NULL);
    if (answer == NULL)
        return -1;
    unsigned long long sequence = PyLong_AsUnsignedLongLong(answer); /* that of AccumulateGrad is the largest */
    Py_DECREF(answer);
    if (sequence == (unsigned long long)-1 && PyErr_Occurred())
        return -1;
    return sequence < (unsigned long long)walk->first_sequence;
}

static Py_ssize_t place_among(PyObject *const *nodes, Py_ssize_t count, const PyObject *node)
{
    while (count-- > 0 && nodes[count] != node)
        ;
    return count;
}

/* Takes the reference to a node that is not among those visited. */
static int visit_node(Walk *walk, PyObject *node)
{
    if (walk->visited_count == MOST_VISITED) {
        Py_DECREF(node);
        return 0;
    }
    walk->visited[walk->visited_count++] = node;
    walk->waiting[walk->waiting_count++] = node;
    return 1;
}

static int add_entry(Walk *walk, PyObject *tensor, Py_ssize_t leaf)
{
    PyObject *node = told(tensor, N_grad_fn);
    int older = node == NULL ? -1 : node == Py_None ? 1 : is_older(walk, node);
    if (older) {
        Py_XDECREF(node);
        return older < 0 ? -1 : 1;
    }
    Py_ssize_t number = (Py_ssize_t)told_integer(tensor, N_output_nr);
    Py_ssize_t entry = place_among(walk->visited, walk->visited_count, node);
    if (number == -1 && PyErr_Occurred()) {
        Py_DECREF(node);
        return -1;
    }
    if (entry >= 0) {
        Py_DECREF(node);
    } else {
        entry = walk->visited_count;
        int done = visit_node(walk, node);
        if (done <= 0)
            return done;
    }
    walk->arrivals[walk->arrival_count++] = (Arrival){entry, {number, leaf, 0}};
    return 1;
}

static int add_entries(Walk *walk, const Leaves *outputs, Py_ssize_t count, const signed char *wants_grad,
                       Py_ssize_t first)
{
    walk->arrivals = malloc((size_t)(count ? count : 1) * sizeof *walk->arrivals);
    if (walk->arrivals == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        int done = wants_grad[i] ? add_entry(walk, outputs->at[i], first + i) : 1;
        if (done <= 0)
            return done;
    }
    walk->entry_count = walk->visited_count;
    return 1;
}

/* The forward input at an edge, -1 where there is none; of several the last. */
static Py_ssize_t leaf_behind(const Walk *walk, const PyObject *source, Py_ssize_t number)
{
    const Edge *edges = walk->edges->at;
    for (Py_ssize_t i = walk->edges->count - 1; i >= 0; i--)
        if (edges[i].source == source && edges[i].number == number)
            return edges[i].leaf;
    return -1;
}

/* The forward input that an edge leads to, -1 where there is none, -2 on errors. */
static Py_ssize_t leaf_at(const Walk *walk, PyObject *following, Py_ssize_t number)
{
    Py_ssize_t leaf = leaf_behind(walk, following, number);
    if (leaf >= 0 || (PyObject *)Py_TYPE(following) != walk->recorder->accumulate)
        return leaf;
    PyObject *variable = PyObject_GetAttr(following, N_variable);
    if (variable == NULL)
        return -2;
    leaf = leaf_behind(walk, variable, 0);
    Py_DECREF(variable);
    return leaf;
}

/* Follows one edge out of a node: notes that it leads to an input, or that the node it leads to is to be visited. */
static int follow(Walk *walk, PyObject *edge, Py_ssize_t position, Words *departures)
{
    PyObject *following = PyTuple_GetItem(edge, 0), *number = PyTuple_GetItem(edge, 1);
    if (following == NULL || number == NULL)
        return -1;
    if (following == Py_None)
        return 1;
    Py_ssize_t leaf = leaf_at(walk, following, PyLong_AsSsize_t(number));
    if (leaf == -2 || PyErr_Occurred())
        return -1;
    if (leaf >= 0) {
        int64_t *departure = more_words(departures, DEPARTURE_WORDS);
        if (departure == NULL)
            return -1;
        departure[0] = position;
        departure[1] = leaf;
        departure[2] = (PyObject *)Py_TYPE(following) == walk->recorder->accumulate;
        return 1;
    }
    if (place_among(walk->visited, walk->visited_count, following) >= 0)
        return 1;
    int older = is_older(walk, following);
    if (older)
        return older < 0 ? -1 : 1;
    Py_INCREF(following);
    return visit_node(walk, following);
}

/* Makes the hook of a node on the border. */
static int add_hook(Walk *walk, PyObject *node, Py_ssize_t entry, const Words *departures)
{
    Hook *hook = (Hook *)new_object(walk->recorder->hook_type);
    if (hook == NULL)
        return -1;
    walk->nodes[walk->node_count] = node;
    walk->hooks[walk->node_count++] = hook;
    size_t leaving = departures->count / DEPARTURE_WORDS;
    hook->crossings = malloc(((size_t)walk->arrival_count + leaving + 1) * sizeof *hook->crossings);
    if (hook->crossings == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; entry >= 0 && i < walk->arrival_count; i++)
        if (walk->arrivals[i].entry == entry)
            hook->crossings[hook->arrivals++] = walk->arrivals[i].crossing;
    for (size_t i = 0; i < leaving; i++) {
        const int64_t *departure = departures->at + DEPARTURE_WORDS * i;
        hook->crossings[hook->arrivals + hook->departures++] =
            (Crossing){(Py_ssize_t)departure[0], (Py_ssize_t)departure[1], departure[2] != 0};
    }
    return 1;
}

static int walk_from(Walk *walk, PyObject *node)
{
    PyObject *edges = PyObject_GetAttr(node, N_next_functions);
    Py_ssize_t entry = place_among(walk->visited, walk->entry_count, node);
    Py_ssize_t count = edges == NULL ? -1 : PyTuple_Size(edges);
    Words departures;
    begin_words(&departures);
    int done = count < 0 ? -1 : 1;
    for (Py_ssize_t position = 0; done > 0 && position < count; position++)
        done = follow(walk, PyTuple_GetItem(edges, position), position, &departures);
    if (done > 0 && (entry >= 0 || departures.count))
        done = add_hook(walk, node, entry, &departures);
    end_words(&departures);
    Py_XDECREF(edges);
    return done;
}

static int wait_at_border(Walk *walk, const Forward *call)
{
    Recorder *recorder = walk->recorder;
    Backward *backward = (Backward *)new_object(recorder->backward_type);
    if (backward == NULL)
        return -1;
    Py_INCREF(backward->recorder = recorder);
    backward->call = *call;
    backward->nodes = walk->node_count;
    int failed = 0;
    for (Py_ssize_t i = 0; i < walk->node_count && !failed; i++) {
        Py_INCREF(walk->hooks[i]->backward = backward);
        PyObject *handle = PyObject_CallMethodObjArgs(walk->nodes[i], N_register_hook, walk->hooks[i], NULL);
        failed = handle == NULL;
        Py_XDECREF(handle);
    }
    if (!failed && walk->node_count > 1) {
        PyObject *list = PyObject_GetAttr(recorder->watch, N_backwards);
        failed = list == NULL || PyList_Append(list, (PyObject *)backward) < 0;
        Py_XDECREF(list);
    }
    Py_DECREF(backward);
    return failed ? -1 : 1;
}

/* Watches the backward of a call; its outputs are numbered from ``first`` on. */
static int watch_backward(Recorder *recorder, const Forward *call, long long first_sequence, const Edges *edges,
                          const Leaves *outputs, Py_ssize_t count, const signed char *wants_grad, Py_ssize_t first)
{
    if (edges->too_many)
        return 0;
    Walk walk; /* of large arrays only what the counts say is filled */
    walk.recorder = recorder;
    walk.edges = edges;
    walk.first_sequence = first_sequence;
    walk.arrivals = NULL;
    walk.arrival_count = walk.visited_count = walk.entry_count = 0;
    walk.waiting_count = walk.node_count = 0;
    int done = add_entries(&walk, outputs, count, wants_grad, first);
    while (done > 0 && walk.waiting_count)
        done = walk_from(&walk, walk.waiting[--walk.waiting_count]);
    if (done > 0 && walk.node_count)
        done = wait_at_border(&walk, call);
    end_walk(&walk);
    return done;
}

#endif
