/** The command line of `gatehouse completion`. */
import { Argument, type Command } from 'commander';

import { commandTree, fishCompletion, bashCompletion, zshCompletion } from './scripts.ts';

const SHELLS = { bash: bashCompletion, zsh: zshCompletion, fish: fishCompletion };

/** The script contains all commands that the program has when this command runs. */
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
