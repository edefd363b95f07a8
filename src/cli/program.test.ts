import { expect, test } from 'vitest';

import { settingsOf } from '../config/config.ts';
import { commandTree } from './completion/completion.ts';
import { createProgram, programName } from './program.ts';

test.each([
  ['/usr/local/bin/kubectl-gatehouse', 'kubectl gatehouse'],
  ['/usr/local/bin/gatehouse', 'gatehouse'],
  ['/home/kubectl-gatehouse/src/main.ts', 'gatehouse'],
  [undefined, 'gatehouse'],
])('started as %s, the program is called %s', (script, name) => {
  expect(programName(script)).toBe(name);
});

test.each(['webhook', 'controllers', 'serve'] as const)(
  'help and completion of gatehouse %s show the settings that it uses',
  (process) => {
    const command = commandTree(createProgram('gatehouse'), 'gatehouse').find(
      ({ path }) => path === `gatehouse ${process}`,
    );
    const shown = command?.flags.flatMap(({ names }) => names.filter((name) => name.startsWith('--')));
    const settings = [...settingsOf(process)].map((name) => `--${name}`);
    expect(shown?.toSorted()).toEqual([...settings, '--config', '--help'].toSorted());
  },
);
