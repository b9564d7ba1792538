/* What the tools of others ask for, in one pass; the names are those of numerics.predecessors. */
#ifndef TRUELINE_KERNELS_TOOLS_H
#define TRUELINE_KERNELS_TOOLS_H

#include "_kernels_sides.h"

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

/* A block of the bench: as the tools compute it, rounded to the storage of the tensor, its magnitude, and what msprobe
 * multiplies an error with to have it in units in the last place. */
typedef struct {
    const double *values, *rounded;
    Row room[2], size, units;
    double peak, least; /* magnitudes */
} Bench;

/* A block of one side against the bench, or against the other side. */
typedef struct {
    Row error, relative;
    double largest, largest_relative;
} Off;

#define RAISE(peak, value) ((peak) = LARGER((value), (peak)))

ALWAYS_INLINE const double *as_single(const double *values, int64_t count, double *room)
{
    for (int64_t i = 0; i < count; i++)
        room[i] = (double)(float)values[i];
    return room;
}

ALWAYS_INLINE double least_of(const double *sizes, int64_t count)
{
    double least = INFINITY;
    for (int64_t i = 0; i < count; i++)
        least = SMALLER(sizes[i], least);
    return least;
}

ALWAYS_INLINE void fill_units(const ToolRules *rules, int64_t count, Bench *bench)
{
    int64_t digits = (int64_t)rules->digits, least = (int64_t)rules->exponent_min + 1023;
    int64_t vanishing = rules->bench_single != 0.0 ? digits - 127 + 1023 : INT64_MIN, zero = (digits + 1023) << 52;
    for (int64_t i = 0; i < count; i++) {
        int64_t bits = bits_of(bench->size[i]), exponent = bits >> 52;
        exponent = LARGER(exponent, least);
        int64_t units = (digits + 2046 - exponent) << 52;
        units = exponent < vanishing ? INFINITE : units;
        bench->units[i] = double_of(bits == 0 ? zero : units);
    }
}

/* 0 where something is not finite. */
ALWAYS_INLINE int fill_bench(const Part *part, const ToolRules *rules, Bench *bench)
{
    int64_t count = part->count;
    bench->values = rules->bench_single != 0.0 ? as_single(part->gold, count, bench->room[0]) : part->gold;
    bench->rounded = bench->values;
    if (rules->storage_single != 0.0 && rules->bench_single == 0.0)
        bench->rounded = as_single(bench->values, count, bench->room[1]);
    int64_t largest = largest_of(bench->values, count);
    if (largest >= INFINITE)
        return 0;
    for (int64_t i = 0; i < count; i++)
        bench->size[i] = fabs(bench->values[i]);
    bench->peak = double_of(largest);
    bench->least = least_of(bench->size, count);
    if (rules->storage_single != 0.0 && isinf((float)bench->peak))
        return 0;
    if (rules->digits == 0.0)
        return 1;
    fill_units(rules, count, bench);
    return rules->bench_single == 0.0 || largest_of(bench->units, count) < INFINITE;
}

ALWAYS_INLINE void fill_off(const double *values, const double *truth, const double *size, double epsilon,
                            int64_t count, Off *off)
{
    for (int64_t i = 0; i < count; i++) {
        off->error[i] = fabs(values[i] - truth[i]);
        off->relative[i] = off->error[i] / (size[i] + epsilon);
    }
    off->largest = double_of(largest_of(off->error, count));
    off->largest_relative = double_of(largest_of(off->relative, count));
}

ALWAYS_INLINE void add_shares(const Off *off, int64_t count, double *within)
{
    for (int share = 0; share < SHARES; share++) {
        int64_t found = count;
        if (!(off->largest_relative < SHARE_LIMITS[share])) {
            found = 0;
            for (int64_t i = 0; i < count; i++)
                found += off->relative[i] < SHARE_LIMITS[share];
        }
        within[share] += (double)found;
    }
}

/* Where none of the elements is small. */
ALWAYS_INLINE void add_normal(ToolSums *of, double squares, double relatives, double largest, int64_t count)
{
    of->normal += (double)count;
    of->squares += squares;
    of->relative += relatives;
    RAISE(of->max_rel, largest);
}

ALWAYS_INLINE void add_some_small(ToolSums *of, const Off *off, const double *size, int64_t count, double small_size,
                                  double small_error)
{
    Row squares, relatives;
    int64_t small = 0, wrong = 0;
    for (int64_t i = 0; i < count; i++) {
        squares[i] = size[i] <= small_size ? 0.0 : off->error[i] * off->error[i];
        relatives[i] = size[i] <= small_size ? 0.0 : off->relative[i];
        small += size[i] <= small_size;
        wrong += (size[i] <= small_size) & (off->error[i] > small_error);
    }
    of->small += (double)small;
    of->small_wrong += (double)wrong;
    add_normal(of, sum_of(squares, count), sum_of(relatives, count), double_of(largest_of(relatives, count)),
               count - small);
}

