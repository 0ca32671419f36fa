/*
 * kernels_decoder.h - the part of kernels_body.h that decoders add: RMS norm and rotary positions.
 *
 * Included by kernels_body.h, over its vector words. Not a normal header, so it has no guard.
 *
 * Sources: RMSNorm is Zhang and Sennrich 2019; rotary positions are Su et al. 2021, with the halves
 * of a head as pairs, as Hugging Face stores weights.
 *
 * Threads: no state.
 */

static void rms_norm(const wgi_norm *norm, wgi_view in, wgi_view out, size_t rows)
{
    size_t count = norm->count, whole = count / VF_WIDTH * VF_WIDTH, left = count - whole;

    for (size_t row = 0; row < rows; row++) {
        const float *x = in.data + row * in.stride;
        float *y = out.data + row * out.stride;
        vf squares = vf_set(0);

        for (size_t j = 0; j < whole; j += VF_WIDTH) {
            vf v = vf_load(x + j);
            squares = vf_fma(v, v, squares);
        }
        if (left) {
            vf v = vf_load_part(x + whole, left);
            squares = vf_fma(v, v, squares);
        }
        vf by = vf_set(1 / sqrtf(vf_sum(squares) / (float)count + norm->epsilon));

        for (size_t j = 0; j < count; j += VF_WIDTH) {
            size_t have = count - j;
            vf v = vf_mul(vf_load_part(x + j, have), by);
            vf_store_part(y + j, vf_mul(v, vf_load_part(norm->weight + j, have)), have);
        }
    }
}

static void rotate(float *heads, size_t stride, wgi_view angles, size_t half, size_t rows)
{
    for (size_t row = 0; row < rows; row++) {
        float *low = heads + row * stride, *high = low + half;
        const float *cosines = angles.data + row * angles.stride, *sines = cosines + half;

        for (size_t j = 0; j < half; j += VF_WIDTH) {
            size_t have = half - j;
            vf a = vf_load_part(low + j, have), b = vf_load_part(high + j, have);
            vf c = vf_load_part(cosines + j, have), s = vf_load_part(sines + j, have);
            vf_store_part(low + j, vf_sub(vf_mul(a, c), vf_mul(b, s)), have);
            vf_store_part(high + j, vf_fma(b, c, vf_mul(a, s)), have);
        }
    }
}

static void widen_halves(const uint16_t *from, size_t count, bool is_bf16, float *to)
{
    if (is_bf16) {
        for (size_t i = 0; i < count; i++) {
            uint32_t bits = (uint32_t)from[i] << 16;
            memcpy(to + i, &bits, sizeof(bits));
        }
        return;
    }
    for (size_t i = 0; i < count; i++)
        to[i] = wgi_f16_widen(from[i]);
}

static void transpose(const float *from, size_t stride, size_t count, size_t depth, float *to)
{
    size_t whole = depth / VF_WIDTH * VF_WIDTH;

    for (size_t first = 0; first < count; first += VF_WIDTH) {
        for (size_t k = 0; k < whole; k += VF_WIDTH)
            vf_transpose(from + first * stride + k, stride, to + k * count + first, count);
        for (size_t k = whole; k < depth; k++)
            for (size_t j = 0; j < VF_WIDTH; j++)
                to[k * count + first + j] = from[(first + j) * stride + k];
    }
}
