#!/bin/bash
# Guess:     the PCI address of a GPU without quotes is text in YAML, since it has colons.
# Behaviour: PyYAML reads numbers with the base 60 of YAML 1.1. The address of a GPU on a bus of two decimal digits
#            below 60 is a number: 0000:05:00.0 is 300.0. On other buses, such as 65 or c6, it is text.
# Versions seen: python3-yaml 6.0-3+b2
# Met by:    administrators who list GPUs in the variables of Ansible, which uses PyYAML. The list works for some
#            GPUs of a host, and has 300.0 or 1560.0 for others. A test with one GPU does not show it.
# Fails:     if the output is not that at the end of this script, which was seen with these versions.
set -euo pipefail
dir=$(mktemp -d)
# shellcheck source=findings/lib.bash
. "$(dirname "$0")/lib.bash"

debian_package python3-yaml 6.0-3+b2
cat >"$dir/addresses.py" <<'END'
import sys
sys.path.insert(0, "usr/lib/python3/dist-packages")
import yaml

text = "gpus: [0000:05:00.0, 0000:26:00.0, 0000:65:00.0, 0000:c6:00.0, '0000:05:00.0']"
for gpu in yaml.safe_load(text)["gpus"]:
    print(type(gpu).__name__, gpu)
END
expect python3 addresses.py <<'END' || exit 1
float 300.0
float 1560.0
str 0000:65:00.0
str 0000:c6:00.0
str 0000:05:00.0
END
