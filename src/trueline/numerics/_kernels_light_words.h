/* The light look at a run of floating-point words, included once for each word and instruction set.
 *
 *   WORD      an unsigned integer as wide as an element
 *   NAME(x)   the name of a function of this instance
 *
 * Magnitudes are compared as integers, which order finite numbers as their values do. The compiler makes vectors of the
 * loop; its counters are as wide as a word, so it takes at most LIGHT_BLOCK elements.
 */
typedef WORD NAME(Loose) __attribute__((aligned(1), may_alias));

static void NAME(count_not_finite)(const NAME(Loose) *words, int64_t count, const LightLimits *limits, LightTally *tally)
{
    const WORD sign = (WORD)1 << (8 * sizeof(WORD) - 1), infinity = (WORD)limits->infinity;
    WORD most = 0;
    for (int64_t i = 0; i < count; i++) {
        WORD word = words[i], magnitude = (WORD)(word & (WORD)~sign);
        if (magnitude < infinity)
            most = magnitude > most ? magnitude : most;
        else if (magnitude > infinity)
            tally->nan++;
        else if (word & sign)
            tally->negative_infinity++;
        else
            tally->positive_infinity++;
    }
    tally->most = most > tally->most ? most : tally->most;
}

static void NAME(count_extremes)(const NAME(Loose) *words, int64_t count, const LightLimits *limits, LightTally *tally)
{
    const WORD mask = (WORD)~((WORD)1 << (8 * sizeof(WORD) - 1));
    const WORD subnormal = (WORD)(limits->normal - 1), top = (WORD)limits->largest;
    WORD small = 0, saturated = 0;
    for (int64_t i = 0; i < count; i++) {
        WORD magnitude = (WORD)(words[i] & mask);
        small = (WORD)(small + ((WORD)(magnitude - 1) < subnormal));
        saturated = (WORD)(saturated + (magnitude == top));
    }
    tally->subnormals += small;
    tally->saturated += saturated;
}

/* Most blocks have neither subnormals nor anything as large as the largest number: these are counted where they are. */
static void NAME(look_at_words)(const char *raw, int64_t count, const LightLimits *limits, LightTally *tally)
{
    const NAME(Loose) *words = (const NAME(Loose) *)raw;
    const WORD mask = (WORD)~((WORD)1 << (8 * sizeof(WORD) - 1));
    WORD most = 0, least = (WORD)~(WORD)0, zeros = 0;
    for (int64_t i = 0; i < count; i++) {
        WORD magnitude = (WORD)(words[i] & mask), less = (WORD)(magnitude - 1); /* zero becomes the largest */
        most = magnitude > most ? magnitude : most;
        least = less < least ? less : least;
        zeros = (WORD)(zeros + (magnitude == 0));
    }
    tally->zeros += zeros;
    tally->least = least < tally->least ? least : tally->least;
    if (most >= (WORD)limits->largest || least < (WORD)(limits->normal - 1))
        NAME(count_extremes)(words, count, limits, tally);
    if (most >= (WORD)limits->infinity)
        NAME(count_not_finite)(words, count, limits, tally);
    else
        tally->most = most > tally->most ? most : tally->most;
}

#undef WORD
#undef NAME
