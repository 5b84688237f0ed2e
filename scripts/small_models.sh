# shellcheck shell=bash disable=SC2034
# SPDX-License-Identifier: Apache-2.0
# Sourced by scripts that train a small model of each family on generated data.

small_models='gpt llama moe gemma gpt_oss bert vit resnet cosmoflow unet deepcam'

# small_model NAME DIRECTORY TRIREME LAYERS HIDDEN TENSOR_BLOCKS: packs data into DIRECTORY/data. Sets $model_keys to
# the model section, $data_keys to the data section, $tensor_blocks to the number of blocks that the family supports, at
# most TENSOR_BLOCKS, and $slabs to those of families with spatial parallelism. Their data needs python3, h5py and numpy.
small_model() {
  local name=$1 directory=$2 trireme=$3 blocks="layers: $4, hidden: $5, heads: 4"
  awk 'BEGIN { srand(1); split("oar rower keel bench trireme sea pull the", word, " ")
    for (i = 0; i < 20000; ++i) printf "%s%s", word[1 + int(8 * rand())], i % 12 == 11 ? "\n" : " " }' >"$directory/text.txt"
  data_keys="path: $directory/data/train, validation_path: $directory/data/validation" tensor_blocks=$6 slabs=''
  case $name in
    gpt) model_keys="family: gpt2, $blocks, dropout: 0.1, context: 32, vocabulary: 256" ;;
    llama) model_keys="family: llama, $blocks, dropout: 0.1, context: 32, vocabulary: 256, qk_norm: true" ;;
    moe)
      model_keys="family: llama, $blocks, dropout: 0.1, context: 32, vocabulary: 256, experts: 8, experts_per_token: 2, expert_intermediate: 32, balance_loss: 0.01"
      ;;
    gemma)
      model_keys="family: gemma3, $blocks, dropout: 0.1, context: 32, vocabulary: 256, window: 9, global_every: 2, rope_theta: 100000"
      ;;
    gpt_oss)
      model_keys="family: gpt_oss, $blocks, dropout: 0.1, context: 32, vocabulary: 256, window: 9, global_every: 2, intermediate: 24, experts: 8, experts_per_token: 3"
      ;;
    bert) model_keys="family: bert, $blocks, dropout: 0.1, context: 32, vocabulary: 257, mask_token: 256" ;;
    vit) model_keys="family: vit, $blocks, dropout: 0.1, patch: 4, image_size: 12, channels: 1, classes: 3" ;; # 1 + 9 rows
    resnet)
      model_keys='family: resnet, stem: small, stages: [2, 2, 2], width: 8, image_size: 12, channels: 1, classes: 3'
      tensor_blocks=auto
      ;;
    cosmoflow)
      model_keys='family: cosmoflow, size: 9, channels: 4, targets: 4, filters: 4, halvings: 3, dense: [8], dropout: 0.2'
      small_fields cosmoflow "$directory" 9 'inputs: [x], target: y, axes: DHWC' '[2, 2, 2]'
      return
      ;;
    unet) # MLPerf's: instance norm, strides
      model_keys='family: unet, depth: 8, image_size: 8, channels: 1, classes: 3, filters: 3, widest: 5, levels: 2, down: stride, norm: instance'
      small_fields unet3d_cut "$directory" 8 'inputs: [x], target: y, axes: DHWC' '[2, 2, 2]'
      return
      ;;
    deepcam) # of 5 and 3 rows, fewer than slabs, behind three and four halvings
      model_keys='family: deepcam, image_size: 34, image_width: 51, channels: 16, classes: 3, filters: 2, middle_blocks: 1'
      small_fields deepcam "$directory" 34 'inputs: [climate/data], target: climate/labels_0, axes: HWC' '[1, 4, 2]'
      return
      ;;
  esac
  if [[ $name == vit || $name == resnet ]]; then
    # Letters as pixels of 12 x 12 images, and as labels.
    data_keys+=', mean: [0.4], std: [0.1], flip: true, mixup: 0.8, cutmix: 1'
    { printf '\0\0\10\3\0\0\0\170\0\0\0\14\0\0\0\14' && head -c 17280 "$directory/text.txt"; } >"$directory/images_idx"
    { printf '\0\0\10\1\0\0\0\170' && head -c 120 "$directory/text.txt" | LC_ALL=C tr 'a-h' '\000' | LC_ALL=C tr 'i-q' '\001' |
      LC_ALL=C tr -c '\000\001' '\002'; } >"$directory/labels_idx"
    "$trireme" data pack-images --quiet "$directory/images_idx" --labels "$directory/labels_idx" --classes 3 \
      --out "$directory/data" --validation 0.2 >/dev/null
  else
    "$trireme" data pack-text --quiet "$directory/text.txt" --out "$directory/data" --validation 0.1 >/dev/null
  fi
}

# small_fields KIND DIRECTORY SIZE KEYS SLABS: the rest of small_model for HDF5 files of scripts/make_science_data.py.
small_fields() {
  # shellcheck disable=SC2154
  "$repository/scripts/make_science_data.py" "$1" --out "$2/data" --samples 48 --validation 8 --size "$3" >/dev/null || return
  data_keys="files: [$2/data/train], validation_files: [$2/data/validation], $4" tensor_blocks=auto slabs=$5
}
