#!/bin/bash
# Guess:     the rescue section of a block runs wherever the block stands. A file with such a block does the
#            same whether a task or a handler includes it.
# Behaviour: included by a handler, the block fails and its rescue section does not run. The host counts as
#            failed.
# Versions seen: ansible-core 2.14.18-0+deb12u2
# Met by:    roles that restart a daemon in a handler, and want to show why it did not start.
# Fails:     if the output is not that at the end of this script, which was seen with this version.
set -euo pipefail
dir=$(mktemp -d)
# shellcheck source=findings/lib.bash
. "$(dirname "$0")/lib.bash"

debian_package ansible-core 2.14.18-0+deb12u2
debian_package python3-jinja2 3.1.2-1+deb12u3
debian_package python3-markupsafe 2.1.2-1+b1
debian_package python3-packaging 23.0-1
debian_package python3-resolvelib 0.9.0-2
debian_package python3-yaml 6.0-3+b2
cat >"$dir/restart.yml" <<'END'
- block:
    - name: restart
      ansible.builtin.command: "false"
  rescue:
    - name: show the reason
      ansible.builtin.debug:
        msg: the reason
END
cat >"$dir/task.yml" <<'END'
- hosts: all
  gather_facts: false
  tasks:
    - name: include
      ansible.builtin.include_tasks: restart.yml
END
cat >"$dir/handler.yml" <<'END'
- hosts: all
  gather_facts: false
  tasks:
    - name: change
      ansible.builtin.command: "true"
      notify: include
  handlers:
    - name: include
      ansible.builtin.include_tasks: restart.yml
END
cat >"$dir/play.sh" <<'END'
export HOME=$PWD PYTHONPATH=usr/lib/python3/dist-packages ANSIBLE_NOCOWS=1 LC_ALL=C.UTF-8
for from in task handler; do
	code=0
	/usr/bin/python3 usr/bin/ansible-playbook -i localhost, -c local -e ansible_python_interpreter=/usr/bin/python3 \
		"$from.yml" >"$from.log" 2>&1 || code=$?
	echo "$from: exit status $code, $(grep -c 'the reason"' "$from.log") reasons,$(grep -o ' failed=.' "$from.log"),$(
		grep -o ' rescued=.' "$from.log")"
done
END
expect bash play.sh <<'END' || exit 1
task: exit status 0, 1 reasons, failed=0, rescued=1
handler: exit status 2, 0 reasons, failed=1, rescued=0
END
