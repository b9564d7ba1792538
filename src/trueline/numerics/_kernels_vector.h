/* The fast kernels, for one type of real number and one width of vectors. A template: _kernels.c includes it with
 *
 *   REAL, WORD, INTEGER   float, uint32_t, int32_t or double, uint64_t, int64_t
 *   NAME(x)               the name of this instance of x
 *   VECTOR_BYTES          width of a vector
 *   VECTOR_MIN/MAX(a, b)  of numbers; b where either is NaN
 *   VARIABLE_SHIFT        1 if each lane can be shifted by its own amount
 *
 * Each kernel takes a block of a multiple of SKETCH_SIZE elements, the last `padding` of which are NaN and not part of
 * the tensor, and returns 1 if its numbers hold, 0 if the block must be done in higher precision or carefully. Squares
 * tell: their sum is not finite if an element is not or overflows, and the largest magnitude shows underflow. Blocks
 * with elements that are not finite are cleaned, these elements counted and replaced by zero, and done again. The
 * loops read the block more than once; it then comes from the first-level cache, and the accumulators of one loop fit
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
#define STORE(p, v) (*(NAME(Loose) *)(p) = (NAME(Loose))(v))
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

/* The sums and extremes of a block that has no element that is not finite. */
ALWAYS_INLINE void NAME(accumulate)(const REAL *values, int64_t count, BlockReduction *out)
{
    Vector sum[2] = {{0}, {0}}, squares[2] = {{0}, {0}};
    Vector minimum = LOAD(values), maximum = minimum, smallest = (REAL)INFINITY - (Vector){0};
    Integers zeros = {0};
    for (int64_t i = 0; i < count; i += 2 * LANES) {
        for (int k = 0; k < 2; k++) {
            Vector value = LOAD(values + i + k * LANES);
            Words magnitude = (Words)MAGNITUDE(value), zero = (Words)(magnitude == 0);
            sum[k] += value;
            squares[k] += value * value;
            minimum = VECTOR_MIN(value, minimum);
            maximum = VECTOR_MAX(value, maximum);
            smallest = VECTOR_MIN((Vector)(magnitude | (zero & EXPONENT_BITS)), smallest); /* zero becomes infinite */
            COUNT(zeros, zero);
        }
    }
    out->sum = NAME(sum)(sum[0] + sum[1]);
    out->squares = NAME(sum)(squares[0] + squares[1]);
    out->zeros = NAME(total)(zeros);
    out->minimum = -NAME(largest)(-minimum);
    out->maximum = NAME(largest)(maximum);
    out->smallest = -NAME(largest)(-smallest);
}

/* Copies a block with zeros for the elements that are not finite; counts these; the extremes are of the others. */
static void NAME(clean)(const REAL *values, int64_t count, REAL *cleaned, BlockReduction *out)
{
    const Vector infinity = (REAL)INFINITY - (Vector){0};
    Vector minimum = infinity, maximum = -infinity;
    Integers nan = {0}, positive = {0}, negative = {0};
    for (int64_t i = 0; i < count; i += LANES) {
        Vector value = LOAD(values + i);
        Words finite = (Words)(MAGNITUDE(value) < infinity);
        STORE(cleaned + i, (Vector)((Words)value & finite));
        minimum = VECTOR_MIN((Vector)(((Words)value & finite) | ((Words)infinity & ~finite)), minimum);
        maximum = VECTOR_MAX((Vector)(((Words)value & finite) | ((Words)-infinity & ~finite)), maximum);
        COUNT(nan, value != value);
        COUNT(positive, value == infinity);
        COUNT(negative, value == -infinity);
    }
    out->nan = NAME(total)(nan);
    out->positive_infinity = NAME(total)(positive);
    out->negative_infinity = NAME(total)(negative);
    out->minimum = -NAME(largest)(-minimum);
    out->maximum = NAME(largest)(maximum);
}

