// The boundary of an accelerator: AXI4-Stream words, padded with zeros to whole bytes, tlast on the last of a frame.
#pragma once

#include <ap_axi_sdata.h>

#include "types.hpp"

namespace headrace {

template <int WIDTH>
using axis_word = ap_axiu<WIDTH, 0, 0, 0>;

// Elements and their bits.
template <class T>
struct element;
template <int N>
struct element<ap_int<N>> {
    static constexpr int bits = N;
    static ap_int<N> of(const ap_uint<N>& code) { return ap_int<N>(code); }
};
template <int N>
struct element<ap_uint<N>> {
    static constexpr int bits = N;
    static ap_uint<N> of(const ap_uint<N>& code) { return code; }
};
template <>
struct element<bipolar> {
    static constexpr int bits = 1;
    static bipolar of(const ap_uint<1>& code) {
        bipolar result;
        result.code = code;
        return result;
    }
};

// The elements in the low bits of a word of a port, and back; the bits above them are zero.
template <class X, int N, int WIDTH>
pack<X, N> unpacked(const ap_uint<WIDTH>& from) {
    PRAGMA_HLS(HLS INLINE)
    constexpr int bits = element<X>::bits;
    pack<X, N> to;
    for (int i = 0; i < N; ++i) {
        PRAGMA_HLS(HLS UNROLL)
        const ap_uint<bits> code = from.range((i + 1) * bits - 1, i * bits);
        to[i] = element<X>::of(code);
    }
    return to;
}

template <int WIDTH, class X, int N>
ap_uint<WIDTH> packed(const pack<X, N>& from) {
    PRAGMA_HLS(HLS INLINE)
    constexpr int bits = element<X>::bits;
    ap_uint<WIDTH> to = 0;
    for (int i = 0; i < N; ++i) {
        PRAGMA_HLS(HLS UNROLL)
        to.range((i + 1) * bits - 1, i * bits) = bits_of(from[i]);
    }
    return to;
}

// CONFIG: words (in a frame).
template <class CONFIG, int WIDTH, class X, int N>
void read_axis(hls::stream<axis_word<WIDTH>>& in, hls::stream<pack<X, N>>& out) {
    PRAGMA_HLS(HLS INLINE)
    for (int word = 0; word < CONFIG::words; ++word) {
        PRAGMA_HLS(HLS PIPELINE II=1 style=flp)
        const axis_word<WIDTH> from = in.read();
        out.write(unpacked<X, N>(from.data));
    }
}

template <class CONFIG, int WIDTH, class X, int N>
void write_axis(hls::stream<pack<X, N>>& in, hls::stream<axis_word<WIDTH>>& out) {
    PRAGMA_HLS(HLS INLINE)
    for (int word = 0; word < CONFIG::words; ++word) {
        PRAGMA_HLS(HLS PIPELINE II=1 style=flp)
        axis_word<WIDTH> to;
        to.data = packed<WIDTH>(in.read());
        to.keep = -1;
        to.strb = -1;
        to.last = word == CONFIG::words - 1 ? 1 : 0;
        out.write(to);
    }
}

// The same for a layer that is an IP of its own, between other layers: tdata alone.
template <class CONFIG, int WIDTH, class X, int N>
void read_words(hls::stream<ap_uint<WIDTH>>& in, hls::stream<pack<X, N>>& out) {
    PRAGMA_HLS(HLS INLINE)
    for (int word = 0; word < CONFIG::words; ++word) {
        PRAGMA_HLS(HLS PIPELINE II=1 style=flp)
        out.write(unpacked<X, N>(in.read()));
    }
}

template <class CONFIG, int WIDTH, class X, int N>
void write_words(hls::stream<pack<X, N>>& in, hls::stream<ap_uint<WIDTH>>& out) {
    PRAGMA_HLS(HLS INLINE)
    for (int word = 0; word < CONFIG::words; ++word) {
        PRAGMA_HLS(HLS PIPELINE II=1 style=flp)
        out.write(packed<WIDTH>(in.read()));
    }
}

}  // namespace headrace
