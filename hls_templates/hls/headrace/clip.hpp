// Clip: y = min(max(x, lo[c]), hi[c]).
#pragma once

#include "types.hpp"

namespace headrace {

// CONFIG: words (in a frame), folds (words of a pixel), acc_bits (of every operand). Tables have one row when all words
// are alike.
template <class CONFIG, class X, class Y, int PE, class L, int LOWS, class H, int HIGHS>
void clip(hls::stream<pack<X, PE>>& in, hls::stream<pack<Y, PE>>& out, const L (&lo)[LOWS][PE],
          const H (&hi)[HIGHS][PE]) {
    PRAGMA_HLS(HLS INLINE)
    using acc = accumulator<CONFIG::acc_bits>;
    int fold = 0;
    for (int word = 0; word < CONFIG::words; ++word) {
        PRAGMA_HLS(HLS PIPELINE II=1 style=flp)
        const pack<X, PE> x = in.read();
        pack<Y, PE> y;
        for (int pe = 0; pe < PE; ++pe) {
            PRAGMA_HLS(HLS UNROLL)
            const acc low = acc(value(lo[LOWS == 1 ? 0 : fold][pe]));
            const acc high = acc(value(hi[HIGHS == 1 ? 0 : fold][pe]));
            acc held = acc(value(x[pe]));
            if (held < low) held = low;
            if (held > high) held = high;
            y[pe] = Y(held);
        }
        out.write(y);
        fold = fold < CONFIG::folds - 1 ? fold + 1 : 0;
    }
}

}  // namespace headrace
