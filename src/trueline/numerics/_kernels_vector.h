/* The fast kernels, for one type of real number and one width of vectors. A template: _kernels.c includes it with
 *
 *   REAL, WORD, INTEGER   float, uint32_t, int32_t or double, uint64_t, int64_t
 *   NAME(x)               the name of this instance of x
 *   VECTOR_BYTES          width of a vector
 *   VECTOR_MIN/MAX(a, b)  of numbers; b where either is NaN
 *   WORD_MIN(a, b)        of unsigned words
 *   VARIABLE_SHIFT        1 if each lane can be shifted by its own amount
 *
 * Each kernel returns 1 if its numbers hold and 0 if the block must be done in higher precision or carefully. Squares
 * tell: their sum is not finite if an element is not or overflows, and the largest magnitude shows underflow. They
 * read the block twice; the second time it comes from the first-level cache, and the accumulators of one loop fit
 * into registers.
 */

#define LANES (VECTOR_BYTES / (int)sizeof(REAL))
#define WORD_BITS (8 * (int)sizeof(WORD))
#define GROUPS (WORD_BITS / LANES) /* vectors that share a word of signs */
#define MANTISSA_BITS (sizeof(REAL) == 4 ? 23 : 52)
#define SIGN_BIT ((WORD)1 << (WORD_BITS - 1))
#define EXPONENT_BITS ((WORD)(sizeof(REAL) == 4 ? 0xff : 0x7ff) << MANTISSA_BITS)
#define EXPONENT_BIAS (sizeof(REAL) == 4 ? 127 : 1023)
/* The squares of a block whose largest magnitude is at least this lose nothing that matters. */
#define LEAST (sizeof(REAL) == 4 ? 0x1p-58 : 0x1p-500)

typedef REAL NAME(Vector) __attribute__((vector_size(VECTOR_BYTES)));
typedef REAL NAME(Loose) __attribute__((vector_size(VECTOR_BYTES), aligned(1), may_alias));
typedef WORD NAME(Words) __attribute__((vector_size(VECTOR_BYTES)));
typedef INTEGER NAME(Integers) __attribute__((vector_size(VECTOR_BYTES)));
#define Vector NAME(Vector)
#define Words NAME(Words)
#define Integers NAME(Integers)

#define LOAD(p) ((Vector)(*(const NAME(Loose) *)(p)))
#define SPREAD_WORD(x) ((x) - (Words){0})
#define MAGNITUDE(v) ((Vector)((Words)(v) & ~SIGN_BIT))
#define COUNT(counter, mask) ((counter) -= (Integers)(mask)) /* a true lane is -1 */

ALWAYS_INLINE double NAME(sum)(Vector v)
{
    double total = 0.0;
    for (int lane = 0; lane < LANES; lane++)
        total += (double)v[lane];
    return total;
}

ALWAYS_INLINE int64_t NAME(total)(Integers v)
{
    int64_t total = 0;
    for (int lane = 0; lane < LANES; lane++)
        total += v[lane];
    return total;
}

ALWAYS_INLINE double NAME(largest)(Vector v)
{
    REAL value = v[0];
    for (int lane = 1; lane < LANES; lane++)
        value = v[lane] > value ? v[lane] : value;
    return (double)value;
}