/* Adds a block of finite numbers to the sketch; `index` is that of the first one, a multiple of SKETCH_SIZE. */
ALWAYS_INLINE void NAME(add_to_sketch)(const REAL *values, int64_t count, uint64_t index, double *sketch)
{
    Vector sums[SKETCH_SIZE / LANES];
    Words select[GROUPS];
    uint32_t signs[BLOCK / 32];
    for (int64_t i = 0; i < count / 32; i++)
        signs[i] = sign_word((uint32_t)(index >> 5) + (uint32_t)i);
    for (int k = 0; k < GROUPS; k++)
        for (int lane = 0; lane < LANES; lane++)
            select[k][lane] = VARIABLE_SHIFT ? (WORD)(WORD_BITS - 1 - k * LANES - lane) : (WORD)1 << (k * LANES + lane);
    for (int k = 0; k < SKETCH_SIZE / LANES; k++)
        sums[k] = (Vector){0};
    int64_t i = 0;
    do {
        for (int k = 0; k < SKETCH_SIZE; k += CACHE_LINE / (int)sizeof(REAL))
            __builtin_prefetch(values + i + k + BLOCK);
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
        i += SKETCH_SIZE;
    } while (i < count);
    for (int k = 0; k < SKETCH_SIZE / LANES; k++)
        for (int lane = 0; lane < LANES; lane++)
            sketch[k * LANES + lane] += (double)sums[k][lane];
}

static int NAME(reduce)(const REAL *values, int64_t count, int64_t padding, uint64_t index, BlockReduction *out,
                        double *sketch)
{
    REAL cleaned[BLOCK];
    out->nan = out->positive_infinity = out->negative_infinity = 0;
    if (padding == 0)
        NAME(accumulate)(values, count, out);
    if (padding || !isfinite(out->squares)) {
        BlockReduction counted;
        NAME(clean)(values, count, cleaned, &counted);
        NAME(accumulate)(cleaned, count, out);
        out->nan = counted.nan - padding;
        out->positive_infinity = counted.positive_infinity;
        out->negative_infinity = counted.negative_infinity;
        out->zeros -= counted.nan + counted.positive_infinity + counted.negative_infinity;
        out->minimum = counted.minimum;
        out->maximum = counted.maximum;
        values = cleaned;
    }
    double largest = out->maximum > -out->minimum ? out->maximum : -out->minimum;
    if (!isfinite(out->squares) || (largest > 0.0 && largest < LEAST))
        return 0;
    NAME(add_to_sketch)(values, count, index, sketch);
    return 1;
}

/* Returns whether no reference is zero. */
static int NAME(differences)(const REAL *references, const REAL *candidates, int64_t count, BlockComparison *out)
{
    Vector dot = {0}, reference_squares = {0}, candidate_squares = {0}, difference_squares = {0};
    Vector sum_abs = {0}, sum_signed = {0}, max_abs = {0}, reference_max = {0};
    Vector reference_min = (REAL)INFINITY - (Vector){0};
    Integers equal = {0};
    for (int64_t i = 0; i < count; i += LANES) {
        Vector reference = LOAD(references + i), candidate = LOAD(candidates + i);
        Vector difference = candidate - reference, distance = MAGNITUDE(difference), scale = MAGNITUDE(reference);
        dot += reference * candidate;
        reference_squares += reference * reference;
        candidate_squares += candidate * candidate;
        difference_squares += difference * difference;
        sum_abs += distance;
        sum_signed += difference;
        max_abs = VECTOR_MAX(distance, max_abs);
        reference_max = VECTOR_MAX(scale, reference_max);
        reference_min = VECTOR_MIN(scale, reference_min);
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
    return NAME(largest)(-reference_min) < 0.0;
}

/* Relative errors and distances in units. 2**-exponent comes from the exponent bits by one subtraction; the factor
 * 2**(digits - 1) is the same for all elements. While this loop computes, the next block is on its way to the cache. */
ALWAYS_INLINE void NAME(relatives)(const REAL *references, const REAL *candidates, int64_t count, Unit unit,
                                   int nowhere_zero, BlockComparison *out)
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
        Vector relative = distance / scale;
        if (i % (CACHE_LINE / (int)sizeof(REAL)) == 0) {
            __builtin_prefetch(references + i + BLOCK);
            __builtin_prefetch(candidates + i + BLOCK);
        }
        if (nowhere_zero) {
            sum_rel += relative;
        } else {
            Words not_zero = (Words)(scale != 0);
            relative = (Vector)((Words)relative & ~(Words)(difference == 0)); /* 0 / 0 counts as 0 */
            sum_rel += (Vector)((Words)relative & not_zero);
            COUNT(rel_count, not_zero);
        }
        max_rel = VECTOR_MAX(relative, max_rel);
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
    out->rel_count = nowhere_zero ? count : NAME(total)(rel_count);
    for (int k = 0; k < THRESHOLDS; k++)
        out->within[k] = NAME(total)(within[k]);
    out->max_ulp = NAME(largest)(max_unit) * factor;
    out->sum_ulp = NAME(sum)(sum_unit) * factor;
}

