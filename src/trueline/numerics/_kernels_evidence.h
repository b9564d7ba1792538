/* The numbers of numerics.floats and numerics.predecessors for tensors of finite numbers, in a few passes.
 *
 * The functions say with 0 that something is not finite or too large for them: then numpy does it. What they compute is
 * what their Python counterparts do, with sums in another order.
 */
#ifndef TRUELINE_KERNELS_EVIDENCE_H
#define TRUELINE_KERNELS_EVIDENCE_H

#include "_kernels_sides.h"
#include "_kernels_tools.h"

#define EXPONENTS 2048
#define ENOUGH 16.0
#define ROUNDING 0.3
#define CAP 64.0
#define SHARP 8.0
#define HARDLY_A_DIGIT 256.0
#define ACCUMULATION 0x1p-24
#define ROUNDER 0x1p52 /* added to less than itself and taken away again, it rounds to a whole number */

typedef struct {
    double epsilon, smallest, digits, overflow, scale, gold_epsilon, growth, is_complex;
} Yard;

typedef struct {
    double peak, at, ulp, explained, gold, candidate, squares, honest_squares, bias, honest_bias, sharp;
} Look;

/* ---- a first look ---- */

typedef struct {
    Row error, honest_error, unit;
} Elements;

/* What is explained and expected of a block, and one over it. */
typedef struct {
    Row explained, expected, per_unit, per_expected;
} Measure;

ALWAYS_INLINE void fill_errors(const double *values, const Part *part, double *errors)
{
    if (part->low)
        for (int64_t i = 0; i < part->count; i++)
            errors[i] = (values[i] - part->gold[i]) - part->low[i];
    else
        for (int64_t i = 0; i < part->count; i++)
            errors[i] = values[i] - part->gold[i];
}

ALWAYS_INLINE void fill_elements(const Part *part, const Yard *yard, double noise, double left_over, Elements *out)
{
    for (int64_t i = 0; i < part->count; i++)
        out->unit[i] = fabs(part->gold[i]);
    if (yard->is_complex != 0.0) /* kernels of complex numbers are accurate in their modulus */
        for (int64_t i = 0; i + 1 < part->count; i += 2)
            out->unit[i] = out->unit[i + 1] = LARGER(out->unit[i], out->unit[i + 1]);
    for (int64_t i = 0; i < part->count; i++) {
        double magnitude = out->unit[i], least = magnitude <= noise ? left_over : 0.0;
        double power = double_of(bits_of(magnitude) & INFINITE) * yard->epsilon;
        double unit = LARGER(power, yard->smallest);
        out->unit[i] = LARGER(unit, least);
    }
    fill_errors(part->candidate, part, out->error);
    if (part->honest == NULL)
        memset(out->honest_error, 0, sizeof out->honest_error);
    else if (part->honest == part->candidate)
        memcpy(out->honest_error, out->error, (size_t)part->count * sizeof(double));
    else
        fill_errors(part->honest, part, out->honest_error);
}

/* By exponent of the unit: the root mean square error of the honest implementation, in units. See Pools.levels. */
static void fill_levels(const double *counts, const double *squares, double *levels)
{
    int filled[EXPONENTS], size = 0;
    for (int exponent = 0; exponent < EXPONENTS; exponent++)
        if (counts[exponent] > 0.0)
            filled[size++] = exponent;
    for (int place = 0; place < size; place++) {
        double count = 0.0, sum = 0.0, level = 0.0;
        for (int step = 0; step < size && count < ENOUGH; step++) {
            /* The larger ones first; the largest of all have none but smaller ones beside them. */
            int other = place + step < size ? filled[place + step] : filled[size - 1 - step];
            if (other < filled[place])
                level = fmax(level, sqrt(sum / count));
            int apart = other - filled[place];
            double larger = ldexp(1.0, apart > 500 ? 500 : apart < -500 ? -500 : apart);
            count += counts[other];
            sum += squares[other] * larger * larger;
        }
        levels[filled[place]] = fmax(level, sqrt(sum / count));
    }
}

/* Counts the elements of a block by the exponent of their unit, with the squares of the honest errors in units; 0 where
 * an error is not finite. */
