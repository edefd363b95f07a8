/** Completion for bash and zsh, which agree on how a script finds out where on the line it is. */
import { allCommands, type CommandTree } from './command-tree.ts';

/** @see https://www.gnu.org/software/bash/manual/html_node/Programmable-Completion.html */
export function bashCompletion(program: CommandTree): string {
  const commands = allCommands(program);
  const { name } = program;
  return lines(
    `# Completion of ${name} for bash, also version 3. Load it with: source <(${name} completion bash)`,
    `_${name}() {`,
    `  local cur=\${COMP_WORDS[COMP_CWORD]} prev=\${COMP_WORDS[COMP_CWORD-1]} at=${quote(name)} words='' i`,
    '  # --flag=value arrives as three words.',
    `  if [ "$cur" = '=' ]; then cur=''; elif [ "$prev" = '=' ]; then prev=\${COMP_WORDS[COMP_CWORD-2]}; fi`,
    '  for ((i = 1; i < COMP_CWORD; i++)); do',
    ...descent(commands, '${COMP_WORDS[i]}'),
    '  done',
    '  case "$at $prev" in',
    ...valued(commands).map(
      ({ pattern, choices }) =>
        `    ${pattern}) COMPREPLY=($(compgen -W ${quote(choices.join(' '))} -- "$cur")); return ;;`,
    ),
    '  esac',
    '  case "$at" in',
    ...commands.map((command) => `    ${quote(command.path)}) words=${quote(wordsOf(command).join(' '))} ;;`),
    '  esac',
    '  COMPREPLY=($(compgen -W "$words" -- "$cur"))',
    '}',
    '# Where nothing fits, names of files do.',
    `complete -o default -F _${name} ${name}`,
  );
}

/** @see https://zsh.sourceforge.io/Doc/Release/Completion-System.html */
export function zshCompletion(program: CommandTree): string {
  const commands = allCommands(program);
  const { name } = program;
  return lines(
    `#compdef ${name}`,
    `# Completion of ${name} for zsh. Load it with: source <(${name} completion zsh)`,
    `# or write it into a file _${name} in a folder of $fpath.`,
    `_${name}() {`,
    `  local at=${quote(name)} i`,
    '  local -a candidates',
    '  for ((i = 2; i < CURRENT; i++)); do',
    ...descent(commands, '${words[i]}'),
    '  done',
    '  case "$at ${words[CURRENT-1]}" in',
    ...valued(commands).map(({ pattern, choices }) =>
      choices.length === 0
        ? `    ${pattern}) _files; return ;;`
        : `    ${pattern}) candidates=(${choices.map(quote).join(' ')}); _describe value candidates; return ;;`,
    ),
    '  esac',
    '  case "$at" in',
    ...commands.map(
      (command) => `    ${quote(command.path)}) candidates=(${described(command).map(quote).join(' ')}) ;;`,
    ),
    '  esac',
    `  _describe ${quote(name)} candidates || _files`,
    '}',
    `if [ "$funcstack[1]" = '_${name}' ]; then _${name} "$@"; else compdef _${name} ${name}; fi`,
  );
}

/** From command to command, as long as words name one. */
const descent = (commands: readonly CommandTree[], word: string): readonly string[] => [
  `    case "$at ${word}" in`,
  `      ${commands
    .slice(1)
    .map(({ path }) => quote(path))
    .join(' | ')}) at="$at ${word}" ;;`,
  '    esac',
];

/** The flags behind which a value stands. */
const valued = (commands: readonly CommandTree[]) =>
  commands.flatMap(({ path, flags }) =>
    flags
      .filter(({ takesValue }) => takesValue)
      .map(({ names, choices }) => ({
        pattern: names.map((flag) => quote(`${path} ${flag}`)).join(' | '),
        choices,
      })),
  );

const wordsOf = ({ commands, flags, choices }: CommandTree): readonly string[] => [
  ...commands.map(({ name }) => name),
  ...choices,
  ...flags.flatMap(({ names }) => names),
];

/** As `word:what it is`. */
const described = ({ commands, flags, choices }: CommandTree): readonly string[] => [
  ...commands.map(({ name, description }) => `${name}:${description}`),
  ...choices,
  ...flags.flatMap(({ names, description }) => names.map((flag) => `${flag}:${description}`)),
];

/** One word to a shell, whatever is in it. */
const quote = (text: string): string => `'${text.replaceAll("'", String.raw`'\''`)}'`;

const lines = (...all: readonly string[]): string => `${all.join('\n')}\n`;