static int NAME(reduce)(const REAL *values, int64_t count, BlockReduction *out)
{
    Vector sum[2] = {{0}, {0}}, squares[2] = {{0}, {0}};
    Vector minimum[2] = {LOAD(values), LOAD(values)}, maximum[2] = {LOAD(values), LOAD(values)};
    Words smallest[2] = {SPREAD_WORD(~(WORD)0), SPREAD_WORD(~(WORD)0)};
    Integers zeros[2] = {{0}, {0}};
    for (int64_t i = 0; i < count; i += 2 * LANES) {
        for (int k = 0; k < 2; k++) {
            Vector value = LOAD(values + i + k * LANES);
            Words magnitude = (Words)MAGNITUDE(value);
            sum[k] += value;
            squares[k] += value * value;
            minimum[k] = VECTOR_MIN(value, minimum[k]);
            maximum[k] = VECTOR_MAX(value, maximum[k]);
            smallest[k] = WORD_MIN(smallest[k], magnitude - 1); /* zero becomes the largest word */
            COUNT(zeros[k], magnitude == 0);
        }
    }
    out->sum = NAME(sum)(sum[0]) + NAME(sum)(sum[1]);
    out->squares = NAME(sum)(squares[0]) + NAME(sum)(squares[1]);
    out->zeros = NAME(total)(zeros[0] + zeros[1]);
    out->minimum = -NAME(largest)(-VECTOR_MIN(minimum[0], minimum[1]));
    out->maximum = NAME(largest)(VECTOR_MAX(maximum[0], maximum[1]));
    Words least = WORD_MIN(smallest[0], smallest[1]);
    WORD bits = least[0];
    for (int lane = 1; lane < LANES; lane++)
        bits = least[lane] < bits ? least[lane] : bits;
    bits += 1;
    REAL smallest_magnitude;
    memcpy(&smallest_magnitude, &bits, sizeof bits);
    out->smallest = bits ? (double)smallest_magnitude : INFINITY;
    double largest = out->maximum > -out->minimum ? out->maximum : -out->minimum;
    return isfinite(out->squares) && (largest == 0.0 || largest >= LEAST);
}

/* `signs` holds a bit for each element. */
static void NAME(sketch)(const REAL *values, int64_t count, const uint32_t *signs, double *sketch)
{
    Vector sums[SKETCH_SIZE / LANES] = {{0}};
    Words select[GROUPS];
    for (int k = 0; k < GROUPS; k++)
        for (int lane = 0; lane < LANES; lane++)
            select[k][lane] = VARIABLE_SHIFT ? (WORD)(WORD_BITS - 1 - k * LANES - lane) : (WORD)1 << (k * LANES + lane);
    for (int64_t i = 0; i < count; i += SKETCH_SIZE) {
        for (int k = 0; k < SKETCH_SIZE / LANES; k++) {
            WORD word;
            memcpy(&word, signs + i / 32 + (k / GROUPS) * (WORD_BITS / 32), sizeof word);
            Words bits = SPREAD_WORD(word);
#if VARIABLE_SHIFT
            Words negative = bits << select[k % GROUPS];
#else
            Words negative = (Words)((bits & select[k % GROUPS]) != 0);
#endif
            sums[k] += (Vector)((Words)LOAD(values + i + k * LANES) ^ (negative & SIGN_BIT));
        }
    }
    for (int k = 0; k < SKETCH_SIZE / LANES; k++)
        for (int lane = 0; lane < LANES; lane++)
            sketch[k * LANES + lane] += (double)sums[k][lane];
}

static void NAME(differences)(const REAL *references, const REAL *candidates, int64_t count, BlockComparison *out)
{
    Vector dot = {0}, reference_squares = {0}, candidate_squares = {0}, difference_squares = {0};
    Vector sum_abs = {0}, sum_signed = {0}, max_abs = {0}, reference_max = {0};
    Integers equal = {0};
    for (int64_t i = 0; i < count; i += LANES) {
        Vector reference = LOAD(references + i), candidate = LOAD(candidates + i);
        Vector difference = candidate - reference, distance = MAGNITUDE(difference);
        dot += reference * candidate;
        reference_squares += reference * reference;
        candidate_squares += candidate * candidate;
        difference_squares += difference * difference;
        sum_abs += distance;
        sum_signed += difference;
        max_abs = VECTOR_MAX(distance, max_abs);
        reference_max = VECTOR_MAX(MAGNITUDE(reference), reference_max);
        COUNT(equal, difference == 0);
    }
    out->dot = NAME(sum)(dot);
    out->reference_squares = NAME(sum)(reference_squares);
    out->candidate_squares = NAME(sum)(candidate_squares);
    out->difference_squares = NAME(sum)(difference_squares);
    out->sum_abs = NAME(sum)(sum_abs);
    out->sum_signed = NAME(sum)(sum_signed);
    out->max_abs = NAME(largest)(max_abs);
    out->reference_max = NAME(largest)(reference_max);
    out->equal = NAME(total)(equal);
}

