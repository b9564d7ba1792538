/* The numbers of numerics.floats and numerics.predecessors for tensors of finite numbers, in one or two passes.
 *
 * Both take doubles, and say with 0 that something is not finite or too large for them: then numpy does it. What they
 * compute is what their Python counterparts do, with sums in another order.
 */
#ifndef TRUELINE_KERNELS_EVIDENCE_H
#define TRUELINE_KERNELS_EVIDENCE_H

#define EXPONENTS 2048
#define ENOUGH 16.0
#define ROUNDING 0.3
#define CAP 64.0
#define SHARP 8.0
#define HARDLY_A_DIGIT 256.0
#define ACCUMULATION 0x1p-24

/* fmax and fmin of the library are calls, and care for NaN, which is not here. */
#define LARGER(one, other) ((one) > (other) ? (one) : (other))
#define SMALLER(one, other) ((one) < (other) ? (one) : (other))
#define ROUNDER 0x1.8p52 /* added and taken away again, it rounds to a whole number */

typedef struct {
    double epsilon, smallest, digits, overflow, scale, gold_epsilon, growth, is_complex;
} Yard;

typedef struct {
    double peak, at, ulp, explained, gold, candidate, squares, honest_squares, bias, honest_bias, sharp;
} Look;

typedef struct {
    const double *candidate, *honest, *gold, *low;
    int64_t count;
} Sides;

typedef struct {
    double error, honest_error, unit;
} Element;

ALWAYS_INLINE int exponent_bits(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (int)((bits >> 52) & 0x7FF);
}

ALWAYS_INLINE double power_below(double magnitude)
{
    uint64_t bits;
    memcpy(&bits, &magnitude, sizeof bits);
    bits &= 0x7FF0000000000000ULL;
    memcpy(&magnitude, &bits, sizeof magnitude);
    return magnitude;
}

