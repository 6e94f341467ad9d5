/**
 * Completion for shells. Their scripts ask the command line itself what a word may become. What it
 * answers are plain words: the names of tenants are what tenants say they are, and a shell runs
 * what is in its line.
 */
import { Misused, type Command } from '../command.ts';
import type { HttpSession } from './http-session.ts';

/** What shells ask with: the words up to the cursor, the last one perhaps empty. */
export const askingWord = '__complete';

/** What no shell reads as anything but a word. */
export const isPlainWord = (word: string): boolean => /^[\p{L}\p{N}_.:@%+/=,-]+$/u.test(word);

const bash = `# strata completion bash: source it, for example from ~/.bashrc
_strata() {
  local candidate
  COMPREPLY=()
  while IFS= read -r candidate; do
    [ -n "$candidate" ] && COMPREPLY+=("$candidate")
  done < <(strata ${askingWord} "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _strata strata
`;

const zsh = `#compdef strata
# strata completion zsh: source it after compinit, or keep it as _strata in a folder of $fpath
_strata() {
  local -a candidates
  candidates=("\${(@f)$(strata ${askingWord} "\${(@)words[2,CURRENT]}" 2>/dev/null)}")
  [[ -n "\${candidates[1]}" ]] && compadd -- "\${candidates[@]}"
}
if [[ "\${funcstack[1]}" == _strata ]]; then _strata "$@"; else compdef _strata strata; fi
`;
const scripts = new Map([
  ['bash', bash],
  ['zsh', zsh],
]);

export const completionCommand: Command<HttpSession> = {
  name: 'completion',
  parameters: '<shell>',
  summary: `a script that completes commands with the Tab key: ${[...scripts.keys()].join(', ')}`,
  complete: { shell: async () => [...scripts.keys()] },
  async run({ args, print }) {
    const script = scripts.get(args.shell!);
    if (script === undefined)
      throw new Misused(
        `there is none for ${args.shell}, but for ${[...scripts.keys()].join(', ')}`,
      );
    print(script.trimEnd());
  },
};
