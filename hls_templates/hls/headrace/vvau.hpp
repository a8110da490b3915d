// VVAU: a depthwise convolution; every channel has its own kernels.
//
// PE channels and `lanes` taps of a window are worked on at a time, with all kernels of a channel. Padding is 0.
#pragma once

#include "window.hpp"

namespace headrace {

// CONFIG: as for window_buffer, passes (reads per result), acc_bits (of a running sum), cycles (from the first word of
// a frame read to its last word written).
template <class CONFIG, class X, class Y, class W, int PE, int ROWS, int FOLDS, int KERNELS, int LANES>
void vvau(hls::stream<pack<X, PE>>& in, hls::stream<pack<Y, ROWS>>& out,
          const W (&weights)[FOLDS][PE][KERNELS][LANES]) {
    PRAGMA_HLS(HLS INLINE)
    static_assert(ROWS == PE * KERNELS, "a word holds the results of all kernels of PE channels");
    using acc = accumulator<CONFIG::acc_bits>;
    window_buffer<CONFIG, X, PE> window;
    static_assert(LANES == window.lanes, "a weight for every lane");
    PRAGMA_HLS(HLS AGGREGATE variable=window.lines compact=bit)
    PRAGMA_HLS(HLS ARRAY_PARTITION variable=window.lines complete dim=1)
    acc sums[ROWS] = {};
    PRAGMA_HLS(HLS ARRAY_PARTITION variable=sums complete)

    while (!window.done()) {
        PRAGMA_HLS(HLS PIPELINE II=1 style=flp)
        PRAGMA_HLS(HLS LOOP_TRIPCOUNT min=CONFIG::cycles max=CONFIG::cycles)
        PRAGMA_HLS(HLS DEPENDENCE variable=window.lines type=inter direction=RAW distance=3 true)
        PRAGMA_HLS(HLS DEPENDENCE variable=window.lines type=intra direction=RAW false)
        const bool ready = window.ready();
        window.take(in, ready);
        if (ready) {
            const int word = window.current_fold() * CONFIG::passes + window.current_tap();
            pack<Y, ROWS> y;
            for (int pe = 0; pe < PE; ++pe) {
                PRAGMA_HLS(HLS UNROLL)
                for (int kernel = 0; kernel < KERNELS; ++kernel) {
                    PRAGMA_HLS(HLS UNROLL)
                    acc sum = window.first_tap() ? acc(0) : sums[pe * KERNELS + kernel];
                    for (int lane = 0; lane < LANES; ++lane) {
                        PRAGMA_HLS(HLS UNROLL)
                        if (window.inside(lane)) {
                            sum += product<acc>(window.word(lane)[pe], weights[word][pe][kernel][lane]);
                        }
                    }
                    sums[pe * KERNELS + kernel] = sum;
                    y[pe * KERNELS + kernel] = Y(sum);
                }
            }
            if (window.last_tap()) out.write(y);
            window.advance();
        }
    }
}

}  // namespace headrace
