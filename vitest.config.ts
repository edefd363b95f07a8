import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';

/** A test that hangs ends at last; one that is slow on a machine with much to do does not fail for it. */
const PATIENCE_MS = 60_000;
/** Most of their time goes into starting some hundreds of processes of kubectl, tsc and `gatehouse`. */
const PROCESSES = [
  'test/integration/docs-run.test.ts',
  'test/integration/kubectl-*.test.ts',
  'test/integration/handler-folders.test.ts',
  'test/integration/progress.test.ts',
  'test/integration/review.test.ts',
  'test/integration/status-page-browser.test.ts',
];
/** `npm run test:sandbox` has them as well; `npm test` is for between two edits. CI runs all of them on the real API server. */
const LONG = [
  'built-in-kinds',
  'ca-rotation',
  'certs-crash',
  'certs-two-leaders',
  'chart',
  'client-ca',
  'conversion',
  'deploy',
  'deploy-rbac',
  'dev-url',
  'dev-url-alone',
  'doctor',
  'faults',
  'faults-random',
  'faults-webhook',
  'handlers',
  'hostile',
  'hostile-tenants',
  'hostile-words',
  'injection-managers',
  'limits',
  'own-state',
  'owner-permissions',
  'owner-references',
  'permission-model',
  'pressure',
  'rbac-minimal',
  'replicas',
  'restore-command',
  'restore-failures',
  'restore-orders',
  'restore-progress',
  'restore-security',
  'restore-velero',
  'restrict',
  'review-cluster',
  'rotation',
  'rotation-soak',
  'serving-certs-options',
  'status',
  'status-page',
  'tracing',
  'unique',
].map((name) => `test/e2e/${name}.test.ts`);

export default defineConfig({
  test: {
    // The long ones mostly wait, for a lease to end or a process to start: one worker more than cores, not one fewer.
    maxWorkers: availableParallelism() + 1,
    projects: [
      {
        test: {
          name: 'unit',
          include: ['src/**/*.test.ts', 'scripts/**/*.test.ts'],
          // They share no state, and loading every module anew for each file takes as long as the tests.
          isolate: false,
          testTimeout: PATIENCE_MS,
        },
      },
      {
        test: {
          name: 'integration',
          include: ['test/integration/**/*.test.ts'],
          exclude: PROCESSES,
          testTimeout: PATIENCE_MS,
          hookTimeout: PATIENCE_MS,
        },
      },
      {
        test: { name: 'processes', include: PROCESSES, testTimeout: PATIENCE_MS, hookTimeout: PATIENCE_MS },
      },
      {
        test: {
          name: 'sandbox',
          include: ['test/e2e/**/*.test.ts'],
          exclude: [
            // test/integration/sandbox-conformance.test.ts is its counterpart here.
            'test/e2e/conformance.test.ts',
            ...(process.env.GATEHOUSE_LONG === undefined ? LONG : []),
          ],
          env: { GATEHOUSE_TEST_API: 'sandbox' },
          testTimeout: 120_000,
          hookTimeout: 120_000,
        },
      },
      {
        test: {
          name: 'e2e',
          include: ['test/e2e/**/*.test.ts'],
          globalSetup: ['test/support/control-planes-ahead.ts'],
          testTimeout: 120_000,
          hookTimeout: 120_000,
          // Each file has a control plane of its own; two at a time starve each other on a small machine.
          fileParallelism: false,
        },
      },
    ],
  },
});