ALWAYS_INLINE int add_to_pools(const Elements *elements, int64_t count, double *counts, double *squares)
{
    Row off;
    int64_t honest = largest_of(elements->honest_error, count);
    if (honest >= INFINITE || largest_of(elements->error, count) >= INFINITE)
        return 0;
    /* Two neighbours are most often counted together; so that neither waits for the other, there are two tables. */
    for (int64_t i = 0; i < count; i++)
        counts[(i % 2) * EXPONENTS + exponent_bits(elements->unit[i])] += 1.0;
    if (honest == 0)
        return 1;
    for (int64_t i = 0; i < count; i++) {
        off[i] = elements->honest_error[i] / elements->unit[i];
        off[i] *= off[i];
    }
    for (int64_t i = 0; i < count; i++)
        squares[(i % 2) * EXPONENTS + exponent_bits(elements->unit[i])] += off[i];
    return 1;
}

/* The first element that is off by more than any before it, in what is explained. */
ALWAYS_INLINE void note_peak(const double *errors, const double *explained, int64_t start, int64_t count, Look *look)
{
    int64_t beyond = 0;
    for (int64_t i = 0; i < count; i++)
        beyond += errors[i] > look->peak * explained[i];
    if (!beyond)
        return;
    for (int64_t i = 0; i < count; i++)
        if (errors[i] > look->peak * explained[i]) {
            look->peak = errors[i] / explained[i];
            look->at = (double)(start + i);
            look->explained = explained[i];
        }
}

/* The mean of errors away from zero, of elements that are expected to keep their last digits. */
ALWAYS_INLINE void add_bias(const Part *part, const Elements *elements, const Measure *measure, Look *look)
{
    Row off, honest_off;
    int64_t sharp = 0;
    for (int64_t i = 0; i < part->count; i++) {
        double gold = part->gold[i], whole = gold * measure->per_unit[i];
        double weight = measure->per_unit[i] * measure->per_expected[i];
        double direction = gold > 0.0 ? weight : gold < 0.0 ? -weight : 0.0;
        direction = measure->expected[i] <= SHARP ? direction : 0.0;
        double size = fabs(whole), rounded = (size + ROUNDER) - ROUNDER;
        rounded = size < ROUNDER ? copysign(rounded, whole) : whole; /* a whole number by then */
        double rounding = rounded * elements->unit[i] - gold;
        double one = direction * (elements->error[i] - rounding), other = direction * (elements->honest_error[i] - rounding);
        one = SMALLER(one, 8.0);
        other = SMALLER(other, 8.0);
        off[i] = LARGER(one, -8.0);
        honest_off[i] = LARGER(other, -8.0);
    }
    for (int64_t i = 0; i < part->count; i++)
        sharp += measure->expected[i] <= SHARP;
    look->bias += sum_of(off, part->count);
    look->honest_bias += sum_of(honest_off, part->count);
    look->sharp += (double)sharp;
}

ALWAYS_INLINE void look_at_part(const Part *part, const Elements *elements, const Yard *yard, const double *levels,
                                Look *look)
{
    Row level, error, honest;
    Measure measure;
    for (int64_t i = 0; i < part->count; i++)
        level[i] = levels[exponent_bits(elements->unit[i])];
    for (int64_t i = 0; i < part->count; i++) {
        measure.per_unit[i] = 1.0 / elements->unit[i];
        error[i] = fabs(elements->error[i]) * measure.per_unit[i];
        honest[i] = fabs(elements->honest_error[i]) * measure.per_unit[i];
        measure.expected[i] = level[i] + ROUNDING * yard->growth;
        measure.per_expected[i] = 1.0 / measure.expected[i];
        measure.explained[i] = LARGER(level[i], honest[i]) + yard->growth;
    }
    note_peak(error, measure.explained, part->start, part->count, look);
    for (int64_t i = 0; i < part->count; i++) {
        double ratio = error[i] * measure.per_expected[i], honest_ratio = honest[i] * measure.per_expected[i];
        ratio = SMALLER(ratio, CAP);
        honest_ratio = SMALLER(honest_ratio, CAP);
        error[i] = ratio * ratio;
        honest[i] = honest_ratio * honest_ratio;
    }
    look->squares += sum_of(error, part->count);
    look->honest_squares += sum_of(honest, part->count);
    add_bias(part, elements, &measure, look);
}

