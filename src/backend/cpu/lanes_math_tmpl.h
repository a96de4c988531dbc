/* SPDX-License-Identifier: Apache-2.0
 *
 * exp, tanh and erfc of eight floats at a time, written once over a set's lanes_inl.h (f8 and what is
 * done with it): every set of eight lanes gets the same bits. Included after it. */
#ifndef TDM_BACKEND_CPU_LANES_MATH_TMPL_H
#define TDM_BACKEND_CPU_LANES_MATH_TMPL_H

/* x = n * ln 2 + r with |r| <= 0.347: returns exp(r) - 1 by its Taylor sum up to r^7 (the rest is
 * below 6e-9) and sets *out_power = 2^n. x must lie in [-87.4, 88.3] or be NaN. */
TDM_INLINE f8 f8_exp_parts(f8 x, f8 *out_power) {
    f8 n = f8_round(f8_mul(x, f8_set(0x1.715476p+0f)));
    f8 r = f8_fnma(n, f8_set(0x1.62e400p-1f), x);
    r = f8_fnma(n, f8_set(0x1.7f7d1cp-20f), r);
    f8 p = f8_set(1.0f / 5040.0f);
    p = f8_fma(p, r, f8_set(1.0f / 720.0f));
    p = f8_fma(p, r, f8_set(1.0f / 120.0f));
    p = f8_fma(p, r, f8_set(1.0f / 24.0f));
    p = f8_fma(p, r, f8_set(1.0f / 6.0f));
    p = f8_fma(p, r, f8_set(0.5f));
    p = f8_fma(f8_mul(p, r), r, r);
    *out_power = f8_power(n);
    return p;
}

/* exp within 2 ulp. Below -87.3 it is 0; above 88.3 it stays at exp(88.3); NaN stays NaN. */
TDM_INLINE f8 f8_exp(f8 x) {
    const f8 lowest = f8_set(-87.3f);
    f8 power;
    f8 p = f8_exp_parts(f8_max(lowest, f8_min(f8_set(88.3f), x)), &power);
    return f8_zero_below(f8_fma(p, power, power), x, lowest);
}

/* tanh(y) = e / (e + 2) with e = exp(2|y|) - 1, which keeps its digits near zero. NaN stays NaN. */
TDM_INLINE f8 f8_tanh(f8 y) {
    f8 a = f8_min(f8_set(10.0f), f8_abs(y));
    f8 power;
    f8 p = f8_exp_parts(f8_add(a, a), &power);
    f8 e = f8_fma(p, power, f8_sub(power, f8_set(1.0f)));
    return f8_signed(f8_div(e, f8_add(e, f8_set(2.0f))), y);
}

/* erfc(y) = t exp(p(t) - y^2) for y >= 0 with t = 1 / (1 + y / 2), and 2 - erfc(-y) below; p is our
 * own Chebyshev fit of log(erfc(y) / t) + y^2 over y in [0, 9.5], off by 5e-8 at most. Relative
 * error 4e-7 near zero, growing as y^2 * 2^-24 in the tail; 0 above 9.3. NaN stays NaN. */
TDM_INLINE f8 f8_erfc(f8 y) {
    static const float P[10] = {-1.26543343f,  0.998341441f,  0.389117151f,  0.022874143f,
                                0.0354678631f, -0.144173503f, -0.619523346f, 1.09943843f,
                                -0.656615853f, 0.140507132f};
    const f8 one = f8_set(1.0f);
    f8 a = f8_min(f8_set(10.0f), f8_abs(y));
    f8 t = f8_div(one, f8_fma(a, f8_set(0.5f), one));
    f8 p = f8_set(P[9]);
    for (int i = 8; i >= 0; --i) {
        p = f8_fma(p, t, f8_set(P[i]));
    }
    f8 e = f8_mul(t, f8_exp(f8_fnma(a, a, p)));
    return f8_where_negative(y, f8_sub(f8_set(2.0f), e), e);
}

#endif
