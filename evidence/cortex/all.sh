#!/bin/sh
# Everything of this folder that needs a generator, on one GPU: generator, twins, judges, tables.
#
#   evidence/cortex/all.sh "--blood data/blood" work/autoencoder/model work
#
# What is done already is not done again: call it until nothing is left. RECIPE, STEPS and SMALL are for trials.
set -eu
images=$1 autoencoder=$2 work=$3
here=$(dirname "$0")
export PYTHONPATH="${PYTHONPATH:-}:$here/../.." OMP_NUM_THREADS=2
recipe=${RECIPE:-pretraining/generator/recipe.yaml}
train="python -m pretraining.generator.train --recipe $recipe $images"
run="python $here/run.py $images --model $work/generator/model --twins $work/twins --out $work/cortex ${SMALL:-}"
mkdir -p "$work/logs"

# Words for a log, then a command; a finished model is left alone.
make() { name=$1; shift; "$@" > "$work/logs/$name.log" 2>&1 || echo "$name failed: $work/logs/$name.log"; }
done_already() { test -f "$1/model/generator.json"; }

# The judges need the generator's image size only, which the autoencoder's folder knows.
python "$here/run.py" $images --model "$autoencoder" --out "$work/cortex" ${SMALL:-} --section judges > "$work/logs/judges.log" 2>&1 &
done_already "$work/generator" || make generator $train --autoencoder "$autoencoder" --out "$work/generator"
done_already "$work/generator" || { echo "the generator is not finished: $work/logs/generator.log"; exit 1; }
date +"generator %T"

for twin in 1-s0 1-s1 1-s2 1-s3 1.25-s0 1.5-s0 2-s0 4-s0 8-s0; do
  done_already "$work/twins/$twin" || make "twin-$twin" $train --start "$work/generator/model" --out "$work/twins/$twin" \
    --skew "cell size=big:${twin%-s*}" --seed "${twin#*-s}" --steps "${STEPS:-1200}" &
  case $twin in 1-s3 | 2-s0) wait ;; esac # four or five at a time
done
wait
date +"twins and judges %T"

for network in CE RE TE; do make "extractor-$network" $run --section extractors masking --only $network & done
make bias $run --section generator bias &
wait
date +"extractors, masking, bias %T"

for network in CE RE; do make "pairs-$network" $run --section pairs --only $network & done
make edit $run --section edit &
make skew-1 $run --section skew --only 1-s0 1-s1 1-s2 &
make skew-2 $run --section skew --only 1-s3 1.25-s0 1.5-s0 &
make skew-3 $run --section skew --only 2-s0 4-s0 8-s0 &
wait
date +"all %T"
ls "$work/cortex/rows" | wc -l