ALWAYS_INLINE Element element_at(const Sides *sides, int64_t i, const Yard *yard, double noise, double left_over)
{
    double gold = sides->gold[i], lost = sides->low ? sides->low[i] : 0.0;
    double magnitude = fabs(gold);
    if (yard->is_complex != 0.0) /* kernels of complex numbers are accurate in their modulus */
        magnitude = LARGER(magnitude, fabs(sides->gold[i ^ 1]));
    Element element;
    element.error = (sides->candidate[i] - gold) - lost;
    element.honest_error = sides->honest ? (sides->honest[i] - gold) - lost : 0.0;
    double power = power_below(magnitude) * yard->epsilon;
    element.unit = LARGER(power, yard->smallest);
    if (left_over > 0.0 && magnitude <= noise)
        element.unit = LARGER(element.unit, left_over);
    return element;
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

static int look_at(const Sides *sides, const Yard *yard, Look *look)
{
    double top = 0.0;
    for (int64_t i = 0; i < sides->count; i++) {
        double magnitude = fabs(sides->gold[i]);
        if (!(magnitude < yard->overflow))
            return 0;
        top = magnitude > top ? magnitude : top;
    }
    double noise = yard->scale * yard->gold_epsilon * HARDLY_A_DIGIT;
    double left_over = yard->digits <= 24.0 ? top * ACCUMULATION : 0.0;
    double *counts = calloc(3 * EXPONENTS, sizeof(double));
    if (counts == NULL)
        return 0;
    double *squares = counts + EXPONENTS, *levels = squares + EXPONENTS, nothing = 0.0;
    for (int64_t i = 0; i < sides->count; i++) {
        Element element = element_at(sides, i, yard, noise, left_over);
        double off = element.honest_error / element.unit;
        nothing += 0.0 * element.error + 0.0 * element.honest_error; /* NaN where one is not finite */
        int exponent = exponent_bits(element.unit);
        counts[exponent] += 1.0;
        squares[exponent] += off * off;
    }
    if (nothing != 0.0) {
        free(counts);
        return 0;
    }
    fill_levels(counts, squares, levels);
    double block[4] = {0.0, 0.0, 0.0, 0.0}, total[4] = {0.0, 0.0, 0.0, 0.0};
    look->peak = 0.0;
    look->at = -1.0;
    for (int64_t i = 0; i < sides->count; i++) {
        Element element = element_at(sides, i, yard, noise, left_over);
        double level = levels[exponent_bits(element.unit)], per_unit = 1.0 / element.unit;
        double error = fabs(element.error) * per_unit, honest = fabs(element.honest_error) * per_unit;
        double expected = level + ROUNDING * yard->growth, per_expected = 1.0 / expected;
        double explained = LARGER(level, honest) + yard->growth;
        if (error > look->peak * explained) {
            look->peak = error / explained;
            look->at = (double)i;
            look->explained = explained;
        }
        double ratio = error * per_expected, honest_ratio = honest * per_expected;
        ratio = SMALLER(ratio, CAP);
        honest_ratio = SMALLER(honest_ratio, CAP);
        block[0] += ratio * ratio;
        block[1] += honest_ratio * honest_ratio;
        if (expected <= SHARP) {
            double gold = sides->gold[i], whole = gold * per_unit;
            double direction = gold > 0.0 ? per_unit * per_expected : gold < 0.0 ? -per_unit * per_expected : 0.0;
            whole = fabs(whole) < 0x1p51 ? (whole + ROUNDER) - ROUNDER : rint(whole);
            double rounding = whole * element.unit - gold;
            double off = direction * (element.error - rounding);
            double honest_off = direction * (element.honest_error - rounding);
            off = SMALLER(off, 8.0);
            honest_off = SMALLER(honest_off, 8.0);
            block[2] += LARGER(off, -8.0);
            block[3] += LARGER(honest_off, -8.0);
            look->sharp += 1.0;
        }
        if ((i & (BLOCK - 1)) == BLOCK - 1 || i == sides->count - 1)
            for (int place = 0; place < 4; place++) {
                total[place] += block[place];
                block[place] = 0.0;
            }
    }
    if (look->at >= 0.0) {
        int64_t at = (int64_t)look->at;
        Element element = element_at(sides, at, yard, noise, left_over);
        look->ulp = element.error / element.unit;
        look->gold = sides->gold[at];
        look->candidate = sides->candidate[at];
    }
    look->squares = total[0];
    look->honest_squares = total[1];
    look->bias = total[2];
    look->honest_bias = total[3];
    free(counts);
    return 1;
}

/* What the tools of others ask for; the names are those of numerics.predecessors. */
#define TOOLS 2
#define SHARES 3
static const double SHARE_LIMITS[SHARES] = {1e-2, 1e-3, 1e-4};

typedef struct {
    double bench_single, storage_single, bench_epsilon, direct_epsilon, digits, exponent_min, ulp_limit;
    double absolute_rtol, absolute_error;
    double small_size[TOOLS], small_error[TOOLS];
} ToolRules;

typedef struct {
    double small, small_wrong, normal, squares, relative, max_rel;
} ToolSums;

typedef struct {
    double peak, zeros, above, below, ulp_max, ulp, ulp_share;
    ToolSums tools[TOOLS];
} SideSums;

typedef struct {
    double bench_peak, bench_zeros, bench_unequal, bench_max_abs, bench_within[SHARES];
    double direct_max_abs, direct_unequal, direct_bits_differ, direct_within[SHARES];
    double absolute_small, absolute_relative;
    SideSums sides[2];
} OtherSums;

/* What msprobe multiplies an error with to have it in units in the last place of the bench. */
ALWAYS_INLINE double units_per(double size, const ToolRules *rules)
{
    if (size == 0.0)
        return ldexp(1.0, (int)rules->digits);
    int exponent = exponent_bits(size) - 1023, digits = (int)rules->digits, least = (int)rules->exponent_min;
    exponent = LARGER(exponent, least);
    if (rules->bench_single != 0.0 && exponent < digits - 127)
        return INFINITY;
    uint64_t bits = (uint64_t)(digits - exponent + 1023) << 52;
    double units;
    memcpy(&units, &bits, sizeof units);
    return units;
}

ALWAYS_INLINE void add_side(SideSums *sums, double value, double error, double relative, double rounded, double size,
                     double units, const ToolRules *rules)
{
    sums->peak = LARGER(sums->peak, fabs(value));
    sums->zeros += value == 0.0;
    if (rules->digits == 0.0)
        return;
    sums->above += value - rounded > 0.0;
    sums->below += value - rounded < 0.0;
    for (int tool = 0; tool < TOOLS; tool++) {
        ToolSums *of = &sums->tools[tool];
        if (size <= rules->small_size[tool]) {
            of->small += 1.0;
            of->small_wrong += error > rules->small_error[tool];
        } else {
            of->normal += 1.0;
            of->squares += error * error;
            of->relative += relative;
            of->max_rel = LARGER(of->max_rel, relative);
        }
    }
    double ulp = error * units;
    sums->ulp_max = LARGER(sums->ulp_max, ulp);
    sums->ulp += ulp;
    sums->ulp_share += ulp > rules->ulp_limit;
}

static int sum_up(const Sides *sides, const ToolRules *rules, OtherSums *sums)
{
    double nothing = 0.0;
    for (int64_t i = 0; i < sides->count; i++) {
        double candidate = sides->candidate[i], honest = sides->honest ? sides->honest[i] : 0.0;
        double bench = rules->bench_single != 0.0 ? (double)(float)sides->gold[i] : sides->gold[i];
        double rounded = rules->storage_single != 0.0 ? (double)(float)bench : bench;
        nothing += 0.0 * candidate + 0.0 * honest + 0.0 * bench + 0.0 * rounded; /* NaN where one is not finite */
        double size = fabs(bench), error = fabs(candidate - bench), relative = error / (size + rules->bench_epsilon);
        double units = rules->digits != 0.0 ? units_per(size, rules) : 1.0;
        nothing += 0.0 * units;
        sums->bench_peak = LARGER(sums->bench_peak, size);
        sums->bench_zeros += bench == 0.0;
        sums->bench_unequal += candidate != bench;
        sums->bench_max_abs = LARGER(sums->bench_max_abs, error);
        for (int share = 0; share < SHARES; share++)
            sums->bench_within[share] += relative < SHARE_LIMITS[share];
        add_side(&sums->sides[0], candidate, error, relative, rounded, size, units, rules);
        if (size <= rules->small_size[1])
            sums->absolute_small += error > rules->absolute_error;
        else
            sums->absolute_relative += relative > rules->absolute_rtol;
        if (!sides->honest)
            continue;
        error = fabs(honest - bench);
        add_side(&sums->sides[1], honest, error, error / (size + rules->bench_epsilon), rounded, size, units, rules);
        error = fabs(candidate - honest);
        relative = error / (fabs(honest) + rules->direct_epsilon);
        sums->direct_max_abs = LARGER(sums->direct_max_abs, error);
        for (int share = 0; share < SHARES; share++)
            sums->direct_within[share] += relative < SHARE_LIMITS[share];
        sums->direct_unequal += candidate != honest;
        sums->direct_bits_differ += candidate != honest || signbit(candidate) != signbit(honest);
    }
    return nothing == 0.0;
}

static Sides sides_at(const unsigned long long *addresses, Py_ssize_t count)
{
    Sides sides = {
        (const double *)(uintptr_t)addresses[0], (const double *)(uintptr_t)addresses[1],
        (const double *)(uintptr_t)addresses[2], (const double *)(uintptr_t)addresses[3], (int64_t)count,
    };
    return sides;
}

static PyObject *look(PyObject *module, PyObject *arguments)
{
    unsigned long long at[4], yard, out;
    Py_ssize_t count;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "KKKKnKK:look", &at[0], &at[1], &at[2], &at[3], &count, &yard, &out))
        return NULL;
    Sides sides = sides_at(at, count);
    fenv_t environment;
    fegetenv(&environment);
    fesetenv(FE_DFL_ENV);
    int done = look_at(&sides, (const Yard *)(uintptr_t)yard, (Look *)(uintptr_t)out);
    fesetenv(&environment);
    return PyBool_FromLong(done);
}

static PyObject *sums(PyObject *module, PyObject *arguments)
{
    unsigned long long at[4], rules, out;
    Py_ssize_t count;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "KKKKnKK:sums", &at[0], &at[1], &at[2], &at[3], &count, &rules, &out))
        return NULL;
    Sides sides = sides_at(at, count);
    fenv_t environment;
    fegetenv(&environment);
    fesetenv(FE_DFL_ENV);
    int done = sum_up(&sides, (const ToolRules *)(uintptr_t)rules, (OtherSums *)(uintptr_t)out);
    fesetenv(&environment);
    return PyBool_FromLong(done);
}

#endif
