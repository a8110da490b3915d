// SumPool: the sum of each window of an image; padding counts as 0.
#pragma once

#include "window.hpp"

namespace headrace {

// CONFIG: as for window_buffer, acc_bits (of a running sum), cycles (from the first word of a frame read to its last
// word written).
template <class CONFIG, class X, class Y, int PE>
void sum_pool(hls::stream<pack<X, PE>>& in, hls::stream<pack<Y, PE>>& out) {
    PRAGMA_HLS(HLS INLINE)
    using acc = accumulator<CONFIG::acc_bits>;
    window_buffer<CONFIG, X, PE> window;
    PRAGMA_HLS(HLS AGGREGATE variable=window.lines compact=bit)
    PRAGMA_HLS(HLS ARRAY_PARTITION variable=window.lines complete dim=1)
    acc sums[PE] = {};
    PRAGMA_HLS(HLS ARRAY_PARTITION variable=sums complete)

    while (!window.done()) {
        PRAGMA_HLS(HLS PIPELINE II=1 style=flp)
        PRAGMA_HLS(HLS LOOP_TRIPCOUNT min=CONFIG::cycles max=CONFIG::cycles)
        PRAGMA_HLS(HLS DEPENDENCE variable=window.lines type=inter direction=RAW distance=3 true)
        PRAGMA_HLS(HLS DEPENDENCE variable=window.lines type=intra direction=RAW false)
        const bool ready = window.ready();
        window.take(in, ready);
        if (ready) {
            pack<Y, PE> y;
            for (int pe = 0; pe < PE; ++pe) {
                PRAGMA_HLS(HLS UNROLL)
                acc sum = window.first_tap() ? acc(0) : sums[pe];
                for (int lane = 0; lane < CONFIG::lanes_h * CONFIG::lanes_w; ++lane) {
                    PRAGMA_HLS(HLS UNROLL)
                    if (window.inside(lane)) sum = acc(sum + acc(value(window.word(lane)[pe])));
                }
                sums[pe] = sum;
                y[pe] = Y(sum);
            }
            if (window.last_tap()) out.write(y);
            window.advance();
        }
    }
}

// The only window is the whole image: summed as it arrives, one running sum per channel.
//
// CONFIG: pixels, folds (words of a pixel), acc_bits.
template <class CONFIG, class X, class Y, int PE>
void sum_pool_whole(hls::stream<pack<X, PE>>& in, hls::stream<pack<Y, PE>>& out) {
    PRAGMA_HLS(HLS INLINE)
    using acc = accumulator<CONFIG::acc_bits>;
    acc sums[CONFIG::folds][PE];
    PRAGMA_HLS(HLS ARRAY_RESHAPE variable=sums complete dim=2)
    int pixel = 0;
    int fold = 0;
    for (int word = 0; word < CONFIG::pixels * CONFIG::folds; ++word) {
        PRAGMA_HLS(HLS PIPELINE II=1 style=flp)
        PRAGMA_HLS(HLS DEPENDENCE variable=sums type=inter direction=RAW distance=CONFIG::folds true)
        const pack<X, PE> x = in.read();
        pack<Y, PE> y;
        for (int pe = 0; pe < PE; ++pe) {
            PRAGMA_HLS(HLS UNROLL)
            const acc before = pixel == 0 ? acc(0) : sums[fold][pe];
            const acc sum = before + acc(value(x[pe]));
            sums[fold][pe] = sum;
            y[pe] = Y(sum);
        }
        if (pixel == CONFIG::pixels - 1) out.write(y);
        if (fold < CONFIG::folds - 1) {
            ++fold;
        } else {
            fold = 0;
            ++pixel;
        }
    }
}

}  // namespace headrace
