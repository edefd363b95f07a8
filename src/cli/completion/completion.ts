/** `gatehouse completion`: scripts for bash, zsh and fish, generated from the commands and flags of the program. */
import { Argument, Help, type Command } from 'commander';

const SHELLS = { bash: bashCompletion, zsh: zshCompletion, fish: fishCompletion };

export function addCompletion(program: Command): void {
  program
    .command('completion')
    .description('print a completion script for a shell')
    .addArgument(new Argument('<shell>', 'shell').choices(Object.keys(SHELLS)))
    .addHelpText('after', HELP)
    .action((shell: keyof typeof SHELLS) => {
      process.stdout.write(SHELLS[shell](commandTree(program, 'gatehouse')));
    });
}

const HELP = `
Examples:
  source <(gatehouse completion bash)                                     in ~/.bashrc
  source <(gatehouse completion zsh)                                      in ~/.zshrc
  gatehouse completion fish > ~/.config/fish/completions/gatehouse.fish   once

Exit code: 0 success, 2 wrong usage.`;

type ListedCommand = ReturnType<typeof listed>;
type CommandTree = readonly ListedCommand[];

export const commandTree = (command: Command, path: string): CommandTree => [
  listed(command, path),
  ...command.commands.flatMap((below) => commandTree(below, `${path} ${below.name()}`)),
];

const listed = (command: Command, path: string) => ({
  path,
  commands: command.commands.map((below) => ({
    name: below.name(),
    description: firstLine(below.description()),
  })),
  flags: new Help()
    .visibleOptions(command)
    .map(({ long, short, description, required, optional, argChoices = [] }) => ({
      names: [long, short].filter((name) => name !== undefined),
      description: firstLine(description),
      takesValue: required || optional,
      choices: argChoices,
    })),
  choices: command.registeredArguments[0]?.argChoices ?? [],
});

const firstLine = (text: string): string => text.split('\n', 1)[0] ?? '';

/** @see https://www.gnu.org/software/bash/manual/html_node/Programmable-Completion.html */
export function bashCompletion(commands: CommandTree): string {
  const name = commands[0]?.path ?? '';
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
    ...commands.map((command) => {
      const words = wordsOf(command).map(({ word }) => word);
      return `    ${quote(command.path)}) words=${quote(words.join(' '))} ;;`;
    }),
    '  esac',
    '  COMPREPLY=($(compgen -W "$words" -- "$cur"))',
    '}',
    '# Without a match, bash completes file names.',
    `complete -o default -F _${name} ${name}`,
  );
}

/** @see https://zsh.sourceforge.io/Doc/Release/Completion-System.html */
export function zshCompletion(commands: CommandTree): string {
  const name = commands[0]?.path ?? '';
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
      (command) =>
        `    ${quote(command.path)}) candidates=(${wordsOf(command)
          .map(({ entry }) => quote(entry))
          .join(' ')}) ;;`,
    ),
    '  esac',
    `  _describe ${quote(name)} candidates || _files`,
    '}',
    `if [ "$funcstack[1]" = '_${name}' ]; then _${name} "$@"; else compdef _${name} ${name}; fi`,
  );
}

const descent = (commands: CommandTree, word: string): readonly string[] => [
  `    case "$at ${word}" in`,
  `      ${pathsBelow(commands, quote).join(' | ')}) at="$at ${word}" ;;`,
  '    esac',
];

const pathsBelow = ([, ...below]: CommandTree, quoted: (path: string) => string): readonly string[] =>
  below.map(({ path }) => quoted(path));

const valued = (commands: CommandTree) =>
  commands.flatMap(({ path, flags }) =>
    flags
      .filter(({ takesValue }) => takesValue)
      .map(({ names, choices }) => ({
        pattern: names.map((flag) => quote(`${path} ${flag}`)).join(' | '),
        choices,
      })),
  );

/** What may follow a command; `entry` is the word with its description, for zsh. */
const wordsOf = ({ commands, flags, choices }: ListedCommand) => [
  ...commands.map(({ name, description }) => ({ word: name, entry: `${name}:${description}` })),
  ...choices.map((word) => ({ word, entry: word })),
  ...flags.flatMap(({ names, description }) =>
    names.map((word) => ({ word, entry: `${word}:${description}` })),
  ),
];

const quote = (text: string): string => `'${text.replaceAll("'", String.raw`'\''`)}'`;

const lines = (...all: readonly string[]): string => `${all.join('\n')}\n`;

/** @see https://fishshell.com/docs/current/completions.html */
export function fishCompletion(commands: CommandTree): string {
  const name = commands[0]?.path ?? '';
  const at = `__${name}_at`;
  return lines(
    `# Completion of ${name} for fish. Load it with: ${name} completion fish | source`,
    `# Whether the command line is at the given command.`,
    `function ${at}`,
    `  set -l at ${quoteFish(name)}`,
    '  set -l typed (commandline -opc)',
    '  set -e typed[1]',
    '  for word in $typed',
    '    switch "$at $word"',
    `      case ${pathsBelow(commands, quoteFish).join(' ')}`,
    '        set at "$at $word"',
    '    end',
    '  end',
    '  test "$at" = "$argv[1]"',
    'end',
    ...commands.flatMap((command) => {
      const rule = `complete -c ${name} -n ${quoteFish(`${at} ${quoteFish(command.path)}`)}`;
      return [
        ...command.commands.map((below) => `${rule} -f -a ${below.name} -d ${quoteFish(below.description)}`),
        ...(command.choices.length === 0 ? [] : [`${rule} -f -a ${quoteFish(command.choices.join(' '))}`]),
        ...command.flags.map((flag) => `${rule} ${flagRule(flag)} -d ${quoteFish(flag.description)}`),
      ];
    }),
  );
}

function flagRule({ names, takesValue, choices }: ListedCommand['flags'][number]): string {
  const flags = names.map((name) => (name.startsWith('--') ? `-l ${name.slice(2)}` : `-s ${name.slice(1)}`));
  // -r: a value follows, possibly a file name; -x: one of the listed values follows.
  const value = choices.length > 0 ? [`-x -a ${quoteFish(choices.join(' '))}`] : takesValue ? ['-r'] : [];
  return [...flags, ...value].join(' ');
}

const quoteFish = (text: string): string =>
  `'${text.replaceAll('\\', String.raw`\\`).replaceAll("'", String.raw`\'`)}'`;
