// Concat: the pixels of several streams, one after the other, as the channels of one.
#pragma once

#include "types.hpp"

namespace headrace {

// The elements of `x` into `y` from lane `first` on, as elements of another type; returns the lane after them.
template <class X, class Y, int N, int M>
int place(const pack<X, N>& x, pack<Y, M>& y, int first) {
    PRAGMA_HLS(HLS INLINE)
    for (int i = 0; i < N; ++i) {
        PRAGMA_HLS(HLS UNROLL)
        y[first + i] = convert<Y>(x[i]);
    }
    return first + N;
}

// The inputs take turns; `words[k]` are the words of a pixel of input k.
//
// CONFIG: words (in a frame).
template <class CONFIG, class Y, int SIMD, class C, int INPUTS, class... X>
void concat(hls::stream<pack<Y, SIMD>>& out, const C (&words)[INPUTS], hls::stream<pack<X, SIMD>>&... in) {
    PRAGMA_HLS(HLS INLINE)
    int turn = 0;
    int position = 0;
    for (int word = 0; word < CONFIG::words; ++word) {
        PRAGMA_HLS(HLS PIPELINE II=1 style=flp)
        pack<Y, SIMD> y;
        int input = 0;
        ((input++ == turn ? place(in.read(), y, 0) : 0), ...);
        out.write(y);
        if (position < static_cast<int>(words[turn]) - 1) {
            ++position;
        } else {
            position = 0;
            turn = turn < INPUTS - 1 ? turn + 1 : 0;
        }
    }
}

// Every input gives a whole pixel at once.
template <class CONFIG, class Y, int CHANNELS, class... X, int... N>
void concat_pixels(hls::stream<pack<Y, CHANNELS>>& out, hls::stream<pack<X, N>>&... in) {
    PRAGMA_HLS(HLS INLINE)
    for (int word = 0; word < CONFIG::words; ++word) {
        PRAGMA_HLS(HLS PIPELINE II=1 style=flp)
        pack<Y, CHANNELS> y;
        int lane = 0;
        ((lane = place(in.read(), y, lane)), ...);
        out.write(y);
    }
}

}  // namespace headrace
