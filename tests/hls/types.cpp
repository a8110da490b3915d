// Prints what ap_int and ap_uint do with a list of operands; the test knows what they must do.
#include <ap_int.h>

#include <cstdio>

namespace {

template <class T>
void show(const char* what, const T& value) {
    std::printf("%s %lld\n", what, static_cast<long long>(value));
}

template <int A, int B>
void pair(long long x, long long y) {
    const ap_int<A> a = x;
    const ap_int<B> b = y;
    const ap_uint<A> u = x;
    const ap_uint<B> v = y;
    std::printf("operands %d %d %lld %lld\n", A, B, x, y);
    show("a", a);
    show("u", u);
    show("a+b", a + b);
    show("a-b", a - b);
    show("a*b", a * b);
    show("a+v", a + v);
    show("a*v", a * v);
    show("u+v", u + v);
    show("u-v", u - v);
    show("u*v", u * v);
    show("a<b", a < b);
    show("a<v", a < v);
    show("a==v", a == v);
    show("u>=b", u >= b);
    show("u!=v", u != v);
    show("a>3", a > 3);
    show("u<-1", u < -1);
    show("a*5", a * 5);
    ap_int<B> sum = b;
    sum += a;
    show("b+=a", sum);
    sum -= u;
    show("b-=u", sum);
    const ap_int<B> narrowed = a;
    show("b=a", narrowed);
    const ap_uint<B> reread = a;
    show("v=a", reread);
    ap_uint<A> bits = u;
    const ap_uint<1> top = bits.range(A - 1, A - 1);
    show("top", top);
    bits.range(A - 1, A / 2) = ap_uint<A - A / 2>(v);
    show("range", bits);
    show("bit", static_cast<int>(bits[A / 2]));
}

void wide() {
    ap_uint<200> word = 0;
    for (int k = 0; k < 28; ++k) word.range(7 * k + 6, 7 * k) = ap_uint<7>(37 * k + 11);
    for (int k = 0; k < 28; ++k) {
        const ap_uint<7> lane = word.range(7 * k + 6, 7 * k);
        show("lane", lane);
    }
    const ap_uint<4> end = word.range(199, 196);
    show("end", end);
    ap_uint<200> ones = -1;
    const ap_uint<8> last = ones.range(199, 192);
    show("ones", last);
    show("equal", static_cast<int>(word == ones));
    word = ones;
    show("copied", static_cast<int>(word == ones));
}

}  // namespace

int main() {
    constexpr long long operands[] = {0, 1, -1, 2, 3, -4, 7, -8, 77, -128, 255, -30000, 1234567, -2147483647};
    for (const long long x : operands) {
        for (const long long y : operands) {
            pair<1, 2>(x, y);
            pair<2, 5>(x, y);
            pair<8, 7>(x, y);
            pair<13, 16>(x, y);
            pair<24, 31>(x, y);
            pair<31, 9>(x, y);
        }
    }
    wide();
    return 0;
}
