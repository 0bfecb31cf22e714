#!/bin/sh
# The AppArmor profile may have been edited: Debian's remove leaves it, and purge takes it.
# Elsewhere there is no purge: it goes with the package. Undo logs are the users', and stay.
# The first argument is a word on Debian, the number of versions left with rpm, and a version
# with apk and pacman.
set -e
case "${1:-}" in
remove | upgrade | failed-upgrade | abort-install | abort-upgrade | disappear | 1) ;;
*) rm -f /etc/apparmor.d/sandbox ;;
esac