/* Copies two blocks with zeros for the pairs that are not both finite, and counts these. */
static void NAME(clean_pairs)(const REAL *references, const REAL *candidates, int64_t count,
                              REAL (*cleaned)[BLOCK], BlockComparison *out)
{
    const Vector infinity = (REAL)INFINITY - (Vector){0};
    Integers finite_pairs = {0}, same = {0}, nan = {0};
    for (int64_t i = 0; i < count; i += LANES) {
        Vector reference = LOAD(references + i), candidate = LOAD(candidates + i);
        Words finite = (Words)(MAGNITUDE(reference) < infinity) & (Words)(MAGNITUDE(candidate) < infinity);
        Words nan_left = (Words)(reference != reference), nan_right = (Words)(candidate != candidate);
        STORE(cleaned[0] + i, (Vector)((Words)reference & finite));
        STORE(cleaned[1] + i, (Vector)((Words)candidate & finite));
        COUNT(finite_pairs, finite);
        COUNT(nan, nan_left ^ nan_right);
        COUNT(same, ((Words)(reference == candidate) & ~finite) | (nan_left & nan_right));
    }
    out->both_finite = NAME(total)(finite_pairs);
    out->nan_mismatch = NAME(total)(nan);
    out->equal = NAME(total)(same); /* and not finite */
    out->infinity_mismatch = count - out->both_finite - out->nan_mismatch - out->equal;
}

static int NAME(compare)(const REAL *references, const REAL *candidates, int64_t count, int64_t padding, Unit unit,
                         BlockComparison *out)
{
    REAL cleaned[2][BLOCK];
    BlockComparison counted = {.both_finite = count};
    int nowhere_zero = 0;
    if (padding == 0)
        nowhere_zero = NAME(differences)(references, candidates, count, out);
    if (padding || !isfinite(out->reference_squares + out->candidate_squares)) {
        NAME(clean_pairs)(references, candidates, count, cleaned, &counted);
        nowhere_zero = NAME(differences)(cleaned[0], cleaned[1], count, out);
        references = cleaned[0];
        candidates = cleaned[1];
    }
    double squares = out->reference_squares + out->candidate_squares + out->difference_squares;
    if (!isfinite(squares) || (out->reference_max != 0.0 && out->reference_max < LEAST))
        return 0;
    if (out->max_abs != 0.0 && (out->max_abs < LEAST || out->candidate_squares < LEAST * LEAST))
        return 0;
    if (nowhere_zero)
        NAME(relatives)(references, candidates, count, unit, 1, out);
    else
        NAME(relatives)(references, candidates, count, unit, 0, out);
    int64_t zeroed = count - counted.both_finite; /* these pairs look equal, and within every threshold */
    out->both_finite = counted.both_finite;
    out->equal += counted.equal - zeroed - padding;
    out->nan_mismatch = counted.nan_mismatch;
    out->infinity_mismatch = counted.infinity_mismatch;
    for (int k = 0; k < THRESHOLDS; k++)
        out->within[k] -= zeroed;
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
#undef STORE
#undef SPREAD_WORD
#undef MAGNITUDE
#undef COUNT
#undef REAL
#undef WORD
#undef INTEGER
#undef NAME
#undef VECTOR_MIN
#undef VECTOR_MAX
