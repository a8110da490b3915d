// SWG: sliding window generator. An image becomes the stream of its windows, so that a convolution is a product.
#pragma once

#include "window.hpp"

namespace headrace {

// CONFIG: as for window_buffer, fill (the padding), cycles (iterations, when no stream makes it wait), and what is left
// out of whole windows: head elements of the first word and tail of the last, across columns or else along rows.
template <class CONFIG, class X, class Y, int N, int M>
void swg(hls::stream<pack<X, N>>& in, hls::stream<pack<Y, M>>& out) {
    PRAGMA_HLS(HLS INLINE)
    window_buffer<CONFIG, X, N> window;
    constexpr int lines = window.lanes / CONFIG::lanes_w;
    constexpr int ends = CONFIG::across ? lines : 1;
    static_assert(M == N * window.lanes - ends * (CONFIG::head + CONFIG::tail), "a word holds one tap of every lane");
    PRAGMA_HLS(HLS AGGREGATE variable=window.lines compact=bit)
    PRAGMA_HLS(HLS ARRAY_PARTITION variable=window.lines complete dim=1)

    while (!window.done()) {
        PRAGMA_HLS(HLS PIPELINE II=1 style=flp)
        PRAGMA_HLS(HLS LOOP_TRIPCOUNT min=CONFIG::cycles max=CONFIG::cycles)
        PRAGMA_HLS(HLS DEPENDENCE variable=window.lines type=inter direction=RAW distance=3 true)
        PRAGMA_HLS(HLS DEPENDENCE variable=window.lines type=intra direction=RAW false)
        const bool ready = window.ready();
        window.take(in, ready);
        if (ready) {
            pack<Y, M> y;
            int at = 0;
            for (int lane = 0; lane < window.lanes; ++lane) {
                PRAGMA_HLS(HLS UNROLL)
                const bool inside = window.inside(lane);
                const int place = CONFIG::across ? lane % CONFIG::lanes_w : lane / CONFIG::lanes_w;
                const int first = place == 0 ? CONFIG::head : 0;
                const int last = place == (CONFIG::across ? CONFIG::lanes_w : lines) - 1 ? N - CONFIG::tail : N;
                for (int i = 0; i < N; ++i) {
                    PRAGMA_HLS(HLS UNROLL)
                    if (i < first || i >= last) continue;
                    y[at++] = inside ? convert<Y>(window.word(lane)[i]) : Y(CONFIG::fill);
                }
            }
            out.write(y);
            window.advance();
        }
    }
}

}  // namespace headrace
