// Gather: the channels of a stream in another order, some of them perhaps repeated or left out.
#pragma once

#include "types.hpp"

namespace headrace {

// From a buffer of two pixels: `positions[k]` is the word of the input that leaves as word k.
//
// CONFIG: pixels (in a frame), words (of a pixel that arrive), cycles (from the first word of a frame read to its last
// word written).
template <class CONFIG, class X, int SIMD, class P, int OUT_WORDS>
void gather(hls::stream<pack<X, SIMD>>& in, hls::stream<pack<X, SIMD>>& out, const P (&positions)[OUT_WORDS]) {
    PRAGMA_HLS(HLS INLINE)
    pack<X, SIMD> pixels[2][CONFIG::words];
    PRAGMA_HLS(HLS AGGREGATE variable=pixels compact=bit)

    int taken_pixels = 0;
    int taken = 0;  // words of the next pixel
    int pixel = 0;
    int word = 0;
    for (int cycle = 0; cycle < CONFIG::cycles; ++cycle) {
        PRAGMA_HLS(HLS PIPELINE II=1)
        PRAGMA_HLS(HLS DEPENDENCE variable=pixels type=inter false)
        PRAGMA_HLS(HLS DEPENDENCE variable=pixels type=intra false)
        const int position = static_cast<int>(positions[word]);
        const bool arrived = pixel < taken_pixels || (pixel == taken_pixels && position < taken);
        const bool ready = pixel < CONFIG::pixels && arrived;
        if (taken_pixels < CONFIG::pixels && taken_pixels - pixel < 2) {
            pixels[taken_pixels % 2][taken] = in.read();
            if (taken < CONFIG::words - 1) {
                ++taken;
            } else {
                taken = 0;
                ++taken_pixels;
            }
        }
        if (ready) {
            out.write(pixels[pixel % 2][position]);
            if (word < OUT_WORDS - 1) {
                ++word;
            } else {
                word = 0;
                ++pixel;
            }
        }
    }
}

// By wires: a word is a whole pixel, `indices[k]` its element that leaves as element k.
//
// CONFIG: pixels (in a frame).
template <class CONFIG, class X, int CHANNELS, class P, int KEPT>
void gather_pixels(hls::stream<pack<X, CHANNELS>>& in, hls::stream<pack<X, KEPT>>& out, const P (&indices)[KEPT]) {
    PRAGMA_HLS(HLS INLINE)
    for (int pixel = 0; pixel < CONFIG::pixels; ++pixel) {
        PRAGMA_HLS(HLS PIPELINE II=1 rewind)
        const pack<X, CHANNELS> x = in.read();
        pack<X, KEPT> y;
        for (int i = 0; i < KEPT; ++i) {
            PRAGMA_HLS(HLS UNROLL)
            y[i] = x[static_cast<int>(indices[i])];
        }
        out.write(y);
    }
}

}  // namespace headrace