ALWAYS_INLINE void add_tools(SideSums *sums, const Off *off, const Bench *bench, int64_t count, const ToolRules *rules)
{
    if (bench->least > LARGER(rules->small_size[0], rules->small_size[1])) { /* as nearly always */
        Row squares;
        for (int64_t i = 0; i < count; i++)
            squares[i] = off->error[i] * off->error[i];
        double total = sum_of(squares, count), relatives = sum_of(off->relative, count);
        for (int tool = 0; tool < TOOLS; tool++)
            add_normal(&sums->tools[tool], total, relatives, off->largest_relative, count);
        return;
    }
    for (int tool = 0; tool < TOOLS; tool++)
        add_some_small(&sums->tools[tool], off, bench->size, count, rules->small_size[tool],
                       rules->small_error[tool]);
}

/* `peak` is the largest magnitude of the values. */
ALWAYS_INLINE void add_side(SideSums *sums, const double *values, double peak, const Off *off, const Bench *bench,
                            int64_t count, const ToolRules *rules)
{
    Row ulp;
    int64_t zeros = 0, above = 0, below = 0, beyond = 0;
    for (int64_t i = 0; i < count; i++)
        zeros += values[i] == 0.0;
    sums->zeros += (double)zeros;
    RAISE(sums->peak, peak);
    if (rules->digits == 0.0)
        return;
    add_tools(sums, off, bench, count, rules);
    for (int64_t i = 0; i < count; i++) {
        double apart = values[i] - bench->rounded[i];
        above += apart > 0.0;
        below += apart < 0.0;
        ulp[i] = off->error[i] * bench->units[i];
    }
    double largest = double_of(largest_of(ulp, count));
    for (int64_t i = 0; largest > rules->ulp_limit && i < count; i++)
        beyond += ulp[i] > rules->ulp_limit;
    sums->above += (double)above;
    sums->below += (double)below;
    sums->ulp += sum_of(ulp, count);
    sums->ulp_share += (double)beyond;
    RAISE(sums->ulp_max, largest);
}

ALWAYS_INLINE void add_absolute(OtherSums *sums, const Off *off, const double *size, int64_t count,
                                const ToolRules *rules)
{
    int64_t small = 0, normal = 0;
    for (int64_t i = 0; i < count; i++) {
        small += (size[i] <= rules->small_size[1]) & (off->error[i] > rules->absolute_error);
        normal += !(size[i] <= rules->small_size[1]) & (off->relative[i] > rules->absolute_rtol);
    }
    sums->absolute_small += (double)small;
    sums->absolute_relative += (double)normal;
}

ALWAYS_INLINE void add_direct(OtherSums *sums, const Part *part, const ToolRules *rules, Off *off)
{
    Row size;
    int64_t unequal = 0, differ = 0;
    for (int64_t i = 0; i < part->count; i++) {
        size[i] = fabs(part->honest[i]);
        unequal += part->candidate[i] != part->honest[i];
        differ += bits_of(part->candidate[i]) != bits_of(part->honest[i]);
    }
    fill_off(part->candidate, part->honest, size, rules->direct_epsilon, part->count, off);
    sums->direct_unequal += (double)unequal;
    sums->direct_bits_differ += (double)differ;
    RAISE(sums->direct_max_abs, off->largest);
    add_shares(off, part->count, sums->direct_within);
}

ALWAYS_INLINE int sum_up_with(const Sides *sides, const ToolRules *rules, OtherSums *sums)
{
    Room room;
    Bench bench;
    Off off;
    for (int64_t start = 0; start < sides->count; start += BLOCK) {
        Part part = part_at(sides, start, &room);
        int64_t count = part.count, zeros = 0, unequal = 0;
        int64_t peak = largest_of(part.candidate, count), honest = part.honest ? largest_of(part.honest, count) : 0;
        if (peak >= INFINITE || honest >= INFINITE || !fill_bench(&part, rules, &bench))
            return 0;
        fill_off(part.candidate, bench.values, bench.size, rules->bench_epsilon, count, &off);
        for (int64_t i = 0; i < count; i++) {
            zeros += bench.size[i] == 0.0;
            unequal += part.candidate[i] != bench.values[i];
        }
        sums->bench_zeros += (double)zeros;
        sums->bench_unequal += (double)unequal;
        RAISE(sums->bench_peak, bench.peak);
        RAISE(sums->bench_max_abs, off.largest);
        add_shares(&off, count, sums->bench_within);
        add_side(&sums->sides[0], part.candidate, double_of(peak), &off, &bench, count, rules);
        add_absolute(sums, &off, bench.size, count, rules);
        if (!part.honest)
            continue;
        fill_off(part.honest, bench.values, bench.size, rules->bench_epsilon, count, &off);
        add_side(&sums->sides[1], part.honest, double_of(honest), &off, &bench, count, rules);
        add_direct(sums, &part, rules, &off);
    }
    return 1;
}

#endif
