/* SPDX-License-Identifier: Apache-2.0
 *
 * A GGUF file from safetensors: names, layouts and metadata of each family. Refuses families whose
 * mapping is not written down here; today that is all of them. */
#include "engine/quantize/gguf.h"
tdm_status tdm_gguf_from_hf(tdm_quantize_job *job, tdm_gguf_writer *writer, tdm_error *err) {
    (void)writer;
    (void)tdm_fail(err, TDM_E_UNSUPPORTED, "a safetensors checkpoint does not become a GGUF file");
    tdm_err_where(err, "%s", job->src);
    return TDM_E_UNSUPPORTED;
}
