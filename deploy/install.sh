#!/bin/sh
# Installs perfjudge from its wheel as the Dockerfile needs it: install.sh EXTRAS WHEEL
# EXTRAS: extras of the package, such as train,postgres; may be empty.
set -eu
if [ $# -ne 2 ] || [ ! -f "$2" ]; then
    echo "install.sh: expected EXTRAS and one wheel, got: $*" >&2
    exit 2
fi
uv venv --quiet --python "$(command -v python3)" /opt/perfjudge
uv pip install --quiet --link-mode copy --compile-bytecode --python /opt/perfjudge "$2${1:+[$1]}"
# the volume: a registry or models, tokens, labels; a user without a name owns it
mkdir -p /models
chown 10001:10001 /models
