// MaxPool: the largest value of each window of an image; padding never wins.
#pragma once

#include "window.hpp"

namespace headrace {

template <class X, int PE>
void larger(pack<X, PE>& best, const pack<X, PE>& x, bool first) {
    PRAGMA_HLS(HLS INLINE)
    for (int pe = 0; pe < PE; ++pe) {
        PRAGMA_HLS(HLS UNROLL)
        best[pe] = first || value(x[pe]) > value(best[pe]) ? x[pe] : best[pe];
    }
}

// CONFIG: as for window_buffer, and cycles (iterations, when no stream makes it wait).
template <class CONFIG, class X, int PE>
void max_pool(hls::stream<pack<X, PE>>& in, hls::stream<pack<X, PE>>& out) {
    PRAGMA_HLS(HLS INLINE)
    window_buffer<CONFIG, X, PE> window;
    PRAGMA_HLS(HLS AGGREGATE variable=window.lines compact=bit)
    PRAGMA_HLS(HLS ARRAY_PARTITION variable=window.lines complete dim=1)
    pack<X, PE> best = {};
    bool empty = true;  // no pixel of the window seen yet

    while (!window.done()) {
        PRAGMA_HLS(HLS PIPELINE II=1 style=flp)
        PRAGMA_HLS(HLS LOOP_TRIPCOUNT min=CONFIG::cycles max=CONFIG::cycles)
        PRAGMA_HLS(HLS DEPENDENCE variable=window.lines type=inter direction=RAW distance=3 true)
        PRAGMA_HLS(HLS DEPENDENCE variable=window.lines type=intra direction=RAW false)
        const bool ready = window.ready();
        window.take(in, ready);
        if (ready) {
            if (window.first_tap()) empty = true;
            for (int lane = 0; lane < CONFIG::lanes_h * CONFIG::lanes_w; ++lane) {
                PRAGMA_HLS(HLS UNROLL)
                if (window.inside(lane)) {
                    larger(best, window.word(lane), empty);
                    empty = false;
                }
            }
            if (window.last_tap()) out.write(best);
            window.advance();
        }
    }
}

// The only window is the whole image: reduced as it arrives, one running value per channel.
//
// CONFIG: pixels, folds (words of a pixel).
template <class CONFIG, class X, int PE>
void max_pool_whole(hls::stream<pack<X, PE>>& in, hls::stream<pack<X, PE>>& out) {
    PRAGMA_HLS(HLS INLINE)
    pack<X, PE> best[CONFIG::folds];
    PRAGMA_HLS(HLS AGGREGATE variable=best compact=bit)
    int pixel = 0;
    int fold = 0;
    for (int word = 0; word < CONFIG::pixels * CONFIG::folds; ++word) {
        PRAGMA_HLS(HLS PIPELINE II=1 style=flp)
        PRAGMA_HLS(HLS DEPENDENCE variable=best type=inter direction=RAW distance=CONFIG::folds true)
        pack<X, PE> y = best[fold];
        larger(y, in.read(), pixel == 0);
        best[fold] = y;
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
