// Slice: some of the channels of a stream; the others are read and dropped.
#pragma once

#include "types.hpp"

namespace headrace {

// Whole words are kept or dropped.
//
// CONFIG: pixels (in a frame), words (of a pixel), first and last (words that are kept), step.
template <class CONFIG, class X, int SIMD>
void slice(hls::stream<pack<X, SIMD>>& in, hls::stream<pack<X, SIMD>>& out) {
    PRAGMA_HLS(HLS INLINE)
    int position = 0;
    int next = CONFIG::first;  // the next word of the pixel that is kept
    for (int word = 0; word < CONFIG::pixels * CONFIG::words; ++word) {
        PRAGMA_HLS(HLS PIPELINE II=1 style=flp)
        const pack<X, SIMD> x = in.read();
        if (position == next && position <= CONFIG::last) {
            out.write(x);
            next += CONFIG::step;
        }
        if (position < CONFIG::words - 1) {
            ++position;
        } else {
            position = 0;
            next = CONFIG::first;
        }
    }
}

// Some elements of every word, which is a whole pixel.
//
// CONFIG: pixels (in a frame), first (element that is kept), step.
template <class CONFIG, class X, int CHANNELS, int KEPT>
void slice_pixels(hls::stream<pack<X, CHANNELS>>& in, hls::stream<pack<X, KEPT>>& out) {
    PRAGMA_HLS(HLS INLINE)
    for (int pixel = 0; pixel < CONFIG::pixels; ++pixel) {
        PRAGMA_HLS(HLS PIPELINE II=1 style=flp)
        const pack<X, CHANNELS> x = in.read();
        pack<X, KEPT> y;
        for (int i = 0; i < KEPT; ++i) {
            PRAGMA_HLS(HLS UNROLL)
            y[i] = x[CONFIG::first + i * CONFIG::step];
        }
        out.write(y);
    }
}

}  // namespace headrace
