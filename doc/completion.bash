# Completion for clattn-bench and clattn-tune: commands and options are those that --help names.
# In zsh: autoload -U +X compinit bashcompinit && compinit && bashcompinit && source THIS_FILE

_clattn_commands() {
    "$1" --help 2> /dev/null | sed -n 's/^  \([a-z][a-z]*\) .*/\1/p'
}

_clattn_options() {
    "$@" --help 2> /dev/null | sed -n 's/^  \(-.*\)/\1/p' | grep -oE -- '(^|[ ,])--?[a-z][a-z-]*' | tr -d ' ,'
}

_clattn() {
    local program=$1 current=${COMP_WORDS[COMP_CWORD]} command=
    if [ "$COMP_CWORD" -gt 1 ] && _clattn_commands "$program" | grep -qxF -- "${COMP_WORDS[1]}"; then
        command=${COMP_WORDS[1]}
    fi
    case $current in
    -*) COMPREPLY=($(compgen -W "$(_clattn_options "$program" $command)" -- "$current")) ;;
    *)
        if [ "$COMP_CWORD" -eq 1 ] || [ "$command" = help ]; then
            COMPREPLY=($(compgen -W "$(_clattn_commands "$program")" -- "$current"))
        else
            COMPREPLY=($(compgen -f -- "$current"))
        fi
        ;;
    esac
}
complete -o filenames -F _clattn clattn-bench clattn-tune
