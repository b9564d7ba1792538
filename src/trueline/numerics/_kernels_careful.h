/* The exact kernels, element by element in double: for blocks with NaN, infinities or extreme magnitudes, for the
 * ends of tensors, and for 64-bit integers that doubles cannot tell apart. */
#ifndef TRUELINE_KERNELS_CAREFUL_H
#define TRUELINE_KERNELS_CAREFUL_H

#include "_kernels.h"

#define LARGE_MAGNITUDE 0x1p500 /* beyond these a square may overflow, or lose digits */
#define SMALL_MAGNITUDE 0x1p-500
#define LARGE_SCALE 0x1p-600
#define SMALL_SCALE 0x1p600

ALWAYS_INLINE void add_square(Reduction *total, double magnitude)
{
    if (magnitude > LARGE_MAGNITUDE)
        total->scaled_large += (magnitude * LARGE_SCALE) * (magnitude * LARGE_SCALE);
    else if (magnitude < SMALL_MAGNITUDE)
        total->scaled_small += (magnitude * SMALL_SCALE) * (magnitude * SMALL_SCALE);
    else
        total->squares += magnitude * magnitude;
}

static double norm_of(const Reduction *total)
{
    if (total->scaled_large > 0.0)
        return sqrt(total->scaled_large + total->squares * LARGE_SCALE * LARGE_SCALE) / LARGE_SCALE;
    if (total->scaled_small > 0.0 && total->squares < 0x1p-900)
        return sqrt(total->scaled_small + total->squares * SMALL_SCALE * SMALL_SCALE) / SMALL_SCALE;
    return sqrt(total->squares);
}

/* `index` is the logical index of the first element. */
static void reduce_carefully(const double *values, int64_t count, uint64_t index, Reduction *total)
{
    uint32_t signs = sign_word((uint32_t)(index >> 5));
    for (int64_t i = 0; i < count; i++, index++) {
        double value = values[i], magnitude = fabs(value);
        if ((index & 31) == 0)
            signs = sign_word((uint32_t)(index >> 5));
        if (!(magnitude <= 1.7976931348623157e308)) {
            if (value != value)
                total->nan++;
            else if (value > 0)
                total->positive_infinity++;
            else
                total->negative_infinity++;
            continue;
        }
        if (value < total->minimum)
            total->minimum = value;
        if (value > total->maximum)
            total->maximum = value;
        total->sum += value;
        total->sketch[index & 63] += (signs >> (index & 31)) & 1 ? -value : value;
        if (magnitude == 0.0) {
            total->zeros++;
        } else {
            if (magnitude < total->smallest)
                total->smallest = magnitude;
            add_square(total, magnitude);
        }
    }
}

/* |difference| in units in the last place at the reference. */
static double distance_in_units(Unit unit, double reference, double difference)
{
    int exponent = unit.exponent_min;
    if (unit.exact || difference == 0.0)
        return difference;
    if (reference != 0.0) {
        frexp(reference, &exponent);
        exponent -= 1; /* frexp's significand is in [0.5, 1) */
        if (exponent < unit.exponent_min)
            exponent = unit.exponent_min;
    }
    return ldexp(difference, unit.digits - 1 - exponent);
}

/* One pair of finite numbers; `signed_difference` is candidate - reference, exact where the caller can have it so. */
static void compare_pair(double reference, double candidate, double signed_difference, int64_t index, Unit unit,
                         Comparison *total)
{
    double difference = fabs(signed_difference), scale = fabs(reference), relative = 0.0;
    total->both_finite++;
    total->equal += difference == 0.0;
    total->dot += reference * candidate;
    total->reference_squares += reference * reference;
    total->candidate_squares += candidate * candidate;
    total->difference_squares += difference * difference;
    total->sum_abs += difference;
    total->sum_signed += signed_difference;
    if (difference > total->max_abs) {
        total->max_abs = difference;
        total->worst = index;
        total->worst_reference = reference;
        total->worst_candidate = candidate;
    }
    if (scale > total->reference_max)
        total->reference_max = scale;
    if (difference != 0.0)
        relative = difference / scale;
    if (relative > total->max_rel)
        total->max_rel = relative;
    if (scale != 0.0) {
        total->rel_count++;
        total->sum_rel += relative;
    }
    for (int i = 0; i < THRESHOLDS; i++)
        total->within[i] += relative < RELATIVE_THRESHOLDS[i];
    double units = distance_in_units(unit, reference, difference);
    total->sum_ulp += units;
    if (units > total->max_ulp)
        total->max_ulp = units;
}

/* `differences` may be NULL: then they are taken in double. */
static void compare_carefully(const double *references, const double *candidates, const double *differences,
                              int64_t count, int64_t index, Unit unit, Comparison *total)
{
    for (int64_t i = 0; i < count; i++) {
        double reference = references[i], candidate = candidates[i];
        if (isfinite(reference) && isfinite(candidate))
            compare_pair(reference, candidate, differences ? differences[i] : candidate - reference, index + i, unit,
                         total);
        else if (reference == candidate || (reference != reference && candidate != candidate))
            total->equal++;
        else if (reference != reference || candidate != candidate)
            total->nan_mismatch++;
        else
            total->infinity_mismatch++;
    }
}

#endif
