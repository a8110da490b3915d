// Width converter: the same elements in words of another length, at any ratio.
#pragma once

#include "types.hpp"

namespace headrace {

// Elements move in chunks of `chunk`, the greatest common divisor of both lengths.
//
// CONFIG: cycles (the words of the side that has more), chunk.
template <class CONFIG, class X, int IN, int OUT>
void width_converter(hls::stream<pack<X, IN>>& in, hls::stream<pack<X, OUT>>& out) {
    PRAGMA_HLS(HLS INLINE)
    constexpr int C = CONFIG::chunk;
    pack<pack<X, C>, (IN + OUT) / C - 1> held = {};  // chunks that have arrived and not left, the oldest first
    int level = 0;
    for (int cycle = 0; cycle < CONFIG::cycles; ++cycle) {
        PRAGMA_HLS(HLS PIPELINE II=1 style=flp)
        if (level < OUT / C) {
            const pack<X, IN> x = in.read();
            for (int k = 0; k < IN; ++k) {
                PRAGMA_HLS(HLS UNROLL)
                held[level + k / C][k % C] = x[k];
            }
            level += IN / C;
        }
        if (level >= OUT / C) {
            pack<X, OUT> y;
            for (int k = 0; k < OUT; ++k) {
                PRAGMA_HLS(HLS UNROLL)
                y[k] = held[k / C][k % C];
            }
            out.write(y);
            for (int k = 0; k + OUT / C < held.lanes; ++k) {
                PRAGMA_HLS(HLS UNROLL)
                held[k] = held[k + OUT / C];
            }
            level -= OUT / C;
        }
    }
}

}  // namespace headrace
