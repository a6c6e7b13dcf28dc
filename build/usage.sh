# Prints the comment at the head of a script for --help, and ends it with status 2 for an option that it does not know. A script
# sources this before it does anything else, with its options and `--` before its arguments. `...` among the options says that
# those after its first argument are another program's, and `--...` that all are:
#
#   source "$(dirname "$0")/build/usage.sh" [--OPTION]... [...] [--...] -- "$@"
answer_usage() {
  local known=' ' argument
  while [[ $1 != -- ]]; do
    known+="$1 "
    shift
  done
  shift
  for argument; do
    case $argument in
      --help)
        sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
        exit
        ;;
      --) return ;;
      -*)
        if [[ $known != *" $argument "* && $known != *' --... '* ]]; then
          echo "$0: unknown option $argument (--help prints the usage)" >&2
          exit 2
        fi
        ;;
    esac
    if [[ $known == *' ... '* ]]; then return; fi
  done
}
answer_usage "$@"
