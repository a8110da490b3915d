// AddStreams: the join of two branches, factor0 * x0 + factor1 * x1.
#pragma once

#include "types.hpp"

namespace headrace {

// CONFIG: words (in a frame), factor0, factor1, factor_bits, acc_bits (of the sum and of each product).
template <class CONFIG, class X0, class X1, class Y, int PE>
void add_streams(hls::stream<pack<X0, PE>>& in0, hls::stream<pack<X1, PE>>& in1, hls::stream<pack<Y, PE>>& out) {
    PRAGMA_HLS(HLS INLINE)
    using acc = accumulator<CONFIG::acc_bits>;
    using factor = ap_int<CONFIG::factor_bits>;

    for (int word = 0; word < CONFIG::words; ++word) {
        PRAGMA_HLS(HLS PIPELINE II=1 style=flp)
        const pack<X0, PE> x0 = in0.read();
        const pack<X1, PE> x1 = in1.read();
        pack<Y, PE> y;
        for (int pe = 0; pe < PE; ++pe) {
            PRAGMA_HLS(HLS UNROLL)
            const acc left = product<acc>(x0[pe], factor(CONFIG::factor0));
            const acc right = product<acc>(x1[pe], factor(CONFIG::factor1));
            y[pe] = Y(acc(left + right));
        }
        out.write(y);
    }
}

}  // namespace headrace
