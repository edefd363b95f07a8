import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

import { e2eSuites, processSuites } from './scripts/suites.ts';

const ROOT = import.meta.dirname;
/** Long enough for a slow test on a busy machine; short enough to end one that hangs. */
const TIMEOUT_MS = 120_000;
/** `expect.poll` waits one second by default: too short on a busy machine. */
const expect = { poll: { timeout: TIMEOUT_MS / 2 } };

/** Which suites run where is said by the tag in their first line: scripts/suites.ts. */
const PROCESSES = processSuites(ROOT);
/** Of the suite `cluster`: two nodes at a time end sooner if these begin first. */
const SLOW_CLUSTER = ['faults', 'installations', 'lifecycle'].map((name) => `test/cluster/${name}.test.ts`);
const SLOW = new Set(
  [...e2eSuites(ROOT, ({ isSlow }) => isSlow), ...SLOW_CLUSTER].map((path) => join(ROOT, path)),
);
/** `1`: all suites of the sandbox; `only`: those that `npm test` leaves out. */
const long = process.env.GATEHOUSE_LONG;
const SETUP = [
  'test/support/bundle-setup.ts',
  'test/support/tools-setup.ts',
  'test/support/control-plane-setup.ts',
];

/** Without it, a slow suite may start last, and the others have ended long before. */
class SlowFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const isSlow = ({ moduleId }: TestSpecification) => SLOW.has(moduleId);
    return [...sorted.filter(isSlow), ...sorted.filter((file) => !isSlow(file))];
  }
}

export default defineConfig({
  test: {
    // The long suites mostly wait, for a lease to end or a process to start: more workers than cores, not one fewer.
    maxWorkers: availableParallelism() + 2,
    sequence: { sequencer: SlowFirst },
    projects: [
      {
        test: {
          name: 'unit',
          expect,
          include: ['src/**/*.test.ts', 'scripts/**/*.test.ts'],
          // They share no state, and loading every module anew for each file takes as long as the tests.
          isolate: false,
          testTimeout: TIMEOUT_MS,
        },
      },
      {
        // The modules of examples import the package by its name.
        resolve: { alias: { '@gatehouse-dev/gatehouse': join(ROOT, 'src', 'index.ts') } },
        test: {
          name: 'integration',
          expect,
          include: ['test/integration/**/*.test.ts'],
          exclude: PROCESSES,
          testTimeout: TIMEOUT_MS,
          hookTimeout: TIMEOUT_MS,
        },
      },
      {
        test: {
          name: 'processes',
          expect,
          include: PROCESSES,
          globalSetup: ['test/support/bundle-setup.ts', 'test/support/tools-setup.ts'],
          testTimeout: TIMEOUT_MS,
          hookTimeout: TIMEOUT_MS,
        },
      },
      {
        test: {
          name: 'sandbox',
          expect,
          isolate: false,
          include: e2eSuites(ROOT, ({ sandbox }) =>
            sandbox === 'yes' ? long !== 'only' : sandbox === 'long' && long !== undefined,
          ),
          globalSetup: [
            'test/support/bundle-setup.ts',
            ...(long === undefined ? [] : ['test/support/tools-setup.ts']), // `npm test` needs no Go
          ],
          env: { GATEHOUSE_TEST_API: 'sandbox' },
          testTimeout: TIMEOUT_MS,
          hookTimeout: TIMEOUT_MS,
        },
      },
      {
        test: {
          name: 'e2e',
          expect,
          // No suite changes a module, and loading the modules again takes a third of the time.
          isolate: false,
          include: e2eSuites(ROOT, () => true),
          globalSetup: SETUP,
          testTimeout: TIMEOUT_MS,
          hookTimeout: TIMEOUT_MS,
        },
      },
      {
        test: {
          name: 'cluster',
          expect,
          include: ['test/cluster/**/*.test.ts'],
          globalSetup: ['test/support/bundle-setup.ts', 'test/support/node/setup.ts'],
          maxWorkers: 2, // each has a node of its own
          testTimeout: TIMEOUT_MS,
          hookTimeout: TIMEOUT_MS,
        },
      },
      {
        test: {
          name: 'velero',
          expect,
          isolate: false,
          include: ['test/velero/**/*.test.ts'],
          globalSetup: [...SETUP, 'test/support/velero-setup.ts'],
          testTimeout: TIMEOUT_MS,
          hookTimeout: 2 * TIMEOUT_MS,
        },
      },
      {
        test: {
          name: 'nightly',
          expect,
          isolate: false,
          include: e2eSuites(ROOT, ({ isNightly }) => isNightly),
          globalSetup: SETUP,
          env: { GATEHOUSE_NIGHTLY: '1' },
          testTimeout: TIMEOUT_MS,
          hookTimeout: TIMEOUT_MS,
        },
      },
    ],
  },
});
