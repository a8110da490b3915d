// Affine: y = factor[c] * x + term[c], exact, or with product and sum rounded to 24 significant bits as in float32.
#pragma once

#include "types.hpp"

namespace headrace {

// `x` rounded to its 24 leading bits, ties to even.
template <int BITS>
accumulator<BITS> round_significand(const accumulator<BITS>& x) {
    PRAGMA_HLS(HLS INLINE)
    using acc = accumulator<BITS>;
    constexpr int kept = 24;
    const acc magnitude = x < 0 ? acc(-x) : x;
    int drop = 0;
    for (int k = 0; k + kept < BITS - 1; ++k) {
        PRAGMA_HLS(HLS UNROLL)
        if (acc(magnitude >> (kept + k)) != 0) drop = k + 1;
    }
    const acc whole = acc(magnitude >> drop);
    const acc rest = acc(magnitude - acc(whole << drop));
    const acc half = drop > 0 ? acc(acc(1) << (drop - 1)) : acc(0);
    const bool odd = (static_cast<long long>(whole) & 1) != 0;
    const bool up = drop > 0 && (rest > half || (rest == half && odd));
    const acc rounded = acc(acc(whole + acc(up ? 1 : 0)) << drop);
    return x < 0 ? acc(-rounded) : rounded;
}

// CONFIG: words (in a frame), folds (words of a pixel), acc_bits (of everything computed), round_product, round_sum.
// Tables have one row when all words are alike.
template <class CONFIG, class X, class Y, int PE, class F, int FACTORS, class T, int TERMS>
void affine(hls::stream<pack<X, PE>>& in, hls::stream<pack<Y, PE>>& out, const F (&factor)[FACTORS][PE],
            const T (&term)[TERMS][PE]) {
    PRAGMA_HLS(HLS INLINE)
    using acc = accumulator<CONFIG::acc_bits>;
    int fold = 0;
    for (int word = 0; word < CONFIG::words; ++word) {
        PRAGMA_HLS(HLS PIPELINE II=1 style=flp)
        const pack<X, PE> x = in.read();
        pack<Y, PE> y;
        for (int pe = 0; pe < PE; ++pe) {
            PRAGMA_HLS(HLS UNROLL)
            acc result = product<acc>(x[pe], factor[FACTORS == 1 ? 0 : fold][pe]);
            if (CONFIG::round_product != 0) result = round_significand<CONFIG::acc_bits>(result);
            result = acc(result + acc(term[TERMS == 1 ? 0 : fold][pe]));
            if (CONFIG::round_sum != 0) result = round_significand<CONFIG::acc_bits>(result);
            y[pe] = Y(result);
        }
        out.write(y);
        fold = fold < CONFIG::folds - 1 ? fold + 1 : 0;
    }
}

}  // namespace headrace
