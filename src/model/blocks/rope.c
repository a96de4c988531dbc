/* SPDX-License-Identifier: Apache-2.0
 *
 * Rotation frequencies, computed in f64 and rounded once. */
#include "model/blocks/rope.h"

#include <math.h>

#define PI 3.14159265358979323846

/* Wavelengths beyond the trained context are stretched by factor, short ones kept, those between
 * blended. */
static double scale_llama3(const tdm_rope_config *config, double freq) {
    double wavelength = 2.0 * PI / freq;
    double original = (double)config->original_context;
    double low = original / config->low_freq_factor;
    double high = original / config->high_freq_factor;
    double smooth = 0.0;
    if (wavelength > low) {
        return freq / config->factor;
    }
    if (wavelength < high) {
        return freq;
    }
    smooth = (original / wavelength - config->low_freq_factor) /
             (config->high_freq_factor - config->low_freq_factor);
    return (1.0 - smooth) * freq / config->factor + smooth * freq;
}

/* The (fractional) frequency index that turns `rotations` times over the trained context. */
static double yarn_index(const tdm_rope_config *config, int32_t dim, double rotations) {
    return dim * log((double)config->original_context / (rotations * 2.0 * PI)) /
           (2.0 * log(config->theta));
}

typedef struct yarn_ramp {
    double low, high;
} yarn_ramp;

static yarn_ramp yarn_ramp_of(const tdm_rope_config *config, int32_t dim) {
    yarn_ramp ramp = {yarn_index(config, dim, config->beta_fast),
                      yarn_index(config, dim, config->beta_slow)};
    if (config->is_truncated) {
        ramp.low = floor(ramp.low);
        ramp.high = ceil(ramp.high);
    }
    ramp.low = fmax(ramp.low, 0.0);
    ramp.high = fmin(ramp.high, dim - 1);
    if (ramp.low == ramp.high) {
        ramp.high += 0.001; /* as the reference: no division by zero */
    }
    return ramp;
}

static double yarn_mscale(double factor, double mscale) {
    return factor <= 1.0 ? 1.0 : 0.1 * mscale * log(factor) + 1.0;
}

static double yarn_magnitude(const tdm_rope_config *config) {
    if (config->attention_factor > 0.0) {
        return config->attention_factor;
    }
    if (config->mscale > 0.0 && config->mscale_all_dim > 0.0) {
        return yarn_mscale(config->factor, config->mscale) /
               yarn_mscale(config->factor, config->mscale_all_dim);
    }
    return yarn_mscale(config->factor, 1.0);
}

static double scale_yarn(const tdm_rope_config *config, const yarn_ramp *ramp, int32_t i,
                         double freq) {
    double t = ((double)i - ramp->low) / (ramp->high - ramp->low);
    double stretched = fmin(fmax(t, 0.0), 1.0);
    return stretched * freq / config->factor + (1.0 - stretched) * freq;
}

void tdm_rope_frequencies(const tdm_rope_config *config, int32_t dim, const float *factors,
                          float *inv_freq, float *out_magnitude) {
    yarn_ramp ramp = {0.0, 1.0};
    const double turned = floor(config->fraction * dim / 2.0); /* pairs of a proportional rope */
    *out_magnitude = 1.0F;
    if (config->kind == TDM_ROPE_YARN) {
        ramp = yarn_ramp_of(config, dim);
        *out_magnitude = (float)yarn_magnitude(config);
    }
    for (int32_t i = 0; i < dim / 2; i++) {
        double freq = pow(config->theta, -2.0 * i / dim);
        switch (config->kind) {
        case TDM_ROPE_LINEAR:
            freq /= config->factor;
            break;
        case TDM_ROPE_LLAMA3:
            freq = scale_llama3(config, freq);
            break;
        case TDM_ROPE_YARN:
            freq = scale_yarn(config, &ramp, i, freq);
            break;
        case TDM_ROPE_PROPORTIONAL:
            freq = i < turned ? freq / config->factor : 0.0;
            break;
        case TDM_ROPE_DEFAULT:
        case TDM_ROPE_FREQ_FACTORS:
            break;
        }
        if (factors != NULL) {
            freq /= (double)factors[i];
        }
        inv_freq[i] = (float)freq;
    }
}
