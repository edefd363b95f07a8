import { execFileSync } from 'node:child_process';
import { Argument, Command, Option } from 'commander';
import { expect, test } from 'vitest';

import { commandTree } from './command-tree.ts';
import { fishCompletion } from './fish.ts';
import { bashCompletion, zshCompletion } from './posix.ts';

const output = () => new Option('-o, --output <format>', 'how to print it').choices(['table', 'json']);

function program() {
  const gatehouse = new Command('anything');
  gatehouse
    .command('status')
    .description("the cluster's state: all of it")
    .addOption(output())
    .option('--kubeconfig <file>', 'which cluster')
    .option('--quiet', 'say less');
  const restore = gatehouse.command('restore').description('windows');
  restore.command('open [name]').description('open one').option('--no-wait', 'do not wait');
  restore.command('status').description('one window').addOption(output());
  gatehouse.command('completion').addArgument(new Argument('<shell>').choices(['bash', 'zsh']));
  return commandTree(gatehouse, 'gatehouse');
}

/** What bash offers behind this line, whose last word is being typed. */
function offered(...line: readonly string[]): readonly string[] {
  const words = line.map((word) => `'${word}'`).join(' ');
  const script = `${bashCompletion(program())}
COMP_WORDS=(gatehouse ${words}); COMP_CWORD=${line.length}
_gatehouse; printf '%s\\n' "\${COMPREPLY[@]}"`;
  return execFileSync('bash', ['-c', script], { encoding: 'utf8' }).split('\n').filter(Boolean);
}

test('bash offers commands, then those below them, then their flags', () => {
  expect(offered('')).toEqual(['status', 'restore', 'completion', '--help', '-h']);
  expect(offered('re')).toEqual(['restore']);
  expect(offered('restore', '')).toEqual(['open', 'status', '--help', '-h']);
  expect(offered('restore', 'open', '--')).toEqual(['--no-wait', '--help']);
  expect(offered('completion', 'z')).toEqual(['zsh']);
});

test('bash offers the values of a flag, however it is spelled, and files where any value will do', () => {
  expect(offered('status', '--quiet', '-o', '')).toEqual(['table', 'json']);
  expect(offered('restore', 'status', '--output', 'j')).toEqual(['json']);
  expect(offered('status', '--output', '=')).toEqual(['table', 'json']);
  expect(offered('status', '--output', '=', 'ta')).toEqual(['table']);
  expect(offered('status', '--kubeconfig', '')).toEqual([]); // then bash completes names of files
});

test('zsh and fish are told the descriptions, with their quotes', () => {
  const zsh = zshCompletion(program());
  expect(zsh.startsWith('#compdef gatehouse\n')).toBe(true);
  expect(zsh).toContain(String.raw`'status:the cluster'\''s state: all of it'`);
  expect(zsh).toContain("'gatehouse status --output' | 'gatehouse status -o') candidates=('table' 'json');");
  const fish = fishCompletion(program());
  expect(fish).toContain(
    String.raw`complete -c gatehouse -n '__gatehouse_at \'gatehouse\'' -f -a status -d 'the cluster\'s state: all of it'`,
  );
  expect(fish).toContain(
    String.raw`-n '__gatehouse_at \'gatehouse restore status\'' -l output -s o -x -a 'table json' -d`,
  );
});
