// MVAU: a constant matrix times the vectors of a stream, y[m] = sum over k of x[k] * weights[m][k].
//
// In cycle nf * SF + sf of a vector, row nf * PE + pe adds the products with the inputs sf * SIMD .. . A vector is read
// in its first pass (nf = 0) and kept for the others.
#pragma once

#include "types.hpp"

namespace headrace {

// CONFIG: vectors (in a frame), nf (passes over a vector), sf (words of a vector), acc_bits (of a running sum).
template <class CONFIG, class X, class Y, class W, int SIMD, int PE>
void mvau(hls::stream<pack<X, SIMD>>& in, hls::stream<pack<Y, PE>>& out,
          const W (&weights)[CONFIG::nf * CONFIG::sf][PE][SIMD]) {
    PRAGMA_HLS(HLS INLINE)
    using acc = accumulator<CONFIG::acc_bits>;

    pack<X, SIMD> inputs[CONFIG::sf];
    PRAGMA_HLS(HLS AGGREGATE variable=inputs compact=bit)
    acc sums[PE] = {};
    PRAGMA_HLS(HLS ARRAY_PARTITION variable=sums complete)

    int nf = 0;
    int sf = 0;
    for (int cycle = 0; cycle < CONFIG::vectors * CONFIG::nf * CONFIG::sf; ++cycle) {
        PRAGMA_HLS(HLS PIPELINE II=1 style=flp)
        pack<X, SIMD> x;
        if (nf == 0) {
            x = in.read();
            inputs[sf] = x;
        } else {
            x = inputs[sf];
        }
        pack<Y, PE> y;
        for (int pe = 0; pe < PE; ++pe) {
            PRAGMA_HLS(HLS UNROLL)
            const acc sum = dot<acc>(x, weights[nf * CONFIG::sf + sf][pe]);
            sums[pe] = sf == 0 ? sum : acc(sums[pe] + sum);
            y[pe] = Y(sums[pe]);
        }
        if (sf == CONFIG::sf - 1) out.write(y);

        if (sf < CONFIG::sf - 1) {
            ++sf;
        } else {
            sf = 0;
            nf = nf < CONFIG::nf - 1 ? nf + 1 : 0;
        }
    }
}

}  // namespace headrace
