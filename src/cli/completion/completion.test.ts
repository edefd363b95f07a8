import { execFileSync } from 'node:child_process';
import { Argument, Command, Option } from 'commander';
import { expect, test } from 'vitest';

import { commandTree, fishCompletion, bashCompletion, zshCompletion } from './completion.ts';

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

/** The candidates that bash offers for the last word of this line. */
function offered(...line: readonly string[]): readonly string[] {
  const words = line.map((word) => `'${word}'`).join(' ');
  const script = `${bashCompletion(program())}
COMP_WORDS=(gatehouse ${words}); COMP_CWORD=${line.length}
_gatehouse; printf '%s\\n' "\${COMPREPLY[@]}"`;
  return execFileSync('bash', ['-c', script], { encoding: 'utf8' }).split('\n').filter(Boolean);
}

test('bash offers commands, then subcommands, then flags', () => {
  expect(offered('')).toEqual(['status', 'restore', 'completion', '--help', '-h']);
  expect(offered('re')).toEqual(['restore']);
  expect(offered('restore', '')).toEqual(['open', 'status', '--help', '-h']);
  expect(offered('restore', 'open', '--')).toEqual(['--no-wait', '--help']);
  expect(offered('completion', 'z')).toEqual(['zsh']);
});

test('bash offers the values of a flag in all its forms, and files where any value is allowed', () => {
  expect(offered('status', '--quiet', '-o', '')).toEqual(['table', 'json']);
  expect(offered('restore', 'status', '--output', 'j')).toEqual(['json']);
  expect(offered('status', '--output', '=')).toEqual(['table', 'json']);
  expect(offered('status', '--output', '=', 'ta')).toEqual(['table']);
  expect(offered('status', '--kubeconfig', '')).toEqual([]); // then bash completes file names
});

test('zsh and fish show the descriptions, with quotes escaped', () => {
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
