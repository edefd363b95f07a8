/** The command line of `gatehouse completion`. */
import { Argument, type Command } from 'commander';

import { commandTree, type CommandTree } from './command-tree.ts';
import { fishCompletion } from './fish.ts';
import { bashCompletion, zshCompletion } from './posix.ts';

/** Wrong usage. */
const UNUSABLE = 2;

const SHELLS = { bash: bashCompletion, zsh: zshCompletion, fish: fishCompletion } as const satisfies Record<
  string,
  (program: CommandTree) => string
>;

type Shell = keyof typeof SHELLS;

/** To be added last or not: what is completed is read when it runs. */
export function addCompletion(program: Command): void {
  program
    .command('completion')
    .description('print a script that has a shell complete the commands and flags of gatehouse')
    .addArgument(new Argument('<shell>', 'for which shell').choices(Object.keys(SHELLS)))
    .exitOverride(({ exitCode }) => process.exit(exitCode === 0 ? 0 : UNUSABLE))
    .addHelpText('after', HELP)
    .action((shell: Shell) => {
      process.stdout.write(SHELLS[shell](commandTree(program, 'gatehouse')));
    });
}

const HELP = `
Examples:
  source <(gatehouse completion bash)                                     in ~/.bashrc
  source <(gatehouse completion zsh)                                      in ~/.zshrc
  gatehouse completion fish > ~/.config/fish/completions/gatehouse.fish   once

Exit code: 0 it was printed, 2 wrong usage.`;