ALWAYS_INLINE int look_at_with(const Sides *sides, const Yard *yard, double *pools, Look *look)
{
    double *counts = pools, *squares = pools + 2 * EXPONENTS, *levels = pools + 4 * EXPONENTS;
    Room room;
    Elements elements;
    int64_t largest = 0;
    for (int64_t start = 0; start < sides->count; start += BLOCK) {
        int64_t count = SMALLER(sides->count - start, BLOCK);
        int64_t here = largest_of(doubles_at(sides->gold, sides->gold_component, start, count, room.gold), count);
        largest = LARGER(here, largest);
    }
    double top = double_of(largest);
    if (!(top < yard->overflow))
        return 0;
    double noise = yard->scale * yard->gold_epsilon * HARDLY_A_DIGIT;
    double left_over = yard->digits <= 24.0 ? top * ACCUMULATION : 0.0;
    for (int64_t start = 0; start < sides->count; start += BLOCK) {
        Part part = part_at(sides, start, &room);
        fill_elements(&part, yard, noise, left_over, &elements);
        if (!add_to_pools(&elements, part.count, counts, squares))
            return 0;
    }
    for (int exponent = 0; exponent < EXPONENTS; exponent++) {
        counts[exponent] += counts[EXPONENTS + exponent];
        squares[exponent] += squares[EXPONENTS + exponent];
    }
    fill_levels(counts, squares, levels);
    look->peak = 0.0;
    look->at = -1.0;
    for (int64_t start = 0; start < sides->count; start += BLOCK) {
        Part part = part_at(sides, start, &room);
        fill_elements(&part, yard, noise, left_over, &elements);
        look_at_part(&part, &elements, yard, levels, look);
    }
    if (look->at >= 0.0) {
        int64_t at = (int64_t)look->at, place = at % BLOCK;
        Part part = part_at(sides, at - place, &room);
        fill_elements(&part, yard, noise, left_over, &elements);
        look->ulp = elements.error[place] / elements.unit[place];
        look->gold = part.gold[place];
        look->candidate = part.candidate[place];
    }
    return 1;
}

/* ---- corners of tolerances, see numerics.envelope ---- */

typedef struct {
    double size, error, slope;
} Line;

/* The places of elements whose error lies above all lines and above `flat`, from `start` on; stops where there is no room
 * for those of another block. Gives how many were found, and where to go on. */
ALWAYS_INLINE int64_t find_above_with(const Sides *sides, int64_t start, const Line *lines, int64_t line_count,
                                      double flat, int64_t *places, int64_t most, int64_t *next)
{
    Room room;
    Row size, error, bound;
    int64_t found = 0;
    for (; start < sides->count && found + BLOCK <= most; start += BLOCK) {
        Part part = part_at(sides, start, &room);
        int64_t above = 0;
        for (int64_t i = 0; i < part.count; i++) {
            size[i] = fabs(part.honest[i]);
            error[i] = fabs(part.candidate[i] - part.honest[i]);
            bound[i] = flat;
        }
        for (int64_t k = 0; k < line_count; k++)
            for (int64_t i = 0; i < part.count; i++) {
                double height = lines[k].error + lines[k].slope * (size[i] - lines[k].size);
                bound[i] = SMALLER(height, bound[i]);
            }
        for (int64_t i = 0; i < part.count; i++)
            above += error[i] > bound[i];
        for (int64_t i = 0; above && i < part.count; i++)
            if (error[i] > bound[i])
                places[found++] = start + i;
    }
    *next = start;
    return found;
}

/* ---- one instance for every processor, one for those with wider vectors ---- */

#define INSTANCES(TARGET, SUFFIX)                                                                                    \
    TARGET static int look_at_##SUFFIX(const Sides *sides, const Yard *yard, double *pools, Look *look)              \
    {                                                                                                                \
        return look_at_with(sides, yard, pools, look);                                                               \
    }                                                                                                                \
    TARGET static int sum_up_##SUFFIX(const Sides *sides, const ToolRules *rules, OtherSums *sums)                   \
    {                                                                                                                \
        return sum_up_with(sides, rules, sums);                                                                      \
    }                                                                                                                \
    TARGET static int64_t find_above_##SUFFIX(const Sides *sides, int64_t start, const Line *lines,                  \
                                              int64_t line_count, double flat, int64_t *places, int64_t most,        \
                                              int64_t *next)                                                         \
    {                                                                                                                \
        return find_above_with(sides, start, lines, line_count, flat, places, most, next);                           \
    }

