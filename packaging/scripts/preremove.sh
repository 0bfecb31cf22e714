#!/bin/sh
# When the package goes (not when a newer one comes), so does the profile in the kernel.
set -e
case "${1:-}" in upgrade | 1) exit 0 ;; esac
profile=/etc/apparmor.d/sandbox
if [ -e $profile ] && [ -d /sys/kernel/security/apparmor ] && command -v apparmor_parser >/dev/null; then
    apparmor_parser -R $profile || true
fi