/* Relative errors and distances in units. 2**-exponent comes from the exponent bits by one subtraction; the factor
 * 2**(digits - 1) is the same for all elements. */
static void NAME(relatives)(const REAL *references, const REAL *candidates, int64_t count, Unit unit,
                            BlockComparison *out)
{
    Vector max_rel = {0}, sum_rel = {0}, max_unit = {0}, sum_unit = {0};
    Integers rel_count = {0}, within[THRESHOLDS] = {{0}};
    const INTEGER floor_bits = (INTEGER)((unit.exact ? 0 : unit.exponent_min) + EXPONENT_BIAS) << MANTISSA_BITS;
    const Integers floor_exponent = floor_bits - (Integers){0};
    const Words exponent_mask = SPREAD_WORD(unit.exact ? (WORD)0 : EXPONENT_BITS);
    const Words twice_bias = SPREAD_WORD((WORD)(2 * EXPONENT_BIAS) << MANTISSA_BITS);
    for (int64_t i = 0; i < count; i += LANES) {
        Vector reference = LOAD(references + i), scale = MAGNITUDE(reference);
        Vector difference = LOAD(candidates + i) - reference, distance = MAGNITUDE(difference);
        Words same = (Words)(difference == 0), not_zero = (Words)(scale != 0);
        Vector relative = (Vector)((Words)(distance / scale) & ~same); /* 0 / 0 counts as 0 */
        max_rel = VECTOR_MAX(relative, max_rel);
        sum_rel += (Vector)((Words)relative & not_zero);
        COUNT(rel_count, not_zero);
        for (int k = 0; k < THRESHOLDS; k++)
            COUNT(within[k], relative < (REAL)RELATIVE_THRESHOLDS[k]);
        /* Positive floats are ordered as their bits are. */
        Vector power = VECTOR_MAX((Vector)((Words)reference & exponent_mask), (Vector)floor_exponent);
        Vector units = distance * (Vector)(twice_bias - (Words)power);
        max_unit = VECTOR_MAX(units, max_unit);
        sum_unit += units;
    }
    double factor = unit.exact ? 1.0 : ldexp(1.0, unit.digits - 1);
    out->max_rel = NAME(largest)(max_rel);
    out->sum_rel = NAME(sum)(sum_rel);
    out->rel_count = NAME(total)(rel_count);
    for (int k = 0; k < THRESHOLDS; k++)
        out->within[k] = NAME(total)(within[k]);
    out->max_ulp = NAME(largest)(max_unit) * factor;
    out->sum_ulp = NAME(sum)(sum_unit) * factor;
}

static int NAME(compare)(const REAL *references, const REAL *candidates, int64_t count, Unit unit,
                         BlockComparison *out)
{
    NAME(differences)(references, candidates, count, out);
    double finite = out->reference_squares + out->candidate_squares + out->difference_squares;
    if (!isfinite(finite) || (out->reference_max != 0.0 && out->reference_max < LEAST))
        return 0;
    if (out->max_abs != 0.0 && (out->max_abs < LEAST || out->candidate_squares < LEAST * LEAST))
        return 0;
    NAME(relatives)(references, candidates, count, unit, out);
    return isfinite(out->sum_rel) && isfinite(out->sum_ulp);
}

#undef LANES
#undef WORD_BITS
#undef GROUPS
#undef MANTISSA_BITS
#undef SIGN_BIT
#undef EXPONENT_BITS
#undef EXPONENT_BIAS
#undef LEAST
#undef Vector
#undef Words
#undef Integers
#undef LOAD
#undef SPREAD_WORD
#undef MAGNITUDE
#undef COUNT
#undef REAL
#undef WORD
#undef INTEGER
#undef NAME
#undef VECTOR_MIN
#undef VECTOR_MAX
#undef WORD_MIN