INSTANCES(, portable)
#ifdef TRUELINE_X86
/* Without FMA, which would round less often than numpy does. */
INSTANCES(__attribute__((target("avx2"))), avx2)
#define CHOSEN(NAME) (kernels == &PORTABLE ? NAME##_portable : NAME##_avx2)
#else
#define CHOSEN(NAME) NAME##_portable
#endif

/* Addresses of candidate, honest, gold and low, 0 for none, and the dtypes of the components of the first two and of
 * the gold. */
typedef struct {
    unsigned long long at[4];
    int component, gold_component;
    Py_ssize_t count;
} Given;

static int sides_of(const Given *given, Sides *sides)
{
    int codes[2] = {given->component, given->gold_component};
    for (int place = 0; place < 2; place++)
        if (codes[place] < 0 || codes[place] >= DTYPE_COUNT || TYPES[codes[place]].component != codes[place]) {
            PyErr_Format(PyExc_ValueError, "%d is not the dtype of a real number", codes[place]);
            return 0;
        }
    *sides = (Sides){
        (const char *)(uintptr_t)given->at[0], (const char *)(uintptr_t)given->at[1],
        (const char *)(uintptr_t)given->at[2], (const double *)(uintptr_t)given->at[3],
        given->component, given->gold_component, (int64_t)given->count,
    };
    return 1;
}

static PyObject *look(PyObject *module, PyObject *arguments)
{
    Given given;
    Sides sides;
    unsigned long long yard, out;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "KKKKiinKK:look", &given.at[0], &given.at[1], &given.at[2], &given.at[3],
                          &given.component, &given.gold_component, &given.count, &yard, &out))
        return NULL;
    if (!sides_of(&given, &sides))
        return NULL;
    double *pools = calloc(5 * EXPONENTS, sizeof(double));
    if (pools == NULL)
        return PyErr_NoMemory();
    fenv_t environment;
    fegetenv(&environment);
    fesetenv(FE_DFL_ENV);
    int done = CHOSEN(look_at)(&sides, (const Yard *)(uintptr_t)yard, pools, (Look *)(uintptr_t)out);
    fesetenv(&environment);
    free(pools);
    return PyBool_FromLong(done);
}

static PyObject *sums(PyObject *module, PyObject *arguments)
{
    Given given;
    Sides sides;
    unsigned long long rules, out;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "KKKKiinKK:sums", &given.at[0], &given.at[1], &given.at[2], &given.at[3],
                          &given.component, &given.gold_component, &given.count, &rules, &out))
        return NULL;
    if (!sides_of(&given, &sides))
        return NULL;
    fenv_t environment;
    fegetenv(&environment);
    fesetenv(FE_DFL_ENV);
    int done = CHOSEN(sum_up)(&sides, (const ToolRules *)(uintptr_t)rules, (OtherSums *)(uintptr_t)out);
    fesetenv(&environment);
    return PyBool_FromLong(done);
}

static PyObject *above(PyObject *module, PyObject *arguments)
{
    Given given = {.gold_component = FLOAT64};
    Sides sides;
    unsigned long long lines, out;
    Py_ssize_t start, line_count, most;
    double flat;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "KKinnKndKn:above", &given.at[0], &given.at[1], &given.component, &given.count,
                          &start, &lines, &line_count, &flat, &out, &most))
        return NULL;
    if (!sides_of(&given, &sides))
        return NULL;
    fenv_t environment;
    fegetenv(&environment);
    fesetenv(FE_DFL_ENV);
    int64_t next, found = CHOSEN(find_above)(&sides, (int64_t)start, (const Line *)(uintptr_t)lines,
                                             (int64_t)line_count, flat, (int64_t *)(uintptr_t)out, (int64_t)most, &next);
    fesetenv(&environment);
    return Py_BuildValue("LL", (long long)found, (long long)next);
}

#endif
