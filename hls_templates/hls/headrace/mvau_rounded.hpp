// MVAU, fully unrolled, with the activation after it: a constant matrix times the vectors of a stream, and of every sum
// y[m] = base + clip((sum over k of x[k] * weights[m][k] + bias[m]) >> shift, 0, top). One vector a cycle.
#pragma once

#include "types.hpp"

namespace headrace {

// CONFIG: vectors (in a frame), acc_bits (of a sum), shift, top, base.
template <class CONFIG, class X, class Y, class W, class B, int SIMD, int PE>
void mvau_rounded(hls::stream<pack<X, SIMD>>& in, hls::stream<pack<Y, PE>>& out, const W (&weights)[1][PE][SIMD],
                  const B (&bias)[1][PE]) {
    PRAGMA_HLS(HLS INLINE)
    using acc = accumulator<CONFIG::acc_bits>;

    for (int v = 0; v < CONFIG::vectors; ++v) {
        PRAGMA_HLS(HLS PIPELINE II=1 style=flp)
        const pack<X, SIMD> x = in.read();
        pack<Y, PE> y;
        for (int pe = 0; pe < PE; ++pe) {
            PRAGMA_HLS(HLS UNROLL)
            const acc sum = acc(dot<acc>(x, weights[0][pe]) + bias[0][pe]) >> CONFIG::shift;
            const int level = sum < 0 ? 0 : sum > CONFIG::top ? CONFIG::top : int(sum);
            y[pe] = Y(level + CONFIG::base);
        }
        out.write(y);
    }
}

}  // namespace headrace
