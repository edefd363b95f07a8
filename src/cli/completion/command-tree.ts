/** What can be completed, read from the program itself: a new flag is completed without being told here. */
import type { Command, Option } from 'commander';

export interface CommandTree {
  /** With those above it, e.g. `gatehouse restore open`. */
  readonly path: string;
  readonly name: string;
  /** One line. */
  readonly description: string;
  readonly commands: readonly CommandTree[];
  readonly flags: readonly Flag[];
  /** What its first argument may be; empty: anything. */
  readonly choices: readonly string[];
}

export interface Flag {
  /** `--output` and, if it has one, `-o`. */
  readonly names: readonly string[];
  readonly description: string;
  readonly takesValue: boolean;
  /** What its value may be; empty: anything. */
  readonly choices: readonly string[];
}

/** @param name of the program as it is typed */
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

/** Commander adds it to every command, and lists it nowhere. */
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

/** The command and all below it. */
export const allCommands = (tree: CommandTree): readonly CommandTree[] => [
  tree,
  ...tree.commands.flatMap(allCommands),
];

const firstLine = (text: string): string => text.split('\n', 1)[0] ?? '';
