/** Completion scripts for bash, zsh and fish, generated from the commands and flags of the program. */
import type { Command, Option } from 'commander';

export interface CommandTree {
  /** Including the parent commands, e.g. `gatehouse restore open`. */
  readonly path: string;
  readonly name: string;
  /** One line. */
  readonly description: string;
  readonly commands: readonly CommandTree[];
  readonly flags: readonly Flag[];
  /** Allowed values of the first argument; empty: any value. */
  readonly choices: readonly string[];
}

export interface Flag {
  /** `--output` and, if it has one, `-o`. */
  readonly names: readonly string[];
  readonly description: string;
  readonly takesValue: boolean;
  /** Allowed values; empty: any value. */
  readonly choices: readonly string[];
}

/** @param name of the program, as the user types it */
export function commandTree(command: Command, name: string, above: readonly string[] = []): CommandTree {
  const here = [...above, name];
  return {
    path: here.join(' '),
    name,
    description: firstLine(command.description()),
    commands: command.commands.map((below) => commandTree(below, below.name(), here)),
    flags: [...command.options.filter(({ hidden }) => !hidden).map(flagOf), HELP],
    choices: command.registeredArguments[0]?.argChoices ?? [],
  };
}

/** Commander adds this flag to every command without listing it. */
const HELP: Flag = {
  names: ['--help', '-h'],
  description: 'display help for command',
  takesValue: false,
  choices: [],
};

const flagOf = ({ long, short, description, required, optional, argChoices }: Option): Flag => ({
  names: [long, short].filter((name) => name !== undefined),
  description: firstLine(description),
  takesValue: required || optional,
  choices: argChoices ?? [],
});

/** The command and all its subcommands. */
const allCommands = (tree: CommandTree): readonly CommandTree[] => [
  tree,
  ...tree.commands.flatMap(allCommands),
];

const firstLine = (text: string): string => text.split('\n', 1)[0] ?? '';

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
    '# Without a match, bash completes file names.',
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

/** Shell code that follows the words of the line from command to subcommand. */
const descent = (commands: readonly CommandTree[], word: string): readonly string[] => [
  `    case "$at ${word}" in`,
  `      ${commands
    .slice(1)
    .map(({ path }) => quote(path))
    .join(' | ')}) at="$at ${word}" ;;`,
  '    esac',
];

/** The flags that take a value. */
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

/** Entries of the form `word:description`. */
const described = ({ commands, flags, choices }: CommandTree): readonly string[] => [
  ...commands.map(({ name, description }) => `${name}:${description}`),
  ...choices,
  ...flags.flatMap(({ names, description }) => names.map((flag) => `${flag}:${description}`)),
];

/** Quotes any text as a single word for bash and zsh. */
const quote = (text: string): string => `'${text.replaceAll("'", String.raw`'\''`)}'`;

const lines = (...all: readonly string[]): string => `${all.join('\n')}\n`;

/** @see https://fishshell.com/docs/current/completions.html */
export function fishCompletion(program: CommandTree): string {
  const commands = allCommands(program);
  const { name } = program;
  const at = `__${name}_at`;
  return `${[
    `# Completion of ${name} for fish. Load it with: ${name} completion fish | source`,
    `# Whether the command line is at the given command.`,
    `function ${at}`,
    `  set -l at ${quoteFish(name)}`,
    '  set -l typed (commandline -opc)',
    '  set -e typed[1]',
    '  for word in $typed',
    '    switch "$at $word"',
    `      case ${commands
      .slice(1)
      .map(({ path }) => quoteFish(path))
      .join(' ')}`,
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
  ].join('\n')}\n`;
}

function flagRule({ names, takesValue, choices }: Flag): string {
  const flags = names.map((name) => (name.startsWith('--') ? `-l ${name.slice(2)}` : `-s ${name.slice(1)}`));
  // -r: a value follows, possibly a file name; -x: one of the listed values follows.
  const value = choices.length > 0 ? [`-x -a ${quoteFish(choices.join(' '))}`] : takesValue ? ['-r'] : [];
  return [...flags, ...value].join(' ');
}

const quoteFish = (text: string): string =>
  `'${text.replaceAll('\\', String.raw`\\`).replaceAll("'", String.raw`\'`)}'`;
