import type { Command } from 'commander';

const HELP = `
Examples:
  gatehouse init my-handlers  a new folder
  gatehouse init .            this folder; existing files are never overwritten

Exit code: 0 success, 1 a file exists already or cannot be written, 2 wrong usage.`;

export function addInit(program: Command): void {
  program
    .command('init')
    .description('create a project with a policy, a handler, a controller, their tests and an image')
    .argument('<folder>', 'folder of the project')
    .addHelpText('after', HELP)
    .action(async (folder: string) => {
      const { init } = await import('./init.ts');
      init(folder);
    });
}
