// Gather: the channels of a stream in another order, some of them perhaps repeated or left out.
#pragma once

#include "types.hpp"

namespace headrace {

// From a buffer of two pixels: `positions[k]` is the word of the input that leaves as word k.
//
// CONFIG: pixels (in a frame), words (of a pixel that arrive), cycles (iterations, when no stream makes it wait).
template <class CONFIG, class X, int SIMD, class P, int OUT_WORDS>
void gather(hls::stream<pack<X, SIMD>>& in, hls::stream<pack<X, SIMD>>& out, const P (&positions)[OUT_WORDS]) {
    PRAGMA_HLS(HLS INLINE)
    pack<X, SIMD> pixels[2][CONFIG::words];
    PRAGMA_HLS(HLS AGGREGATE variable=pixels compact=bit)

    int taken = 0;     // words of the frame
    int settling = 0;  // what it was one iteration before
    int settled = 0;   // and two: so long may a write take
    int slot = 0;      // where the next word goes
    int place = 0;
    int pixel = 0;
    int word = 0;
    int begin = 0;  // words of the frame before the pixel
    while (pixel < CONFIG::pixels || taken < CONFIG::pixels * CONFIG::words) {
        PRAGMA_HLS(HLS PIPELINE II=1 style=flp)
        PRAGMA_HLS(HLS LOOP_TRIPCOUNT min=CONFIG::cycles max=CONFIG::cycles)
        PRAGMA_HLS(HLS DEPENDENCE variable=pixels type=inter direction=RAW distance=3 true)
        PRAGMA_HLS(HLS DEPENDENCE variable=pixels type=intra direction=RAW false)
        const int position = static_cast<int>(positions[word]);
        const bool ready = pixel < CONFIG::pixels && begin + position < settled;
        const bool may_wait = !ready && settled == taken;
        settled = settling;
        settling = taken;
        const bool room = taken < CONFIG::pixels * CONFIG::words && taken - begin < 2 * CONFIG::words;
        if (room && (may_wait || !in.empty())) {
            pixels[slot][place] = in.read();
            ++taken;
            if (place < CONFIG::words - 1) {
                ++place;
            } else {
                place = 0;
                slot = 1 - slot;
            }
        }
        if (ready) {
            out.write(pixels[pixel % 2][position]);
            if (word < OUT_WORDS - 1) {
                ++word;
            } else {
                word = 0;
                ++pixel;
                begin += CONFIG::words;
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
        PRAGMA_HLS(HLS PIPELINE II=1 style=flp)
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
