# shellcheck shell=bash disable=SC2034
# SPDX-License-Identifier: Apache-2.0
# Sourced by scripts that train a small model of each family on generated data.

small_models='gpt llama gemma bert vit resnet'

# small_model NAME DIRECTORY TRIREME LAYERS HIDDEN TENSOR_BLOCKS: packs data into DIRECTORY/data. Sets $model_keys to
# the model section, $data_keys to the data section without paths, and $tensor_blocks to the number of blocks that the
# family supports, at most TENSOR_BLOCKS.
small_model() {
  local name=$1 directory=$2 trireme=$3 blocks="layers: $4, hidden: $5, heads: 4"
  awk 'BEGIN { srand(1); split("oar rower keel bench trireme sea pull the", word, " ")
    for (i = 0; i < 20000; ++i) printf "%s%s", word[1 + int(8 * rand())], i % 12 == 11 ? "\n" : " " }' >"$directory/text.txt"
  data_keys='' tensor_blocks=$6
  case $name in
    gpt) model_keys="family: gpt2, $blocks, dropout: 0.1, context: 32, vocabulary: 256" ;;
    llama) model_keys="family: llama, $blocks, dropout: 0.1, context: 32, vocabulary: 256, qk_norm: true" ;;
    gemma)
      model_keys="family: gemma3, $blocks, dropout: 0.1, context: 32, vocabulary: 256, window: 9, global_every: 2, rope_theta: 100000"
      ;;
    bert) model_keys="family: bert, $blocks, dropout: 0.1, context: 32, vocabulary: 257, mask_token: 256" ;;
    vit) model_keys="family: vit, $blocks, dropout: 0.1, patch: 4, image_size: 12, channels: 1, classes: 3" ;; # 1 + 9 rows
    resnet)
      model_keys='family: resnet, stem: small, stages: [2, 2, 2], width: 8, image_size: 12, channels: 1, classes: 3'
      tensor_blocks=auto
      ;;
  esac
  if [[ $name == vit || $name == resnet ]]; then
    # Letters as pixels of 12 x 12 images, and as labels.
    data_keys=', mean: [0.4], std: [0.1], flip: true, mixup: 0.8, cutmix: 1'
    { printf '\0\0\10\3\0\0\0\170\0\0\0\14\0\0\0\14' && head -c 17280 "$directory/text.txt"; } >"$directory/images_idx"
    { printf '\0\0\10\1\0\0\0\170' && head -c 120 "$directory/text.txt" | LC_ALL=C tr 'a-h' '\000' | LC_ALL=C tr 'i-q' '\001' |
      LC_ALL=C tr -c '\000\001' '\002'; } >"$directory/labels_idx"
    "$trireme" data pack-images --quiet "$directory/images_idx" --labels "$directory/labels_idx" --classes 3 \
      --out "$directory/data" --validation 0.2 >/dev/null
  else
    "$trireme" data pack-text --quiet "$directory/text.txt" --out "$directory/data" --validation 0.1 >/dev/null
  fi
}
